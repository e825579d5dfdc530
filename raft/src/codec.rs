//! Binary encoding of log entries and Raft messages, on disk and on the wire.
//!
//! Entries and appends are encoded by hand: they are the send path, and a decoded command must share the bytes it
//! arrived in. Everything rarer uses MessagePack. Every encoding starts with a version byte.

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use model::msgpack;
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::vote::RaftLeaderId;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use crate::types::{Command, Entry, LogId, TypeConfig, Vote, log_id, term_of};

/// Version of the encodings below.
const VERSION: u8 = 1;

const BLANK: u8 = 0;
const NORMAL: u8 = 1;
const MEMBERSHIP: u8 = 2;

/// Bytes that cannot be decoded: a newer version, or damage.
#[derive(Debug, Error)]
pub(crate) enum CodecError {
    #[error("cut short")]
    Short(#[from] TryGetError),
    #[error("version {0} is not known to this node")]
    Version(u8),
    #[error("unknown kind {0}")]
    Kind(u8),
    #[error("{0}")]
    MessagePack(#[from] msgpack::Error),
}

impl From<CodecError> for std::io::Error {
    fn from(error: CodecError) -> Self {
        invalid_data(error)
    }
}

/// Error for invalid data on disk or from a peer.
pub(crate) fn invalid_data(reason: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, reason)
}

fn take_version(buf: &mut Bytes) -> Result<(), CodecError> {
    match buf.try_get_u8()? {
        VERSION => Ok(()),
        other => Err(CodecError::Version(other)),
    }
}

/// Encodes any serializable value, prefixed with the version.
pub(crate) fn encode<T: Serialize>(value: &T) -> Bytes {
    let mut out = vec![VERSION];
    msgpack::append(&mut out, value).expect("writing to memory does not fail, and all keys are encodable");
    Bytes::from(out)
}

pub(crate) fn decode<T: DeserializeOwned>(mut bytes: Bytes) -> Result<T, CodecError> {
    take_version(&mut bytes)?;
    Ok(msgpack::from_slice(&bytes)?)
}

/// Appends one entry: version, term, index, kind, payload.
pub(crate) fn put_entry(entry: &Entry, out: &mut impl BufMut) {
    out.put_u8(VERSION);
    out.put_u64(term_of(&entry.log_id));
    out.put_u64(entry.log_id.index);
    match &entry.payload {
        EntryPayload::Blank => out.put_u8(BLANK),
        EntryPayload::Normal(command) => {
            out.put_u8(NORMAL);
            out.put_slice(command.bytes());
        }
        EntryPayload::Membership(membership) => {
            out.put_u8(MEMBERSHIP);
            out.put_slice(&encode(membership));
        }
    }
}

/// Number of bytes that [`put_entry`] writes; exact for commands, an estimate for membership entries.
pub(crate) fn entry_size(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Blank => 18,
        EntryPayload::Normal(command) => 18 + command.bytes().len(),
        EntryPayload::Membership(_) => 256,
    }
}

/// Decodes one entry; its command shares the given bytes.
pub(crate) fn get_entry(mut bytes: Bytes) -> Result<Entry, CodecError> {
    take_version(&mut bytes)?;
    let id = log_id(bytes.try_get_u64()?, bytes.try_get_u64()?);
    let payload = match bytes.try_get_u8()? {
        BLANK => EntryPayload::Blank,
        NORMAL => EntryPayload::Normal(Command::logged(bytes)),
        MEMBERSHIP => EntryPayload::Membership(decode(bytes)?),
        other => return Err(CodecError::Kind(other)),
    };
    Ok(Entry { log_id: id, payload })
}

fn put_log_id(id: Option<&LogId>, out: &mut BytesMut) {
    match id {
        None => out.put_u8(0),
        Some(id) => {
            out.put_u8(1);
            out.put_u64(term_of(id));
            out.put_u64(id.index);
        }
    }
}

fn get_log_id(bytes: &mut Bytes) -> Result<Option<LogId>, CodecError> {
    if bytes.try_get_u8()? == 0 {
        return Ok(None);
    }
    Ok(Some(log_id(bytes.try_get_u64()?, bytes.try_get_u64()?)))
}

fn put_vote(vote: &Vote, out: &mut BytesMut) {
    out.put_u64(vote.leader_id.term);
    out.put_u64(vote.leader_id.voted_for);
    out.put_u8(u8::from(vote.committed));
}

fn get_vote(bytes: &mut Bytes) -> Result<Vote, CodecError> {
    let leader_id = RaftLeaderId::new(bytes.try_get_u64()?, bytes.try_get_u64()?);
    Ok(Vote { leader_id, committed: bytes.try_get_u8()? != 0 })
}

/// Encodes an append as a message body, prefixed with its group.
pub(crate) fn encode_append(group: u16, request: &AppendEntriesRequest<TypeConfig>) -> Bytes {
    let size: usize = request.entries.iter().map(|entry| 4 + entry_size(entry)).sum();
    let mut out = BytesMut::with_capacity(size + 64);
    out.put_u16(group);
    out.put_u8(VERSION);
    put_vote(&request.vote, &mut out);
    put_log_id(request.prev_log_id.as_ref(), &mut out);
    put_log_id(request.leader_commit.as_ref(), &mut out);
    out.put_u32(request.entries.len() as u32);
    for entry in &request.entries {
        let at = out.len();
        out.put_u32(0);
        put_entry(entry, &mut out);
        let length = (out.len() - at - 4) as u32;
        out[at..at + 4].copy_from_slice(&length.to_be_bytes());
    }
    out.freeze()
}

