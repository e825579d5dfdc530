//! Account quotas, and retention of ended records.

use model::customer::{Limits, Quota, StorageLimits};
use model::field::Change as Patch;
use model::format::Format;
use model::id::CustomerId;
use model::ticket::TicketStatus;
use model::time::Timestamp;
use model::webhook::MOST_URL_BYTES;

use super::members::formed;
use super::{Rig, channel, endpoint, key, proposal, with_customer};
use crate::command::{Command, CustomerChange, EndpointChange, Proposal, Rejection};
use crate::keys;
use crate::records::{ClusterRecord, EndpointRecord, KeyRecord};
use crate::state::{DirectoryState, ended_before, open_tickets};
use crate::support::{TicketBook, TicketCommand};
use machine::record::{decode, encode};
use machine::{State, View};

fn limited(rig: &mut Rig, storage: StorageLimits) -> CustomerId {
    let id = with_customer(rig, None).id;
    let limits = Patch::To(Limits { storage, ..Limits::default() });
    let command = Command::UpdateCustomer { id, change: CustomerChange { limits, ..CustomerChange::default() } };
    assert_eq!(command.format(), Format::THIRD);
    rig.run(command).unwrap();
    id
}

/// The same cluster as nodes of an older release have it.
pub fn with_format(rig: &mut Rig, format: Format) {
    let cluster = ClusterRecord { format, ..(**rig.shared.state.read().cluster.as_ref().unwrap()).clone() };
    rig.store.put(keys::CLUSTER, &encode(&cluster));
    rig.shared.state.write().cluster = Some(std::sync::Arc::new(cluster));
}

#[test]
fn keys_are_counted_while_they_live() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { keys: Some(3), ..StorageLimits::default() });
    let second = key(customer, None);
    rig.run(Command::CreateKey(second.clone())).unwrap();
    rig.run(Command::CreateChannel { channel: channel(customer, 1), scoped_key: Some(key(customer, None)) }).unwrap();
    let full = Rejection::Quota { quota: Quota::Keys, limit: 3, used: 3 };
    assert_eq!(rig.run(Command::CreateKey(key(customer, None))).unwrap_err(), full);
    let with_key = Command::CreateChannel { channel: channel(customer, 2), scoped_key: Some(key(customer, None)) };
    assert_eq!(rig.run(with_key).unwrap_err(), full);
    assert_eq!(rig.shared.state.read().channel_count(customer), 1, "a refusal changes nothing");
    rig.run(Command::CreateChannel { channel: channel(customer, 2), scoped_key: None }).unwrap();

    rig.run(Command::RevokeKey { customer, id: second.id }).unwrap();
    rig.run(Command::CreateKey(key(customer, None))).unwrap();
    assert_eq!(rig.shared.state.read().live_keys(customer), 3);
    assert_eq!(DirectoryState::load(&rig.store).live_keys(customer), 3, "memory equals what is stored");
}

#[test]
fn keys_that_have_expired_count_no_more_and_are_forgotten_as_revoked_ones_are() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { keys: Some(3), ..StorageLimits::default() });
    // Commands here are proposed at time 1000.
    let [expired, lasting] =
        [1000, 1001].map(|end| KeyRecord { expires_at: Some(Timestamp(end)), ..key(customer, None) });
    for key in [&expired, &lasting] {
        rig.run(Command::CreateKey(key.clone())).unwrap();
    }
    rig.run(Command::CreateKey(key(customer, None))).unwrap();
    let full = Rejection::Quota { quota: Quota::Keys, limit: 3, used: 3 };
    assert_eq!(rig.run(Command::CreateKey(key(customer, None))).unwrap_err(), full);
    let with_key = Command::CreateChannel { channel: channel(customer, 1), scoped_key: Some(key(customer, None)) };
    assert_eq!(rig.run(with_key).unwrap_err(), full);

    let before = Timestamp(1001);
    assert_eq!(ended_before(&rig.store, before, 9).0, [expired.id]);
    assert_eq!(rig.shared.state.read().ended_beyond(0, before, 9), [expired.id]);
    let expire = Command::ExpireEnded { keys: vec![expired.id, lasting.id], channels: Vec::new(), before };
    rig.run(expire).unwrap();
    for state in [&*rig.shared.state.read(), &DirectoryState::load(&rig.store)] {
        assert!(!state.keys.contains_key(&expired.id) && state.keys.contains_key(&lasting.id));
    }
}

