//! Deletions of objects with many records: effective at once for callers, and in portions for the log.

use std::collections::BTreeSet;

use model::format::Format;
use model::id::{ChannelId, CustomerId};
use model::msgpack;
use model::time::Timestamp;

use super::members::formed;
use super::quotas::with_format;
use super::{Rig, channel, key, proposal, with_customer};
use crate::command::{Command, Proposal, Rejection};
use crate::deletions::Deletion;
use crate::records::AuditEntry;
use crate::records::{Ended, PORTION};
use crate::state::DirectoryState;
use machine::record::decode;
use machine::{Pairs, State, View};

/// As many as an account had that blocked the directory for minutes in release 0.2.0.
const KEYS: usize = 31_000;

/// Largest entry of the log (`raft::group::MAX_COMMAND`).
const MAX_COMMAND: usize = 1 << 20;

/// A state that counts writes.
struct Counting<'a> {
    state: &'a mut dyn State,
    writes: usize,
}

impl View for Counting<'_> {
    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.state.get(key)
    }

    fn scan(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.state.scan(from, to, limit)
    }

    fn scan_back(&self, from: &[u8], to: &[u8], limit: usize) -> Pairs {
        self.state.scan_back(from, to, limit)
    }
}

impl State for Counting<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) {
        self.writes += 1;
        self.state.put(key, value);
    }

    fn delete(&mut self, key: &[u8]) {
        self.writes += 1;
        self.state.delete(key);
    }
}

impl Rig {
    /// Applies a command; returns how many rows it wrote, and its size in the log in bytes.
    fn measured(&mut self, command: Command, audit: Vec<AuditEntry>) -> (usize, usize) {
        let proposal = Proposal { audit, ..proposal(command) };
        let bytes = msgpack::to_vec_named(&proposal).unwrap().len();
        let mut counting = Counting { state: &mut self.store, writes: 0 };
        let (reply, _) = self.shared.state.write().apply(proposal, &mut counting);
        reply.unwrap();
        (counting.writes, bytes)
    }

    fn steps(&self, what: Ended) -> Vec<(Command, Vec<AuditEntry>)> {
        let written: Vec<AuditEntry> =
            self.store.iter().filter(|(key, _)| key[0] == b'a').map(|(_, entry)| decode(entry)).collect();
        Deletion::of(&self.shared.state.read(), what).map(|deletion| deletion.steps(&written)).unwrap_or_default()
    }

    fn with_keys(&mut self, customer: CustomerId, channel: Option<ChannelId>, most: usize) {
        with_format(self, Format::SECOND);
        for _ in 0..most {
            self.run(Command::CreateKey(key(customer, channel))).unwrap();
        }
        with_format(self, Format::LATEST);
    }

    /// Ends the records that are left of a deletion; returns the largest number of rows and of bytes of a step.
    fn finish(&mut self, what: Ended) -> (usize, usize) {
        let mut most = (0, 0);
        for (command, audit) in self.steps(what) {
            let (writes, bytes) = self.measured(command, audit);
            most = (most.0.max(writes), most.1.max(bytes));
        }
        most
    }

    fn revocations(&self) -> Vec<String> {
        let entries = self.store.iter().filter(|(key, _)| key[0] == b'a');
        let entries = entries.map(|(_, entry)| decode::<AuditEntry>(entry));
        entries.filter(|entry| entry.action == "key.revoked").filter_map(|entry| Some(entry.target?.id)).collect()
    }
}

