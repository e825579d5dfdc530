//! Pictures of profiles, groups and newsletters: any picture of a caller becomes a centred square of 640 pixels and a
//! preview of 96, both JPEG, which go to the network inside the operation.

mod rows;
mod square;

use std::fs::File;
use std::io::{BufRead, BufReader, Seek};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use image::codecs::jpeg::JpegEncoder;
use image::imageops::FilterType;
use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgba, RgbaImage, imageops};
use model::error::CallError;
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use model::media::LARGEST_PICTURE;
use network::operation::picture::Picture;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use self::square::Square;
use super::spool::Spooled;
use super::workshop::Workshop;
use crate::shares::{Share, Shares};

/// The sides of the picture and of its preview, in pixels.
const FULL: u32 = 640;
const PREVIEW: u32 = 96;

/// JPEG quality, 1 to 100. A picture of pure noise stays below 1 MB, which is a quarter of a frame.
const QUALITY: u8 = 85;

/// Bounds of a picture that is decoded: phones take 48 megapixels.
const MOST_PIXELS: u64 = 50_000_000;
const LONGEST_SIDE: u32 = 16_384;

/// Memory that decoding may take on a node, over all pictures; a picture that needs more alone is refused. Few bytes
/// may stand for many pixels, so each picture is charged for its decoded size before it is decoded.
const MOST_MEMORY: u64 = 256 << 20;

/// Memory that scaling takes besides the pixels.
const SCALING: u64 = 40 << 20;

/// Memory that a PNG decoder may take, besides what is charged, for everything but pixels: texts, and a colour profile,
/// of which a few KiB may stand for gigabytes. All that 5 MB hold uncompressed fits; a larger profile is left out.
const MOST_BESIDE: u64 = 16 << 20;

/// Length of the beginning of a WebP: `RIFF`, a length, `WEBP`.
const WEBP_HEAD: usize = 12;

/// A chunk `VP8 ` up to the sides of its frame: its head, three bytes, the start code of each key frame, and the sides.
const LOSSY_HEAD: usize = 18;
const LOSSY_START: [u8; 3] = [0x9d, 0x01, 0x2a];

/// Memory is counted in units of this many bytes.
const PIECE: u64 = 1 << 10;

/// Pictures that are decoded at once on a node, and of one account, and how long others wait for their turn.
const MOST_AT_ONCE: usize = 2;
const MOST_AT_ONCE_OF_ONE: usize = 1;
const PATIENCE: Duration = Duration::from_secs(10);

/// An account rests after a picture for as long as that took, but no longer than this: the thread yields its processor,
/// but neither the caches nor the other half of the core.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Makes the pictures of a node.
pub(crate) struct Cutter {
    running: Shares,
    /// In units of [`PIECE`].
    memory: Arc<Semaphore>,
    workshop: Workshop,
}

impl Cutter {
    pub fn new() -> Self {
        Self {
            running: Shares::new(MOST_AT_ONCE, MOST_AT_ONCE_OF_ONE),
            memory: Arc::new(Semaphore::new((MOST_MEMORY / PIECE) as usize)),
            workshop: Workshop::new("pictures", MOST_AT_ONCE),
        }
    }

    /// # Errors
    /// [`Unfit`], or `None` when too many wait for their turn.
    pub(crate) async fn cut(&self, account: CustomerId, spooled: Spooled) -> Result<Picture, Option<Unfit>> {
        let until = Instant::now() + PATIENCE;
        let share = timeout_at(until, self.running.take(account)).await.map_err(|_| None)?;
        // A decoder that panics has met bytes that it cannot handle.
        let damaged = |_| Some(Unfit::Damaged);
        let measuring = move || {
            let charge = File::open(spooled.path()).map_err(ImageError::IoError).map_err(Unfit::from);
            // The share moves with the work: a caller that hangs up must not release it while the work waits.
            charge.and_then(|file| charge_of(BufReader::new(file))).map(|charge| (charge, spooled, share))
        };
        let (charge, spooled, share) = self.workshop.run(measuring).await.map_err(damaged)??;
        let pieces = u32::try_from(charge.div_ceil(PIECE)).map_err(|_| Some(Unfit::TooManyPixels))?;
        let memory = timeout_at(until, self.memory.clone().acquire_many_owned(pieces)).await;
        let Ok(Ok(memory)) = memory else { return Err(None) };
        let runtime = Handle::current();
        let cutting = move || {
            // Held by the thread, which takes its memory until it ends, even if nobody waits for it.
            let _held = (PicturePermit { share: Some(share), begun: Instant::now(), runtime }, memory);
            let file = File::open(spooled.path()).map_err(ImageError::IoError)?;
            cut(BufReader::new(file))
        };
        Ok(self.workshop.run(cutting).await.map_err(damaged)??)
    }
}

