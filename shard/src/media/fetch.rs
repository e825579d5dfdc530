//! Fetches a URL that a caller names: checked, resolved and connected to like a webhook's receiver, each redirect too.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, Response};
use model::error::CallError;
use model::id::CustomerId;
use model::issue::{IssueCode, Violation};
use model::media::{FetchReason, LARGEST_MEDIA};
use model::target::{Target, TargetPolicy, judge_url};
use model::webhook::Outcome;
use tokio_rustls::TlsConnector;
use url::{Position, Url};

use super::blobs::Blobs;
use super::sniff;
use super::spool::{For, SpoolError, Spooled};
use crate::webhook::attempt::{Attempter, Failure};
use crate::webhook::connection::{self, Connection};
use crate::webhook::resolver::{Resolver, checked_addresses};

/// Timeout of a whole fetch, including redirects and the body.
const PATIENCE: Duration = Duration::from_secs(15);

/// Maximum redirects that are followed.
const MOST_REDIRECTS: usize = 3;

/// Why a URL was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The text is no URL that may be called at all, or it leads to a file without bytes.
    #[error("no usable URL: {0:?}")]
    Url(Violation),
    /// The URL leads to an address that is not public.
    #[error("blocked")]
    Blocked,
    #[error("not fetched: {reason:?} {http_status:?}")]
    Failed { reason: FetchReason, http_status: Option<u16> },
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The gateway's own refusal of one of its own links.
    #[error(transparent)]
    Own(#[from] CallError),
}

impl FetchError {
    fn failed(reason: FetchReason) -> Self {
        Self::Failed { reason, http_status: None }
    }

    fn status(status: u16) -> Self {
        Self::Failed { reason: FetchReason::HttpStatus, http_status: Some(status) }
    }

    /// The error for the caller. `field` names the URL in its body.
    pub fn told(self, url: &str, field: &str) -> CallError {
        match self {
            Self::Url(violation) => violation.at(&[field]),
            Self::Blocked => CallError::media_fetch_blocked(url),
            Self::Failed { reason, http_status } => CallError::media_fetch_failed(url, reason, http_status),
            Self::Spool(SpoolError::Source(_)) => CallError::media_fetch_failed(url, FetchReason::Connect, None),
            Self::Spool(error) => error.into(),
            Self::Own(error) => error,
        }
    }
}

/// Fetched bytes, and what their source says of them.
#[derive(Debug)]
pub struct Fetched {
    pub spooled: Spooled,
    /// The type that the source declares, if it is well formed.
    pub mime_type: Option<String>,
    pub filename: Option<String>,
}

/// Fetches URLs. One per node.
pub struct Fetcher {
    policy: TargetPolicy,
    user_agent: HeaderValue,
    tls: TlsConnector,
    resolver: Arc<dyn Resolver>,
}

impl Fetcher {
    /// Uses the rules and the trust anchors of the webhook attempter.
    pub(crate) fn like(attempter: &Attempter) -> Self {
        let user_agent = HeaderValue::from_str(&format!("gateway-media/{}", attempter.config.version));
        let user_agent = user_agent.unwrap_or_else(|_| HeaderValue::from_static("gateway-media"));
        let (tls, resolver) = (attempter.tls.clone(), Arc::clone(&attempter.resolver));
        Self { policy: attempter.config.policy.clone(), user_agent, tls, resolver }
    }

    /// Fetches a URL into a temporary file, for an account. It always ends, within 15 seconds.
    ///
    /// # Errors
    /// [`FetchError`]; nothing is left behind.
    pub async fn fetch(&self, url: &str, account: CustomerId, blobs: &Blobs) -> Result<Fetched, FetchError> {
        match tokio::time::timeout(PATIENCE, self.fetch_in_time(url, account, blobs)).await {
            Ok(fetched) => fetched,
            Err(_) => Err(FetchError::failed(FetchReason::Timeout)),
        }
    }

