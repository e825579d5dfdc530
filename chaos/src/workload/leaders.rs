//! Records the leaders of all groups every second, as the operators' port reports them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::tests::http::try_answer;
use reqwest::Method;
use serde_json::Value;
use tokio::task::JoinSet;

use super::cast::Cast;
use super::client::{Client, Shared};
use crate::history::{LeaderSeen, Progress, Record};

const BETWEEN: Duration = Duration::from_secs(1);
/// Longest time until the last look sees the leaders.
const LAST_LOOK: Duration = Duration::from_secs(10);
/// A node asks all others before it answers, for two seconds at most.
const DEADLINE: Duration = Duration::from_secs(4);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, clients: &mut JoinSet<()>) {
    clients.spawn(watch(shared.client(&cast.main), cast.clone()));
}

async fn watch(mut client: Client, cast: Arc<Cast>) {
    let mut known = HashMap::new();
    while !client.is_stopped() {
        look(&mut client, &cast, &mut known).await;
        client.pause(BETWEEN).await;
    }
}

/// Looks once more after the last call, so that the total number of leader changes is known.
pub async fn look_last(shared: &Arc<Shared>, cast: &Cast) {
    let mut client = shared.client(&cast.main);
    let start = Instant::now();
    while !look(&mut client, cast, &mut HashMap::new()).await && start.elapsed() < LAST_LOOK {
        tokio::time::sleep(BETWEEN).await;
    }
}

/// Looks once, through any node. Returns whether it saw a leader of each small bucket's coordinator group.
async fn look(client: &mut Client, cast: &Cast, known: &mut HashMap<u16, u64>) -> bool {
    let homes: Vec<u16> = cast.stage.limited.iter().map(|limited| limited.home).collect();
    let (node, map) = (client.any_node(), client.shared.map());
    let operator = map.operator(&node, &client.shared.http);
    let request = operator.request(Method::GET, "/v1/admin/shards").timeout(DEADLINE);
    // The reported state lies between request and response. Both times are recorded, so that a check can use the one
    // that it needs.
    let asked = client.shared.recorder.now();
    let Some(answer) = try_answer(request).await.ok().filter(|answer| answer.status == 200) else { return false };
    let mut led = 0;
    for row in answer.json()["data"].as_array().into_iter().flatten() {
        let (Some(group), Some(term)) = (row["id"].as_u64(), row["term"].as_u64()) else { continue };
        let (group, leader) = (u16::try_from(group).unwrap_or_default(), row["leader"].as_u64());
        let at = client.shared.recorder.now();
        if let Some((leader, (applied, lag))) = leader.and_then(|leader| Some((leader, outstanding(row, leader)?))) {
            let (named, sent) = (row["stalled"] == true, sent_to_voters(row));
            let progress = Progress { asked, at, group, leader, term, applied, lag, named, sent };
            client.shared.recorder.write(&Record::Progress(progress));
        }
        // Other groups are recorded only when they change.
        if known.insert(group, term) == Some(term) && !homes.contains(&group) {
            continue;
        }
        led += usize::from(homes.contains(&group) && leader.is_some());
        let seen = LeaderSeen { asked, at, group, leader, term };
        client.shared.recorder.write(&Record::Leader(seen));
    }
    led == homes.len()
}

/// The last entry that a group's leader has applied, and the number of further entries, if there are any.
fn outstanding(row: &Value, leader: u64) -> Option<(u64, u64)> {
    let replica = row["replicas"].as_array()?.iter().find(|replica| replica["node_id"] == leader)?;
    Some((replica["applied"].as_u64()?, replica["lag"].as_u64().filter(|lag| *lag > 0)?))
}

/// Bytes sent of the snapshots in transfer to voters; `None` if there are none.
fn sent_to_voters(row: &Value) -> Option<u64> {
    let voters = row["replicas"].as_array()?.iter().filter(|replica| replica["role"] == "voter");
    voters.filter_map(|voter| voter["sent_bytes"].as_u64()).reduce(|sum, bytes| sum + bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_leaders_own_lag_is_something_that_it_has_to_commit() {
        let row = |own: u64, others: u64| {
            let replicas =
                json!([{ "node_id": 1, "applied": 40, "lag": others }, { "node_id": 2, "applied": 50, "lag": own }]);
            json!({ "leader": 2, "replicas": replicas })
        };
        assert_eq!(outstanding(&row(3, 13), 2), Some((50, 3)));
        assert_eq!(outstanding(&row(0, 10), 2), None);
        assert_eq!(outstanding(&json!({ "leader": 2, "replicas": [] }), 2), None);
    }

    #[test]
    fn snapshots_to_voters_are_added_up_and_those_to_learners_hold_nobody_up() {
        let replica = |role: &str, sent_bytes: Option<u64>| json!({ "role": role, "sent_bytes": sent_bytes });
        let sent = |replicas: [Value; 3]| sent_to_voters(&json!({ "replicas": replicas }));
        assert_eq!(sent([replica("voter", None), replica("voter", Some(3)), replica("voter", Some(4))]), Some(7));
        assert_eq!(sent([replica("voter", None), replica("voter", Some(0)), replica("learner", Some(4))]), Some(0));
        assert_eq!(sent([replica("voter", None), replica("voter", None), replica("learner", Some(4))]), None);
    }
}
