//! The directory's state machine without Raft: rules, repeats, and memory that always equals what is stored.

#![allow(clippy::unwrap_used, reason = "tests")]

mod authority;
mod data_keys;
mod deletions;
mod members;
mod quotas;
mod secrets;
mod support;
mod users;

use std::sync::Arc;

use model::api_key::ApiKey;
use model::customer::{Limits, Plan};
use model::field::Change as Patch;
use model::format::{Foreign, Format};
use model::id::{AuditId, ChannelId, CustomerId, EndpointId, KeyId};
use model::msgpack;
use model::payload::ChatTypeFilter;
use model::seal::{DataKey, MasterKey};
use model::time::Timestamp;
use model::webhook::{EventFilter, MOST_ENDPOINTS};
use parking_lot::RwLock;
use proptest::prelude::*;
use uuid::Uuid;

use super::command::{Command, EndpointChange, Proposal, Rejection, Reply};
use super::machine::{DirectoryMachine, Mirror, Outcome};
use super::records::{
    AuditActor, AuditEntry, ChannelRecord, CustomerRecord, EndpointRecord, KeyOrigin, KeyRecord, NodeRecord,
};
use super::state::{Change, DirectoryState};
use machine::{Machine, MemoryState, Position};

/// A node's copy without watchers.
#[derive(Default)]
struct Shared {
    state: RwLock<DirectoryState>,
}

impl Mirror for Shared {
    fn change<T>(&self, with: impl FnOnce(&mut DirectoryState) -> T) -> T {
        with(&mut self.state.write())
    }

    fn replace(&self, state: DirectoryState) {
        *self.state.write() = state;
    }

    fn publish(&self, _change: Change) {}
}

/// A machine with its store, driven as Raft would.
struct Rig {
    machine: DirectoryMachine<Shared>,
    shared: Arc<Shared>,
    store: MemoryState,
    index: u64,
}

impl Rig {
    fn new() -> Self {
        let shared = Arc::<Shared>::default();
        let mut machine = DirectoryMachine::new(shared.clone());
        let store = MemoryState::new();
        machine.restore(&store);
        Self { machine, shared, store, index: 0 }
    }

    fn propose(&mut self, proposal: &Proposal) -> Outcome {
        self.index += 1;
        let command = msgpack::to_vec_named(proposal).unwrap();
        let reply = self.machine.apply(Position { term: 1, index: self.index }, &command, &mut self.store).unwrap();
        msgpack::from_slice(&reply).unwrap()
    }

    fn run(&mut self, command: Command) -> Result<Reply, Rejection> {
        self.propose(&proposal(command)).result
    }
}

fn proposal(command: Command) -> Proposal {
    Proposal::new(command, Timestamp(1000), Vec::new())
}

fn customer(limit: Option<u32>) -> CustomerRecord {
    let id = CustomerId::random();
    CustomerRecord {
        id,
        name: "Demo".into(),
        email: Some("demo@example.com".into()),
        timezone: "UTC".into(),
        plan: Plan { channel_limit: limit, ..Plan::default() },
        limits: Limits::default(),
        data_key: MasterKey::new([1; 32]).wrap(&DataKey::new([2; 32]), id, Default::default()),
        former_data_key: None,
        created_at: Timestamp(0),
        deleted_at: None,
    }
}

fn key(customer: CustomerId, channel: Option<ChannelId>) -> KeyRecord {
    let key = ApiKey::generate(rand_bytes());
    KeyRecord {
        id: KeyId::random(),
        customer_id: customer,
        name: "key".into(),
        prefix: key.prefix().to_string(),
        hash: [7; 32],
        channel_id: channel,
        scopes: Vec::new(),
        created_at: Timestamp(0),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        created_by: KeyOrigin::Signup,
        created_by_key_id: None,
    }
}

fn rand_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let source = Uuid::new_v4();
    bytes.iter_mut().zip(source.as_bytes().iter().cycle()).for_each(|(to, from)| *to = *from);
    bytes
}

fn channel(customer: CustomerId, created_at: i64) -> ChannelRecord {
    ChannelRecord {
        id: ChannelId::random(),
        customer_id: customer,
        name: "Sales".into(),
        metadata: "{}".into(),
        created_at: Timestamp(created_at),
        updated_at: Timestamp(created_at),
        deleted_at: None,
    }
}

