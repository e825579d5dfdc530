//! The route through a channel's proxy: CONNECT or SOCKS 5. The proxy's address is checked at each connection, since
//! its name may resolve to another one by then; the proxy resolves the names of its targets.

use std::future::{Ready, ready};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Uri;
use hyper::header::HeaderValue;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use model::target::{TargetPolicy, judge_ip};
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use tokio::net::{TcpStream, lookup_host};
use tower_service::Service;
use url::Url;

use super::dial::{DialError, Io, hold, secured};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Http,
    Https,
    Socks5,
}

pub struct Proxy {
    kind: Kind,
    host: String,
    port: u16,
    user: Option<(String, String)>,
    targets: Arc<TargetPolicy>,
}

/// The proxy in a channel's settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the channel's proxy is none that can be used")]
pub struct NoProxy;

impl Proxy {
    /// Parses a URL that [`model::target::judge_proxy`] has accepted.
    ///
    /// # Errors
    /// The URL is not that of a proxy.
    pub fn parse(text: &str, targets: Arc<TargetPolicy>) -> Result<Self, NoProxy> {
        let (scheme, rest) = text.split_once("://").ok_or(NoProxy)?;
        let (kind, usual_port) = match scheme {
            "http" => (Kind::Http, 80),
            "https" => (Kind::Https, 443),
            "socks5" => (Kind::Socks5, 1080),
            _ => return Err(NoProxy),
        };
        // With `http` the parser accepts hosts of web URLs, but hides the default port; so `socks5` parses the port.
        let port = Url::parse(&format!("socks5://{rest}")).map_err(|_| NoProxy)?.port().unwrap_or(usual_port);
        let url = Url::parse(&format!("http://{rest}")).map_err(|_| NoProxy)?;
        let plain = |text: &str| percent_decode_str(text).decode_utf8().map(String::from).map_err(|_| NoProxy);
        let user = match (url.username(), url.password()) {
            ("", None) => None,
            (user, password) => Some((plain(user)?, plain(password.unwrap_or_default())?)),
        };
        let host = url.host_str().ok_or(NoProxy)?.trim_matches(['[', ']']).to_owned();
        Ok(Self { kind, host, port, user, targets })
    }

    /// Connects to a host through the proxy.
    ///
    /// # Errors
    /// The proxy's address is not allowed, or the proxy cannot be reached or refuses the target.
    pub async fn connect(
        &self,
        host: &str,
        port: u16,
        tls: &Arc<ClientConfig>,
    ) -> Result<(Box<dyn Io>, OwnedFd), DialError> {
        let stream = self.reach().await?;
        let hold = hold(&stream)?;
        let stream: Box<dyn Io> =
            if self.kind == Kind::Https { secured(&self.host, stream, tls).await? } else { Box::new(stream) };
        let refused = |error: &dyn std::error::Error| DialError::Proxy(format!("the proxy leads nowhere: {error}"));
        let there = Uri::builder().scheme("https").authority(format!("{host}:{port}")).path_and_query("/").build();
        let there = there.map_err(|error| refused(&error))?;
        // The connection to the proxy is open already, so this URI is never used.
        let (made, proxy) = (Made(Some(TokioIo::new(stream))), Uri::from_static("http://proxy"));
        let stream = if self.kind == Kind::Socks5 {
            let mut way = SocksV5::new(proxy, made);
            if let Some((user, password)) = &self.user {
                way = way.with_auth(user.clone(), password.clone());
            }
            way.call(there).await.map_err(|error| refused(&error))?
        } else {
            let mut way = Tunnel::new(proxy, made);
            if let Some((user, password)) = &self.user {
                let proof = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
                way = way.with_auth(HeaderValue::try_from(proof).map_err(|error| refused(&error))?);
            }
            way.call(there).await.map_err(|error| refused(&error))?
        };
        Ok((stream.into_inner(), hold))
    }

    /// Connects to the proxy itself, at one of its allowed addresses.
    async fn reach(&self) -> Result<TcpStream, DialError> {
        let mut last = DialError::Proxy("the proxy's name leads nowhere".into());
        for address in lookup_host((self.host.as_str(), self.port)).await? {
            if let Err(why) = judge_ip(address.ip(), &self.targets) {
                last =
                    DialError::Proxy(format!("the proxy's name leads to an address that is not to be called: {why}"));
            } else if cfg!(feature = "testnet") && !address.ip().is_loopback() {
                last = DialError::Proxy("this build speaks to loopback alone".into());
            } else {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = DialError::Proxy(format!("the proxy cannot be reached: {error}")),
                }
            }
        }
        Err(last)
    }
}

/// A connector that returns its one connection.
struct Made(Option<TokioIo<Box<dyn Io>>>);

impl Service<Uri> for Made {
    type Response = TokioIo<Box<dyn Io>>;
    type Error = io::Error;
    type Future = Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        ready(self.0.take().ok_or_else(|| io::ErrorKind::NotConnected.into()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Proxy, NoProxy> {
        Proxy::parse(text, Arc::default())
    }

    #[test]
    fn a_proxys_url_says_its_kind_its_place_and_who_may_use_it() {
        let read = |text| {
            let Proxy { kind, host, port, user, .. } = parsed(text).unwrap();
            (kind, host, port, user)
        };
        assert_eq!(read("http://p.example"), (Kind::Http, "p.example".to_owned(), 80, None));
        assert_eq!(read("https://[2001:db9::1]:80"), (Kind::Https, "2001:db9::1".to_owned(), 80, None));
        let user = Some(("a@b".to_owned(), "c:d".to_owned()));
        assert_eq!(read("socks5://a%40b:c%3Ad@1.2.3.4"), (Kind::Socks5, "1.2.3.4".to_owned(), 1080, user));
        for wrong in ["ftp://p.example", "p.example", "socks5://", "http://%ff@p.example"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn an_address_that_is_not_to_be_called_is_not_called() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let text = format!("http://{}", listener.local_addr().unwrap());
        let refused = parsed(&text).unwrap().reach().await.unwrap_err();
        assert!(refused.to_string().ends_with("loopback"), "{refused}");
        let open = Arc::new(TargetPolicy::dev());
        Proxy::parse(&text, open).unwrap().reach().await.unwrap();
    }
}