/// The right to work on a picture. However the work ends, the account rests afterwards.
struct PicturePermit {
    /// `None` once this is dropped.
    share: Option<Share>,
    begun: Instant,
    runtime: Handle,
}

impl Drop for PicturePermit {
    fn drop(&mut self) {
        if let Some(share) = self.share.take() {
            share.rest(self.begun.elapsed().min(LONGEST_REST), &self.runtime);
        }
    }
}

pub(crate) fn too_large(size: u64) -> CallError {
    CallError::media_too_large_over(LARGEST_PICTURE, size)
}

/// Why bytes did not become a picture.
#[derive(Debug, PartialEq)]
pub(crate) enum Unfit {
    Damaged,
    TooManyPixels,
}

impl From<image::ImageError> for Unfit {
    fn from(error: image::ImageError) -> Self {
        if matches!(error, image::ImageError::Limits(_)) { Self::TooManyPixels } else { Self::Damaged }
    }
}

impl Unfit {
    pub(crate) fn violation(&self) -> Violation {
        match self {
            Self::Damaged => Violation::new(IssueCode::Format, "must be a JPEG, PNG or WebP picture"),
            Self::TooManyPixels => {
                let message = "at most 50 megapixels, 16,384 pixels a side, and 216 MiB when decoded";
                Violation::new(IssueCode::TooBig, message)
            }
        }
    }
}

/// The memory that it takes to process a picture, according to its head: nothing is decoded.
fn charge_of(mut source: impl BufRead + Seek) -> Result<u64, Unfit> {
    let is_progressive = is_progressive_jpeg(&mut source).unwrap_or(false);
    source.rewind().map_err(ImageError::IoError)?;
    let (frame_width, frame_height) = webp(&mut source)?.map_or((0, 0), |bytes| largest_frame(&bytes));
    let reader = bounded(source)?;
    let format = reader.format();
    let decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    if pixels > MOST_PIXELS || width.max(height) > LONGEST_SIDE {
        return Err(Unfit::TooManyPixels);
    }
    if frame_width > width || frame_height > height {
        return Err(Unfit::Damaged);
    }
    let decoded = decoder.total_bytes();
    let beside = match format {
        // All coefficients of a progressive JPEG are in memory before its first pixel: six bytes per pixel.
        Some(ImageFormat::Jpeg) if is_progressive => pixels * 6,
        // A WebP's planes, or its alpha channel, are first decoded separately.
        Some(ImageFormat::WebP) => decoded,
        _ => 0,
    };
    let charge = decoded + beside + SCALING;
    if charge > MOST_MEMORY { Err(Unfit::TooManyPixels) } else { Ok(charge) }
}

/// A reader whose decoder is bounded from its first byte on: a PNG's reads all before the pixels when it is created.
fn bounded<R: BufRead + Seek>(source: R) -> Result<ImageReader<R>, Unfit> {
    let mut limits = Limits::no_limits();
    limits.max_image_width = Some(LONGEST_SIDE);
    limits.max_image_height = Some(LONGEST_SIDE);
    limits.max_alloc = Some(MOST_BESIDE);
    let mut reader = ImageReader::new(source).with_guessed_format().map_err(ImageError::IoError)?;
    reader.limits(limits);
    Ok(reader)
}