fn endpoint(customer: CustomerId) -> EndpointRecord {
    EndpointRecord {
        id: EndpointId::random(),
        customer_id: customer,
        channel_id: None,
        url: "https://example.com/hook".into(),
        events: EventFilter::Every,
        enabled: true,
        secret: Some(vec![1, 2, 3]),
        chat_type_filter: ChatTypeFilter::All,
        disabled_reason: None,
        header_names: Vec::new(),
        sealed_headers: None,
        health: Default::default(),
        created_at: Timestamp(0),
        updated_at: Timestamp(0),
    }
}

fn with_customer(rig: &mut Rig, limit: Option<u32>) -> CustomerRecord {
    let customer = customer(limit);
    let key = key(customer.id, None);
    rig.run(Command::CreateCustomer { customer: Box::new(customer.clone()), key }).unwrap();
    customer
}

#[test]
fn the_same_proposal_again_answers_as_before_and_changes_nothing() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, Some(1));
    let create = proposal(Command::CreateChannel { channel: channel(customer.id, 1), scoped_key: None });
    let first = rig.propose(&create);
    let again = rig.propose(&create);
    assert!(first.result.is_ok());
    assert_eq!(again.index, first.index);
    assert!(again.result.is_ok());
    assert_eq!(rig.shared.state.read().channel_count(customer.id), 1);
}

#[test]
fn the_channel_limit_counts_live_channels_only() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, Some(1));
    let first = channel(customer.id, 1);
    let create = |channel: &ChannelRecord| Command::CreateChannel { channel: channel.clone(), scoped_key: None };
    rig.run(create(&first)).unwrap();
    let refused = rig.run(create(&channel(customer.id, 2))).unwrap_err();
    assert_eq!(refused, Rejection::ChannelLimit { limit: 1, current: 1 });
    rig.run(Command::DeleteChannel { customer: customer.id, id: first.id }).unwrap();
    rig.run(create(&channel(customer.id, 3))).unwrap();
}

#[test]
fn what_belongs_to_another_customer_is_missing() {
    let mut rig = Rig::new();
    let (one, other) = (with_customer(&mut rig, None), with_customer(&mut rig, None));
    let channel = channel(one.id, 1);
    rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: None }).unwrap();
    let endpoint = endpoint(one.id);
    rig.run(Command::CreateEndpoint(endpoint.clone())).unwrap();
    let refusals = [
        (Command::DeleteChannel { customer: other.id, id: channel.id }, Rejection::ChannelNotFound),
        (Command::DeleteEndpoint { customer: other.id, id: endpoint.id }, Rejection::EndpointNotFound),
        (Command::CreateKey(key(other.id, Some(channel.id))), Rejection::ChannelNotFound),
    ];
    for (command, expected) in refusals {
        assert_eq!(rig.run(command).unwrap_err(), expected);
    }
}

#[test]
fn a_deleted_channel_takes_its_keys_with_it() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None);
    let channel = channel(customer.id, 1);
    let bound = key(customer.id, Some(channel.id));
    rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: Some(bound.clone()) }).unwrap();
    rig.run(Command::DeleteChannel { customer: customer.id, id: channel.id }).unwrap();
    let state = rig.shared.state.read();
    assert!(state.channel(channel.id).is_none());
    assert_eq!(state.keys[&bound.id].revoked_at, Some(Timestamp(1000)));
}

#[test]
fn a_node_with_another_data_folder_is_refused() {
    let mut rig = Rig::new();
    let node = members::node(1);
    rig.run(Command::RegisterNode(node.clone())).unwrap();
    rig.run(Command::RegisterNode(node.clone())).unwrap();
    let wiped = NodeRecord { storage_id: Uuid::from_u128(2), ..node };
    let refused = rig.run(Command::RegisterNode(wiped)).unwrap_err();
    assert_eq!(refused, Rejection::ForeignStorage { node: 1, known: Uuid::from_u128(1) });
}

#[test]
fn an_account_has_at_most_fifty_endpoints() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None);
    for _ in 0..MOST_ENDPOINTS {
        rig.run(Command::CreateEndpoint(endpoint(customer.id))).unwrap();
    }
    let refused = rig.run(Command::CreateEndpoint(endpoint(customer.id))).unwrap_err();
    assert_eq!(refused, Rejection::EndpointLimit { limit: MOST_ENDPOINTS });
}

#[test]
fn a_custom_secret_can_be_dropped_through_the_log() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None);
    let endpoint = endpoint(customer.id);
    rig.run(Command::CreateEndpoint(endpoint.clone())).unwrap();
    let change = EndpointChange { secret: Patch::To(None), ..EndpointChange::default() };
    rig.run(Command::UpdateEndpoint { customer: customer.id, id: endpoint.id, change }).unwrap();
    assert_eq!(rig.shared.state.read().endpoints[&endpoint.id].secret, None);
}

