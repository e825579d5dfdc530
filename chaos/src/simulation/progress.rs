//! Whether leaders get on: one that a quorum answers commits what it has proposed (I13).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use raft::simulation::{Life, clock};

use super::scene::Scene;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many looks in a row a leader may stand still: ten seconds, since bad weather loses many an append.
const LOOKS: u32 = 40;

/// Looks at all groups until clients begin nothing new: from then on all of it must end anyway.
pub async fn watch(scene: Arc<Scene>) {
    let mut still: BTreeMap<(Life, u16), (u64, u32)> = BTreeMap::new();
    while !scene.is_over() {
        clock::sleep(LOOK_EVERY).await;
        let mut leaders = BTreeMap::new();
        for life in scene.up() {
            for group in scene.world.groups(life) {
                let Some((last, applied)) = scene.group(life, group).leads_at() else { continue };
                if applied == last {
                    continue;
                }
                let looks = match still.get(&(life, group)) {
                    Some((before, looks)) if *before == applied => looks + 1,
                    _ => 0,
                };
                if looks == LOOKS {
                    scene.checks.violated(format_args!(
                        "group {group}: node {} leads, a quorum answers it, and nothing above {applied} of {last} is committed",
                        life.node
                    ));
                }
                leaders.insert((life, group), (applied, looks));
            }
        }
        still = leaders;
    }
}
