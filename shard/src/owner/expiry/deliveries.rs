//! Expiry of deliveries: delivered ones after 7 days, all others that have ended after 30.

use std::sync::Arc;
use std::time::Duration;

use model::id::{CustomerId, DeliveryId, EndpointId};
use model::time::Timestamp;
use model::webhook::DeliveryState;
use raft::machine::{View, just_after};

use super::{Marks, STEP, commit, read};
use crate::keys;
use crate::owner::Owner;
use crate::owner::committer::LeadershipLost;
use crate::records::{DeliveryRow, decode};
use crate::retention::Expire;

/// How long after its creation a delivery may end; deliveries that had not ended are examined again.
const UNTIL_ENDED: Duration = Duration::from_secs(4 * 86_400);

/// How far an endpoint's deliveries have expired.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    delivered: Timestamp,
    others: Timestamp,
}

/// Expires the deliveries of all endpoints, including deleted ones.
pub async fn expire_all(owner: &Arc<Owner>, marks: &mut Marks) -> Result<(), LeadershipLost> {
    let (mut next, end) = keys::customer_endpoints();
    loop {
        let (from, to) = (next.clone(), end.clone());
        let rows = read(owner, move |view| view.scan(&from, &to, STEP)).await?;
        let Some((last, _)) = rows.last() else { return Ok(()) };
        next = just_after(last);
        for (customer, endpoint) in rows.iter().filter_map(|(key, _)| keys::parse_customer_endpoint(key)) {
            expire_endpoint(owner, customer, endpoint, marks).await?;
        }
    }
}

async fn expire_endpoint(
    owner: &Arc<Owner>,
    customer: CustomerId,
    endpoint: EndpointId,
    marks: &mut Marks,
) -> Result<(), LeadershipLost> {
    let retention = &owner.node.retention;
    let now = Timestamp::now();
    let (delivered, others) = (now.minus(retention.delivered), now.minus(retention.deliveries));
    let mut mark = marks.of_endpoint.get(&endpoint).copied().unwrap_or_default();
    let ended = move |row: &DeliveryRow| row.next_attempt_at.is_none();
    let is_delivered = move |row: &DeliveryRow| {
        ended(row) && row.delivered_at.is_some_and(|at| at <= delivered) && { row.state == DeliveryState::Delivered }
    };
    mark.others = expiry(owner, endpoint, mark.others, others, ended).await?;
    mark.delivered = expiry(owner, endpoint, mark.delivered.max(mark.others), delivered, is_delivered).await?;
    if mark.delivered > Timestamp::default() || mark.others > Timestamp::default() {
        marks.of_endpoint.insert(endpoint, mark);
    }
    let is_gone = owner.node.directory.read(|state| !state.endpoints.contains_key(&endpoint));
    let (from, to) = keys::deliveries_of(endpoint, None, None);
    if is_gone && read(owner, move |view| view.scan(&from, &to, 1).is_empty()).await? {
        commit(owner, Expire::Endpoint { customer, endpoint }).await?;
    }
    Ok(())
}

/// Expires deliveries that were created in `[from, before)` and are over. Returns where to start next.
async fn expiry(
    owner: &Arc<Owner>,
    endpoint: EndpointId,
    from: Timestamp,
    before: Timestamp,
    is_over: impl Fn(&DeliveryRow) -> bool + Copy + Send + 'static,
) -> Result<Timestamp, LeadershipLost> {
    let (mut next, end) = keys::deliveries_of(endpoint, Some(from), Some(before));
    let mut reached = from;
    while next < end {
        let (begin, to) = (next.clone(), end.clone());
        let (deliveries, last) = read(owner, move |view| due(view, &begin, &to, is_over)).await?;
        let Some((last, made_at)) = last else { break };
        reached = made_at;
        next = just_after(&last);
        if !deliveries.is_empty() {
            commit(owner, Expire::Deliveries { endpoint, deliveries }).await?;
        }
    }
    Ok(reached.min(before.minus(UNTIL_ENDED)).max(Timestamp::default()))
}

/// Deliveries of a range that are over, and the key and time of the last row read.
fn due(
    view: &dyn View,
    from: &[u8],
    to: &[u8],
    is_over: impl Fn(&DeliveryRow) -> bool,
) -> (Vec<DeliveryId>, Option<(Vec<u8>, Timestamp)>) {
    let rows: Vec<(Vec<u8>, DeliveryRow)> =
        view.scan(from, to, STEP).into_iter().map(|(key, row)| (key, decode(&row))).collect();
    let over = rows.iter().filter(|(_, row)| is_over(row)).map(|(_, row)| row.id).collect();
    (over, rows.last().map(|(key, row)| (key.clone(), row.created_at)))
}