    async fn fetch_in_time(&self, url: &str, account: CustomerId, blobs: &Blobs) -> Result<Fetched, FetchError> {
        // The fragment behind the # is for the reader, and never sent.
        let text = url.split_once('#').map_or(url, |(before, _)| before);
        let mut target = judge_url(text, &self.policy).map_err(|blocked| match blocked.code {
            IssueCode::UrlBlocked => FetchError::Blocked,
            _ => FetchError::Url(blocked.into()),
        })?;
        let mut redirects = 0;
        loop {
            let (response, _connection) = self.get(account, &target).await?;
            let status = response.status();
            if !status.is_redirection() {
                return if status.is_success() {
                    // The connection lives until the body is read.
                    receive(&target.url, response, For::Account(account), blobs).await
                } else {
                    Err(FetchError::status(status.as_u16()))
                };
            }
            redirects += 1;
            if redirects > MOST_REDIRECTS {
                return Err(FetchError::status(status.as_u16()));
            }
            target = self.redirected(&target.url, &response)?;
        }
    }

    /// The target of a redirect, checked like the first URL.
    fn redirected(&self, from: &Url, response: &Response<Incoming>) -> Result<Target, FetchError> {
        let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
        let next = location.and_then(|location| from.join(location).ok());
        let mut next = next.ok_or_else(|| FetchError::status(response.status().as_u16()))?;
        next.set_fragment(None);
        judge_url(next.as_str(), &self.policy).map_err(|_| FetchError::Blocked)
    }

    async fn get(&self, account: CustomerId, target: &Target) -> Result<(Response<Incoming>, Connection), FetchError> {
        let addresses = checked_addresses(account, target, &self.policy, &*self.resolver).await;
        let addresses = addresses.map_err(of_attempt)?;
        let opened = connection::open(&target.url, &addresses, &self.tls, PATIENCE).await;
        let mut connection = opened.map_err(of_attempt)?;
        let mut request = Request::new(Full::new(Bytes::new()));
        let path = &target.url[Position::BeforePath..Position::AfterQuery];
        let malformed = || FetchError::Url(Violation::new(IssueCode::Format, "must be a URL that can be sent"));
        *request.uri_mut() = path.parse().map_err(|_| malformed())?;
        let host = &target.url[Position::BeforeHost..Position::AfterPort];
        let host = HeaderValue::from_str(host).map_err(|_| malformed())?;
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert(header::USER_AGENT, self.user_agent.clone());
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("*/*"));
        request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let broken = |_| FetchError::failed(FetchReason::Connect);
        connection.sender.ready().await.map_err(broken)?;
        let response = connection.sender.send_request(request).await.map_err(broken)?;
        Ok((response, connection))
    }
}

/// Reads the body of a successful answer.
async fn receive(url: &Url, response: Response<Incoming>, whom: For, blobs: &Blobs) -> Result<Fetched, FetchError> {
    let announced = response.body().size_hint().exact();
    if let Some(size) = announced.filter(|size| *size > LARGEST_MEDIA) {
        return Err(SpoolError::TooLarge { size }.into());
    }
    let mime_type = declared_type(response.headers());
    let body = response.into_body().into_data_stream().map_err(io::Error::other).boxed();
    let spooled = blobs.spool(whom).await?.fill(body).await?;
    Ok(Fetched { spooled, mime_type, filename: last_segment(url) })
}

fn declared_type(headers: &HeaderMap) -> Option<String> {
    let declared = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
    (sniff::is_mime_type(declared) && sniff::essence(declared) != sniff::UNKNOWN).then(|| declared.to_owned())
}

/// The last part of the path, if it looks like a file name.
fn last_segment(url: &Url) -> Option<String> {
    let last = url.path_segments()?.next_back()?.to_owned();
    (last.contains('.') && last.len() <= 255 && last.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'%'))
        .then_some(last)
}

fn of_attempt(failure: Failure) -> FetchError {
    match failure.outcome() {
        Outcome::Blocked => FetchError::Blocked,
        Outcome::Dns => FetchError::failed(FetchReason::Dns),
        Outcome::Timeout => FetchError::failed(FetchReason::Timeout),
        Outcome::Tls => FetchError::failed(FetchReason::Tls),
        _ => FetchError::failed(FetchReason::Connect),
    }
}
