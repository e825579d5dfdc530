//! Commands about the cluster's authority.

use model::id::NodeId;

use super::{Change, DirectoryState, Update};
use crate::authority::{AuthorityCommand, AuthorityRotation, AuthorityStep};
use crate::command::{Rejection, Reply};
use crate::members::{AuthorityRecord, NodeState};

impl DirectoryState {
    pub(super) fn run_authority(
        &mut self,
        command: AuthorityCommand,
        update: &mut Update<'_>,
    ) -> Result<Reply, Rejection> {
        let known = self.authority.clone().ok_or(Rejection::NoAuthority)?;
        let step = known.rotation.as_ref().map(|rotation| &rotation.step);
        let next = match (command, step) {
            (AuthorityCommand::Rotate, Some(_)) => return Err(Rejection::AuthorityRotates),
            (AuthorityCommand::Rotate, None) => {
                // An announced key would not be rewrapped.
                if self.sealed_under_others() > 0 {
                    return Err(Rejection::ExchangeRuns);
                }
                if let Some(joining) = self.nodes.values().find(|node| node.state == NodeState::Joining) {
                    return Err(Rejection::NodeState { node: joining.id, state: joining.state });
                }
                let rotation = Some(AuthorityRotation { began_at: update.at, step: AuthorityStep::Wanted });
                AuthorityRecord { rotation, ..(*known).clone() }
            }
            (AuthorityCommand::Announce { certificate, key }, Some(AuthorityStep::Wanted)) => {
                self.is_under_master(&key.wrapped_by)?;
                known.stepped(AuthorityStep::Announced { certificate, key })
            }
            (AuthorityCommand::TakeOver { trusting }, Some(AuthorityStep::Announced { certificate, key })) => {
                self.is_each_of(&trusting)?;
                let stepped = known.stepped(AuthorityStep::Overlapping { former: known.certificate.clone() });
                let (certificate, key) = (certificate.clone(), key.clone());
                AuthorityRecord { certificate, key, rotated_at: Some(update.at), ..stepped }
            }
            (AuthorityCommand::DropFormer { renewed }, Some(AuthorityStep::Overlapping { .. })) => {
                self.is_each_of(&renewed)?;
                AuthorityRecord { rotation: None, ..(*known).clone() }
            }
            _ => return Err(Rejection::AuthorityStep),
        };
        self.put_authority(next, update);
        update.done(Change::Layout, Reply::Done)
    }

    /// Rejects if there is a member that is not in `nodes`.
    fn is_each_of(&self, nodes: &[NodeId]) -> Result<(), Rejection> {
        let other = self.nodes.keys().find(|node| !nodes.contains(node));
        other.map_or(Ok(()), |node| Err(Rejection::NodeBehind(*node)))
    }
}

impl AuthorityRecord {
    fn stepped(&self, step: AuthorityStep) -> Self {
        let rotation = self.rotation.clone().map(|rotation| AuthorityRotation { step, ..rotation });
        Self { rotation, ..self.clone() }
    }
}
