//! The client version that sessions announce. The network refuses old versions; then the newest one is looked up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use wacore::net::HttpClient;
use whatsapp_rust::version::fetch_latest_app_version;

use crate::wire::dial::{Endpoint, Way};
use crate::wire::http::Http;

/// How often the newest version is looked up at most, and how long a lookup may take.
const LOOKED_FOR_EVERY: Duration = Duration::from_secs(3_600);
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// The version that this release announces until the network refuses it.
const OF_RELEASE: ClientVersion = ClientVersion(2, 3_000, 1_042_742_319);

/// A version of the network's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientVersion(u32, u32, u32);

impl ClientVersion {
    /// Reads `2.3000.N`.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.').map(|part| part.parse().ok());
        match (parts.next()??, parts.next()??, parts.next()??, parts.next()) {
            (first, second, third, None) => Some(Self(first, second, third)),
            _ => None,
        }
    }

    pub fn parts(self) -> (u32, u32, u32) {
        let Self(first, second, third) = self;
        (first, second, third)
    }
}

/// The client version that the sessions of a node share.
pub struct Versions {
    now: Mutex<ClientVersion>,
    looked_for_at: tokio::sync::Mutex<Option<Instant>>,
    /// Whether the operator has configured the version; then it never changes.
    is_fixed: bool,
}

impl Versions {
    pub fn new(fixed: Option<ClientVersion>) -> Self {
        let now = Mutex::new(fixed.unwrap_or(OF_RELEASE));
        Self { now, looked_for_at: tokio::sync::Mutex::new(None), is_fixed: fixed.is_some() }
    }

    pub fn now(&self) -> ClientVersion {
        *self.now.lock()
    }

    /// Whether a later version than `refused` is known. Runs `newest` unless there was a lookup in the last hour.
    pub async fn is_later_known(
        &self,
        refused: ClientVersion,
        newest: impl Future<Output = anyhow::Result<ClientVersion>>,
    ) -> bool {
        if self.is_fixed {
            return false;
        }
        // Sessions that are refused meanwhile wait here for the result of the first lookup.
        let mut looked_for_at = self.looked_for_at.lock().await;
        if self.now() <= refused && looked_for_at.is_none_or(|at| at.elapsed() >= LOOKED_FOR_EVERY) {
            match tokio::time::timeout(FOUND_WITHIN, newest).await {
                Ok(Ok(found)) => {
                    tracing::info!(?refused, ?found, "the network refuses a version of its client");
                    let mut now = self.now.lock();
                    *now = found.max(*now);
                }
                Ok(Err(error)) => tracing::warn!(%error, "the newest version of the network's client is not known"),
                Err(_) => tracing::warn!("the newest version of the network's client was not found in time"),
            }
            *looked_for_at = Some(Instant::now());
        }
        self.now() > refused
    }
}

/// Asks the network for its newest client version, directly from the node, since this belongs to no channel.
///
/// # Errors
/// The network does not answer with a version.
pub async fn newest(endpoint: &Endpoint) -> anyhow::Result<ClientVersion> {
    let http: Arc<dyn HttpClient> = Arc::new(Http::new(Arc::new(Way::new(endpoint, None)), Handle::current()));
    let (first, second, third) = fetch_latest_app_version(&http).await?;
    Ok(ClientVersion(first, second, third))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const NEW: ClientVersion = ClientVersion(2, 3_000, u32::MAX);

    #[tokio::test]
    async fn of_many_sessions_that_are_refused_one_looks_and_all_know_what_it_finds() {
        let (versions, looks) = (Versions::new(None), AtomicU32::new(0));
        let refused = || {
            versions.is_later_known(OF_RELEASE, async {
                looks.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                Ok(NEW)
            })
        };
        assert_eq!(tokio::join!(refused(), refused()), (true, true));
        assert_eq!((looks.load(Ordering::Relaxed), versions.now()), (1, NEW));
        assert!(!versions.is_later_known(NEW, async { Ok(OF_RELEASE) }).await, "none is later");
        assert_eq!(versions.now(), NEW);
    }

    #[tokio::test]
    async fn what_is_found_nowhere_is_not_looked_for_again_at_once_and_what_the_operator_names_never() {
        let versions = Versions::new(None);
        for found in [Err(anyhow::anyhow!("no way there")), Ok(NEW)] {
            assert!(!versions.is_later_known(OF_RELEASE, async { found }).await);
        }
        let versions = Versions::new(ClientVersion::parse("2.3000.7"));
        assert!(!versions.is_later_known(versions.now(), async { Ok(NEW) }).await);
        assert_eq!(versions.now().parts(), (2, 3_000, 7));
    }
}
