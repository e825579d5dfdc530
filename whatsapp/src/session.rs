//! The owner's handle of a session: it passes the owner's calls to the session's thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::media::{MediaHandle, MediaKind};
use model::time::Timestamp;
use network::driver::{
    ByteStream, ItemId, MediaError, Outbound, PairCode, PairCodeError, Session, SessionError, Uploaded,
};
use network::operation::Operation;
use tokio::sync::watch;
use uuid::Uuid;
use whatsapp_rust::pair_code::PairCodeOptions;
use whatsapp_rust::{Client, ErrorChainExt};

use crate::line::{Line, Silent};
use crate::media;
use crate::operations::Operations;
use crate::outbound::Outgoing;
use crate::threads::Place;
use crate::transfers::Transfers;

/// How long an orderly close of a session may take.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
/// How long the network may take to issue a pairing code, and how long that code is valid.
const CODE_WITHIN: Duration = Duration::from_secs(15);
const CODE_HOLDS: Duration = Duration::from_secs(160);

const LOGGED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// The owner's handle of a session. Dropping it kills the session.
pub struct Handle {
    pub line: Arc<Line>,
    pub outgoing: Arc<Outgoing>,
    pub operations: Arc<Operations>,
    pub transfers: Transfers,
    pub place: Place,
    pub clients: watch::Receiver<Option<Arc<Client>>>,
    /// Changes to `true` when the session's thread has finished with the session.
    pub ended: watch::Receiver<bool>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.line.kill();
    }
}

impl Handle {
    fn check_logged_in(&self) -> Result<(), SessionError> {
        self.line.may_speak().map_err(|silent| match silent {
            Silent::Fenced => SessionError::Fenced,
            Silent::Ended => SessionError::Ended,
        })?;
        if self.line.is_logged_in() { Ok(()) } else { Err(SessionError::NotLoggedIn) }
    }

    fn client(&self) -> Option<Arc<Client>> {
        self.clients.borrow().clone()
    }

    fn logged_in_client(&self) -> Result<Arc<Client>, SessionError> {
        self.check_logged_in()?;
        self.client().ok_or(SessionError::NotLoggedIn)
    }

    /// Runs a media transfer on the session's thread. It is cancelled when the session stops or the caller is dropped.
    async fn transfer<T: Send + 'static>(
        &self,
        transfer: impl Future<Output = Result<T, MediaError>> + Send + 'static,
    ) -> Result<T, MediaError> {
        let stopped = self.line.stopped().clone();
        let carried = self.place.spawn(async move {
            tokio::select! {
                carried = transfer => carried,
                () = stopped.cancelled() => Err(SessionError::Ended.into()),
            }
        });
        let mut carried = AbortOnDrop(carried);
        (&mut carried.0).await.unwrap_or_else(|_| Err(SessionError::Ended.into()))
    }

    async fn wait_for_end(&self) {
        // An error means that the sender, and so the session's task, is gone.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// Formats a pairing code the way a person types it.
fn shown(code: &str) -> String {
    match code.split_at_checked(4) {
        Some((first, second)) if !second.is_empty() && !code.contains('-') => format!("{first}-{second}"),
        _ => code.to_owned(),
    }
}

/// Aborts the task when its caller no longer waits for it.
struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[async_trait]
impl Session for Handle {
    async fn send(&self, message: Outbound) -> Result<(), SessionError> {
        self.check_logged_in()?;
        self.outgoing.take(message).await
    }

    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError> {
        let client = self.logged_in_client()?;
        let (operations, stopped) = (Arc::clone(&self.operations), self.line.stopped().clone());
        self.place.spawn(async move {
            tokio::select! {
                () = operations.perform(&client, id, operation) => {}
                () = stopped.cancelled() => {}
            }
        });
        Ok(())
    }

    async fn upload(&self, kind: MediaKind, _: &str, _: u64, bytes: ByteStream) -> Result<Uploaded, MediaError> {
        let client = self.logged_in_client()?;
        let transfers = self.transfers.clone();
        self.transfer(async move { transfers.upload(&client, kind, bytes).await }).await
    }

    fn shows_as(&self, handle: &MediaHandle, kind: MediaKind) -> bool {
        media::Handle::read(handle).is_some_and(|handle| handle.kind == kind)
    }

    async fn download(&self, handle: &MediaHandle) -> Result<ByteStream, MediaError> {
        let client = self.logged_in_client()?;
        let transfers = self.transfers.clone();
        let handle = handle.clone();
        self.transfer(async move { transfers.download(&client, &handle).await }).await
    }

    async fn acknowledge(&self, item: ItemId) -> Result<(), SessionError> {
        self.check_logged_in()?;
        self.line.inbox().acknowledge(&item).map_err(|error| SessionError::Unreachable(error.to_string()))
    }

    /// Requests a pairing code. `_display_name` is unused: phones show an operating system from the network's list.
    async fn pair_code(&self, phone: &str, _display_name: &str) -> Result<PairCode, PairCodeError> {
        let unreachable = |why: &str| PairCodeError::Unreachable(why.to_owned());
        self.line.may_speak().map_err(|silent| unreachable(&silent.to_string()))?;
        let client = self.client().filter(|_| self.line.pairs()).ok_or(PairCodeError::NotPairing)?;
        self.line.pairs_for(CODE_WITHIN + CODE_HOLDS);
        let options = PairCodeOptions { phone_number: phone.to_owned(), ..PairCodeOptions::default() };
        let asked = self.place.spawn(async move {
            // The library refuses a new code while an earlier one is valid, and for a while afterwards.
            client.cancel_pair_code().await;
            client.pair_with_code(options).await
        });
        let code = match tokio::time::timeout(CODE_WITHIN, asked).await {
            Ok(Ok(Ok(code))) => code,
            Ok(Ok(Err(error))) => {
                return Err(match error.server_rejection() {
                    Some(rejection) => PairCodeError::Refused { code: rejection.code, text: rejection.text.to_owned() },
                    None => unreachable(&error.to_string()),
                });
            }
            Ok(Err(_)) => return Err(unreachable("the session has ended")),
            Err(_) => return Err(unreachable("no answer in time")),
        };
        Ok(PairCode { code: shown(&code), expires_at: Timestamp::now().plus(CODE_HOLDS) })
    }

    async fn logout(&self) -> Result<(), SessionError> {
        let client = self.logged_in_client()?;
        let logout = self.place.spawn(async move { client.logout().await });
        match tokio::time::timeout(LOGGED_OUT_WITHIN, logout).await {
            Ok(_) => Ok(()),
            Err(_) => Err(SessionError::Unreachable("no answer within 5 s".into())),
        }
    }

    fn kill(&self) {
        self.line.kill();
    }

    async fn drain(&self) {
        if self.line.stopped().is_cancelled() {
            return self.line.kill();
        }
        if let Some(client) = self.client().filter(|_| self.line.is_logged_in()) {
            let line = Arc::clone(&self.line);
            let close = self.place.spawn(async move {
                client.disconnect().await;
                // State that is not stored is lost; the next session begins from an older one, which the leases allow.
                if let Err(error) = line.log().flush().await {
                    tracing::debug!(%error, "the last of a session's state was not stored");
                }
            });
            let _ = tokio::time::timeout(CLOSED_WITHIN, close).await;
        }
        self.line.kill();
        let _ = tokio::time::timeout(CLOSED_WITHIN, self.wait_for_end()).await;
    }
}
