//! Pictures of profiles, groups and newsletters (supplement 7): whatever a caller gives becomes a centred square of 640
//! pixels and a preview of 96, both JPEG, which go to the network inside the operation.

use std::io::{BufRead, BufReader, Seek};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageReader, Limits, Rgba, RgbaImage};
use model::error::ApiError;
use model::issue::{Fault, IssueCode};
use model::media::LARGEST_PICTURE;
use network::operation::picture::Picture;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::fetch::FetchError;
use super::spool::{SpoolError, Spooled};
use crate::cluster::{CallContext, Cluster};

/// The sides of the picture and of its preview, in pixels.
const FULL: u32 = 640;
const PREVIEW: u32 = 96;

/// 1 to 100. A picture of pure noise stays below 1 MB, which is a quarter of a frame.
const QUALITY: u8 = 85;

/// The largest picture that is decoded: 48 megapixels are what phones take.
const MOST_PIXELS: u64 = 50_000_000;
const LONGEST_SIDE: u32 = 16_384;

/// What decoding one may take of memory.
const MOST_MEMORY: u64 = 256 * 1024 * 1024;

/// Pictures that are decoded at once on a node, and how long others wait for their turn.
const MOST_AT_ONCE: usize = 2;
const PATIENCE: Duration = Duration::from_secs(10);

/// What is made of a node's pictures.
pub(super) struct Cutter {
    running: Arc<Semaphore>,
}

impl Cutter {
    pub fn new() -> Self {
        Self { running: Arc::new(Semaphore::new(MOST_AT_ONCE)) }
    }
}

impl Cluster {
    /// Fetches a picture by its URL and makes it fit for the network. `field` names the URL in the caller's body.
    ///
    /// # Errors
    /// `media_fetch_failed`, `media_fetch_blocked`, `media_too_large` above 5 MB, and `invalid_request` with an issue at
    /// `field` for what is no picture.
    pub async fn picture_at(&self, url: &str, field: &str, context: &CallContext) -> Result<Picture, ApiError> {
        let fetched = self.fetch_media(url, context).await.map_err(|error| match error {
            FetchError::Spool(SpoolError::TooLarge { size }) => too_large(size),
            error => error.told(url, field),
        })?;
        self.picture_of(fetched.spooled, field).await
    }

    /// Makes a picture that arrived whole fit for the network.
    ///
    /// # Errors
    /// `media_too_large` above 5 MB, `invalid_request` with an issue at `field` for what is no picture, 503 when too many
    /// wait for their turn.
    pub async fn picture_of(&self, spooled: Spooled, field: &str) -> Result<Picture, ApiError> {
        if spooled.size > LARGEST_PICTURE {
            return Err(too_large(spooled.size));
        }
        let turn = timeout(PATIENCE, self.media().cutter.running.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(ApiError::worker_at_capacity()) };
        let made = spawn_blocking(move || {
            // Held by the thread: it takes its memory until it ends, whoever waits for it.
            let _turn = turn;
            let file = std::fs::File::open(spooled.path()).map_err(image::ImageError::IoError)?;
            cut(BufReader::new(file))
        });
        // A decoder that panics has met bytes that it does not take.
        made.await.unwrap_or(Err(Unfit::Damaged)).map_err(|unfit| unfit.fault().at(&[field]))
    }
}

fn too_large(size: u64) -> ApiError {
    ApiError::media_too_large_over(LARGEST_PICTURE, size)
}

/// Why bytes did not become a picture.
#[derive(Debug, PartialEq)]
enum Unfit {
    Damaged,
    TooManyPixels,
}

impl From<image::ImageError> for Unfit {
    fn from(error: image::ImageError) -> Self {
        if matches!(error, image::ImageError::Limits(_)) { Self::TooManyPixels } else { Self::Damaged }
    }
}

impl Unfit {
    fn fault(&self) -> Fault {
        match self {
            Self::Damaged => Fault::new(IssueCode::Format, "must be a JPEG, PNG or WebP picture"),
            Self::TooManyPixels => Fault::new(IssueCode::TooBig, "at most 50 megapixels, and 16,384 pixels a side"),
        }
    }
}

/// Decodes, turns it upright, crops and scales.
fn cut(source: impl BufRead + Seek) -> Result<Picture, Unfit> {
    let mut decoder =
        ImageReader::new(source).with_guessed_format().map_err(image::ImageError::IoError)?.into_decoder()?;
    let (width, height) = decoder.dimensions();
    if u64::from(width) * u64::from(height) > MOST_PIXELS {
        return Err(Unfit::TooManyPixels);
    }
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(LONGEST_SIDE);
    limits.max_image_height = Some(LONGEST_SIDE);
    limits.max_alloc = Some(MOST_MEMORY);
    decoder.set_limits(limits)?;
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let whole = DynamicImage::from_decoder(decoder)?;
    let side = width.min(height);
    let square = whole.crop_imm((width - side) / 2, (height - side) / 2, side, side);
    drop(whole);
    // What is small is turned, not what is large; the square's centre stays where it is.
    let mut full = square.resize_exact(FULL, FULL, FilterType::CatmullRom);
    full.apply_orientation(orientation);
    let full = on_white(full);
    let preview = full.resize_exact(PREVIEW, PREVIEW, FilterType::Triangle);
    Ok(Picture { full: jpeg(&full)?, preview: jpeg(&preview)? })
}

