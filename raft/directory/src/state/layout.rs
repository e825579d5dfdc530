//! Commands about the placement.

use std::sync::Arc;

use model::id::{NodeId, ShardId};

use super::{Change, DirectoryState, Update};
use crate::command::{Rejection, Reply};
use crate::keys;
use crate::layout::{LayoutCommand, LayoutRecord, MoveRecord, MoveState, same_nodes};
use crate::records::PlacementRecord;

impl DirectoryState {
    pub(super) fn run_layout(&mut self, command: LayoutCommand, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let at = update.at;
        self.cluster.as_ref().ok_or(Rejection::NotFormed)?;
        match command {
            LayoutCommand::Begin(layout) => {
                if self.layout.as_ref().is_some_and(|known| known.is_running()) {
                    return Err(Rejection::LayoutRuns);
                }
                let last = self.layout.as_ref().map_or(0, |known| known.number);
                if layout.number != last + 1 {
                    return Err(Rejection::LayoutStale);
                }
                let ended_at = layout.moves.is_empty().then_some(at);
                self.put_layout(LayoutRecord { ended_at, ..layout }, update);
            }
            LayoutCommand::Start { number, shard } => self.start_move(number, shard, update)?,
            LayoutCommand::Retarget { number, shard, to, leader } => {
                self.retarget(number, shard, to, leader, update)?;
            }
            LayoutCommand::Settled { shard, replicas } => self.settled(shard, &replicas, update)?,
            LayoutCommand::Cancel { number } => {
                let mut layout = self.running_layout(number)?;
                layout.cancelled_at = Some(at);
                for each in layout.moves.iter_mut().filter(|each| each.state == MoveState::Waiting) {
                    (each.state, each.ended_at) = (MoveState::Cancelled, Some(at));
                }
                self.put_moved(layout, update);
            }
        }
        update.done(Change::Layout, Reply::Done)
    }

    fn start_move(&mut self, number: u64, shard: ShardId, update: &mut Update<'_>) -> Result<(), Rejection> {
        let mut layout = self.running_layout(number)?;
        let place = self.placement.get(&shard).cloned().ok_or(Rejection::LayoutStale)?;
        let moving = move_of(&mut layout, shard, MoveState::Waiting)?;
        let holds = |node: &NodeId| self.nodes.get(node).is_some_and(|node| node.state.holds_replicas());
        let is_gone = !moving.to.iter().all(holds);
        let at = update.at;
        moving.began_at = Some(at);
        if is_gone || !place.settled || !same_nodes(&moving.from, &place.replicas) {
            (moving.state, moving.ended_at) = (MoveState::Cancelled, Some(at));
        } else {
            let settled = !moving.changes_replicas();
            (moving.state, moving.ended_at) =
                if settled { (MoveState::Done, Some(at)) } else { (MoveState::Running, None) };
            let (replicas, leader) = (moving.to.clone(), moving.leader);
            self.put_placement(PlacementRecord { replicas, leader, settled, ..(*place).clone() }, update);
        }
        self.put_moved(layout, update);
        Ok(())
    }

    fn retarget(
        &mut self,
        number: u64,
        shard: ShardId,
        to: Vec<NodeId>,
        leader: NodeId,
        update: &mut Update<'_>,
    ) -> Result<(), Rejection> {
        let mut layout = self.running_layout(number)?;
        let place = self.placement.get(&shard).cloned().ok_or(Rejection::LayoutStale)?;
        let moving = move_of(&mut layout, shard, MoveState::Running)?;
        (moving.to, moving.leader) = (to.clone(), leader);
        // Unsettled in any case: it is unknown how far the move has come.
        self.put_placement(PlacementRecord { replicas: to, leader, settled: false, ..(*place).clone() }, update);
        self.put_layout(layout, update);
        Ok(())
    }

    fn settled(&mut self, shard: ShardId, replicas: &[NodeId], update: &mut Update<'_>) -> Result<(), Rejection> {
        let place = self.placement.get(&shard).cloned().ok_or(Rejection::NotFormed)?;
        // The owner has settled an earlier placement.
        if !same_nodes(&place.replicas, replicas) {
            return Err(Rejection::LayoutStale);
        }
        self.put_placement(PlacementRecord { settled: true, ..(*place).clone() }, update);
        if let Some(layout) = self.layout.clone() {
            let mut layout = (*layout).clone();
            let runs = |each: &&mut MoveRecord| each.shard == shard && each.state == MoveState::Running;
            for each in layout.moves.iter_mut().filter(runs) {
                (each.state, each.ended_at) = (MoveState::Done, Some(update.at));
            }
            self.put_moved(layout, update);
        }
        Ok(())
    }

    fn running_layout(&self, number: u64) -> Result<LayoutRecord, Rejection> {
        let layout = self.layout.as_ref().filter(|layout| layout.number == number && layout.is_running());
        layout.map(|layout| (**layout).clone()).ok_or(Rejection::LayoutOver)
    }

    /// Stores a layout whose moves have progressed, and completes it with the last move.
    fn put_moved(&mut self, layout: LayoutRecord, update: &mut Update<'_>) {
        let open = layout.count(MoveState::Waiting) + layout.count(MoveState::Running);
        let ended_at = layout.ended_at.or((open == 0).then_some(update.at));
        self.put_layout(LayoutRecord { ended_at, ..layout }, update);
    }

    fn put_layout(&mut self, layout: LayoutRecord, update: &mut Update<'_>) {
        update.put(keys::LAYOUT, &layout);
        self.layout = Some(Arc::new(layout));
    }
}

/// The move of a shard that is in this state.
fn move_of(layout: &mut LayoutRecord, shard: ShardId, state: MoveState) -> Result<&mut MoveRecord, Rejection> {
    let mut moves = layout.moves.iter_mut();
    moves.find(|each| each.shard == shard && each.state == state).ok_or(Rejection::LayoutStale)
}
