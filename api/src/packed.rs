//! Static text in the encodings that clients accept. Each encoding is computed once: anonymous clients may request it
//! as often as their bucket allows, and compressing hundreds of KiB takes more CPU time than the rest of a request.

use std::io::{self, Write};
use std::sync::OnceLock;

use brotli::enc::BrotliEncoderParams;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use salvo::http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, VARY};
use salvo::http::{HeaderMap, HeaderValue};

use crate::reply::Reply;

const BROTLI_QUALITY: i32 = 5;
const GZIP_LEVEL: u32 = 6;

/// A text with its compressed forms.
pub struct Packed {
    plain: Bytes,
    brotli: OnceLock<Bytes>,
    gzip: OnceLock<Bytes>,
}

/// The text in one encoding.
pub struct Form {
    pub encoding: Option<&'static str>,
    pub bytes: Bytes,
}

impl Packed {
    pub fn new(plain: impl Into<Bytes>) -> Self {
        Self { plain: plain.into(), brotli: OnceLock::new(), gzip: OnceLock::new() }
    }

    /// The smallest form that the request's `Accept-Encoding` allows.
    pub fn form(&self, headers: &HeaderMap) -> Form {
        let (encoding, bytes) = if takes(headers, "br") {
            (Some("br"), self.brotli.get_or_init(|| made(brotli(&self.plain))))
        } else if takes(headers, "gzip") {
            (Some("gzip"), self.gzip.get_or_init(|| made(gzip(&self.plain))))
        } else {
            (None, &self.plain)
        };
        Form { encoding, bytes: bytes.clone() }
    }
}

impl Form {
    pub fn reply(self, content_type: &'static str) -> Reply {
        let reply = Reply::content(content_type, self.bytes).with(VARY, HeaderValue::from_static("Accept-Encoding"));
        match self.encoding {
            Some(encoding) => reply.with(CONTENT_ENCODING, HeaderValue::from_static(encoding)),
            None => reply,
        }
    }
}

fn made(compressed: io::Result<Vec<u8>>) -> Bytes {
    compressed.expect("memory takes what is written").into()
}

fn brotli(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut compressed = Vec::new();
    let params = BrotliEncoderParams { quality: BROTLI_QUALITY, ..BrotliEncoderParams::default() };
    let mut reader = plain;
    brotli::BrotliCompress(&mut reader, &mut compressed, &params)?;
    Ok(compressed)
}

fn gzip(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL));
    encoder.write_all(plain)?;
    encoder.finish()
}

/// Whether `Accept-Encoding` allows an encoding: by name or by `*`, and not with weight 0.
pub fn takes(headers: &HeaderMap, encoding: &str) -> bool {
    let lines: Vec<&str> = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok()).collect();
    let weight = |wanted: &str| {
        lines.iter().flat_map(|line| line.split(',')).find_map(|part| {
            let (name, weight) = part.split_once(';').unwrap_or((part, ""));
            let weight = weight.trim().strip_prefix("q=").and_then(|text| text.parse::<f32>().ok());
            name.trim().eq_ignore_ascii_case(wanted).then(|| weight.unwrap_or(1.0))
        })
    };
    weight(encoding).or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    fn accepts(accepted: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_ENCODING, accepted.parse().unwrap());
        headers
    }

    #[test]
    fn an_encoding_is_taken_where_it_is_named_and_has_a_weight() {
        let table = [
            ("gzip, deflate, br, zstd", "br", true),
            ("gzip, br;q=0", "br", false),
            ("gzip;q=0.5", "gzip", true),
            ("GZIP", "gzip", true),
            ("", "gzip", false),
            ("gzipped", "gzip", false),
            ("*", "br", true),
            ("br;q=0, *", "br", false),
            ("*;q=0", "gzip", false),
        ];
        for (accepted, encoding, taken) in table {
            assert_eq!(takes(&accepts(accepted), encoding), taken, "{accepted:?} {encoding}");
        }
        assert!(!takes(&HeaderMap::new(), "gzip"));
    }

    #[test]
    fn a_form_is_made_once_and_says_the_same() {
        let text = "a text that stays the same, ".repeat(1_000);
        let packed = Packed::new(text.clone());
        for (accepted, encoding) in [("gzip, br", Some("br")), ("gzip", Some("gzip")), ("zstd", None)] {
            let [first, second] = [(); 2].map(|()| packed.form(&accepts(accepted)));
            assert_eq!((first.encoding, first.bytes.as_ptr()), (encoding, second.bytes.as_ptr()));
            let mut read = Vec::new();
            match encoding {
                Some("br") => brotli::BrotliDecompress(&mut &first.bytes[..], &mut read).unwrap(),
                Some(_) => {
                    GzDecoder::new(&first.bytes[..]).read_to_end(&mut read).unwrap();
                }
                None => read.extend_from_slice(&first.bytes),
            }
            assert!(read == text.as_bytes(), "{accepted}");
        }
    }
}
