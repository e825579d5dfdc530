//! Bounds the memory that one client makes a node hold, so that no client takes all of it (docs/design/http.md).
//!
//! It counts large bodies that arrive slowly or wait for a permit, and responses that are not read. Over HTTP/2 a
//! client may leave a response unread on each of its streams for any time, without a byte in the socket's buffer. Each
//! holds its bytes and the state of its compression.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use model::error::CallError;
use model::id::CustomerId;
use parking_lot::Mutex;
use salvo::http::ResBody;
use salvo::hyper::body::{Body, Frame, SizeHint};
use salvo::{BoxedError, Depot, FlowCtrl, Handler, Request, Response, async_trait};

use crate::ip_bucket::network_of;

/// The most bytes that are held in all, divided evenly among the current holders.
const MOST_IN_ALL: usize = 512 << 20;

/// Upper and lower bound of one holder's share, in bytes.
const MOST: usize = 64 << 20;
const LEAST: usize = 1 << 20;

/// Responses shorter than this are not counted: they are not compressed, and take less memory than the stream itself.
const SMALL: usize = 1024;

/// What compressing a response takes, in bytes, besides a copy of it.
const COMPRESSION: usize = 512 << 10;

/// The client that bodies and responses are counted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    Account(CustomerId),
    Address(IpAddr),
}

impl Holder {
    /// The account if it is known, or else the client's address.
    pub fn of(account: Option<CustomerId>, address: IpAddr) -> Self {
        account.map_or_else(|| Self::Address(network_of(address)), Self::Account)
    }
}

/// Counts what is held for the clients of a port.
#[derive(Default)]
pub struct Memory(Arc<Mutex<Ledger>>);

#[derive(Default)]
struct Ledger {
    of: HashMap<Holder, usize>,
    in_all: usize,
}

impl Ledger {
    fn held_by(&self, holder: Holder) -> usize {
        self.of.get(&holder).copied().unwrap_or_default()
    }

    /// Whether `weight` more bytes fit. An account's only body or response always fits.
    fn fits(&self, holder: Holder, weight: usize) -> bool {
        let held = self.held_by(holder);
        let within = held + weight <= share_among(self.of.len() + usize::from(held == 0));
        match holder {
            Holder::Account(_) => held == 0 || within,
            Holder::Address(_) => within && self.in_all + weight <= MOST_IN_ALL,
        }
    }
}

fn share_among(holders: usize) -> usize {
    (MOST_IN_ALL / holders.max(1)).clamp(LEAST, MOST)
}

/// Memory that counts as held until this is dropped.
pub struct Held {
    ledger: Arc<Mutex<Ledger>>,
    holder: Holder,
    weight: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut ledger = self.ledger.lock();
        ledger.in_all -= self.weight;
        if let Some(held) = ledger.of.get_mut(&self.holder) {
            *held -= self.weight;
            if *held == 0 {
                ledger.of.remove(&self.holder);
            }
        }
    }
}

impl Memory {
    /// Whether no further request of the holder may begin.
    pub fn is_full(&self, holder: Holder) -> bool {
        let ledger = self.0.lock();
        ledger.held_by(holder) >= share_among(ledger.of.len())
    }

    /// Reserves memory for the body of a request.
    ///
    /// # Errors
    /// `worker_at_capacity` when the holder's share is used up.
    pub fn body(&self, holder: Holder, length: usize) -> Result<Held, CallError> {
        self.hold(holder, length, false)
    }

    /// Counts a response, unless it is short. A response to a request that has changed something is always sent.
    ///
    /// # Errors
    /// `worker_at_capacity` when the holder's share is used up.
    pub fn answer(&self, holder: Holder, length: usize, is_of_something_done: bool) -> Result<Option<Held>, CallError> {
        if length < SMALL {
            return Ok(None);
        }
        self.hold(holder, length * 2 + COMPRESSION, is_of_something_done).map(Some)
    }

    fn hold(&self, holder: Holder, weight: usize, in_any_case: bool) -> Result<Held, CallError> {
        let mut ledger = self.0.lock();
        if !in_any_case && !ledger.fits(holder, weight) {
            return Err(CallError::worker_at_capacity());
        }
        *ledger.of.entry(holder).or_default() += weight;
        ledger.in_all += weight;
        drop(ledger);
        Ok(Held { ledger: self.0.clone(), holder, weight })
    }
}

/// Middleware that ties the count of a response to its body. Must run before compression, which replaces the body.
pub struct Noting;

