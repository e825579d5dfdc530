//! The part of a picture that is shown: what is large is made smaller in a simple way first.

use image::{DynamicImage, ImageBuffer, Pixel, imageops};

use super::FULL;

/// What is wider is made smaller, ...
const LARGE: u32 = 3 * FULL;
/// ... and then is so wide.
const SHRUNK: u32 = 2 * FULL;

/// A square within a picture.
pub(super) struct Square {
    pub left: u32,
    pub top: u32,
    pub side: u32,
}

impl Square {
    /// What of a picture is in it, of a size that can be scaled well: that takes memory by the width of what is scaled.
    pub fn of(&self, whole: &DynamicImage) -> DynamicImage {
        if self.side > LARGE { self.shrunk(whole) } else { self.copied(whole) }
    }

    /// A copy with eight bits a sample.
    fn copied(&self, whole: &DynamicImage) -> DynamicImage {
        DynamicImage::ImageRgba8(imageops::crop_imm(whole, self.left, self.top, self.side, self.side).to_image())
    }

    /// Made smaller in a simple way.
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

    /// Each pixel as the mean of a box of pixels: row by row over what is stored, as there may be 50 million, and the library
    /// would look at the kind and the bounds of each.
    fn means<P>(&self, whole: &ImageBuffer<P, Vec<P::Subpixel>>) -> Option<ImageBuffer<P, Vec<P::Subpixel>>>
    where
        P: Pixel,
        P::Subpixel: Into<u32> + TryFrom<u32>,
    {
        let (made, channels) = (SHRUNK as usize, usize::from(P::CHANNEL_COUNT));
        let [width, left, top, side] = [whole.width(), self.left, self.top, self.side].map(|length| length as usize);
        let edge = |nth: usize| nth * side / made;
        let mut means = Vec::with_capacity(made * made * channels);
        let mut sums = vec![0_u32; made * channels];
        for y in 0..made {
            sums.fill(0);
            for row in edge(y)..edge(y + 1) {
                let row = &whole.as_raw()[((top + row) * width + left) * channels..][..side * channels];
                for (x, sums) in sums.chunks_exact_mut(channels).enumerate() {
                    for pixel in row[edge(x) * channels..edge(x + 1) * channels].chunks_exact(channels) {
                        for (sum, sample) in sums.iter_mut().zip(pixel) {
                            let sample: u32 = (*sample).into();
                            *sum += sample;
                        }
                    }
                }
            }
            for (x, sums) in sums.chunks_exact(channels).enumerate() {
                let pixels = ((edge(y + 1) - edge(y)) * (edge(x + 1) - edge(x))) as u32;
                means.extend(sums.iter().filter_map(|sum| P::Subpixel::try_from((sum + pixels / 2) / pixels).ok()));
            }
        }
        ImageBuffer::from_raw(SHRUNK, SHRUNK, means)
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