#[test]
fn endpoints_are_counted_and_a_raised_quota_holds_at_once() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { endpoints: Some(1), ..StorageLimits::default() });
    rig.run(Command::CreateEndpoint(endpoint(customer))).unwrap();
    let refused = rig.run(Command::CreateEndpoint(endpoint(customer))).unwrap_err();
    assert_eq!(refused, Rejection::Quota { quota: Quota::Endpoints, limit: 1, used: 1 });
    let limits = Patch::To(Limits::default());
    let change = CustomerChange { limits, ..CustomerChange::default() };
    rig.run(Command::UpdateCustomer { id: customer, change }).unwrap();
    for _ in 1..50 {
        rig.run(Command::CreateEndpoint(endpoint(customer))).unwrap();
    }
    let refused = rig.run(Command::CreateEndpoint(endpoint(customer))).unwrap_err();
    assert_eq!(refused, Rejection::Quota { quota: Quota::Endpoints, limit: 50, used: 50 });
}

#[test]
fn urls_that_are_asked_for_at_the_same_moment_are_no_longer_together_than_they_may_be() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None).id;
    let of = |bytes: usize| EndpointRecord { url: "x".repeat(bytes), ..endpoint(customer) };
    let first = of(1_024);
    rig.run(Command::CreateEndpoint(first.clone())).unwrap();
    rig.run(Command::CreateEndpoint(of(MOST_URL_BYTES - 2_048))).unwrap();
    assert_eq!(rig.run(Command::CreateEndpoint(of(1_025))).unwrap_err(), Rejection::UrlsTooLong);
    let mut change = |bytes: usize| {
        let change = EndpointChange { url: Patch::To("x".repeat(bytes)), ..EndpointChange::default() };
        rig.run(Command::UpdateEndpoint { customer, id: first.id, change })
    };
    assert_eq!(change(2_049).unwrap_err(), Rejection::UrlsTooLong);
    change(2_048).unwrap();
    assert_eq!(rig.run(Command::CreateEndpoint(of(1))).unwrap_err(), Rejection::UrlsTooLong);
}

#[test]
fn open_tickets_are_counted_through_all_their_states() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { tickets_open: Some(2), ..StorageLimits::default() });
    let first = rig.open(customer, 10).unwrap().id;
    rig.open(customer, 10).unwrap();
    let full = Rejection::Quota { quota: Quota::TicketsOpen, limit: 2, used: 2 };
    assert_eq!(rig.open(customer, 10).unwrap_err(), full);
    let move_to = |rig: &mut Rig, status| {
        rig.tickets(TicketCommand::SetStatus { ticket: first, status }, 11).unwrap();
        open_tickets(&rig.store, customer)
    };
    assert_eq!(move_to(&mut rig, TicketStatus::Waiting), 2);
    assert_eq!(move_to(&mut rig, TicketStatus::Solved), 1);
    rig.say(first, Some(customer)).unwrap();
    assert_eq!(open_tickets(&rig.store, customer), 2, "who writes again opens it again");
    assert_eq!(rig.open(customer, 10).unwrap_err(), full);
    assert_eq!(move_to(&mut rig, TicketStatus::Closed), 1);
    rig.open(customer, 10).unwrap();
}

#[test]
fn tickets_of_before_there_were_quotas_are_counted_at_the_next_one() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { tickets_open: Some(3), ..StorageLimits::default() });
    with_format(&mut rig, Format::SECOND);
    for _ in 0..4 {
        rig.open(customer, 10).unwrap();
    }
    let book: TicketBook = decode(&rig.store.get(&keys::ticket_book(customer)).unwrap());
    assert_eq!(book.open, None, "an older release would lose it");
    with_format(&mut rig, Format::THIRD);
    let full = Rejection::Quota { quota: Quota::TicketsOpen, limit: 3, used: 4 };
    assert_eq!(rig.open(customer, 10).unwrap_err(), full);
}

