//! What a send costs in clusters of different sizes, in messages between nodes, syncs and applied entries, on a healthy
//! network in virtual time. Shards have three replicas each, whatever the number of nodes.

use std::sync::Arc;
use std::time::Duration;

use raft::host::LogLimits;
use raft::simulation::{Weather, clock};

use super::plan::Plan;
use super::scene::Scene;
use super::{FORM_PATIENCE, client, node};

/// The same for all sizes, so that each of nine nodes leads two shards.
const SHARDS: u16 = 18;

/// Number of channels. Each sends one message after the other.
const CHANNELS: usize = 36;

/// Warm-up time before each measurement.
const WARM_UP: Duration = Duration::from_secs(2);

/// The costs of all nodes together, without sends and per send.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    pub nodes: usize,
    /// Messages per second while nothing is sent.
    pub idle_messages: f64,
    pub sends_per_second: f64,
    /// Per send, beyond the idle cluster's, as are `syncs` and `applied`. Requests and responses count separately.
    pub messages: f64,
    pub syncs: f64,
    pub applied: f64,
}

#[derive(Clone, Copy)]
struct Count {
    sends: u64,
    messages: u64,
    syncs: u64,
    applied: u64,
}

impl Count {
    fn of(scene: &Scene) -> Self {
        let counts = scene.checks.counts();
        let (messages, syncs) = (scene.world.router().carried(), scene.world.syncs());
        Self { sends: counts.sends_answered, messages, syncs, applied: counts.applied }
    }
}

/// Measures a cluster for `length` without sends, and for `length` with sends.
///
/// # Errors
/// When the cluster does not form, or no send is answered.
pub fn measure(nodes: usize, length: Duration) -> Result<Costs, String> {
    let ms = Duration::from_millis;
    let plan = Plan {
        seed: nodes as u64,
        nodes: (1..=nodes as u64).collect(),
        shards: SHARDS,
        channels: CHANNELS,
        limits: LogLimits::default(),
        sync: ms(1)..ms(2),
        weather: Weather::FAIR,
        faults_last: Duration::ZERO,
        between_faults: Duration::ZERO..Duration::ZERO,
        between_calls: ms(1)..ms(10),
        busy: 0,
    };
    clock::run(plan.seed, async move {
        let scene = Scene::new(plan, None, false);
        if !node::form(&scene, FORM_PATIENCE).await {
            return Err(format!("a cluster of {nodes} nodes was not formed"));
        }
        clock::sleep(WARM_UP).await;
        let idle = during(&scene, length).await;
        for channel in scene.channels.clone() {
            scene.spawn("a sender", client::send(scene.clone(), channel));
        }
        clock::sleep(WARM_UP).await;
        let busy = during(&scene, length).await;
        scene.end();
        scene.owners.lock().clear();
        if busy.sends == 0 {
            return Err(format!("{nodes} nodes answered no send: {:?}", scene.checks.violations()));
        }
        let (sends, seconds) = (busy.sends as f64, length.as_secs_f64());
        let each = |busy: u64, idle: u64| (busy as f64 - idle as f64) / sends;
        Ok(Costs {
            nodes,
            idle_messages: idle.messages as f64 / seconds,
            sends_per_second: sends / seconds,
            messages: each(busy.messages, idle.messages),
            syncs: each(busy.syncs, idle.syncs),
            applied: each(busy.applied, idle.applied),
        })
    })
}

async fn during(scene: &Arc<Scene>, length: Duration) -> Count {
    let before = Count::of(scene);
    clock::sleep(length).await;
    let after = Count::of(scene);
    Count {
        sends: after.sends - before.sends,
        messages: after.messages - before.messages,
        syncs: after.syncs - before.syncs,
        applied: after.applied - before.applied,
    }
}