/// The bytes of a WebP, whose decoder has no bounds of its own; `None` for any other format. Rewinds the source.
fn webp(source: &mut (impl BufRead + Seek)) -> Result<Option<Vec<u8>>, Unfit> {
    let mut bytes = vec![0; WEBP_HEAD];
    let is_webp = source.read_exact(&mut bytes).is_ok() && bytes.starts_with(b"RIFF") && bytes.ends_with(b"WEBP");
    if is_webp {
        source.read_to_end(&mut bytes).map_err(ImageError::IoError)?;
    }
    source.rewind().map_err(ImageError::IoError)?;
    Ok(is_webp.then_some(bytes))
}

/// The largest sides of the lossy frames of a WebP. A frame is decoded in its own size before that is compared with the
/// picture's, which was charged. All positions are searched, since a chunk may be inside another one.
fn largest_frame(webp: &[u8]) -> (u32, u32) {
    let frames = webp.windows(LOSSY_HEAD).filter(|head| head.starts_with(b"VP8 ") && head[11..14] == LOSSY_START);
    let side = |low: u8, high: u8| u32::from(u16::from_le_bytes([low, high]) & 0x3fff);
    let sides = frames.map(|head| (side(head[14], head[15]), side(head[16], head[17])));
    sides.fold((0, 0), |(width, height), frame| (width.max(frame.0), height.max(frame.1)))
}

/// The EXIF of a WebP, if it is complete. The decoder allocates a chunk's claimed length, up to 4 GiB, unchecked.
fn exif_of(webp: &[u8]) -> Option<&[u8]> {
    let mut chunks = webp.get(WEBP_HEAD..)?;
    loop {
        let (name, rest) = chunks.split_at_checked(4)?;
        let (length, rest) = rest.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if name == b"EXIF" {
            return rest.get(..length);
        }
        // A chunk of odd length is padded by one byte.
        chunks = rest.get(length.checked_next_multiple_of(2)?..)?;
    }
}

/// Whether a JPEG is progressive, by its first frame. `None` if it is no JPEG.
fn is_progressive_jpeg(source: &mut (impl BufRead + Seek)) -> Option<bool> {
    let mut byte = || -> Option<u8> {
        let mut one = [0];
        source.read_exact(&mut one).ok()?;
        Some(one[0])
    };
    if (byte()?, byte()?) != (0xff, 0xd8) {
        return None;
    }
    loop {
        while byte()? != 0xff {}
        let mut marker = byte()?;
        while marker == 0xff {
            marker = byte()?;
        }
        match marker {
            // Start-of-frame markers, except for three in between that begin something else.
            0xc0..=0xcf if !matches!(marker, 0xc4 | 0xc8 | 0xcc) => return Some(matches!(marker & 3, 2)),
            0xda | 0xd9 => return None,
            0x00 | 0x01 | 0xd0..=0xd8 => {}
            _ => {
                let length = u16::from_be_bytes([byte()?, byte()?]);
                for _ in 2..length {
                    byte()?;
                }
            }
        }
    }
}

/// Decodes, crops and scales a picture, and turns it upright.
fn cut(mut source: impl BufRead + Seek) -> Result<Picture, Unfit> {
    let of_webp = webp(&mut source)?.map(|bytes| exif_of(&bytes).and_then(Orientation::from_exif_chunk));
    let reader = bounded(&mut source)?;
    let is_png = reader.format() == Some(ImageFormat::Png);
    let mut decoder = reader.into_decoder()?;
    let (width, height) = decoder.dimensions();
    let orientation = of_webp.unwrap_or_else(|| decoder.orientation().ok()).unwrap_or(Orientation::NoTransforms);
    let side = width.min(height);
    let centre = Square { left: (width - side) / 2, top: (height - side) / 2, side };
    let square = if is_png && centre.is_large() {
        drop(decoder);
        of_large_png(&mut source, &centre)?
    } else {
        centre.of(&DynamicImage::from_decoder(decoder)?)
    };
    // Rotates the scaled picture, which is small; the square's centre stays where it is.
    let mut full = square.resize_exact(FULL, FULL, FilterType::CatmullRom);
    full.apply_orientation(orientation);
    let full = on_white(full);
    let preview = full.resize_exact(PREVIEW, PREVIEW, FilterType::Triangle);
    Ok(Picture { full: jpeg(&full)?, preview: jpeg(&preview)? })
}

