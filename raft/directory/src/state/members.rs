//! Commands about members.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::format::Format;
use model::id::NodeId;
use model::time::Timestamp;

use super::{Change, DirectoryState, Update};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::members::{
    ASK_AGAIN, AuthorityRecord, JoinToken, MAX_NODES, MAX_TOKENS, MemberCommand, NodeState, RemovedNode,
};
use crate::records::NodeRecord;

impl DirectoryState {
    pub(super) fn run_members(&mut self, command: MemberCommand, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        self.cluster.as_ref().ok_or(Rejection::NotFormed)?;
        let reply = match command {
            MemberCommand::KeepAuthority(authority) => {
                self.is_under_master(&authority.key.wrapped_by)?;
                if self.authority.is_none() {
                    self.put_authority(*authority, update);
                }
                Reply::Done
            }
            MemberCommand::IssueToken(token) => {
                self.put_token(token, update);
                Reply::Done
            }
            MemberCommand::Join { token, node } => Reply::Node(self.join(token, node, update)?),
            MemberCommand::Drain(id) => self.turn(id, NodeState::Draining, update)?,
            MemberCommand::Undrain(id) => self.turn(id, NodeState::Active, update)?,
            MemberCommand::Leave(id) => {
                let others = self.others_than(id);
                self.leave(id, &others, update)?
            }
            MemberCommand::LeaveBehind { node, others } => {
                if others != self.others_than(node) {
                    return Err(Rejection::LayoutStale);
                }
                self.leave(node, &others, update)?
            }
            MemberCommand::Remove(id) => self.remove_node(id, update)?,
            MemberCommand::Weigh { node, weight } => {
                let known = self.nodes.get(&node).ok_or(Rejection::NodeUnknown(node))?;
                let weighed = NodeRecord { weight, ..(**known).clone() };
                self.put_node(weighed.clone(), update);
                Reply::Node(weighed)
            }
        };
        update.done(Change::Layout, reply)
    }

    /// Registers a node: any node before the cluster is formed, after that only admitted ones.
    pub(super) fn register(&mut self, node: NodeRecord, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        if self.removed.contains_key(&node.id) {
            return Err(Rejection::NodeRemoved(node.id));
        }
        let node = match self.nodes.get(&node.id) {
            Some(known) if known.storage_id != node.storage_id => {
                return Err(Rejection::ForeignStorage { node: node.id, known: known.storage_id });
            }
            Some(known) => {
                self.may_be_reached_at(known, &node.peer)?;
                let state = if known.state == NodeState::Joining { NodeState::Active } else { known.state };
                // A weight that an operator has set stays until the node's configuration changes.
                let weight = if known.configured_weight == node.weight { known.weight } else { node.weight };
                NodeRecord { registered_at: known.registered_at, state, weight, configured_weight: node.weight, ..node }
            }
            None if self.cluster.is_some() => return Err(Rejection::NodeUnknown(node.id)),
            None => NodeRecord { state: NodeState::Active, configured_weight: node.weight, ..node },
        };
        self.put_node(node.clone(), update);
        Ok(Reply::Node(node))
    }

    fn join(&mut self, hash: [u8; 32], node: NodeRecord, update: &mut Update<'_>) -> Result<NodeRecord, Rejection> {
        let at = update.at;
        let token = self.tokens.get(&hash).cloned().ok_or(Rejection::TokenUnknown)?;
        match token.used_by {
            // The same node asks again: the answer to its first request was lost.
            Some(user) if user == node.storage_id => {
                // Earlier releases answer every repeat.
                let is_bounded = self.cluster.as_ref().is_some_and(|cluster| cluster.format >= Format::THIRD);
                let known = match is_bounded {
                    true => self.may_ask_again(&token, at)?,
                    false => self.nodes.values().find(|known| known.storage_id == user).ok_or(Rejection::TokenUsed)?,
                };
                self.may_be_reached_at(known, &node.peer)?;
                let known = (**known).clone();
                if is_bounded {
                    self.put_token(JoinToken { asked_again: true, ..(*token).clone() }, update);
                }
                return Ok(known);
            }
            Some(_) => return Err(Rejection::TokenUsed),
            None if token.expires_at <= at => return Err(Rejection::TokenExpired(token.expires_at)),
            None => {}
        }
        if self.nodes.len() >= MAX_NODES as usize {
            return Err(Rejection::NodeLimit { limit: MAX_NODES });
        }
        self.is_free(&node.peer)?;
        let id = self.next_node_id();
        let configured_weight = node.weight;
        let node = NodeRecord { id, state: NodeState::Joining, registered_at: at, configured_weight, ..node };
        self.put_node(node.clone(), update);
        self.put_token(JoinToken { used_by: Some(node.storage_id), ..(*token).clone() }, update);
        Ok(node)
    }

