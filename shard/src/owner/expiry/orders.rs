//! Expiry of orders.

use std::sync::Arc;

use model::id::ChannelId;
use model::time::Timestamp;
use raft::machine::View;

use super::{STEP, in_steps};
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::projection::business::orders_before;
use crate::retention::Expire;

/// Orders in one step: an order has two rows.
const ORDERS: usize = STEP / 2;

/// Expires a channel's orders from before a time.
pub async fn expiry(owner: &Arc<Owner>, channel: ChannelId, before: Timestamp) -> Result<(), LeadershipLost> {
    let due = move |view: &dyn View| orders_before(view, channel, before, ORDERS);
    in_steps(owner, 2 * ORDERS, due, |rows| Expire::Projected { channel, rows }).await
}