/// Decodes what [`encode_append`] wrote, without the group.
pub(crate) fn decode_append(mut bytes: Bytes) -> Result<AppendEntriesRequest<TypeConfig>, CodecError> {
    take_version(&mut bytes)?;
    let vote = get_vote(&mut bytes)?;
    let prev_log_id = get_log_id(&mut bytes)?;
    let leader_commit = get_log_id(&mut bytes)?;
    let count = bytes.try_get_u32()? as usize;
    // An entry takes at least 22 bytes: a count that exceeds the remaining bytes must not reserve memory.
    let mut entries = Vec::with_capacity(count.min(bytes.remaining() / 22));
    for _ in 0..count {
        let length = bytes.try_get_u32()? as usize;
        if bytes.len() < length {
            return Err(TryGetError { requested: length, available: bytes.len() }.into());
        }
        entries.push(get_entry(own(bytes.split_to(length)))?);
    }
    Ok(AppendEntriesRequest { vote, prev_log_id, entries, leader_commit })
}

/// Copies an entry unless it is large: entries stay in memory for long, and a small one must not keep its frame's whole
/// buffer.
fn own(entry: Bytes) -> Bytes {
    const LARGE: usize = 32 << 10;
    if entry.len() < LARGE { Bytes::copy_from_slice(&entry) } else { entry }
}

/// Encodes the answer to an append.
pub(crate) fn encode_append_answer(answer: &AppendEntriesResponse<TypeConfig>) -> Bytes {
    let mut out = BytesMut::with_capacity(20);
    out.put_u8(VERSION);
    match answer {
        AppendEntriesResponse::Success => out.put_u8(0),
        AppendEntriesResponse::PartialSuccess(upto) => {
            out.put_u8(1);
            put_log_id(upto.as_ref(), &mut out);
        }
        AppendEntriesResponse::Conflict => out.put_u8(2),
        AppendEntriesResponse::HigherVote(vote) => {
            out.put_u8(3);
            put_vote(vote, &mut out);
        }
    }
    out.freeze()
}

pub(crate) fn decode_append_answer(mut bytes: Bytes) -> Result<AppendEntriesResponse<TypeConfig>, CodecError> {
    take_version(&mut bytes)?;
    Ok(match bytes.try_get_u8()? {
        0 => AppendEntriesResponse::Success,
        1 => AppendEntriesResponse::PartialSuccess(get_log_id(&mut bytes)?),
        2 => AppendEntriesResponse::Conflict,
        3 => AppendEntriesResponse::HigherVote(get_vote(&mut bytes)?),
        other => return Err(CodecError::Kind(other)),
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use openraft::Membership;
    use proptest::prelude::*;

    use super::*;

    fn entries() -> Vec<Entry> {
        let members =
            Membership::new_with_defaults(vec![BTreeSet::from([1, 2])], BTreeMap::from([(3, ())]).into_keys());
        vec![
            Entry { log_id: log_id(0, 0), payload: EntryPayload::Membership(members) },
            Entry { log_id: log_id(3, 1), payload: EntryPayload::Blank },
            Entry {
                log_id: log_id(3, 2),
                payload: EntryPayload::Normal(Command::logged(Bytes::from_static(b"command"))),
            },
        ]
    }

    #[test]
    fn an_append_comes_back_as_it_went() {
        let request = AppendEntriesRequest {
            vote: Vote { leader_id: RaftLeaderId::new(3, 7), committed: true },
            prev_log_id: Some(log_id(2, 9)),
            entries: entries(),
            leader_commit: None,
        };
        let mut bytes = encode_append(5, &request);
        assert_eq!(bytes.get_u16(), 5);
        let back = decode_append(bytes).unwrap();
        assert_eq!(back.vote, request.vote);
        assert_eq!(back.prev_log_id, request.prev_log_id);
        assert_eq!(back.leader_commit, request.leader_commit);
        assert_eq!(back.entries, request.entries);
    }

    #[test]
    fn every_answer_comes_back_as_it_went() {
        for answer in [
            AppendEntriesResponse::Success,
            AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2))),
            AppendEntriesResponse::PartialSuccess(None),
            AppendEntriesResponse::Conflict,
            AppendEntriesResponse::HigherVote(Vote { leader_id: RaftLeaderId::new(4, 2), committed: false }),
        ] {
            assert_eq!(decode_append_answer(encode_append_answer(&answer)).unwrap(), answer);
        }
    }

    proptest! {
        #[test]
        fn foreign_bytes_are_an_error_and_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let bytes = Bytes::from(bytes);
            let _ = decode_append(bytes.clone());
            let _ = get_entry(bytes.clone());
            let _ = decode_append_answer(bytes);
        }
    }
}
