//! Files that a test serves and sends. They begin with real signatures, so that their types are detected.

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tests::receiver::{Receiver, Reply};

/// A file of a kind, with this many bytes.
pub fn file(kind: &str, size: usize) -> Bytes {
    let beginning: &[u8] = match kind {
        "png" => b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x07\0\0\0\x09\x08\x02\0\0\0",
        "mp4" => b"\0\0\0\x18ftypmp42\0\0\0\0mp42isom",
        "ogg" => b"OggS\0\x02",
        "pdf" => b"%PDF-1.7\n",
        "webp" => b"RIFF\x24\0\0\0WEBPVP8 ",
        "moving" => b"RIFF\x24\0\0\0WEBPVP8X\x0a\0\0\0\x02\0\0\0",
        other => panic!("no file of kind {other}"),
    };
    let mut bytes = beginning.to_vec();
    bytes.extend((bytes.len()..size).map(|n| (n * 7 + n / 253) as u8));
    Bytes::from(bytes)
}

/// A WAVE file with a tone of this many milliseconds: one channel, 16,000 samples a second.
pub fn wave(milliseconds: u32) -> Bytes {
    let samples = milliseconds * 16;
    let mut file = [b"RIFF".as_slice(), &(36 + samples * 2).to_le_bytes(), b"WAVEfmt \x10\0\0\0\x01\0\x01\0"].concat();
    file.extend([16_000u32, 32_000].iter().flat_map(|rate| rate.to_le_bytes()));
    file.extend([b"\x02\0\x10\0data".as_slice(), &(samples * 2).to_le_bytes()].concat());
    file.extend((0..samples).flat_map(|n| (((f64::from(n) / 6.0).sin() * 9_000.0) as i16).to_le_bytes()));
    Bytes::from(file)
}

pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// A web server with 40,000-byte files at `/a.<kind>`, and faults at other paths.
pub async fn web() -> Receiver {
    let web = Receiver::start().await;
    web.answer(|request| match request.path.as_str() {
        "/missing" => Reply::Status(404),
        "/empty" => Reply::Status(200),
        "/hang" => Reply::Hang,
        "/cut" => Reply::Cut,
        "/large" => Reply::Body(200, Bytes::from(vec![0; 26_214_401])),
        "/spoken.wav" => Reply::Body(200, wave(2_400)),
        "/private" => Reply::Header(302, "location", "http://10.1.2.3/a.png".into()),
        "/once" => Reply::Header(302, "location", "/a.png".into()),
        "/twice" => Reply::Header(307, "location", "/once".into()),
        "/thrice" => Reply::Header(301, "location", "/twice".into()),
        "/often" => Reply::Header(308, "location", "/thrice".into()),
        path => match path.split_once('.') {
            Some((_, kind)) => Reply::Body(200, file(kind, 40_000)),
            None => Reply::Status(500),
        },
    });
    web
}