#[async_trait]
impl Handler for Noting {
    async fn handle(&self, request: &mut Request, depot: &mut Depot, response: &mut Response, ctrl: &mut FlowCtrl) {
        ctrl.call_next(request, depot, response).await;
        let Ok(held) = depot.remove_typed::<Held>() else { return };
        let body = response.take_body();
        drop(response.replace_body(Noted::body(body, held)));
    }
}

/// A body that counts as held until its last bytes were sent. HTTP/2 holds chunks after the body has ended.
struct Noted {
    body: ResBody,
    held: Arc<Held>,
}

impl Noted {
    fn body(body: ResBody, held: Held) -> ResBody {
        ResBody::Boxed(Box::pin(Self { body, held: Arc::new(held) }))
    }
}

struct Piece {
    bytes: Bytes,
    _held: Arc<Held>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Body for Noted {
    type Data = Bytes;
    type Error = BoxedError;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        let this = self.get_mut();
        let frame = ready!(Body::poll_frame(Pin::new(&mut this.body), cx));
        let noted = |bytes| Bytes::from_owner(Piece { bytes, _held: this.held.clone() });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(noted)).map_err(BoxedError::from)))
    }

    fn is_end_stream(&self) -> bool {
        Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        Body::size_hint(&self.body)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::net::Ipv4Addr;

    use futures::StreamExt;
    use model::error::ErrorCode;

    use super::*;

    const PAGE: usize = 4 << 20;

    fn address(number: u32) -> Holder {
        Holder::of(None, Ipv4Addr::from_bits(number).into())
    }

    /// Holds as many responses as fit.
    fn fill(memory: &Memory, holder: Holder) -> Vec<Held> {
        std::iter::from_fn(|| memory.answer(holder, PAGE, false).ok().flatten()).take(1000).collect()
    }

    #[test]
    fn what_is_kept_of_a_client_is_bounded_and_others_have_their_share() {
        let memory = Memory::default();
        let (one, other) = (Holder::Account(CustomerId::new()), Holder::Account(CustomerId::new()));
        let held = fill(&memory, one);
        assert_eq!(held.len(), MOST / (2 * PAGE + COMPRESSION));
        assert_eq!(memory.answer(one, PAGE, false).err().unwrap().code, ErrorCode::WorkerAtCapacity);
        assert!(memory.answer(one, SMALL - 1, false).unwrap().is_none(), "what is short goes out");
        assert!(!memory.is_full(one), "a smaller one would have room");
        assert_eq!(memory.body(one, PAGE + 2 * COMPRESSION).err().unwrap().code, ErrorCode::WorkerAtCapacity);
        drop(memory.body(one, 1 << 20).unwrap());
        let done = memory.answer(one, PAGE, true).unwrap();
        assert!(done.is_some() && memory.is_full(one), "what was done is told, and nothing more is begun");
        assert!(!memory.is_full(other));
        assert_eq!(fill(&memory, other).len(), held.len());
        drop((held, done));
        let ledger = memory.0.lock();
        assert_eq!((ledger.of.len(), ledger.in_all), (0, 0));
    }

    #[test]
    fn many_share_what_there_is_and_an_account_still_has_one_answer() {
        let memory = Memory::default();
        let strangers: Vec<Held> = (0..1000).flat_map(|number| fill(&memory, address(number))).collect();
        assert!(memory.0.lock().in_all <= MOST_IN_ALL && !strangers.is_empty());
        assert!(memory.answer(address(2000), PAGE, false).is_err());
        let account = Holder::Account(CustomerId::new());
        assert!(memory.answer(account, PAGE, false).unwrap().is_some());
    }

    #[tokio::test]
    async fn an_answer_is_noted_until_its_last_byte_is_gone() {
        let memory = Memory::default();
        let holder = address(1);
        let held = memory.answer(holder, PAGE, false).unwrap().unwrap();
        let mut body = Noted::body(ResBody::Once(Bytes::from(vec![7; PAGE])), held);
        assert_eq!(Body::size_hint(&body).exact(), Some(PAGE as u64));
        let frame = body.next().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.next().await.is_none());
        drop(body);
        let rest = frame.slice(PAGE - 1..);
        drop(frame);
        assert!(memory.0.lock().held_by(holder) > PAGE, "a byte of it is still to be sent");
        assert_eq!(rest[..], [7]);
        drop(rest);
        assert_eq!(memory.0.lock().held_by(holder), 0);
    }
}