    /// The token with this hash.
    pub fn token(&self, hash: &[u8; 32]) -> Option<&Arc<JoinToken>> {
        self.tokens.get(hash)
    }

    /// The node that a used token has admitted, if that may get the cluster's keys again: once, within minutes, while
    /// the token is valid and the node was never started. Otherwise, anybody who finds an old token would get them.
    ///
    /// # Errors
    /// The reason why not.
    pub fn may_ask_again(&self, token: &JoinToken, at: Timestamp) -> Result<&Arc<NodeRecord>, Rejection> {
        if token.expires_at <= at {
            return Err(Rejection::TokenExpired(token.expires_at));
        }
        let known = self.nodes.values().find(|known| Some(known.storage_id) == token.used_by);
        let waits = |known: &&Arc<NodeRecord>| {
            !token.asked_again && known.state == NodeState::Joining && at.since(known.registered_at) < ASK_AGAIN
        };
        known.filter(waits).ok_or(Rejection::TokenUsed)
    }

    fn is_free(&self, address: &str) -> Result<(), Rejection> {
        let other = self.nodes.values().find(|known| known.peer == address);
        other.map_or(Ok(()), |other| Err(Rejection::AddressTaken { node: other.id, address: address.to_owned() }))
    }

    /// Rejects another member's address, whose messages the node would get. Only from format 2 on, because release
    /// 0.1.0 does not check.
    fn may_be_reached_at(&self, known: &NodeRecord, address: &str) -> Result<(), Rejection> {
        let asks = self.cluster.as_ref().is_some_and(|cluster| cluster.format >= Format::SECOND);
        if asks && known.peer != address { self.is_free(address) } else { Ok(()) }
    }

    /// Greater than every id that was ever assigned.
    fn next_node_id(&self) -> NodeId {
        let last = |ids: Option<&NodeId>| ids.copied().unwrap_or(0);
        last(self.nodes.keys().next_back()).max(last(self.removed.keys().next_back())) + 1
    }

    /// The other nodes that hold replicas.
    fn others_than(&self, id: NodeId) -> BTreeSet<NodeId> {
        self.nodes.values().filter(|node| node.id != id && node.state.holds_replicas()).map(|node| node.id).collect()
    }

    fn leave(&mut self, id: NodeId, others: &BTreeSet<NodeId>, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        if others.is_empty() { Err(Rejection::LastNode(id)) } else { self.turn(id, NodeState::Leaving, update) }
    }

    fn turn(&mut self, id: NodeId, state: NodeState, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let known = self.nodes.get(&id).ok_or(Rejection::NodeUnknown(id))?;
        // A node that was never started holds nothing yet, and some replicas of a leaving node are gone already.
        if state != NodeState::Leaving && !known.state.holds_replicas() {
            return Err(Rejection::NodeState { node: id, state: known.state });
        }
        let turned = NodeRecord { state, ..(**known).clone() };
        self.put_node(turned.clone(), update);
        Ok(Reply::Node(turned))
    }

    fn remove_node(&mut self, id: NodeId, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let known = self.nodes.get(&id).cloned().ok_or(Rejection::NodeUnknown(id))?;
        let placed = self.placement.values().any(|place| place.replicas.contains(&id) || !place.settled);
        if known.state != NodeState::Leaving || placed {
            return Err(Rejection::NodeState { node: id, state: known.state });
        }
        let removed = RemovedNode { id, storage_id: known.storage_id, removed_at: update.at };
        update.put(&keys::REMOVED_NODES.key(&id.to_be_bytes()), &removed);
        update.store.delete(&keys::node(id));
        self.removed.insert(id, Arc::new(removed));
        self.nodes.remove(&id);
        Ok(Reply::Done)
    }

    pub(super) fn put_authority(&mut self, authority: AuthorityRecord, update: &mut Update<'_>) {
        update.put(keys::AUTHORITY, &authority);
        self.authority = Some(Arc::new(authority));
    }

    /// Stores a token; removes expired ones, even used ones, as their nodes have had time to ask again.
    fn put_token(&mut self, token: JoinToken, update: &mut Update<'_>) {
        let mut ended: Vec<[u8; 32]> =
            self.tokens.values().filter(|known| known.expires_at <= update.at).map(|known| known.hash).collect();
        if self.tokens.len() - ended.len() >= MAX_TOKENS && !self.tokens.contains_key(&token.hash) {
            ended.extend(self.tokens.values().min_by_key(|known| known.created_at).map(|known| known.hash));
        }
        for hash in ended {
            update.store.delete(&keys::JOIN_TOKENS.key(&hash));
            self.tokens.remove(&hash);
        }
        update.put(&keys::JOIN_TOKENS.key(&token.hash), &token);
        self.tokens.insert(token.hash, Arc::new(token));
    }
}