#[test]
fn an_audit_entry_is_written_with_its_change_and_never_without() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None);
    let entry = AuditEntry {
        id: AuditId::new(),
        customer_id: Some(customer.id),
        action: "channel.deleted".into(),
        actor: AuditActor { kind: "api_key".into(), id: None, prefix: None, email: None },
        target: None,
        ip: None,
        user_agent: None,
        request_id: None,
        success: true,
        created_at: Timestamp(5),
        details: Default::default(),
    };
    let stored = |rig: &Rig| rig.store.iter().filter(|(key, _)| key[0] == b'a').count();
    let mut refused = proposal(Command::DeleteChannel { customer: customer.id, id: ChannelId::random() });
    refused.audit = vec![entry.clone()];
    assert!(rig.propose(&refused).result.is_err());
    assert_eq!(stored(&rig), 0);
    let mut done = proposal(Command::Audit);
    done.audit = vec![entry.clone()];
    rig.propose(&done);
    assert_eq!(stored(&rig), 1);

    // Two nodes fold the same failure of one minute: one entry, with the time of the first one written.
    let failed = AuditEntry { id: AuditId::new(), action: "auth.failed".into(), ..entry };
    for (time, entries) in [(61_000, 2), (60_500, 2), (119_999, 2), (120_000, 3)] {
        let mut folded = proposal(Command::Audit);
        folded.audit = vec![AuditEntry { created_at: Timestamp(time), ..failed.clone() }];
        rig.propose(&folded);
        assert_eq!(stored(&rig), entries, "at {time}");
    }
}

#[test]
fn channels_are_listed_newest_first_and_paged_by_place() {
    let mut rig = Rig::new();
    let customer = with_customer(&mut rig, None);
    let channels: Vec<ChannelRecord> = (0..5).map(|n| channel(customer.id, n)).collect();
    for channel in &channels {
        rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: None }).unwrap();
    }
    let state = rig.shared.state.read();
    let first = state.channels_of(customer.id, None, 2);
    let last = first.last().unwrap();
    let rest = state.channels_of(customer.id, Some((last.created_at, last.id)), 10);
    let listed: Vec<i64> = first.iter().chain(&rest).map(|channel| channel.created_at.0).collect();
    assert_eq!(listed, [4, 3, 2, 1, 0]);
}

/// Steps of the property test; numbers pick among existing records.
#[derive(Clone, Debug)]
enum Step {
    Customer,
    Key(usize),
    Revoke(usize),
    Channel(usize),
    DeleteChannel(usize),
    Endpoint(usize),
    DeleteEndpoint(usize),
    DeleteCustomer(usize),
    PurgeCustomer(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        1 => Just(Step::Customer),
        3 => any::<usize>().prop_map(Step::Key),
        2 => any::<usize>().prop_map(Step::Revoke),
        4 => any::<usize>().prop_map(Step::Channel),
        2 => any::<usize>().prop_map(Step::DeleteChannel),
        3 => any::<usize>().prop_map(Step::Endpoint),
        2 => any::<usize>().prop_map(Step::DeleteEndpoint),
        1 => any::<usize>().prop_map(Step::DeleteCustomer),
        2 => any::<usize>().prop_map(Step::PurgeCustomer),
    ];
    prop::collection::vec(step, 0..60)
}

fn pick<T: Clone>(items: &[T], n: usize) -> Option<T> {
    items.get(n % items.len().max(1)).cloned()
}

