//! Converts sound to voice notes: it is decoded, mixed to one channel at 48 kHz, and encoded as Opus in Ogg, piece by
//! piece from one spooled file into another; the sound as a whole is never in memory.

mod opus;
mod resample;
mod sound;
mod vorbis;

use std::io;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use model::error::CallError;
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use raft::supervise;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use self::opus::OpusFile;
use self::resample::Resampler;
use self::sound::Sound;
use super::blobs::BlobError;
use super::spool::{Spool, SpoolError, Spooled};
use super::workshop::Workshop;
use crate::shares::Shares;

/// Sample rate of Opus, in samples per second.
const RATE: u32 = 48_000;

/// Maximum length of sound that is converted, in seconds.
const LONGEST: u64 = 15 * 60;

/// Conversions at once on a node, each of which takes a core as long as it lasts, and of one account.
const MOST_AT_ONCE: usize = 2;
const MOST_AT_ONCE_OF_ONE: usize = 1;

/// Conversions that run or wait for their turn, in all and of one account; one more is refused.
const MOST_WAITING: usize = 32;
const MOST_WAITING_OF_ONE: usize = 8;

/// Timeout of a conversion, including its wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Pages on their way to the disk.
const PAGES_AHEAD: usize = 8;

/// Why bytes did not become a voice note.
#[derive(Debug, thiserror::Error)]
pub enum VoiceError {
    /// No decoder accepts the bytes, or they are too long.
    #[error("not a voice note: {0}")]
    Unfit(Violation),
    /// Too many conversions wait, or this one did not end in time.
    #[error("too many voice notes are being converted")]
    Busy,
    #[error("the encoder failed: {0}")]
    Encoder(io::Error),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

impl From<BlobError> for VoiceError {
    fn from(error: BlobError) -> Self {
        Self::Spool(error.into())
    }
}

impl VoiceError {
    /// The error for the caller. `field` is the path of the URL in its body.
    pub fn told(self, field: &[&str]) -> CallError {
        match self {
            Self::Unfit(violation) => violation.at(field),
            Self::Busy => CallError::worker_at_capacity(),
            Self::Encoder(error) => {
                tracing::error!(%error, "a voice note could not be encoded");
                CallError::internal_error()
            }
            Self::Spool(error) => error.into(),
        }
    }
}

/// A finished voice note.
#[derive(Debug)]
pub struct Voice {
    pub spooled: Spooled,
    /// Rounded, and at least 1.
    pub seconds: u32,
}

/// The conversions of a node.
pub struct Converter {
    waiting: Shares,
    running: Shares,
    workshop: Workshop,
    /// The longest sound, in samples.
    longest: u64,
}

impl Converter {
    pub fn new() -> Self {
        Self::up_to(LONGEST)
    }

    fn up_to(seconds: u64) -> Self {
        Self {
            waiting: Shares::new(MOST_WAITING, MOST_WAITING_OF_ONE),
            running: Shares::new(MOST_AT_ONCE, MOST_AT_ONCE_OF_ONE),
            workshop: Workshop::new("sound", MOST_AT_ONCE),
            longest: seconds * u64::from(RATE),
        }
    }

    /// Converts `source` into `spool`, for an account. The thread stops if the caller gives up.
    ///
    /// # Errors
    /// [`VoiceError`]; nothing is left behind.
    pub async fn convert(&self, account: CustomerId, source: &Spooled, mut spool: Spool) -> Result<Voice, VoiceError> {
        let until = Instant::now() + PATIENCE;
        let _waiting = self.waiting.try_take(account).ok_or(VoiceError::Busy)?;
        let turn = timeout_at(until, self.running.take(account)).await.map_err(|_| VoiceError::Busy)?;
        let path = source.path().to_owned();
        // Derived from the source, so that equal sound makes an equal file.
        let serial = u32::from_str_radix(source.sha256.0.get(..8).unwrap_or_default(), 16).unwrap_or_default();
        let longest = self.longest;
        let (pages, mut made) = mpsc::channel(PAGES_AHEAD);
        let work = self.workshop.run(move || {
            // Held by the thread, which takes a core until it ends, even if nobody waits for it.
            let _turn = turn;
            encode(&path, serial, longest, until, &pages)
        });
        let writing = async {
            while let Some(page) = made.recv().await {
                spool.write(&page).await?;
            }
            Ok::<(), VoiceError>(())
        };
        let both = timeout_at(
            until,
            futures::future::try_join(writing, async {
                // A decoder that panics has met bytes that it cannot handle.
                work.await.unwrap_or_else(|error| {
                    tracing::warn!(%error, "a decoder gave up on a voice note");
                    Err(VoiceError::Unfit(Violation::new(IssueCode::Format, "the sound is damaged")))
                })
            }),
        );
        let ((), length) = both.await.map_err(|_| VoiceError::Busy)??;
        Ok(Voice { spooled: spool.finish().await?, seconds: seconds(length).unwrap_or(u32::MAX) })
    }
}

/// How long an Opus file in Ogg plays, according to the file: in seconds, rounded, and at least 1.
pub async fn length_of(opus: &Spooled) -> Option<u32> {
    let path = opus.path().to_owned();
    let length = supervise::on_thread(move || opus::length(&path)).await.ok()?;
    seconds(length.ok()??)
}

fn seconds(length: u64) -> Option<u32> {
    let rounded = length.saturating_add(u64::from(RATE) / 2) / u64::from(RATE);
    u32::try_from(rounded.max(1)).ok()
}

/// Does a conversion; returns the length in samples.
fn encode(path: &Path, serial: u32, most: u64, until: Instant, pages: &mpsc::Sender<Bytes>) -> Result<u64, VoiceError> {
    let too_long = || VoiceError::Unfit(Violation::new(IssueCode::TooLong, "the sound is longer than 15 minutes"));
    // The packets state how long they are; decoding them to find out would take as long as the conversion.
    if Sound::open(path)?.exceeds(most / u64::from(RATE)) {
        return Err(too_long());
    }
    let mut sound = Sound::open(path)?;
    let mut file = OpusFile::new(serial).map_err(VoiceError::Encoder)?;
    let (mut mono, mut even) = (Vec::new(), Vec::new());
    let mut resampler = None;
    while let Some(rate) = sound.next(&mut mono)? {
        even.clear();
        resampler.get_or_insert_with(|| Resampler::new(rate)).push(&mono, &mut even);
        if file.length() + even.len() as u64 > most {
            return Err(too_long());
        }
        file.push(&even).map_err(VoiceError::Encoder)?;
        send(&mut file, until, pages)?;
    }
    even.clear();
    if let Some(mut resampler) = resampler {
        resampler.finish(&mut even);
    }
    file.push(&even).and_then(|()| file.finish()).map_err(VoiceError::Encoder)?;
    send(&mut file, until, pages)?;
    Ok(file.length())
}

/// Passes on the finished pages, unless it is too late.
fn send(file: &mut OpusFile, until: Instant, pages: &mpsc::Sender<Bytes>) -> Result<(), VoiceError> {
    let made = file.take();
    // Too late or not wanted: nobody receives this error.
    if Instant::now() > until || pages.is_closed() {
        return Err(VoiceError::Busy);
    }
    if made.is_empty() { Ok(()) } else { pages.blocking_send(Bytes::from(made)).map_err(|_| VoiceError::Busy) }
}

#[cfg(test)]
mod tests;
