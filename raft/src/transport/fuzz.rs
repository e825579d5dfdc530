//! The transport's part of [`crate::fuzz`].

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures::FutureExt;
use model::id::NodeId;
use uuid::Uuid;

use super::frame::{self, Kind, Message};
use super::hello::{self as first_words, Answer, Hello, HelloError};
use super::{Class, Identity};

/// Identity of the node that checks a hello.
const IDENTITY: Identity = Identity { cluster_id: Uuid::from_u128(1), storage_id: Uuid::from_u128(2) };
const NODE: NodeId = 7;
const ELECTION_MIN: Duration = Duration::from_millis(300);

/// Bodies of all messages in all frames, as far as they can be parsed.
pub(crate) fn messages_of(mut bytes: &[u8]) -> Vec<Bytes> {
    let mut buffer = BytesMut::new();
    let mut bodies = Vec::new();
    // Reads from memory complete at once.
    while let Some(Ok(mut frame)) = frame::read(&mut bytes, &mut buffer, || {}).now_or_never() {
        while let Some(Ok(message)) = frame::next(&mut frame) {
            bodies.push(message.body);
        }
    }
    bodies
}

/// A frame with one message for each body.
pub(crate) fn framed(bodies: &[Bytes]) -> Vec<u8> {
    let mut frame = BytesMut::new();
    frame::begin(&mut frame);
    for (id, body) in (0..).zip(bodies) {
        frame::push(&mut frame, &Message { kind: Kind::Request, id, service: 3, body: body.clone() });
    }
    frame::end(&mut frame);
    frame.to_vec()
}

/// Hellos of both the dialing and the accepting side.
pub fn hello(bytes: &[u8]) {
    let judge = |hello: &Hello| {
        let _ = (hello.class(), hello.identity(), hello.mismatch(&IDENTITY, ELECTION_MIN));
    };
    if let Some(Ok(hello)) = first_words::receive::<Hello>(&mut &*bytes).now_or_never() {
        judge(&hello);
    }
    let answer: Option<Result<Answer, HelloError>> = first_words::receive(&mut &*bytes).now_or_never();
    if let Some(Ok(Answer::Welcome(hello))) = answer {
        judge(&hello);
    }
}

/// Hellos as nodes send them.
pub fn hello_examples() -> Vec<Vec<u8>> {
    let hello = || Hello::new(NODE, &IDENTITY, ELECTION_MIN, Class::Log);
    let mut spoken = vec![Vec::new(), Vec::new(), Vec::new()];
    let _ = first_words::send(&mut spoken[0], &hello()).now_or_never();
    let _ = first_words::send(&mut spoken[1], &Answer::Welcome(hello())).now_or_never();
    let _ = first_words::send(&mut spoken[2], &Answer::Refused("wrong cluster".into())).now_or_never();
    spoken
}
