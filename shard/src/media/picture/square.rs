//! The part of a picture that is shown: a large one is first shrunk by averaging boxes of pixels.

use image::{DynamicImage, ImageBuffer, Pixel, imageops};

use super::FULL;
use crate::media::workshop::Pauses;

/// A square wider than this is shrunk before it is scaled.
const LARGE: u32 = 3 * FULL;
/// Width of a shrunk square.
pub(super) const SHRUNK: u32 = 2 * FULL;

/// A square within a picture.
pub(super) struct Square {
    pub left: u32,
    pub top: u32,
    pub side: u32,
}

impl Square {
    /// Whether the square is shrunk before it is scaled.
    pub fn is_large(&self) -> bool {
        self.side > LARGE
    }

    /// The square's content, in a size that can be scaled well: scaling takes memory by the width of its source.
    pub fn of(&self, whole: &DynamicImage) -> DynamicImage {
        if self.is_large() { self.shrunk(whole) } else { self.copied(whole) }
    }

    /// A copy with eight bits per sample.
    fn copied(&self, whole: &DynamicImage) -> DynamicImage {
        DynamicImage::ImageRgba8(imageops::crop_imm(whole, self.left, self.top, self.side, self.side).to_image())
    }

    /// Shrinks the square to [`SHRUNK`].
    fn shrunk(&self, whole: &DynamicImage) -> DynamicImage {
        use DynamicImage as Of;
        let means = match whole {
            Of::ImageLuma8(whole) => self.means(whole).map(Of::ImageLuma8),
            Of::ImageLumaA8(whole) => self.means(whole).map(Of::ImageLumaA8),
            Of::ImageRgb8(whole) => self.means(whole).map(Of::ImageRgb8),
            Of::ImageRgba8(whole) => self.means(whole).map(Of::ImageRgba8),
            Of::ImageLuma16(whole) => self.means(whole).map(Of::ImageLuma16),
            Of::ImageLumaA16(whole) => self.means(whole).map(Of::ImageLumaA16),
            Of::ImageRgb16(whole) => self.means(whole).map(Of::ImageRgb16),
            Of::ImageRgba16(whole) => self.means(whole).map(Of::ImageRgba16),
            _ => None,
        };
        means.unwrap_or_else(|| self.copied(whole).thumbnail_exact(SHRUNK, SHRUNK))
    }

    fn means<P>(&self, whole: &ImageBuffer<P, Vec<P::Subpixel>>) -> Option<ImageBuffer<P, Vec<P::Subpixel>>>
    where
        P: Pixel,
        P::Subpixel: Into<u32> + TryFrom<u32>,
    {
        let channels = usize::from(P::CHANNEL_COUNT);
        let mut means = Means::new(self, channels);
        let mut pauses = Pauses::default();
        let rows = whole.as_raw().chunks_exact(whole.width() as usize * channels);
        for row in rows.skip(self.top as usize).take(self.side as usize) {
            pauses.take();
            means.take(row);
        }
        ImageBuffer::from_raw(SHRUNK, SHRUNK, means.made)
    }
}

/// A square while it is shrunk: each pixel is the mean of a box of pixels. Takes the stored rows one by one, as there
/// may be 50 million pixels, and the library would check the kind and the bounds of each.
pub(super) struct Means<S> {
    left: usize,
    side: usize,
    channels: usize,
    /// Sums of the current row of boxes.
    sums: Vec<u32>,
    rows: usize,
    pub made: Vec<S>,
}

impl<S: Copy + Into<u32> + TryFrom<u32>> Means<S> {
    pub fn new(square: &Square, channels: usize) -> Self {
        let of_row = SHRUNK as usize * channels;
        Self {
            left: square.left as usize,
            side: square.side as usize,
            channels,
            sums: vec![0; of_row],
            rows: 0,
            made: Vec::with_capacity(SHRUNK as usize * of_row),
        }
    }

    /// Adds the next row of the square, given as the whole row of the picture.
    pub fn take(&mut self, row: &[S]) {
        let (side, channels) = (self.side, self.channels);
        let edge = |nth: usize| nth * side / SHRUNK as usize;
        let row = &row[self.left * channels..][..side * channels];
        for (x, sums) in self.sums.chunks_exact_mut(channels).enumerate() {
            for pixel in row[edge(x) * channels..edge(x + 1) * channels].chunks_exact(channels) {
                for (sum, sample) in sums.iter_mut().zip(pixel) {
                    let sample: u32 = (*sample).into();
                    *sum += sample;
                }
            }
        }
        self.rows += 1;
        let y = self.made.len() / self.sums.len();
        if self.rows == edge(y + 1) {
            let height = edge(y + 1) - edge(y);
            for (x, sums) in self.sums.chunks_exact(channels).enumerate() {
                let pixels = (height * (edge(x + 1) - edge(x))) as u32;
                self.made.extend(sums.iter().filter_map(|sum| S::try_from((sum + pixels / 2) / pixels).ok()));
            }
            self.sums.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use image::{GenericImageView, Rgba, RgbaImage};

    use super::*;

    #[test]
    fn a_picture_of_any_kind_of_pixels_is_made_smaller_without_a_change_of_its_colours() {
        let rising = |x: u32, y: u32| Rgba([(x / 9) as u8, (y / 9) as u8, 90, 200]);
        let whole = DynamicImage::ImageRgba8(RgbaImage::from_fn(2_100, 2_000, rising));
        let square = Square { left: 50, top: 0, side: 2_000 };
        let kinds = [
            DynamicImage::ImageLuma8(whole.to_luma8()),
            DynamicImage::ImageLumaA8(whole.to_luma_alpha8()),
            DynamicImage::ImageRgb8(whole.to_rgb8()),
            DynamicImage::ImageLuma16(whole.to_luma16()),
            DynamicImage::ImageLumaA16(whole.to_luma_alpha16()),
            DynamicImage::ImageRgb16(whole.to_rgb16()),
            DynamicImage::ImageRgba16(whole.to_rgba16()),
            whole,
        ];
        for kind in kinds {
            let shrunk = square.shrunk(&kind);
            assert_eq!((shrunk.dimensions(), shrunk.color()), ((SHRUNK, SHRUNK), kind.color()));
            for (x, y) in (0..SHRUNK).step_by(61).flat_map(|x| (0..SHRUNK).step_by(83).map(move |y| (x, y))) {
                let of_whole =
                    kind.get_pixel(50 + (2 * x + 1) * 2_000 / (2 * SHRUNK), (2 * y + 1) * 2_000 / (2 * SHRUNK));
                let differ =
                    shrunk.get_pixel(x, y).0.iter().zip(of_whole.0).any(|(one, other)| one.abs_diff(other) > 2);
                assert!(!differ, "{:?} at {x}, {y}", kind.color());
            }
        }
    }
}
