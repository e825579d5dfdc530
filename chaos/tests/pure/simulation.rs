//! The gateway's core on simulated time: seeds of the corpus, fresh seeds, and bugs that are put back and must be
//! found. `gateway-sim run --seeds 0..5000` runs more.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use chaos::simulation::costs::{self, Costs};
use chaos::simulation::plan::Plan;
use chaos::simulation::{Bug, corpus, run, run_plan};
use model::format::Foreign;
use raft::host::{LogLimits, Timing};
use raft::machine::{GroupId, Machine, Position, State, View};
use raft::simulation::{Chance, Crash, Life, Observer, World, WorldConfig, clock};

/// Fresh seeds of every test, besides those of the corpus: as many as there is time for, but at least the first
/// `LEAST`. They use two processors at most, so that faster machines run about the same seeds.
const FRESH: Range<u64> = 10_000..10_700;
const LEAST: usize = 10;
const TIME: Duration = Duration::from_secs(30);

/// What to do about a seed that does not hold.
const LOOK: &str =
    "look with gateway-sim run --seed N --trace; once it is mended, keep it in chaos/simulation-corpus.txt";

/// Runs seeds on two threads until all are done or the time is up. Returns how many were run, and the violations.
fn run_all(seeds: &[u64], least: usize, time: Duration) -> (usize, Vec<String>) {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut run_here = 0;
        let mut violations = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let wanted = place < least || began.elapsed() < time;
            let Some(seed) = seeds.get(place).filter(|_| wanted) else { return (run_here, violations) };
            let outcome = run(*seed, None, false);
            violations.extend(outcome.violations.iter().map(|violation| format!("seed {seed}: {violation}")));
            run_here += 1;
        }
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let (here, mut violations) = work();
        let (there, others) = other.join().unwrap();
        violations.extend(others);
        (here + there, violations)
    })
}

#[test]
fn a_send_costs_nine_nodes_hardly_more_messages_and_entries_than_three_and_each_disk_less() {
    let [three, nine] = [3, 9].map(|nodes| costs::measure(nodes, Duration::from_secs(2)).unwrap());
    for (what, few, many) in
        [("messages", three.messages, nine.messages), ("applied entries", three.applied, nine.applied)]
    {
        assert!(few > 1.0 && many < few * 1.1, "{what}: {few:.2} and {many:.2}");
    }
    // The fewer groups share a disk, the fewer entries share a sync: less work for each disk, but more in total.
    let of_a_disk = |costs: Costs| costs.syncs * costs.sends_per_second / costs.nodes as f64;
    assert!(of_a_disk(nine) < of_a_disk(three), "{three:?}, {nine:?}");
    assert!(nine.sends_per_second > three.sends_per_second * 0.9, "{three:?}, {nine:?}");
}

#[test]
fn the_kept_seeds_and_fresh_ones_hold() {
    let kept: Vec<u64> = corpus::read().unwrap().iter().map(|kept| kept.seed).collect();
    let (_, violations) = run_all(&kept, kept.len(), Duration::ZERO);
    assert!(violations.is_empty(), "{LOOK}: {violations:#?}");
    let fresh: Vec<u64> = FRESH.collect();
    let (count, violations) = run_all(&fresh, LEAST, TIME);
    assert!(violations.is_empty(), "{LOOK}: {violations:#?}");
    println!("{count} fresh seeds held");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in 0..2 {
        let first = run(seed, None, false);
        // Another thread has other hash seeds, and another state of its own random generator.
        let again = std::thread::spawn(move || run(seed, None, false)).join().unwrap();
        assert_eq!((first.hash, first.counts), (again.hash, again.counts), "seed {seed}");
    }
    assert_ne!(run(0, None, false).hash, run(1, None, false).hash);
}

#[test]
fn a_sync_that_is_skipped_is_found() {
    found_within(Bug::SkipSync, 100);
}

/// Runs seeds from 0 until one shows the bug; without it, the same plan must hold.
fn found_within(bug: Bug, most: u64) {
    found_among(bug, 0..most);
}

fn found_among(bug: Bug, seeds: Range<u64>) {
    let found = seeds.clone().find(|seed| !run(*seed, Some(bug), false).held());
    let seed = found.unwrap_or_else(|| panic!("{bug:?} was put back, and none of the seeds {seeds:?} has shown it"));
    let without = run_plan(Plan::of(seed).for_bug(Some(bug)), None, false);
    assert!(without.held(), "seed {seed} does not hold without {bug:?}: {:#?}", without.violations);
}

