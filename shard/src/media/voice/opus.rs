//! Encodes samples at 48 kHz as Opus in Ogg (RFC 6716, RFC 7845), page by page.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use ogg::{PacketWriteEndInfo, PacketWriter};
use ropus::{Application, Bitrate, Channels, Encoder};

use super::RATE;

/// Bits per second: speech needs no more.
const BITRATE: u32 = 32_000;

/// Of 10. More is hardly heard in speech, and takes time.
const COMPLEXITY: u8 = 5;

/// Samples in a frame of 20 ms.
const FRAME: usize = RATE as usize / 50;

/// Maximum bytes of a packet with one frame (RFC 6716, section 3.2.1).
const LONGEST_PACKET: usize = 1_275;

/// A page holds a second, which a reader may have to skip to find its place.
const FRAMES_A_PAGE: u64 = 50;

/// Maximum bytes of an Ogg page (RFC 3533, section 6).
const LONGEST_OGG_PAGE: u64 = 65_307;

/// The beginning of the first page: the head of a page with one packet, and the packet up to the decoder's pre-skip.
const OPENING: usize = 28 + 12;

/// The encoder's name in the file.
const VENDOR: &[u8] = b"gateway";

/// How much sound an Opus file in Ogg holds, in samples: the position of its last page, less the decoder's pre-skip.
/// `None` if the file does not tell.
pub fn length(path: &Path) -> io::Result<Option<u64>> {
    let mut file = File::open(path)?;
    let mut opening = [0; OPENING];
    file.read_exact(&mut opening)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(LONGEST_OGG_PAGE)))?;
    let mut end = Vec::new();
    file.take(LONGEST_OGG_PAGE).read_to_end(&mut end)?;
    Ok(length_by(&opening, &end))
}

fn length_by(opening: &[u8; OPENING], end: &[u8]) -> Option<u64> {
    let (serial, skipped) = (&opening[14..18], u16::from_le_bytes([opening[38], opening[39]]));
    let is_page = |page: &&[u8]| page.starts_with(b"OggS\0") && page.get(14..18) == Some(serial);
    let last = (0..end.len()).rev().map(|place| &end[place..]).find(is_page)?;
    let position = u64::from_le_bytes(*last[6..].first_chunk()?);
    // No packet ends on a page with this position, and so no sound.
    if position == u64::MAX { None } else { position.checked_sub(skipped.into()) }
}

/// A file that is being made. [`OpusFile::take`] takes its finished part.
pub struct OpusFile {
    encoder: Encoder,
    pages: PacketWriter<'static, Vec<u8>>,
    serial: u32,
    /// Samples that do not fill a frame yet.
    samples: Vec<f32>,
    /// How much sound went in, in samples.
    length: u64,
    frames: u64,
    /// Written when it is known whether it is the last.
    packet: Option<Vec<u8>>,
}

impl OpusFile {
    /// `serial` identifies the stream within the file (RFC 3533).
    pub fn new(serial: u32) -> io::Result<Self> {
        let builder = Encoder::builder(RATE, Channels::Mono, Application::Voip);
        let builder = builder.bitrate(Bitrate::Bits(BITRATE)).complexity(COMPLEXITY);
        let encoder = builder.build().map_err(io::Error::other)?;
        let mut pages = PacketWriter::new(Vec::new());
        let skip = u16::try_from(encoder.lookahead()).map_err(io::Error::other)?;
        // Version 1, one channel, pre-skip, input rate, gain, mapping.
        let head = [b"OpusHead\x01\x01".as_slice(), &skip.to_le_bytes(), &RATE.to_le_bytes(), &[0; 3]].concat();
        pages.write_packet(head, serial, PacketWriteEndInfo::EndPage, 0)?;
        let named = (VENDOR.len() as u32).to_le_bytes();
        let tags = [b"OpusTags".as_slice(), &named, VENDOR, &[0; 4]].concat();
        pages.write_packet(tags, serial, PacketWriteEndInfo::EndPage, 0)?;
        Ok(Self { encoder, pages, serial, samples: Vec::new(), length: 0, frames: 0, packet: None })
    }

    /// How much sound went in, in samples.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// # Errors
    /// None that well-formed samples can cause.
    pub fn push(&mut self, samples: &[f32]) -> io::Result<()> {
        self.length += samples.len() as u64;
        self.samples.extend_from_slice(samples);
        let whole = self.samples.len() - self.samples.len() % FRAME;
        for start in (0..whole).step_by(FRAME) {
            self.encode(start)?;
        }
        self.samples.drain(..whole);
        Ok(())
    }

    /// Ends the file. The encoder lags behind by the decoder's pre-skip: silence pushes out the last of the sound, and
    /// the last position says where the sound ends.
    pub fn finish(&mut self) -> io::Result<()> {
        let end = self.length + u64::from(self.encoder.lookahead());
        while self.frames * (FRAME as u64) < end {
            self.samples.resize(FRAME, 0.0);
            self.encode(0)?;
            self.samples.clear();
        }
        self.write(PacketWriteEndInfo::EndStream, end)
    }

    /// The pages since the last call.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.pages.inner_mut())
    }

    fn encode(&mut self, start: usize) -> io::Result<()> {
        let last = self.frames.is_multiple_of(FRAMES_A_PAGE);
        let how = if last { PacketWriteEndInfo::EndPage } else { PacketWriteEndInfo::NormalPacket };
        self.write(how, self.frames * FRAME as u64)?;
        let mut packet = vec![0; LONGEST_PACKET];
        let frame = &self.samples[start..start + FRAME];
        let size = self.encoder.encode_float(frame, &mut packet).map_err(io::Error::other)?;
        packet.truncate(size);
        self.packet = Some(packet);
        self.frames += 1;
        Ok(())
    }

    /// Writes the packet that waits. `position` is that of the sound after it.
    fn write(&mut self, how: PacketWriteEndInfo, position: u64) -> io::Result<()> {
        match self.packet.take() {
            Some(packet) => self.pages.write_packet(packet, self.serial, how, position),
            None => Ok(()),
        }
    }
}