#[test]
fn a_customer_is_streamed_until_the_latest_time_that_was_announced() {
    let mut rig = Rig::new();
    let made: Vec<_> = [customer(None), customer(None)].into_iter().collect();
    for customer in &made {
        rig.run(Command::CreateCustomer { customer: Box::new(customer.clone()), key: key(customer.id, None) }).unwrap();
    }
    let mut announce = |customer: CustomerId, until: i64, at: i64| {
        let command = Command::Streamed { customer, until: Timestamp(until) };
        let outcome = rig.propose(&Proposal { at: Timestamp(at), ..proposal(command) });
        let state = DirectoryState::load(&rig.store);
        assert_eq!(state.streamed_until(customer), rig.shared.state.read().streamed_until(customer));
        (outcome.result.is_ok(), state.streamed_until(customer), state.streamed_customers().count())
    };
    let (one, two) = (made[0].id, made[1].id);
    assert_eq!(announce(one, 2000, 1000), (true, Some(Timestamp(2000)), 1));
    assert_eq!(announce(one, 1500, 1001), (true, Some(Timestamp(2000)), 1), "an earlier time changes nothing");
    assert_eq!(announce(two, 5000, 1002), (true, Some(Timestamp(5000)), 2));
    assert_eq!(announce(two, 6000, 2000), (true, Some(Timestamp(6000)), 1), "what is over is dropped");
    assert_eq!(announce(CustomerId::random(), 9000, 2000), (false, None, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_in_memory_is_what_a_restart_reads(steps in steps()) {
        let mut rig = Rig::new();
        let (mut customers, mut keys, mut channels, mut endpoints) = (vec![], vec![], vec![], vec![]);
        for (n, step) in steps.into_iter().enumerate() {
            let command = match step {
                Step::Customer => {
                    let made = customer(Some(3));
                    customers.push(made.id);
                    let first = key(made.id, None);
                    keys.push((made.id, first.id));
                    Some(Command::CreateCustomer { customer: Box::new(made), key: first })
                }
                Step::Key(k) => pick(&customers, k).map(|customer| {
                    let made = key(customer, None);
                    keys.push((customer, made.id));
                    Command::CreateKey(made)
                }),
                Step::Revoke(k) => pick(&keys, k).map(|(customer, id)| Command::RevokeKey { customer, id }),
                Step::Channel(k) => pick(&customers, k).map(|customer| {
                    let made = channel(customer, n as i64);
                    channels.push((customer, made.id));
                    Command::CreateChannel { channel: made, scoped_key: None }
                }),
                Step::DeleteChannel(k) => {
                    pick(&channels, k).map(|(customer, id)| Command::DeleteChannel { customer, id })
                }
                Step::Endpoint(k) => pick(&customers, k).map(|customer| {
                    let made = endpoint(customer);
                    endpoints.push((customer, made.id));
                    Command::CreateEndpoint(made)
                }),
                Step::DeleteEndpoint(k) => {
                    pick(&endpoints, k).map(|(customer, id)| Command::DeleteEndpoint { customer, id })
                }
                Step::DeleteCustomer(k) => pick(&customers, k).map(|id| Command::DeleteCustomer { id }),
                Step::PurgeCustomer(k) => pick(&customers, k).map(|id| Command::PurgeCustomer { id, most: 2 }),
            };
            if let Some(command) = command {
                // Rejections are expected.
                let _ = rig.run(command);
            }
        }
        let reloaded = DirectoryState::load(&rig.store);
        let state = rig.shared.state.read();
        prop_assert_eq!(&state.customers, &reloaded.customers);
        prop_assert_eq!(&state.keys, &reloaded.keys);
        prop_assert_eq!(&state.endpoints, &reloaded.endpoints);
        prop_assert_eq!(&state.channels, &reloaded.channels);
        for customer in customers {
            prop_assert_eq!(state.keys_of(customer), reloaded.keys_of(customer));
            prop_assert_eq!(state.endpoints_of(customer), reloaded.endpoints_of(customer));
            let listed = state.channels_of(customer, None, usize::MAX);
            prop_assert_eq!(&listed, &reloaded.channels_of(customer, None, usize::MAX));
            prop_assert!(listed.len() <= 3);
            prop_assert!(listed.iter().all(|channel| channel.deleted_at.is_none()));
        }
    }
}

#[test]
fn what_a_newer_release_proposes_is_refused_and_changes_nothing() {
    /// A command of a later release.
    #[derive(serde::Serialize)]
    struct Later {
        version: u8,
        id: Uuid,
        at: Timestamp,
        command: &'static str,
        audit: [(); 0],
    }
    let mut rig = Rig::new();
    let before = rig.store.clone();
    let later = |version| Later { version, id: Uuid::new_v4(), at: Timestamp(1), command: "Dance", audit: [] };
    let mut apply = |bytes: &[u8]| rig.machine.apply(Position { term: 1, index: 1 }, bytes, &mut rig.store);
    let next = Format::LATEST.number() + 1;
    assert_eq!(apply(&msgpack::to_vec_named(&later(next)).unwrap()), Err(Foreign::Newer(next)));
    assert!(matches!(apply(&msgpack::to_vec_named(&later(1)).unwrap()), Err(Foreign::Unreadable(_))));
    assert!(matches!(apply(b"\xc1"), Err(Foreign::Unreadable(_))));
    assert_eq!(rig.store, before);
}
