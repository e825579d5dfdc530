//! Media as a customer uploads and reads it.

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{Method, RequestBuilder};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::http::{Answer, Api, answer, string};

/// The largest file that the API accepts: 25 MB.
pub const LARGEST: usize = 25 * 1024 * 1024;

const BOUNDARY: &str = "the-boundary-of-a-test";

/// A PNG whose header says 3 by 2 pixels; the rest is noise.
pub fn png(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08\x02\0\0\0".to_vec();
    bytes.extend(noise(length.saturating_sub(bytes.len()), seed));
    bytes
}

/// A PNG that can be decoded.
pub fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    let picture = image::RgbImage::from_fn(width, height, |x, y| image::Rgb([x as u8, y as u8, 99]));
    picture.write_to(&mut bytes, image::ImageFormat::Png).expect("a picture can be written to memory");
    bytes.into_inner()
}

/// The size of a JPEG in pixels.
pub fn jpeg_size(bytes: &[u8]) -> (u32, u32) {
    let picture = image::load_from_memory_with_format(bytes, image::ImageFormat::Jpeg).expect("a JPEG");
    (picture.width(), picture.height())
}

/// Pseudorandom bytes of no media type.
pub fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    next.flatten().take(length).collect()
}

/// The SHA-256 as the API writes it.
pub fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

/// An upload of raw bytes, for the caller to complete.
pub fn bare(api: &Api, channel: &str, mime_type: &str, bytes: Vec<u8>) -> RequestBuilder {
    let request = api.request(Method::POST, &format!("/v1/channels/{channel}/media"));
    request.header(CONTENT_TYPE, mime_type).body(bytes)
}

/// Uploads raw bytes, and returns the MediaUpload.
pub async fn upload(api: &Api, channel: &str, mime_type: &str, bytes: Vec<u8>) -> Value {
    answer(bare(api, channel, mime_type, bytes)).await.expect(201)
}

/// A part of a form: name, file name, type, bytes.
pub type Part<'a> = (&'a str, Option<&'a str>, Option<&'a str>, &'a [u8]);

/// An upload as a form.
pub fn form(api: &Api, channel: &str, parts: &[Part<'_>]) -> RequestBuilder {
    let mut body = Vec::new();
    for (name, filename, mime_type, bytes) in parts {
        body.extend(format!("--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"").bytes());
        body.extend(filename.iter().flat_map(|filename| format!("; filename=\"{filename}\"").into_bytes()));
        body.extend(mime_type.iter().flat_map(|kind| format!("\r\nContent-Type: {kind}").into_bytes()));
        body.extend(b"\r\n\r\n");
        body.extend(*bytes);
        body.extend(b"\r\n");
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    bare(api, channel, &format!("multipart/form-data; boundary={BOUNDARY}"), body)
}

/// The path of a media link, which any node serves.
pub fn path(media: &Value) -> String {
    let url = string(&media["url"]);
    let at = url.find("/v1/media/").unwrap_or_else(|| panic!("no link: {url}"));
    url[at..].to_owned()
}

/// Requests a link from a node, without a key.
pub async fn fetch(api: &Api, path: &str, headers: &[(&str, &str)]) -> Answer {
    follow(api, Method::GET, path, headers).await
}

/// Like [`fetch`], with another method.
pub async fn follow(api: &Api, method: Method, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name: reqwest::header::HeaderName = name.parse().expect("a header's name");
        map.insert(name, value.parse().expect("a header's value"));
    }
    answer(api.without_key().request(method, path).headers(map)).await
}
