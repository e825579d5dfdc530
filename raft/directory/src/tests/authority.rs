//! Rotation of the cluster's authority.

use model::format::Format;
use model::id::{CustomerId, NodeId};
use model::seal::{DataKey, MasterKey};
use model::time::Timestamp;
use uuid::Uuid;

use super::Rig;
use super::members::{formed, node};
use crate::authority::{AuthorityCommand, AuthorityStep};
use crate::command::{Command, Rejection, Reply};
use crate::members::{AuthorityRecord, JoinToken, MemberCommand, NodeState};
use crate::records::{NodeRecord, SealedKey};
use crate::state::DirectoryState;

fn key(master: u8) -> SealedKey {
    let data = DataKey::new([4; 32]);
    let wrapped_by = MasterKey::new([master; 32]).wrap(&data, CustomerId(Uuid::nil()), [7; 24]);
    SealedKey { wrapped_by, sealed: vec![master] }
}

fn with_authority() -> Rig {
    let mut rig = formed();
    let first = AuthorityRecord { certificate: "first".into(), key: key(1), rotated_at: None, rotation: None };
    rig.run(Command::Members(MemberCommand::KeepAuthority(Box::new(first)))).unwrap();
    rig
}

fn run(rig: &mut Rig, command: AuthorityCommand) -> Result<Reply, Rejection> {
    let command = Command::Authority(command);
    assert_eq!(command.format(), Format::THIRD);
    let reply = rig.run(command);
    assert_eq!(DirectoryState::load(&rig.store).authority, rig.shared.state.read().authority);
    reply
}

fn announce(master: u8) -> AuthorityCommand {
    AuthorityCommand::Announce { certificate: "second".into(), key: key(master) }
}

fn join(rig: &mut Rig, id: NodeId) {
    let hash = [id as u8; 32];
    let token =
        JoinToken { hash, created_at: Timestamp(1), expires_at: Timestamp(9_000), used_by: None, asked_again: false };
    rig.run(Command::Members(MemberCommand::IssueToken(token))).unwrap();
    let joining = NodeRecord { state: NodeState::Joining, ..node(id) };
    rig.run(Command::Members(MemberCommand::Join { token: hash, node: joining })).unwrap();
}

#[test]
fn the_next_one_signs_when_all_trust_it_and_the_former_goes_when_all_have_renewed() {
    let mut rig = with_authority();
    assert_eq!(run(&mut rig, announce(1)).unwrap_err(), Rejection::AuthorityStep);
    run(&mut rig, AuthorityCommand::Rotate).unwrap();
    assert_eq!(run(&mut rig, AuthorityCommand::Rotate).unwrap_err(), Rejection::AuthorityRotates);
    let other = MasterKey::new([1; 32]).id();
    assert_eq!(run(&mut rig, announce(2)).unwrap_err(), Rejection::OtherMasterKey(other));
    run(&mut rig, announce(1)).unwrap();
    // A node that joins now has to trust it, too, and no earlier list names it.
    join(&mut rig, 2);
    let behind = Rejection::NodeBehind(2);
    assert_eq!(run(&mut rig, AuthorityCommand::TakeOver { trusting: vec![1] }).unwrap_err(), behind);
    run(&mut rig, AuthorityCommand::TakeOver { trusting: vec![1, 2] }).unwrap();
    {
        let state = rig.shared.state.read();
        let record = state.authority.as_ref().unwrap();
        assert_eq!((&record.certificate[..], record.rotated_at), ("second", Some(Timestamp(1000))));
        let step = record.rotation.as_ref().map(|rotation| rotation.step.clone());
        assert_eq!(step, Some(AuthorityStep::Overlapping { former: "first".into() }), "its key is gone");
    }
    assert_eq!(run(&mut rig, AuthorityCommand::DropFormer { renewed: vec![2] }).unwrap_err(), Rejection::NodeBehind(1));
    run(&mut rig, AuthorityCommand::DropFormer { renewed: vec![1, 2] }).unwrap();
    assert!(rig.shared.state.read().authority.as_ref().unwrap().rotation.is_none());
}

#[test]
fn none_begins_while_a_node_was_let_in_and_never_started() {
    let mut rig = with_authority();
    join(&mut rig, 2);
    let waits = Rejection::NodeState { node: 2, state: NodeState::Joining };
    assert_eq!(run(&mut rig, AuthorityCommand::Rotate).unwrap_err(), waits);
    assert_eq!(formed().run(Command::Authority(AuthorityCommand::Rotate)).unwrap_err(), Rejection::NoAuthority);
}