#[test]
fn a_vote_that_is_forgotten_is_found() {
    found_within(Bug::ForgetVote, 400);
}

#[test]
fn an_update_that_is_applied_as_often_as_it_arrives_is_found() {
    // As many seeds as the bug may need, but beginning near one that shows it: the earlier seeds would take a minute.
    found_among(Bug::NoRepeatCheck, 40..240);
}

#[test]
fn an_answer_before_the_commit_is_found() {
    found_within(Bug::AckBeforeCommit, 40);
}

#[test]
fn a_store_that_takes_commands_of_the_past_is_found() {
    found_within(Bug::NoEpochCheck, 100);
}

#[test]
fn a_send_that_is_repeated_under_another_id_is_found() {
    found_within(Bug::NewIdOnRetry, 10);
}

#[test]
fn a_stale_read_is_found() {
    found_within(Bug::StaleRead, 10);
}

#[test]
fn an_owner_without_a_fence_is_found() {
    found_within(Bug::NoFence, 40);
}

#[test]
fn unequal_replicas_are_found() {
    found_within(Bug::UnequalReplicas, 2);
}

#[test]
fn a_leader_whose_appends_are_refused_is_found() {
    found_within(Bug::NoLongAppends, 10);
}

#[test]
fn a_snapshot_that_lost_its_tail_is_found() {
    found_within(Bug::CutSnapshot, 10);
}

/// A state machine without state.
struct Idle;

impl Machine for Idle {
    fn restore(&mut self, _: &dyn View) {}

    fn apply(&mut self, _: Position, _: &[u8], _: &mut dyn State) -> Result<Bytes, Foreign> {
        Ok(Bytes::new())
    }
}

struct Unwatched;

impl Observer for Unwatched {
    fn applied(&self, _: Life, _: GroupId, _: Position, _: u64) {}

    fn installed(&self, _: Life, _: GroupId, _: Position, _: u64) {}

    fn died(&self, life: Life, _: GroupId, reason: &str) {
        panic!("{life:?}: {reason}");
    }
}

#[test]
fn a_node_that_has_just_started_elects_nobody_while_a_leader_may_count_on_it() {
    const GROUP: GroupId = 1;
    const LOOK_AGAIN: Duration = Duration::from_millis(5);
    for seed in 0..20 {
        clock::run(seed, async move {
            let config = WorldConfig {
                timing: Timing::WAN,
                limits: LogLimits::default(),
                sync: Duration::from_millis(1)..Duration::from_millis(2),
                flaw: None,
                machines: Box::new(|_, _| Box::new(Idle)),
                observer: Arc::new(Unwatched),
            };
            let world = World::new(config, Chance::new(seed));
            let mut groups = Vec::new();
            for node in 1..=3 {
                let life = world.start(node).await;
                world.open(life, GROUP).await;
                groups.push(world.group(life, GROUP));
            }
            groups[0].initialize(BTreeSet::from([1, 2, 3])).await.unwrap();
            while groups.iter().all(|group| group.leads_at().is_none()) {
                clock::sleep(LOOK_AGAIN).await;
            }
            groups.sort_by_key(|group| group.leads_at().is_none());
            let [leader, follower, other] = [0, 1, 2].map(|place: usize| groups[place].life().node);
            let cut = |one, another| {
                world.router().cut(one, another);
                world.router().cut(another, one);
            };
            // First only the follower still reaches the leader, then the leader is cut off completely.
            cut(leader, other);
            clock::sleep(Timing::WAN.election_max * 2).await;
            cut(leader, follower);
            let counted_from = groups[0].quorum_contact().unwrap();
            world.crash(follower, Crash::Kill);
            let started = world.group(world.start(follower).await, GROUP);
            let elected = async {
                while started.leadership().leader.is_none_or(|leads| leads == leader) {
                    clock::sleep(LOOK_AGAIN).await;
                }
            };
            clock::within(Duration::from_secs(30), elected).await.unwrap();
            let after = clock::now() - counted_from;
            assert!(after >= Timing::WAN.election_min, "seed {seed}: another was elected after {after:?}");
        });
    }
}
