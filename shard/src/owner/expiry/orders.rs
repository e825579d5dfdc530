//! What was ordered long ago.

use std::sync::Arc;

use model::id::ChannelId;
use model::time::Timestamp;

use super::{STEP, commit, read};
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::projection::business::orders_before;
use crate::retention::Trim;

/// An order is two rows.
const ORDERS: usize = STEP / 2;

/// Trims a channel's orders from before a time.
pub async fn expiry(owner: &Arc<Owner>, channel: ChannelId, before: Timestamp) -> Result<(), LeadershipLost> {
    loop {
        let rows = read(owner, move |view| orders_before(view, channel, before, ORDERS)).await?;
        if rows.is_empty() {
            return Ok(());
        }
        let is_last = rows.len() < 2 * ORDERS;
        commit(owner, Trim::Projected { channel, rows }).await?;
        if is_last {
            return Ok(());
        }
    }
}
