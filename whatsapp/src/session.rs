//! The owner's hold on a session: what it calls is handed to the session's thread.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use model::media::{MediaHandle, MediaKind};
use network::driver::{
    ByteStream, ItemId, MediaError, Outbound, PairCode, PairCodeError, Session, SessionError, SessionEvent, Uploaded,
};
use network::operation::{Operation, Refused, RefusedKind};
use tokio::sync::watch;
use uuid::Uuid;
use whatsapp_rust::Client;

use crate::line::{Line, Silent};
use crate::outbound::Outgoing;
use crate::threads::Place;

/// How long a session may take to close in order, and a logout.
const CLOSED_WITHIN: Duration = Duration::from_secs(2);
const LOGGED_OUT_WITHIN: Duration = Duration::from_secs(5);

/// Dropped, the session is killed.
pub struct Handle {
    pub line: Arc<Line>,
    pub outgoing: Arc<Outgoing>,
    pub place: Place,
    pub clients: watch::Receiver<Option<Arc<Client>>>,
    /// Changes when the session's thread is done with it.
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

    async fn wait_for_end(&self) {
        // An error is the thread's part that is gone.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// What an operation is called where it is not supported.
fn feature(operation: &Operation) -> &'static str {
    match operation {
        Operation::Groups(_) => "groups",
        Operation::Calls(_) => "calls",
        Operation::Chats(_) => "chats",
        Operation::Contacts(_) => "contacts",
        Operation::Presence(_) => "presences",
        Operation::Communities(_) => "communities",
        Operation::Newsletters(_) => "newsletters",
        Operation::Business(_) => "business",
        Operation::Blacklist(_) => "blacklist",
        Operation::Profile(_) => "profile",
        Operation::Privacy(_) => "privacy",
        Operation::Labels(_) => "labels",
    }
}

#[async_trait]
impl Session for Handle {
    async fn send(&self, message: Outbound) -> Result<(), SessionError> {
        self.check_logged_in()?;
        self.outgoing.take(message).await
    }

    async fn operate(&self, id: Uuid, operation: Operation) -> Result<(), SessionError> {
        self.check_logged_in()?;
        let refused = Refused::new(0, feature(&operation)).of(RefusedKind::Unsupported);
        self.line.report(SessionEvent::Operated { id, result: Box::new(Err(refused)) });
        Ok(())
    }

    async fn upload(&self, _: MediaKind, _: &str, _: u64, _: ByteStream) -> Result<Uploaded, MediaError> {
        self.check_logged_in()?;
        Err(MediaError::Refused { code: 0, text: "media is not available on this network yet".into() })
    }

    async fn download(&self, _: &MediaHandle) -> Result<ByteStream, MediaError> {
        self.check_logged_in()?;
        Err(MediaError::Gone)
    }

    async fn acknowledge(&self, item: ItemId) -> Result<(), SessionError> {
        self.check_logged_in()?;
        self.line.inbox().acknowledge(&item).map_err(|error| SessionError::Unreachable(error.to_string()))
    }

    async fn pair_code(&self, _phone: &str, _display_name: &str) -> Result<PairCode, PairCodeError> {
        Err(PairCodeError::Refused { code: 0, text: "pairing by code is not available on this network yet".into() })
    }

    async fn logout(&self) -> Result<(), SessionError> {
        self.check_logged_in()?;
        let client = self.client().ok_or(SessionError::NotLoggedIn)?;
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
                // What is not stored is what an older state begins from: the leases allow it.
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
