//! Samples at 48 kHz into Opus in Ogg (RFC 6716, RFC 7845), page by page.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use ogg::{PacketWriteEndInfo, PacketWriter};
use ropus::{Application, Bitrate, Channels, Encoder};

use super::RATE;

/// Bits a second: speech needs no more.
const BITRATE: u32 = 32_000;

/// Of 10. What is above it is hardly heard in speech, and takes time.
const COMPLEXITY: u8 = 5;

/// 20 ms.
const FRAME: usize = RATE as usize / 50;

/// No packet of one frame is longer (RFC 6716, section 3.2.1).
const LONGEST_PACKET: usize = 1_275;

/// A page holds a second: what a reader may have to skip to find its place.
const FRAMES_A_PAGE: u64 = 50;

/// No page of Ogg is longer (RFC 3533, section 6).
const LONGEST_OGG_PAGE: u64 = 65_307;

/// The first page with what Opus says of itself: the head of a page with one packet, and the packet up to what the decoder skips.
const OPENING: usize = 28 + 12;

/// Names the encoder in the file.
const VENDOR: &[u8] = b"gateway";

/// How much sound a file of Opus in Ogg holds, in samples: what its last page says, less what the decoder skips. `None` where it
/// says nothing of the kind.
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
    // On a page on which no packet ends, no sound does.
    if position == u64::MAX { None } else { position.checked_sub(skipped.into()) }
}

/// A file that is being made. What is made of it so far is taken with [`OpusFile::take`].
pub struct OpusFile {
    encoder: Encoder,
    pages: PacketWriter<'static, Vec<u8>>,
    serial: u32,
    /// Samples that do not make a frame yet.
    samples: Vec<f32>,
    /// How much sound went in, in samples.
    length: u64,
    frames: u64,
    /// Written when it is known whether it is the last.
    packet: Option<Vec<u8>>,
}

impl OpusFile {
    /// `serial` names the stream within the file (RFC 3533).
    pub fn new(serial: u32) -> io::Result<Self> {
        let builder = Encoder::builder(RATE, Channels::Mono, Application::Voip);
        let builder = builder.bitrate(Bitrate::Bits(BITRATE)).complexity(COMPLEXITY);
        let encoder = builder.build().map_err(io::Error::other)?;
        let mut pages = PacketWriter::new(Vec::new());
        let skip = u16::try_from(encoder.lookahead()).map_err(io::Error::other)?;
        // Version 1, one channel, what the decoder leaves out at the beginning, the rate that came in, gain, mapping.
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

    /// Ends the file. The encoder lags behind by what the decoder skips: silence pushes out the last of the sound, and
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

    /// The pages since the last time.
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

    /// Writes the packet that waits. `position` is where the sound stands after it.
    fn write(&mut self, how: PacketWriteEndInfo, position: u64) -> io::Result<()> {
        match self.packet.take() {
            Some(packet) => self.pages.write_packet(packet, self.serial, how, position),
            None => Ok(()),
        }
    }
}
