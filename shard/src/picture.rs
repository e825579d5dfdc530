//! Draws a QR code as a PNG: error correction level L, quiet zone of 4 modules.

use std::ops::RangeInclusive;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use qrcode::types::QrError;
use qrcode::{Color, EcLevel, QrCode};

/// Width and height, in pixels.
pub const DEFAULT_SIZE: usize = 512;
pub const SIZES: RangeInclusive<usize> = 128..=1024;

/// White modules around the code.
const QUIET_ZONE: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    #[error("the text does not fit a QR code: {0}")]
    Text(#[from] QrError),
    #[error("the picture cannot be written: {0}")]
    Png(#[from] png::EncodingError),
}

/// Draws the text as a QR code of `size` pixels in width and height, with one bit per pixel. Modules are whole pixels;
/// the rest of the size widens the quiet zone.
///
/// # Errors
/// When the text is longer than a QR code can hold.
pub fn png(text: &str, size: usize) -> Result<Vec<u8>, PictureError> {
    let code = QrCode::with_error_correction_level(text, EcLevel::L)?;
    let width = code.width();
    // A code of 177 modules and its quiet zone need 185 pixels; a smaller picture would not hold the code.
    let size = size.max(width + 2 * QUIET_ZONE);
    let scale = size / (width + 2 * QUIET_ZONE);
    let margin = (size - scale * width) / 2;
    let dark = |x: usize, y: usize| {
        let module = |pixel: usize| pixel.checked_sub(margin).map(|pixel| pixel / scale).filter(|m| *m < width);
        matches!((module(x), module(y)), (Some(column), Some(row)) if code[(column, row)] == Color::Dark)
    };

    let row_bytes = size.div_ceil(8);
    let mut pixels = vec![0xFF_u8; row_bytes * size];
    for (y, row) in pixels.chunks_exact_mut(row_bytes).enumerate() {
        for x in (0..size).filter(|x| dark(*x, y)) {
            row[x / 8] &= !(0x80 >> (x % 8));
        }
    }
    let mut picture = Vec::new();
    let side = size as u32;
    let mut encoder = png::Encoder::new(&mut picture, side, side);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(png::BitDepth::One);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixels)?;
    writer.finish()?;
    Ok(picture)
}

/// `data:image/png;base64,...`
pub fn data_url(png: &[u8]) -> String {
    format!("data:image/png;base64,{}", STANDARD.encode(png))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// Decodes a picture: its width, and whether each pixel is dark.
    fn decode(picture: &[u8]) -> (usize, Vec<bool>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(picture)).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        assert_eq!(info.width, info.height);
        let width = info.width as usize;
        let bit = |n: usize| bytes[n / width * info.line_size + n % width / 8] & (0x80 >> (n % width % 8)) == 0;
        (width, (0..width * width).map(bit).collect())
    }

    #[test]
    fn a_picture_has_the_size_asked_for_and_the_modules_of_the_code() {
        let text = "2@abcdefghijklmnopqrstuvwxyz0123456789,ABCDEFGHIJKLMNOPQRSTUVWXYZ,signature==";
        let code = QrCode::with_error_correction_level(text, EcLevel::L).unwrap();
        for size in [128, 300, DEFAULT_SIZE, 1024] {
            let (width, dark) = decode(&png(text, size).unwrap());
            assert_eq!(width, size);
            let scale = size / (code.width() + 8);
            let margin = (size - scale * code.width()) / 2;
            assert!(margin >= scale * QUIET_ZONE, "the quiet zone is too narrow");
            for row in 0..code.width() {
                for column in 0..code.width() {
                    let (x, y) = (margin + column * scale + scale / 2, margin + row * scale + scale / 2);
                    assert_eq!(dark[y * width + x], code[(column, row)] == Color::Dark);
                }
            }
            assert!(!dark[0] && !dark[width * width - 1]);
        }
    }

    #[test]
    fn a_text_too_long_for_a_code_is_refused() {
        assert!(png(&"x".repeat(5000), 512).is_err());
    }

    #[test]
    fn a_data_url_names_its_type() {
        assert!(data_url(&png("hello", 128).unwrap()).starts_with("data:image/png;base64,iVBOR"));
    }
}
