//! Replacing the master key.

use model::id::CustomerId;
use model::seal::{DataKey, MasterKey, WrappedKey};
use model::time::Timestamp;
use uuid::Uuid;

use super::members::formed;
use super::{Rig, customer, key};
use crate::command::{Command, Rejection};
use crate::members::{AuthorityRecord, MemberCommand};
use crate::records::{CustomerRecord, SealedKey};
use crate::secrets::{Rewrapped, SecretsCommand};
use crate::state::DirectoryState;

fn old() -> MasterKey {
    MasterKey::new([1; 32])
}

fn new() -> MasterKey {
    MasterKey::new([2; 32])
}

fn wrapped(master: &MasterKey, id: u128) -> WrappedKey {
    master.wrap(&DataKey::new([9; 32]), CustomerId(Uuid::from_u128(id)), [7; 24])
}

fn authority(master: &MasterKey) -> Command {
    let key = SealedKey { wrapped_by: wrapped(master, 0), sealed: vec![1] };
    let record = AuthorityRecord { certificate: String::new(), key, rotated_at: None, rotation: None };
    Command::Members(MemberCommand::KeepAuthority(Box::new(record)))
}

fn create(master: &MasterKey, id: u128) -> Command {
    let customer_id = CustomerId(Uuid::from_u128(id));
    let customer = CustomerRecord { id: customer_id, data_key: wrapped(master, id), ..customer(None) };
    let key = key(customer_id, None);
    Command::CreateCustomer { customer: Box::new(customer), key }
}

fn begin(from: &MasterKey, to: &MasterKey) -> Command {
    Command::Secrets(SecretsCommand::Begin { from: from.id(), deployment_key: wrapped(to, 0) })
}

fn rewrap(master: &MasterKey, authority: bool, ids: &[u128]) -> Command {
    let customers =
        ids.iter().map(|id| Rewrapped { customer: CustomerId(Uuid::from_u128(*id)), key: wrapped(master, *id) });
    let authority = authority.then(|| wrapped(master, 0));
    Command::Secrets(SecretsCommand::Rewrap { authority, customers: customers.collect() })
}

const END: Command = Command::Secrets(SecretsCommand::End);

fn remaining(rig: &Rig) -> usize {
    let remaining = rig.shared.state.read().sealed_under_others();
    assert_eq!(DirectoryState::load(&rig.store).sealed_under_others(), remaining, "memory and store agree");
    remaining
}

#[test]
fn an_exchange_ends_when_the_last_data_key_is_sealed_anew_and_nothing_new_comes_under_the_old_one() {
    let mut rig = formed();
    rig.run(authority(&old())).unwrap();
    for id in 1..=3 {
        rig.run(create(&old(), id)).unwrap();
    }
    assert_eq!(rig.run(END).unwrap_err(), Rejection::ExchangeOver);
    assert_eq!(rig.run(begin(&new(), &old())).unwrap_err(), Rejection::OtherMasterKey(old().id()));
    rig.run(begin(&old(), &new())).unwrap();
    assert_eq!(remaining(&rig), 4);

    // A node that sealed before it heard of the replacement has to seal again.
    assert_eq!(rig.run(create(&old(), 4)).unwrap_err(), Rejection::OtherMasterKey(new().id()));
    assert_eq!(rig.run(authority(&old())).unwrap_err(), Rejection::OtherMasterKey(new().id()));
    rig.run(create(&new(), 4)).unwrap();

    rig.run(rewrap(&new(), true, &[1])).unwrap();
    assert_eq!(rig.run(END).unwrap_err(), Rejection::ExchangeRuns);
    assert_eq!(rig.run(begin(&new(), &MasterKey::new([3; 32]))).unwrap_err(), Rejection::ExchangeRuns);
    assert_eq!(rig.run(rewrap(&old(), false, &[2])).unwrap_err(), Rejection::OtherMasterKey(new().id()));
    // A repeated step, and one for a customer that is gone, change nothing.
    rig.run(rewrap(&new(), true, &[1, 2, 3, 77])).unwrap();
    assert_eq!(remaining(&rig), 0);
    rig.run(END).unwrap();
    assert_eq!(rig.run(END).unwrap_err(), Rejection::ExchangeOver);

    let cluster = rig.shared.state.read().cluster.clone().unwrap();
    let exchange = cluster.exchange.unwrap();
    assert_eq!((exchange.from, exchange.ended_at), (old().id(), Some(Timestamp(1000))));
    assert_eq!(cluster.master(), new().id());
    let counts = rig.shared.state.read().sealed_under();
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [(new().id(), 6)]);
}

#[test]
fn a_customer_that_goes_takes_its_data_key_out_of_the_count() {
    let mut rig = formed();
    rig.run(create(&old(), 1)).unwrap();
    rig.run(begin(&old(), &new())).unwrap();
    let id = CustomerId(Uuid::from_u128(1));
    rig.run(Command::DeleteCustomer { id }).unwrap();
    assert_eq!(remaining(&rig), 1, "its data is still there");
    rig.run(Command::PurgeCustomer { id, most: 100 }).unwrap();
    assert_eq!(remaining(&rig), 0);
}
