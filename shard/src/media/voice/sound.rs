//! Decodes sound of any known format to one channel of samples, packet by packet.

use std::fs::File;
use std::io;
use std::path::Path;

use model::issue::{IssueCode, Violation};
use symphonia::core::codecs::audio::well_known::CODEC_ID_VORBIS;
use symphonia::core::codecs::audio::{AudioDecoder, AudioDecoderOptions};
use symphonia::core::errors::Error;
use symphonia::core::formats::probe::Hint;
use symphonia::core::formats::{FormatOptions, FormatReader, TrackType};
use symphonia::core::io::MediaSourceStream;
use symphonia::core::meta::MetadataOptions;

use super::{VoiceError, vorbis};
use crate::media::blobs::BlobError;

/// Accepted samples per second. Beyond them the numbers in a file are damage or malice, and cost memory and time.
const RATES: std::ops::RangeInclusive<u32> = 4_000..=384_000;

/// A file that is being decoded.
pub struct Sound {
    format: Box<dyn FormatReader>,
    decoder: Box<dyn AudioDecoder>,
    track: u32,
    /// Known from the first packet on; a file has only one.
    rate: Option<u32>,
    /// Number of damaged packets, less that of good ones.
    damage: i64,
    interleaved: Vec<f32>,
}

impl Sound {
    /// # Errors
    /// [`VoiceError::Unfit`] for bytes that no decoder accepts, and errors of the disk.
    pub fn open(path: &Path) -> Result<Self, VoiceError> {
        let file = File::open(path).map_err(BlobError::of_disk)?;
        let stream = MediaSourceStream::new(Box::new(file), Default::default());
        let options = (FormatOptions::default(), MetadataOptions::default());
        let format =
            symphonia::default::get_probe().probe(&Hint::new(), stream, options.0, options.1).map_err(unfit)?;
        let track = format.first_track_known_codec(TrackType::Audio).ok_or_else(unknown)?;
        let parameters = track.codec_params.as_ref().and_then(|parameters| parameters.audio()).ok_or_else(unknown)?;
        let headers = parameters.extra_data.as_deref().unwrap_or_default();
        if parameters.codec == CODEC_ID_VORBIS && !vorbis::is_bounded(headers) {
            return Err(unknown());
        }
        let decoder = symphonia::default::get_codecs()
            .make_audio_decoder(parameters, &AudioDecoderOptions::default())
            .map_err(unfit)?;
        let track = track.id;
        Ok(Self { format, decoder, track, rate: None, damage: 0, interleaved: Vec::new() })
    }

    /// Decodes the next packet into `mono`, all channels mixed, and returns its rate; `None` at the end. A file that
    /// was cut short ends there; damaged packets are skipped, as players do, unless they are the majority.
    ///
    /// # Errors
    /// [`VoiceError::Unfit`], and errors of the disk.
    pub fn next(&mut self, mono: &mut Vec<f32>) -> Result<Option<u32>, VoiceError> {
        loop {
            let packet = match self.format.next_packet() {
                Ok(Some(packet)) => packet,
                Err(Error::IoError(error)) if error.kind() == io::ErrorKind::UnexpectedEof => return self.end(),
                Ok(None) => return self.end(),
                Err(error) => return Err(unfit(error)),
            };
            if packet.track_id != self.track {
                continue;
            }
            let decoded = match self.decoder.decode(&packet) {
                Ok(decoded) => decoded,
                Err(Error::DecodeError(_)) => {
                    self.damage += 1;
                    continue;
                }
                Err(error) => return Err(unfit(error)),
            };
            self.damage -= 1;
            let (rate, channels) = (decoded.spec().rate(), decoded.num_planes());
            if decoded.frames() == 0 {
                continue;
            }
            if channels == 0 || !RATES.contains(&rate) || self.rate.is_some_and(|before| before != rate) {
                return Err(unknown());
            }
            self.rate = Some(rate);
            decoded.copy_to_vec_interleaved(&mut self.interleaved);
            mono.clear();
            // A sample of a damaged file may be NaN or infinite.
            let mix = |frame: &[f32]| Some(frame.iter().sum::<f32>() / channels as f32).filter(|sum| sum.is_finite());
            mono.extend(
                self.interleaved.chunks_exact(channels).map(|frame| mix(frame).unwrap_or(0.0).clamp(-1.0, 1.0)),
            );
            return Ok(Some(rate));
        }
    }

    /// Whether the packets, which are not decoded, take more than this many seconds. Of a damaged file, only the part
    /// before the damage counts.
    pub fn exceeds(mut self, seconds: u64) -> bool {
        let track = self.format.tracks().iter().find(|track| track.id == self.track);
        let Some(base) = track.and_then(|track| track.time_base) else { return false };
        let (unit, units) = (u128::from(base.numer.get()), u128::from(base.denom.get()));
        let mut length = 0_u128;
        while let Ok(Some(packet)) = self.format.next_packet() {
            if packet.track_id == self.track {
                length += u128::from(packet.dur.get());
            }
            if length * unit > u128::from(seconds) * units {
                return true;
            }
        }
        false
    }

    fn end(&self) -> Result<Option<u32>, VoiceError> {
        if self.rate.is_none() || self.damage > 0 { Err(unknown()) } else { Ok(None) }
    }
}

fn unknown() -> VoiceError {
    let message = "no sound that can be converted: send WAV, MP3, FLAC, AAC (LC), Vorbis in Ogg, or Opus in Ogg";
    VoiceError::Unfit(Violation::new(IssueCode::Format, message))
}

/// A decoder's error is about the bytes, unless it comes from the disk.
fn unfit(error: Error) -> VoiceError {
    match error {
        Error::IoError(error) if error.raw_os_error().is_some() && error.kind() != io::ErrorKind::InvalidInput => {
            VoiceError::Spool(BlobError::of_disk(error).into())
        }
        _ => unknown(),
    }
}
