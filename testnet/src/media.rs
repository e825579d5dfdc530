//! The media port: encrypted files in memory, named by their hash.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Shared;

/// Size limit of a file, including encryption.
const MAX_FILE: usize = 26 * 1024 * 1024;

/// Size limit of all files together; the oldest are dropped first.
const MAX_BYTES: usize = 1024 * 1024 * 1024;

/// The uploaded files.
#[derive(Default)]
pub struct Files {
    by_path: HashMap<String, Bytes>,
    order: VecDeque<String>,
    bytes: usize,
    /// Files that the network has lost, but phones still have.
    lost: HashMap<String, Bytes>,
    /// Number of changes of the media credentials.
    auth: u64,
    pub uploads: u64,
    pub downloads: u64,
}

impl Files {
    /// Stores a file and returns its path.
    pub fn keep(&mut self, file: Bytes) -> String {
        let path = format!("/v/{}", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&file)));
        self.uploads += 1;
        let size = file.len();
        if self.by_path.insert(path.clone(), file).is_none() {
            self.order.push_back(path.clone());
            self.bytes += size;
        }
        while self.bytes > MAX_BYTES
            && let Some(oldest) = self.order.pop_front()
        {
            self.bytes -= self.by_path.remove(&oldest).map_or(0, |file| file.len());
        }
        path
    }

    pub fn file(&self, path: &str) -> Option<Bytes> {
        self.by_path.get(path).cloned()
    }

    /// Loses all files, as the real network does after some weeks; phones keep theirs unless `everywhere`.
    pub fn forget(&mut self, everywhere: bool) {
        let Self { by_path, auth, uploads, downloads, .. } = std::mem::take(self);
        let lost = if everywhere { HashMap::new() } else { by_path };
        *self = Self { lost, auth, uploads, downloads, ..Self::default() };
    }

    /// Uploads a lost file again, to a new path.
    pub fn again(&mut self, path: &str) -> Option<String> {
        let file = self.lost.remove(path)?;
        let path = format!("{path}-again");
        self.bytes += file.len();
        self.by_path.insert(path.clone(), file);
        self.order.push_back(path.clone());
        Some(path)
    }

    /// The credentials that clients need for the media port.
    pub fn auth(&self) -> String {
        format!("testnet-{}", self.auth)
    }

    /// Invalidates the current credentials.
    pub fn expire_auth(&mut self) {
        self.auth += 1;
    }
}

/// Handles a request to the media port.
pub async fn answer(request: Request<Incoming>, shared: Arc<Shared>) -> Response<Full<Bytes>> {
    let refused = shared.with(|state| state.faults.media).and_then(|media| StatusCode::from_u16(media.status).ok());
    if let Some(status) = refused {
        return respond(status, Bytes::new());
    }
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = head.uri.query().unwrap_or_default();
    let auth = query.split('&').find_map(|pair| pair.strip_prefix("auth="));
    if auth.is_some_and(|auth| shared.with(|state| state.files.auth() != auth)) {
        return respond(StatusCode::UNAUTHORIZED, Bytes::new());
    }
    match head.method {
        Method::GET => {
            let file = shared.with(|state| {
                state.files.downloads += 1;
                state.files.file(&path)
            });
            file.map_or_else(|| respond(StatusCode::NOT_FOUND, Bytes::new()), |file| respond(StatusCode::OK, file))
        }
        // Asks whether an upload can be resumed; it always starts from the beginning.
        Method::POST if query.split('&').any(|pair| pair == "resume=1") => {
            respond(StatusCode::OK, Bytes::from(json!({ "resume": "0" }).to_string()))
        }
        Method::POST => match Limited::new(body, MAX_FILE).collect().await {
            Ok(file) => store(&shared, query, file.to_bytes()),
            Err(_) => respond(StatusCode::PAYLOAD_TOO_LARGE, Bytes::new()),
        },
        _ => respond(StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
    }
}

fn store(shared: &Shared, query: &str, file: Bytes) -> Response<Full<Bytes>> {
    let named = query.split('&').find_map(|pair| pair.strip_prefix("token=")).unwrap_or_default();
    let hash = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(&file));
    if named.trim_end_matches('=').trim_end_matches("%3D") != hash {
        return respond(StatusCode::BAD_REQUEST, Bytes::from_static(b"the token is not the file's hash"));
    }
    let (path, host) = shared.with(|state| (state.files.keep(file), state.media_host.clone()));
    let answer = json!({ "url": format!("https://{host}{path}"), "direct_path": path, "handle": hash });
    respond(StatusCode::OK, Bytes::from(answer.to_string()))
}

fn respond(status: StatusCode, body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_by_their_hash_and_the_oldest_go_when_there_are_too_many() {
        let mut files = Files::default();
        let first = files.keep(Bytes::from_static(b"first"));
        assert_eq!(files.file(&first).as_deref(), Some(b"first".as_slice()));
        files.bytes = MAX_BYTES - 1;
        let second = files.keep(Bytes::from_static(b"second"));
        assert_eq!(files.file(&first), None);
        assert!(files.file(&second).is_some());
    }
}