fn of_large_png(source: &mut (impl BufRead + Seek), centre: &Square) -> Result<DynamicImage, Unfit> {
    source.rewind().map_err(ImageError::IoError)?;
    if let Some(square) = rows::shrunk(&mut *source, centre)? {
        return Ok(square);
    }
    source.rewind().map_err(ImageError::IoError)?;
    Ok(centre.of(&DynamicImage::from_decoder(bounded(source)?.into_decoder()?)?))
}

/// JPEG has no transparency.
fn on_white(picture: DynamicImage) -> DynamicImage {
    if !picture.color().has_alpha() {
        return DynamicImage::ImageRgb8(picture.into_rgb8());
    }
    let mut ground = RgbaImage::from_pixel(picture.width(), picture.height(), Rgba([255; 4]));
    imageops::overlay(&mut ground, &picture.into_rgba8(), 0, 0);
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
    use std::sync::mpsc::channel;

    use futures::FutureExt;
    use image::codecs::png::PngEncoder;
    use image::{ExtendedColorType, GenericImageView, ImageEncoder};

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
    fn a_large_png_becomes_the_same_by_rows_as_it_does_whole() {
        let (width, height) = (2_300, 2_001);
        let centre = Square { left: 149, top: 0, side: 2_001 };
        let rising = |x: u32, y: u32| Rgba([(x / 10) as u8, (y / 10) as u8, 90, 200]);
        let whole = DynamicImage::ImageRgba8(RgbaImage::from_fn(width, height, rising));
        let kinds = [
            DynamicImage::ImageLuma8(whole.to_luma8()),
            DynamicImage::ImageLumaA8(whole.to_luma_alpha8()),
            DynamicImage::ImageRgb8(whole.to_rgb8()),
            DynamicImage::ImageRgb16(whole.to_rgb16()),
            DynamicImage::ImageRgba16(whole.to_rgba16()),
            whole,
        ];
        for kind in kinds {
            let png = encoded(&kind, ImageFormat::Png);
            let by_rows = rows::shrunk(png.clone(), &centre).unwrap().unwrap().into_rgba8();
            let at_once = centre.of(&image::load(png.clone(), ImageFormat::Png).unwrap()).into_rgba8();
            assert_eq!(by_rows.dimensions(), at_once.dimensions());
            let differ = by_rows.iter().zip(at_once.iter()).filter(|(one, other)| one.abs_diff(**other) > 1).count();
            assert_eq!(differ, 0, "{:?}", kind.color());
            let half = png.get_ref().len() / 2;
            assert_eq!(rows::shrunk(Cursor::new(&png.get_ref()[..half]), &centre), Err(Unfit::Damaged));
        }
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
    }

    /// A PNG whose head claims this height, and which holds next to nothing.
    fn bomb(of: &DynamicImage, height: u32) -> Cursor<Vec<u8>> {
        let mut bomb = encoded(of, ImageFormat::Png).into_inner();
        bomb[20..24].copy_from_slice(&height.to_be_bytes());
        let sum = crc32(&bomb[12..29]);
        bomb[29..33].copy_from_slice(&sum.to_be_bytes());
        Cursor::new(bomb)
    }

    #[test]
    fn a_picture_is_charged_for_what_it_becomes_before_it_is_decoded() {
        let mib = |charge: u64| charge >> 20;
        let (plain, deep) = (DynamicImage::new_rgb8(7_000, 1), DynamicImage::new_rgba16(7_000, 1));
        // 49 megapixels of three bytes, and the same of eight.
        assert_eq!(charge_of(bomb(&plain, 7_000)).map(mib), Ok(180));
        assert_eq!(charge_of(bomb(&deep, 7_000)), Err(Unfit::TooManyPixels));
        // The most that fits, and one row more.
        let rows = ((MOST_MEMORY - SCALING) / (7_000 * 8)) as u32;
        assert!(charge_of(bomb(&deep, rows)).is_ok_and(|charge| charge <= MOST_MEMORY));
        assert_eq!(charge_of(bomb(&deep, rows + 1)), Err(Unfit::TooManyPixels));
        // Too many pixels, and too long a side, whatever their bytes.
        assert_eq!(charge_of(bomb(&plain, 7_143)), Err(Unfit::TooManyPixels));
        assert_eq!(charge_of(bomb(&DynamicImage::new_luma8(1, 1), LONGEST_SIDE + 1)), Err(Unfit::TooManyPixels));
        assert!(charge_of(bomb(&DynamicImage::new_luma8(1, 1), LONGEST_SIDE)).is_ok());
    }

    /// A PNG of one pixel with a colour profile of this length, which is compressed to a thousandth.
    fn with_profile(length: u64) -> Cursor<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut encoder = PngEncoder::new(&mut bytes);
        encoder.set_icc_profile(vec![0; length as usize]).unwrap();
        encoder.write_image(&[9, 9, 9], 1, 1, ExtendedColorType::Rgb8).unwrap();
        Cursor::new(bytes)
    }

    #[test]
    fn a_colour_profile_inflates_up_to_its_bound_and_is_left_out_beyond() {
        for (length, is_kept) in [(MOST_BESIDE / 2, true), (MOST_BESIDE + 1, false)] {
            let png = with_profile(length);
            assert!((png.get_ref().len() as u64) < LARGEST_PICTURE, "{length}");
            let mut decoder = bounded(png.clone()).unwrap().into_decoder().unwrap();
            let kept = decoder.icc_profile().unwrap().map(|profile| profile.len() as u64);
            assert_eq!(kept, is_kept.then_some(length));
            assert_eq!(charge_of(png.clone()), Ok(3 + SCALING));
            assert!(cut(png).is_ok());
        }
    }

    /// A WebP of one pixel according to its head, with these chunks.
    fn extended_webp(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
        let mut body = b"WEBP".to_vec();
        for (name, content) in [(b"VP8X", &[0_u8; 10][..])].iter().chain(chunks) {
            body.extend_from_slice(*name);
            body.extend_from_slice(&(content.len() as u32).to_le_bytes());
            body.extend_from_slice(content);
            body.resize(body.len().next_multiple_of(2), 0);
        }
        let length = (body.len() as u32).to_le_bytes();
        [&b"RIFF"[..], &length[..], &body[..]].concat()
    }

    #[test]
    fn a_webp_whose_frame_is_larger_than_itself_is_damaged_before_it_is_decoded() {
        let framed = |width: u8, height: u8| {
            let frame = [0, 0, 0, 0x9d, 0x01, 0x2a, width, 0, height, 0];
            charge_of(Cursor::new(extended_webp(&[(b"VP8 ", &frame)])))
        };
        assert_eq!(framed(1, 1), Ok(6 + SCALING));
        assert_eq!((framed(2, 1), framed(1, 2)), (Err(Unfit::Damaged), Err(Unfit::Damaged)));
    }

    #[test]
    fn what_a_webp_claims_to_be_its_exif_counts_only_where_it_is_there() {
        let webp = extended_webp(&[(b"XMP ", b"odd"), (b"EXIF", b"MM\0*")]);
        assert_eq!(exif_of(&webp), Some(&b"MM\0*"[..]));
        let mut claiming = webp.clone();
        let length = webp.len() - 8;
        claiming[length..length + 4].copy_from_slice(&5_u32.to_le_bytes());
        assert_eq!(exif_of(&claiming), None);
        claiming[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(exif_of(&claiming), None);
        assert_eq!(exif_of(&extended_webp(&[])), None);
    }

    #[test]
    fn a_jpeg_in_several_passes_is_charged_for_what_it_gathers() {
        let jpeg = encoded(&DynamicImage::new_rgb8(100, 100), ImageFormat::Jpeg);
        assert_eq!(charge_of(jpeg.clone()), Ok(30_000 + SCALING));
        let mut progressive = jpeg.into_inner();
        let frame = progressive.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
        assert_eq!(is_progressive_jpeg(&mut Cursor::new(progressive.clone())), Some(false));
        progressive[frame + 1] = 0xc2;
        assert_eq!(is_progressive_jpeg(&mut Cursor::new(progressive)), Some(true));
        assert_eq!(is_progressive_jpeg(&mut Cursor::new(b"\x89PNG".to_vec())), None);
    }

    #[test]
    fn a_large_picture_keeps_its_centre_and_its_colours() {
        let half = DynamicImage::ImageRgb8(image::RgbImage::from_fn(6_000, 3_000, |x, _| {
            if x < 3_000 { image::Rgb([255, 0, 0]) } else { image::Rgb([0, 0, 255]) }
        }));
        let full = decoded(&cut(encoded(&half, ImageFormat::Png)).unwrap().full);
        let (left, right) = (full.get_pixel(100, 320), full.get_pixel(540, 320));
        assert!(left[0] > 240 && left[2] < 20 && right[2] > 240 && right[0] < 20, "{left:?} {right:?}");
    }

    /// The checksum of PNG's chunks.
    fn crc32(bytes: &[u8]) -> u32 {
        let step = |sum: u32| (0..8).fold(sum, |sum, _| if sum & 1 == 1 { 0xedb8_8320 ^ (sum >> 1) } else { sum >> 1 });
        !bytes.iter().fold(u32::MAX, |sum, byte| step(sum ^ u32::from(*byte)))
    }

    #[tokio::test]
    async fn an_account_whose_picture_takes_long_leaves_a_turn_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let cutter = Cutter::new();
        let loud = CustomerId::random();
        let _long = cutter.running.try_take(loud).unwrap();
        assert!(cutter.running.try_take(loud).is_none());
        let mut spool = crate::media::spool::tests::spool(folder.path()).await;
        spool.write(encoded(&stripes(), ImageFormat::Png).get_ref()).await.unwrap();
        let picture = cutter.cut(CustomerId::random(), spool.finish().await.unwrap()).await.unwrap();
        assert_eq!(decoded(&picture.full).dimensions(), (FULL, FULL));
    }

    #[tokio::test]
    async fn an_account_rests_after_a_picture_and_others_do_not() {
        let cutter = Cutter::new();
        let [loud, quiet] = [(); 2].map(|()| CustomerId::random());
        let share = Some(cutter.running.take(loud).await);
        let begun = Instant::now().checked_sub(LONGEST_REST * 9).unwrap();
        drop(PicturePermit { share, begun, runtime: Handle::current() });
        assert!(cutter.running.try_take(loud).is_none() && cutter.running.try_take(quiet).is_some());
        timeout_at(Instant::now() + PATIENCE, cutter.running.take(loud)).await.unwrap();
    }

    #[tokio::test]
    async fn a_picture_that_nobody_waits_for_keeps_its_turn_while_its_work_waits_for_a_thread() {
        let folder = tempfile::tempdir().unwrap();
        let cutter = Cutter::new();
        let mut spool = crate::media::spool::tests::spool(folder.path()).await;
        spool.write(encoded(&stripes(), ImageFormat::Png).get_ref()).await.unwrap();
        let spooled = spool.finish().await.unwrap();
        let busy = |_| {
            let (release, released) = channel::<()>();
            assert!(cutter.workshop.run(move || released.recv().is_err()).now_or_never().is_none());
            release
        };
        let all_threads: Vec<_> = (0..MOST_AT_ONCE).map(busy).collect();
        let account = CustomerId::random();
        assert!(cutter.cut(account, spooled).now_or_never().is_none(), "its caller hangs up");
        assert!(cutter.running.try_take(account).is_none());
        drop(all_threads);
        timeout_at(Instant::now() + PATIENCE, cutter.running.take(account)).await.unwrap();
    }
}
