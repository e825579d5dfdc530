//! The store of a channel's credentials: sealed, committed by a quorum, bound to the owner's epoch.

use std::sync::Arc;

use async_trait::async_trait;
use metrics::gauge;
use model::id::{ChannelId, CustomerId};
use model::seal::SealError;
use network::driver::{AuthError, AuthStore, AuthWrite};
use parking_lot::Mutex;
use raft::directory::records::CustomerRecord;
use raft::machine::{View, scan_all};
use tokio::sync::{RwLock, watch};

use super::Owner;
use crate::command::{Command, Reply};
use crate::keys;
use crate::secrets::Secrets;

/// Maximum bytes of one batch, names and values; a driver splits what it stores.
const LARGEST_BATCH: usize = 256 << 10;

/// Maximum bytes of a channel's whole state, as stored.
const LARGEST_STATE: u64 = 32 << 20;

/// Rows counted at a time.
const COUNTED_AT_ONCE: usize = 500;

pub(super) struct ReplicatedAuth {
    owner: Arc<Owner>,
    channel: ChannelId,
    customer: CustomerId,
    /// Size of the state: counted on first use, and updated from then on, since nobody else writes the state meanwhile.
    size: Mutex<Option<Size>>,
    fence: WriteFence,
}

impl ReplicatedAuth {
    pub fn new(owner: Arc<Owner>, channel: ChannelId, customer: CustomerId) -> Self {
        Self { owner, channel, customer, size: Mutex::new(None), fence: WriteFence::default() }
    }

    /// Refuses new writes, and returns once those in progress are in the log.
    pub async fn close(&self) -> Closed {
        self.fence.close().await
    }

    fn customer(&self) -> Result<Arc<CustomerRecord>, AuthError> {
        let customer = self.owner.node.customer(self.customer);
        customer.ok_or_else(|| AuthError::Unavailable("the customer is not known here yet".into()))
    }

    /// How many bytes the state takes now.
    fn count(&self) -> u64 {
        let rows = scan_all(&self.owner.reader, keys::auth_of(self.channel), COUNTED_AT_ONCE);
        rows.map(|(key, value)| (keys::name_of_auth(&key).map_or(0, |name| name.len()) + value.len()) as u64).sum()
    }

    /// How many bytes these writes add to the state, and how many they remove.
    fn change(&self, writes: &[AuthWrite]) -> (u64, u64) {
        writes.iter().fold((0, 0), |(more, less), write| {
            let row = |value: &[u8]| (write.key.len() + value.len()) as u64;
            let old = self.owner.reader.get(&keys::auth(self.channel, &write.key));
            (more + write.value.as_deref().map_or(0, row), less + old.as_deref().map_or(0, row))
        })
    }

    /// Takes the room that a batch needs, and returns the change.
    fn take_room(&self, writes: &[AuthWrite]) -> Result<(u64, u64), AuthError> {
        let change = self.change(writes);
        let mut size = self.size.lock();
        size.get_or_insert_with(|| Size::new(self.count())).change(change)?;
        Ok(change)
    }

    async fn store(&self, writes: Vec<AuthWrite>) -> Result<(), AuthError> {
        let change = self.take_room(&writes)?;
        let command = Command::Auth { channel: self.channel, customer: self.customer, writes };
        let refused = match self.owner.committer.commit_one(command).await {
            Ok(Reply::Done) => return Ok(()),
            // A batch is all or nothing: only the driver knows how it may be split.
            Ok(Reply::TooLarge) => AuthError::Unavailable("the batch is too large for one log entry".into()),
            Ok(_) | Err(_) => AuthError::Fenced,
        };
        if let Some(size) = &mut *self.size.lock() {
            size.undo(change);
        }
        Err(refused)
    }
}

/// Seals a write for the store.
pub(super) fn sealed(
    secrets: &Secrets,
    customer: &CustomerRecord,
    channel: ChannelId,
    AuthWrite { key, value }: AuthWrite,
) -> Result<AuthWrite, SealError> {
    let value = value.map(|value| secrets.seal(customer, &purpose(channel, &key), &value)).transpose()?;
    Ok(AuthWrite { key, value })
}

/// The purpose of a sealed value is its place, so that a value moved elsewhere cannot be opened.
pub(super) fn purpose(channel: ChannelId, key: &str) -> String {
    format!("auth/{channel}/{key}")
}

#[async_trait]
impl AuthStore for ReplicatedAuth {
    fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        let Some(sealed) = self.owner.reader.get(&keys::auth(self.channel, key)) else { return Ok(None) };
        let opened = self.owner.node.secrets.open(&*self.customer()?, &purpose(self.channel, key), &sealed);
        opened.map(Some).map_err(|error| AuthError::Unreadable(error.to_string()))
    }

    fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        let rows = self.owner.reader.scan_range(keys::auth_under(self.channel, prefix, after), limit);
        rows.iter().filter_map(|(key, _)| keys::name_of_auth(key)).collect()
    }

    fn bytes(&self) -> u64 {
        self.size.lock().get_or_insert_with(|| Size::new(self.count())).0
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        let bytes: usize = batch.iter().map(|write| write.key.len() + write.value.as_ref().map_or(0, Vec::len)).sum();
        if bytes > LARGEST_BATCH {
            let why = format!("a batch of {bytes} bytes is larger than {LARGEST_BATCH}");
            return Err(AuthError::Unavailable(why));
        }
        let customer = self.customer()?;
        let seal = |write| sealed(&self.owner.node.secrets, &customer, self.channel, write);
        let writes = batch.into_iter().map(seal).collect::<Result<Vec<_>, SealError>>();
        let writes = writes.map_err(|error| AuthError::Unavailable(error.to_string()))?;
        self.fence.pass(self.store(writes)).await
    }
}

