//! Shrinks the square of a large PNG while its rows are read: a few KiB may stand for 200 MB of pixels, so one row is
//! in memory at a time, with pauses in between.

use std::io::{BufRead, Seek};

use image::{DynamicImage, ImageBuffer};
use png::{ColorType, Decoder, DecodingError, Limits, Transformations};

use super::square::{Means, SHRUNK, Square};
use super::{MOST_BESIDE, Unfit};
use crate::media::workshop::Pauses;

impl From<DecodingError> for Unfit {
    fn from(_: DecodingError) -> Self {
        Self::Damaged
    }
}

/// The square of a PNG, with eight bits per sample. `None` if its rows are interlaced.
pub(super) fn shrunk(source: impl BufRead + Seek, square: &Square) -> Result<Option<DynamicImage>, Unfit> {
    let mut decoder = Decoder::new_with_limits(source, Limits { bytes: MOST_BESIDE as usize });
    decoder.set_ignore_text_chunk(true);
    decoder.set_transformations(Transformations::EXPAND | Transformations::STRIP_16);
    let mut reader = decoder.read_info()?;
    if reader.info().interlaced {
        return Ok(None);
    }
    let (color, _) = reader.output_color_type();
    let (mut means, mut pauses) = (Means::new(square, color.samples()), Pauses::default());
    let of_square = square.top..square.top + square.side;
    let mut rows = 0;
    // All rows are read: damage behind the square is damage, too.
    while let Some(row) = reader.next_row()? {
        pauses.take();
        if of_square.contains(&rows) {
            means.take(row.data());
        }
        rows += 1;
    }
    if rows < of_square.end {
        return Err(Unfit::Damaged);
    }
    let made = means.made;
    let shrunk = match color {
        ColorType::Grayscale => ImageBuffer::from_raw(SHRUNK, SHRUNK, made).map(DynamicImage::ImageLuma8),
        ColorType::GrayscaleAlpha => ImageBuffer::from_raw(SHRUNK, SHRUNK, made).map(DynamicImage::ImageLumaA8),
        ColorType::Rgb => ImageBuffer::from_raw(SHRUNK, SHRUNK, made).map(DynamicImage::ImageRgb8),
        ColorType::Rgba => ImageBuffer::from_raw(SHRUNK, SHRUNK, made).map(DynamicImage::ImageRgba8),
        // The decoder expands palettes, so this does not occur.
        ColorType::Indexed => None,
    };
    shrunk.map(Some).ok_or(Unfit::Damaged)
}