/// JPEG knows no transparency.
fn on_white(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return DynamicImage::ImageRgb8(picture.into_rgb8());
    }
    let mut ground = RgbaImage::from_pixel(picture.width(), picture.height(), Rgba([255; 4]));
    image::imageops::overlay(&mut ground, &picture.into_rgba8(), 0, 0);
    DynamicImage::ImageRgb8(DynamicImage::ImageRgba8(ground).into_rgb8())
}

fn jpeg(picture: &DynamicImage) -> Result<Bytes, Unfit> {
    let mut bytes = Vec::new();
    picture.write_with_encoder(JpegEncoder::new_with_quality(&mut bytes, QUALITY))?;
    Ok(Bytes::from(bytes))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::io::Cursor;

    use image::{GenericImageView, ImageFormat};

    use super::*;

    fn encoded(picture: &DynamicImage, format: ImageFormat) -> Cursor<Vec<u8>> {
        let mut bytes = Cursor::new(Vec::new());
        picture.write_to(&mut bytes, format).unwrap();
        bytes.set_position(0);
        bytes
    }

    fn decoded(bytes: &Bytes) -> DynamicImage {
        image::load_from_memory_with_format(bytes, ImageFormat::Jpeg).unwrap()
    }

    /// Red on the left, green in the middle, blue on the right; 300 by 100.
    fn stripes() -> DynamicImage {
        let colour = |x| match x / 100 {
            0 => Rgba([255, 0, 0, 255]),
            1 => Rgba([0, 255, 0, 255]),
            _ => Rgba([0, 0, 255, 255]),
        };
        DynamicImage::ImageRgba8(RgbaImage::from_fn(300, 100, |x, _| colour(x)))
    }

    #[test]
    fn a_picture_of_any_format_becomes_its_centred_square_in_two_sizes() {
        let opaque = DynamicImage::ImageRgb8(stripes().into_rgb8());
        for (picture, format) in
            [(&stripes(), ImageFormat::Png), (&opaque, ImageFormat::Jpeg), (&stripes(), ImageFormat::WebP)]
        {
            let Picture { full, preview } = cut(encoded(picture, format)).unwrap();
            let (full, preview) = (decoded(&full), decoded(&preview));
            assert_eq!((full.dimensions(), preview.dimensions()), ((640, 640), (96, 96)), "{format:?}");
            for x in [20, 320, 620] {
                let Rgba([red, green, blue, _]) = full.get_pixel(x, 320);
                assert!(green > 200 && red < 60 && blue < 60, "{format:?} at {x}: {red} {green} {blue}");
            }
        }
    }

    #[test]
    fn what_is_transparent_shows_white() {
        let nothing = DynamicImage::ImageRgba8(RgbaImage::new(50, 60));
        let full = decoded(&cut(encoded(&nothing, ImageFormat::Png)).unwrap().full);
        assert_eq!(full.get_pixel(100, 100), Rgba([255; 4]));
    }

    #[test]
    fn noise_stays_small_enough_to_travel_in_a_frame() {
        let mut state = 1_u32;
        let noise = image::RgbImage::from_fn(640, 640, |_, _| {
            image::Rgb(std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            }))
        });
        let Picture { full, preview } = cut(encoded(&DynamicImage::ImageRgb8(noise), ImageFormat::Png)).unwrap();
        assert!(full.len() < 1_000_000 && preview.len() < 20_000, "{} {}", full.len(), preview.len());
    }

    #[test]
    fn what_is_no_picture_is_told_from_one_that_is_too_large() {
        assert_eq!(cut(Cursor::new(b"GIF89a".to_vec())), Err(Unfit::Damaged));
        let mut broken = encoded(&stripes(), ImageFormat::Png).into_inner();
        broken.truncate(60);
        assert_eq!(cut(Cursor::new(broken)), Err(Unfit::Damaged));
        // The head of a PNG of 8,000 by 8,000 pixels.
        let mut bomb = encoded(&DynamicImage::new_rgb8(8_000, 1), ImageFormat::Png).into_inner();
        bomb[20..24].copy_from_slice(&8_000_u32.to_be_bytes());
        let sum = crc32(&bomb[12..29]);
        bomb[29..33].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(cut(Cursor::new(bomb)), Err(Unfit::TooManyPixels));
    }

    /// As PNG sums its chunks.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |sum: u32| (0..8).fold(sum, |sum, _| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 });
        !bytes.iter().fold(u32::MAX, |sum, byte| step(sum ^ u32::from(*byte)))
    }
}