#[test]
fn nothing_is_refused_by_a_quota_while_an_older_release_may_apply_the_same_entries() {
    let mut rig = formed();
    let customer = limited(&mut rig, StorageLimits { keys: Some(1), ..StorageLimits::default() });
    with_format(&mut rig, Format::SECOND);
    rig.run(Command::CreateKey(key(customer, None))).unwrap();
    with_format(&mut rig, Format::THIRD);
    let refused = rig.run(Command::CreateKey(key(customer, None))).unwrap_err();
    assert_eq!(refused, Rejection::Quota { quota: Quota::Keys, limit: 1, used: 2 });
}

#[test]
fn keys_and_channels_that_ended_long_ago_are_forgotten_and_no_others() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None).id;
    let end = |rig: &mut Rig, at: i64| {
        let (key, channel) = (key(customer, None), channel(customer, at));
        rig.run(Command::CreateKey(key.clone())).unwrap();
        rig.run(Command::CreateChannel { channel: channel.clone(), scoped_key: None }).unwrap();
        for command in
            [Command::RevokeKey { customer, id: key.id }, Command::DeleteChannel { customer, id: channel.id }]
        {
            let proposal = Proposal { at: Timestamp(at), ..proposal(command) };
            rig.propose(&proposal).result.unwrap();
        }
        (key.id, channel.id)
    };
    let (old, young) = (end(&mut rig, 10), end(&mut rig, 20));
    let (live_key, live_channel) = (key(customer, None), channel(customer, 1));
    rig.run(Command::CreateKey(live_key.clone())).unwrap();
    rig.run(Command::CreateChannel { channel: live_channel.clone(), scoped_key: None }).unwrap();

    let before = Timestamp(20);
    assert_eq!(ended_before(&rig.store, before, 9), (vec![old.0], vec![old.1]));
    // The proposer may be wrong: the machine checks by itself.
    let (all_keys, all_channels) = (vec![old.0, young.0, live_key.id], vec![old.1, young.1, live_channel.id]);
    rig.run(Command::ExpireEnded { keys: all_keys.clone(), channels: all_channels, before }).unwrap();
    for state in [&*rig.shared.state.read(), &DirectoryState::load(&rig.store)] {
        assert_eq!(all_keys.iter().map(|id| state.keys.contains_key(id)).collect::<Vec<_>>(), [false, true, true]);
        assert!(!state.channels.contains_key(&old.1) && state.channels.contains_key(&young.1));
        assert!(state.channel(live_channel.id).is_some());
        assert_eq!(state.live_keys(customer), 2);
    }
    assert_eq!(ended_before(&rig.store, before, 9), (vec![], vec![]));
    assert_eq!(ended_before(&rig.store, Timestamp(21), 9).0, [young.0]);
}

#[test]
fn of_an_account_that_makes_and_revokes_keys_all_day_the_latest_revoked_ones_are_kept() {
    let mut rig = formed();
    let [customer, other] = [(); 2].map(|()| with_customer(&mut rig, None).id);
    let mut revoke = |customer, at: i64| {
        let key = key(customer, None);
        rig.run(Command::CreateKey(key.clone())).unwrap();
        let revoke = proposal(Command::RevokeKey { customer, id: key.id });
        rig.propose(&Proposal { at: Timestamp(at), ..revoke }).result.unwrap();
        key.id
    };
    let revoked: Vec<_> = (0..10).map(|at| revoke(customer, at)).collect();
    let _: Vec<_> = (0..4).map(|at| revoke(other, at)).collect();
    let beyond = |rig: &Rig, before: i64, step| rig.shared.state.read().ended_beyond(4, Timestamp(before), step);
    assert_eq!(beyond(&rig, 100, 99), revoked[..6], "the account's live key does not count");
    assert_eq!(beyond(&rig, 100, 2), revoked[..2]);
    assert_eq!(beyond(&rig, 3, 99), revoked[..3], "the others were revoked lately");
    assert!(beyond(&rig, 0, 99).is_empty());
    let command = Command::ExpireEnded { keys: revoked[..6].to_vec(), channels: Vec::new(), before: Timestamp(100) };
    rig.run(command).unwrap();
    assert!(beyond(&rig, 100, 99).is_empty());
    assert_eq!(rig.shared.state.read().keys_of(customer).len(), 5);
}