#[test]
fn no_entry_of_a_deletion_with_31000_keys_writes_more_than_a_portion_and_none_of_them_counts_after_the_first() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None);
    let channel = channel(customer.id, 1);
    rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: None }).unwrap();
    rig.with_keys(customer.id, Some(channel.id), KEYS);
    let what = Ended::Channel(channel.id);

    let (writes, _) = rig.measured(Command::DeleteChannel { customer: customer.id, id: channel.id }, Vec::new());
    assert_eq!(writes, 1, "the mark alone");
    {
        let state = rig.shared.state.read();
        let of_channel = || state.keys.values().filter(|key| key.channel_id == Some(channel.id));
        assert!(of_channel().all(|key| key.revoked_at.is_none() && state.ended_at(key) == Some(Timestamp(1000))));
        assert!(state.is_ending(what));
        let other = state.keys.values().find(|key| key.channel_id.is_none()).unwrap();
        assert_eq!(state.ended_at(other), None, "the account's own key lives");
    }
    let one = rig.shared.state.read().keys.values().find(|key| key.channel_id.is_some()).unwrap().id;
    let again = rig.run(Command::RevokeKey { customer: customer.id, id: one });
    assert_eq!(again.unwrap_err(), Rejection::KeyRevoked);

    let (writes, bytes) = rig.finish(what);
    assert_eq!(writes, 2 * PORTION, "each key and its entry");
    assert!(bytes < MAX_COMMAND / 4, "{bytes}");
    let state = rig.shared.state.read();
    assert!(!state.is_ending(what) && state.live_keys(customer.id) == 1);
    let revocations = rig.revocations();
    assert_eq!((revocations.len(), revocations.iter().collect::<BTreeSet<_>>().len()), (KEYS, KEYS));
}

#[test]
fn a_deletion_that_was_cut_between_two_portions_is_found_again_and_goes_on_where_it_ended() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None);
    for n in 0..PORTION as i64 {
        rig.run(Command::CreateChannel { channel: channel(customer.id, n), scoped_key: None }).unwrap();
    }
    rig.with_keys(customer.id, None, 3 * PORTION);
    let what = Ended::Customer(customer.id);
    let (writes, _) = rig.measured(Command::DeleteCustomer { id: customer.id }, Vec::new());
    assert_eq!(writes, 1, "the mark alone");
    let steps = rig.steps(what);
    assert_eq!(steps.len(), 5, "keys with the one that it began with, channels");
    for (command, audit) in steps.into_iter().take(2) {
        rig.measured(command, audit);
    }

    // As the next leader has it after a start.
    *rig.shared.state.write() = DirectoryState::load(&rig.store);
    assert_eq!(rig.shared.state.read().ending().collect::<Vec<_>>(), [what]);
    assert_eq!(rig.steps(what).len(), 3);
    let (writes, _) = rig.finish(what);
    assert!(writes <= 2 * PORTION, "{writes}");
    let state = rig.shared.state.read();
    assert_eq!((state.live_keys(customer.id), state.channel_count(customer.id)), (0, 0));
    assert!(!state.is_ending(what) && DirectoryState::load(&rig.store).ending().next().is_none());
    assert_eq!(rig.revocations().len(), 3 * PORTION + 1);
}

#[test]
fn a_part_ends_nothing_that_did_not_end_with_its_deletion() {
    let mut rig = formed();
    let (one, other) = (with_customer(&mut rig, None), with_customer(&mut rig, None));
    let channels = [channel(one.id, 1), channel(other.id, 1)];
    for channel in &channels {
        rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: None }).unwrap();
    }
    let part = |what, rig: &Rig| Command::EndPart {
        with: what,
        keys: rig.shared.state.read().keys.keys().copied().collect(),
        channels: channels.iter().map(|channel| channel.id).collect(),
        sessions: Vec::new(),
        last: true,
    };
    let of_one = Ended::Customer(one.id);
    let early = part(of_one, &rig);
    assert_eq!(rig.run(early).unwrap_err(), Rejection::NotDeleted);
    rig.run(Command::DeleteCustomer { id: one.id }).unwrap();
    let late = part(of_one, &rig);
    assert_eq!(late.format(), Format::THIRD);
    rig.run(late).unwrap();
    let state = rig.shared.state.read();
    assert_eq!((state.live_keys(other.id), state.channel_count(other.id)), (1, 1));
}

#[test]
fn earlier_releases_end_all_in_the_deleting_entry_and_so_does_this_one_beside_them() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None);
    rig.with_keys(customer.id, None, 2 * PORTION);
    with_format(&mut rig, Format::SECOND);
    rig.run(Command::DeleteCustomer { id: customer.id }).unwrap();
    let state = rig.shared.state.read();
    assert!(state.live_keys(customer.id) == 0 && state.ending().next().is_none());
}
