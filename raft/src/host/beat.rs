//! Sends the heartbeats of all groups that this node leads, and enables openraft's clocks.
//!
//! By itself, openraft wakes each group's core five times a heartbeat to see whether a heartbeat or an election is due;
//! with many groups, that is most of an idle node's work. Instead, one task sends the heartbeats of all groups, which
//! then share frames, and enables a group's clock only when an election may become due.

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
                // The clock stops for two and a half heartbeats at most: less than the shortest election timeout.
                core.beat(heartbeat * 3 / 2);
            }
        }
    })
}