/// A closed store. The session's further writes wait, and the bytes that it would send after them: these must not
/// depend on a state that no owner would find, as long as a later owner may find any state. On drop, they are refused.
pub(super) struct Closed(watch::Sender<bool>);

impl Closed {
    /// The state is deleted for good, so none of its keys is used again: waiting writes are dropped silently, and the
    /// session may say goodbye.
    pub fn wiped(self) {
        self.0.send_replace(true);
    }
}

/// Lets a session's writes through until it is closed.
#[derive(Default)]
struct WriteFence {
    closed: RwLock<Option<watch::Receiver<bool>>>,
}

impl WriteFence {
    /// Performs the write. If closed, waits instead: succeeds once the state is wiped, and fails if it is not.
    async fn pass(&self, write: impl Future<Output = Result<(), AuthError>>) -> Result<(), AuthError> {
        let closed = self.closed.read().await;
        let mut is_wiped = match &*closed {
            None => return write.await,
            Some(is_wiped) => is_wiped.clone(),
        };
        drop(closed);
        let wiped = is_wiped.wait_for(|wiped| *wiped).await;
        wiped.map(drop).map_err(|_| AuthError::Fenced)
    }

    /// Returns once no write is in progress any more.
    async fn close(&self) -> Closed {
        let (wiped, is_wiped) = watch::channel(false);
        *self.closed.write().await = Some(is_wiped);
        Closed(wiped)
    }
}

/// The bytes of one channel's state, as part of the gauge over all channels.
struct Size(u64);

impl Size {
    fn new(bytes: u64) -> Self {
        gauge!("gateway_auth_bytes").increment(bytes as f64);
        Self(bytes)
    }

    /// Applies a change, unless the state would exceed its maximum. A state beyond it may still shrink.
    fn change(&mut self, (more, less): (u64, u64)) -> Result<(), AuthError> {
        let to = (self.0 + more).saturating_sub(less);
        if to > LARGEST_STATE && to > self.0 {
            return Err(AuthError::Unavailable(format!("state is full: {to} bytes, and {LARGEST_STATE} are the most")));
        }
        self.set(to);
        Ok(())
    }

    /// Reverts a change that was not committed.
    fn undo(&mut self, (more, less): (u64, u64)) {
        self.set((self.0 + less).saturating_sub(more));
    }

    fn set(&mut self, to: u64) {
        gauge!("gateway_auth_bytes").increment(to as f64 - self.0 as f64);
        self.0 = to;
    }
}

impl Drop for Size {
    fn drop(&mut self) {
        gauge!("gateway_auth_bytes").decrement(self.0 as f64);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// A write that must not happen.
    async fn late() -> Result<(), AuthError> {
        Err(AuthError::Unreadable("it was written".into()))
    }

    #[tokio::test]
    async fn a_fence_lets_through_what_is_on_its_way_before_it_closes_and_nothing_after() {
        let (fence, (go, gone)) = (WriteFence::default(), tokio::sync::oneshot::channel::<()>());
        let on_its_way = fence.pass(async { gone.await.map_err(|_| AuthError::Fenced) });
        let closing = fence.close();
        tokio::pin!(on_its_way, closing);
        assert!(futures::poll!(&mut on_its_way).is_pending() && futures::poll!(&mut closing).is_pending());
        go.send(()).unwrap();
        on_its_way.await.unwrap();
        let closed = closing.await;
        let behind = fence.pass(late());
        tokio::pin!(behind);
        assert!(futures::poll!(&mut behind).is_pending(), "nothing may leave before the wipe is certain");
        closed.wiped();
        behind.await.unwrap();
        fence.pass(late()).await.unwrap();
    }

    #[tokio::test]
    async fn behind_a_fence_that_was_closed_for_no_wipe_everything_is_refused() {
        let fence = WriteFence::default();
        let closed = fence.close().await;
        let behind = fence.pass(late());
        tokio::pin!(behind);
        assert!(futures::poll!(&mut behind).is_pending());
        drop(closed);
        assert!(matches!(behind.await, Err(AuthError::Fenced)));
        assert!(matches!(fence.pass(late()).await, Err(AuthError::Fenced)));
    }

    #[test]
    fn a_full_state_takes_no_byte_more_and_lets_itself_be_thinned() {
        let mut size = Size::new(LARGEST_STATE - 10);
        size.change((10, 0)).unwrap();
        assert!(matches!(size.change((1, 0)), Err(AuthError::Unavailable(why)) if why.starts_with("state is full")));
        size.change((5, 5)).unwrap();
        size.undo((5, 6));
        assert!(size.change((0, 0)).is_ok(), "one that is beyond, by another release's doing, goes on");
        size.change((0, 100)).unwrap();
        size.change((99, 0)).unwrap();
        assert_eq!(size.0, LARGEST_STATE);
    }
}
