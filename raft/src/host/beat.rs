//! Heartbeats of all groups that this node leads, and when openraft's clocks tick.
//!
//! openraft wakes the core of a group five times a heartbeat, only to see whether a heartbeat or an election is due: with many
//! groups that is most of what an idle node does. One task sends the heartbeats of all of them, so that they share frames, and
//! lets a group's clock tick where an election may become due.

use std::sync::Weak;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::MissedTickBehavior;

use super::Inner;

/// Runs until the host is dropped.
pub(super) fn run(host: Weak<Inner>, heartbeat: Duration) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let mut beats = tokio::time::interval(heartbeat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            beats.tick().await;
            let Some(host) = host.upgrade() else { return };
            let groups: Vec<_> = host.groups.read().values().map(|open| open.core.clone()).collect();
            for core in groups {
                // Two and a half heartbeats at most, until the clock ticks again: less than the shortest election.
                core.beat(heartbeat * 3 / 2);
            }
        }
    })
}
