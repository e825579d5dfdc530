//! Entry points for fuzzing: everything in this crate that decodes bytes from peers and disks. Findings are panics, and
//! values that change when they are encoded and decoded again.

use bytes::{Bytes, BytesMut};
use openraft::EntryPayload;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse};
use openraft::vote::RaftLeaderId;

use crate::codec;
use crate::transport::fuzz::{framed, messages_of};
pub use crate::transport::fuzz::{hello, hello_examples};
use crate::types::{Command, Entry, LogId, Membership, SnapshotMeta, Vote, log_id};

/// Frames from a peer, and the messages of the host's services in them.
pub fn peer_frames(bytes: &[u8]) {
    for body in messages_of(bytes) {
        let append = body.slice(body.len().min(2)..);
        if let Ok(request) = codec::decode_append(append) {
            let again = codec::encode_append(0, &request).slice(2..);
            let again = codec::decode_append(again).expect("what was written can be read");
            assert_eq!(
                (again.vote, again.prev_log_id, again.leader_commit),
                (request.vote, request.prev_log_id, request.leader_commit)
            );
            assert_eq!(again.entries, request.entries);
        }
        if let Ok(answer) = codec::decode_append_answer(body.clone()) {
            let again = codec::decode_append_answer(codec::encode_append_answer(&answer));
            assert_eq!(again.expect("what was written can be read"), answer);
        }
        let _ = codec::decode::<openraft::raft::VoteRequest<crate::types::TypeConfig>>(body.clone());
        let _ = codec::decode::<(u64, Vote, SnapshotMeta)>(body);
    }
}

/// A log entry on disk, and the metadata beside the log. Returns the command in the entry.
pub fn log_entry(bytes: &[u8]) -> Option<Bytes> {
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = codec::decode::<Vote>(bytes.clone());
    let _ = codec::decode::<LogId>(bytes.clone());
    let entry = codec::get_entry(bytes).ok()?;
    let mut written = BytesMut::new();
    codec::put_entry(&entry, &mut written);
    assert_eq!(codec::get_entry(written.freeze()).expect("what was written can be read"), entry);
    match entry.payload {
        EntryPayload::Normal(command) => Some(command.bytes().clone()),
        EntryPayload::Blank | EntryPayload::Membership(_) => None,
    }
}

fn entries() -> [Entry; 2] {
    [
        Entry { log_id: log_id(3, 1), payload: EntryPayload::Blank },
        Entry { log_id: log_id(3, 2), payload: EntryPayload::Normal(Command::logged(Bytes::from_static(b"command"))) },
    ]
}

/// Frames as peers send them.
pub fn peer_frame_examples() -> Vec<Vec<u8>> {
    let vote = Vote { leader_id: RaftLeaderId::new(3, 7), committed: true };
    let append = AppendEntriesRequest {
        vote,
        prev_log_id: Some(log_id(2, 9)),
        entries: entries().to_vec(),
        leader_commit: Some(log_id(2, 9)),
    };
    let answers = [AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2))), AppendEntriesResponse::HigherVote(vote)];
    let mut bodies: Vec<Bytes> = answers.iter().map(codec::encode_append_answer).collect();
    bodies.push(codec::encode_append(5, &append));
    let meta = SnapshotMeta { last_log_id: Some(log_id(3, 4)), last_membership: Membership::default() };
    bodies.push(codec::encode(&(3_u64, vote, meta)));
    let mut examples: Vec<Vec<u8>> = bodies.iter().map(|body| framed(std::slice::from_ref(body))).collect();
    examples.push(framed(&bodies));
    examples
}

/// Entries as they are on disk, with these `commands` of state machines.
pub fn log_entry_examples(commands: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let with = |command: &Vec<u8>| Entry {
        log_id: log_id(3, 2),
        payload: EntryPayload::Normal(Command::logged(Bytes::from(command.clone()))),
    };
    let entries = entries().into_iter().chain(commands.iter().map(with));
    let mut examples: Vec<Vec<u8>> = entries
        .map(|entry| {
            let mut bytes = Vec::new();
            codec::put_entry(&entry, &mut bytes);
            bytes
        })
        .collect();
    examples.push(codec::encode(&Vote { leader_id: RaftLeaderId::new(3, 7), committed: false }).to_vec());
    examples
}
