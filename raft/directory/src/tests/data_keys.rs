//! Rotation of the customers' data keys.

use model::format::Format;
use model::id::CustomerId;
use model::seal::{DataKey, MasterKey, WrappedKey};

use super::members::formed;
use super::{Rig, endpoint, with_customer};
use crate::command::{Command, Rejection, Reply};
use crate::secrets::{Resealed, ResealedEndpoint, Rewrapped, SecretsCommand};
use crate::state::DirectoryState;

fn run(rig: &mut Rig, command: SecretsCommand) -> Result<Reply, Rejection> {
    let command = Command::Secrets(command);
    assert_eq!(command.format(), Format::THIRD);
    let reply = rig.run(command);
    let (state, stored) = (rig.shared.state.read(), DirectoryState::load(&rig.store));
    assert_eq!((&state.customers, &state.cluster), (&stored.customers, &stored.cluster));
    reply
}

fn another(customer: CustomerId) -> WrappedKey {
    MasterKey::new([1; 32]).wrap(&DataKey::new([3; 32]), customer, [8; 24])
}

fn change(customer: CustomerId) -> SecretsCommand {
    SecretsCommand::ChangeDataKeys { customers: vec![Rewrapped { customer, key: another(customer) }] }
}

#[test]
fn a_former_key_is_dropped_when_no_shard_has_anything_of_it_and_not_before() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None);
    let of_before = customer.data_key.clone();
    let drop = || SecretsCommand::DropDataKeys { customers: vec![customer.id] };
    let step = Rejection::DataKeysStep;
    assert_eq!(run(&mut rig, change(customer.id)).unwrap_err(), step);
    run(&mut rig, SecretsCommand::RotateDataKeys).unwrap();
    assert_eq!(run(&mut rig, SecretsCommand::RotateDataKeys).unwrap_err(), Rejection::DataKeysRotate);
    let began_at = rig.shared.state.read().running_data_keys().unwrap().began_at;
    assert_eq!(rig.shared.state.read().customers_to_change(began_at, 9).len(), 1);

    run(&mut rig, change(customer.id)).unwrap();
    run(&mut rig, change(customer.id)).unwrap();
    {
        let state = rig.shared.state.read();
        let known = &state.customers[&customer.id];
        assert_eq!((&known.data_key, known.former_data_key.as_deref()), (&another(customer.id), Some(&of_before)));
        assert!(state.customers_to_change(began_at, 9).is_empty());
    }
    let resealed = |shard| SecretsCommand::ShardResealed { shard, began_at };
    assert_eq!(run(&mut rig, resealed(1)).unwrap_err(), step, "keys are still changed");
    run(&mut rig, SecretsCommand::DataKeysChanged).unwrap();
    assert_eq!(run(&mut rig, change(customer.id)).unwrap_err(), step);
    run(&mut rig, resealed(1)).unwrap();
    assert_eq!(run(&mut rig, drop()).unwrap_err(), step, "shard 2 may have something");
    let of_another = SecretsCommand::ShardResealed { shard: 2, began_at: model::time::Timestamp(1) };
    assert_eq!(run(&mut rig, of_another).unwrap_err(), step);
    run(&mut rig, resealed(2)).unwrap();
    assert_eq!(run(&mut rig, SecretsCommand::EndDataKeys).unwrap_err(), step, "a former key is there");
    run(&mut rig, drop()).unwrap();
    run(&mut rig, SecretsCommand::EndDataKeys).unwrap();
    let state = rig.shared.state.read();
    assert!(state.running_data_keys().is_none() && state.with_former_data_key().next().is_none());
}

#[test]
fn what_an_endpoint_keeps_is_exchanged_where_it_has_not_changed_meanwhile() {
    let mut rig = formed();
    let customer = with_customer(&mut rig, None);
    let known = endpoint(customer.id);
    rig.run(Command::CreateEndpoint(known.clone())).unwrap();
    run(&mut rig, SecretsCommand::RotateDataKeys).unwrap();
    run(&mut rig, change(customer.id)).unwrap();
    run(&mut rig, SecretsCommand::DataKeysChanged).unwrap();
    let reseal = |was: &[u8], sealed: &[u8]| {
        let secret = Some(Resealed { was: was.to_vec(), sealed: sealed.to_vec() });
        SecretsCommand::ResealEndpoints(vec![ResealedEndpoint { id: known.id, secret, headers: None }])
    };
    let secret = |rig: &Rig| rig.shared.state.read().endpoints[&known.id].secret.clone();
    run(&mut rig, reseal(&[9], &[8])).unwrap();
    assert_eq!(secret(&rig), Some(vec![1, 2, 3]), "it is another one by now");
    run(&mut rig, reseal(&[1, 2, 3], &[8])).unwrap();
    assert_eq!(secret(&rig), Some(vec![8]));
}

#[test]
fn a_rotation_is_begun_again_in_shards_that_may_be_older_than_it_says() {
    let mut rig = formed();
    with_customer(&mut rig, None);
    run(&mut rig, SecretsCommand::RotateDataKeys).unwrap();
    run(&mut rig, SecretsCommand::DataKeysChanged).unwrap();
    let began_at = rig.shared.state.read().running_data_keys().unwrap().began_at;
    for shard in [1, 2] {
        run(&mut rig, SecretsCommand::ShardResealed { shard, began_at }).unwrap();
    }
    let state = rig.shared.state.read();
    let rotation = state.running_data_keys().unwrap();
    assert!(rotation.resealed_at.is_some() && !rotation.wants(1));
    let again = rotation.clone().begun_again();
    assert!(again.resealed_at.is_none() && again.wants(1) && again.wants(2));
}
