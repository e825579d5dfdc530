//! Checks that leaders make progress: one that a quorum answers commits what it has proposed (I13).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use raft::simulation::{Life, clock};

use super::scene::Scene;

const LOOK_EVERY: Duration = Duration::from_millis(250);

/// How many checks in a row may find a leader without progress: ten seconds, since bad weather loses many appends.
const LOOKS: u32 = 40;

/// Checks all groups until clients stop beginning calls; from then on the end of the run checks progress.
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
