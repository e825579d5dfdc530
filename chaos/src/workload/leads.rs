//! Who leads which group, second by second, as the operators' port tells it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Method;
use tests::http::try_answer;
use tokio::task::JoinSet;

use super::cast::Cast;
use super::client::{Client, Shared};
use crate::history::{Lead, Record};

const BETWEEN: Duration = Duration::from_secs(1);
/// A node asks all others before it answers, two seconds at most.
const DEADLINE: Duration = Duration::from_secs(4);

pub fn begin(shared: &Arc<Shared>, cast: &Arc<Cast>, clients: &mut JoinSet<()>) {
    clients.spawn(watch(shared.client(&cast.main), cast.clone()));
}

async fn watch(mut client: Client, cast: Arc<Cast>) {
    let homes: Vec<u16> = cast.stage.limited.iter().map(|limited| limited.home).collect();
    let mut known: HashMap<u16, u64> = HashMap::new();
    loop {
        // Once more at the end, when the cluster has healed: that says how often leads have moved in all.
        let is_last = client.is_stopped();
        let (node, map) = (client.any_node(), client.shared.map());
        let operator = map.operator(&node, &client.shared.http);
        let request = operator.request(Method::GET, "/v1/admin/shards").timeout(DEADLINE);
        // What is told is no newer than the answer and no older than the question: noted at both ends, it is right
        // whichever way a judge needs it.
        let asked = client.shared.recorder.now();
        if let Ok(answer) = try_answer(request).await
            && answer.status == 200
        {
            for row in answer.json()["data"].as_array().into_iter().flatten() {
                let (Some(group), Some(term)) = (row["id"].as_u64(), row["term"].as_u64()) else { continue };
                let group = u16::try_from(group).unwrap_or_default();
                // Groups that count nothing are noted when they change.
                if known.insert(group, term) == Some(term) && !homes.contains(&group) {
                    continue;
                }
                let lead =
                    Lead { asked, at: client.shared.recorder.now(), group, leader: row["leader"].as_u64(), term };
                client.shared.recorder.write(&Record::Lead(lead));
            }
        }
        if is_last {
            return;
        }
        client.pause(BETWEEN).await;
    }
}
