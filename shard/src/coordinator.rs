//! What is counted for an endpoint over the whole cluster, at the home of its customer: how many attempts run at a
//! time, and whether it answers at all.
//!
//! Each member of the cluster has a place of its own at every endpoint, for which it asks nobody: an endpoint that is
//! well and hears of something now and then costs no call between nodes. The rest of the ten is lent here, to the
//! nodes that have more to deliver. Failures are reported here, and open the endpoint's circuit.
//!
//! All of it lives in memory. After a fail-over of the home, what nodes held before is known again with their next
//! report; until then some may hold more than they should, and a circuit is closed until it has failed anew. Its time is
//! [`Timestamp::steady`]: a clock that is put right must neither hold places nor put off probes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use model::id::{CustomerId, EndpointId, NodeId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Attempts at one endpoint at a time.
pub const AT_ONCE: usize = 10;

/// Up to this many members each have a place of their own, so that at least half of the places can be lent.
const MEMBERS_WITH_OWN: usize = 5;

/// For how long a node may begin attempts on lent places without having reported again.
pub const LEASE: Duration = Duration::from_secs(12);

/// For how long lent places are not lent to another: the lease, and the longest attempt that began at its end.
const HELD_FOR: Duration = Duration::from_secs(12 + 20);

/// How many failures in a row open the circuit, and within which time.
pub const OPENS_AFTER: usize = 10;
const OPENS_WITHIN: Duration = Duration::from_secs(300);

/// One attempt in this time finds out whether an endpoint with an open circuit answers again.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);

/// How soon nodes look again whether another one's probe has closed the circuit.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// Calls of the test routes in a time.
pub const TESTS: usize = 10;
pub const TESTS_WITHIN: Duration = Duration::from_secs(60);

/// Above this many endpoints or customers, those that nothing is known of any more are dropped.
const EVICT_ABOVE: usize = 4096;

/// After this long without a report, an endpoint's counts say nothing any more.
const ENTRY_LIFE: Duration = Duration::from_secs(3600);

/// The places that each member has without asking.
pub fn own_places(members: usize) -> usize {
    usize::from((1..=MEMBERS_WITH_OWN).contains(&members))
}

/// What a node tells of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub endpoint: EndpointId,
    pub node: NodeId,
    /// Lent places that its running attempts take.
    pub using: usize,
    /// Lent places that it could make use of, those in use among them.
    pub want: usize,
    /// An attempt has succeeded since the last report, before `failed` others failed.
    pub succeeded: bool,
    pub failed: usize,
    /// The node has something to attempt, and would do it as a probe.
    pub probe: bool,
}

/// What the home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// Lent places, for [`LEASE`].
    pub places: usize,
    pub circuit: Circuit,
}

/// Whether an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Circuit {
    /// Attempts go on.
    Closed,
    /// Nothing is to be attempted, except one attempt by the node that is told to probe. Ask again after this time.
    Open { probe: bool, ask_after: Duration },
}

#[derive(Default)]
pub struct Coordinator {
    endpoints: HashMap<EndpointId, Counted>,
    tests: HashMap<CustomerId, VecDeque<Timestamp>>,
}

#[derive(Default)]
struct Counted {
    held: HashMap<NodeId, Held>,
    /// The last failures without a success in between.
    failures: VecDeque<Timestamp>,
    /// Set while the circuit is open: when the next probe may be made.
    next_probe: Option<Timestamp>,
    reported_at: Timestamp,
}

#[derive(Clone, Copy)]
struct Held {
    places: usize,
    want: usize,
    until: Timestamp,
}

impl Coordinator {
    /// Takes a node's report and rules. `members` is the number of nodes of the cluster.
    pub fn rule(&mut self, report: &Report, members: usize, now: Timestamp) -> Ruling {
        if self.endpoints.len() >= EVICT_ABOVE {
            self.endpoints.retain(|_, counted| now.since(counted.reported_at) < ENTRY_LIFE);
        }
        let counted = self.endpoints.entry(report.endpoint).or_default();
        counted.reported_at = now;
        let circuit = counted.circuit(report, now);
        let lendable = AT_ONCE - own_places(members) * members;
        let want = if circuit == Circuit::Closed { report.want } else { 0 };
        let places = counted.lend(report, want, lendable, now);
        if counted.held.is_empty() && counted.failures.is_empty() && counted.next_probe.is_none() {
            self.endpoints.remove(&report.endpoint);
        }
        Ruling { places, circuit }
    }

    /// Counts a call of a test route.
    ///
    /// # Errors
    /// How many seconds to wait, when there were too many.
    pub fn take_test(&mut self, customer: CustomerId, now: Timestamp) -> Result<(), u32> {
        let fresh = |at: &Timestamp| now.since(*at) < TESTS_WITHIN;
        if self.tests.len() >= EVICT_ABOVE {
            self.tests.retain(|_, calls| calls.back().is_some_and(fresh));
        }
        let calls = self.tests.entry(customer).or_default();
        while calls.front().is_some_and(|at| !fresh(at)) {
            calls.pop_front();
        }
        match calls.front() {
            Some(oldest) if calls.len() >= TESTS => {
                let wait = TESTS_WITHIN.saturating_sub(now.since(*oldest));
                Err(u32::try_from(wait.as_millis().div_ceil(1000)).unwrap_or(u32::MAX).max(1))
            }
            _ => {
                calls.push_back(now);
                Ok(())
            }
        }
    }
}

impl Counted {
    fn circuit(&mut self, report: &Report, now: Timestamp) -> Circuit {
        if report.succeeded {
            self.failures.clear();
            self.next_probe = None;
        }
        self.failures.extend(std::iter::repeat_n(now, report.failed.min(OPENS_AFTER)));
        self.failures.drain(..self.failures.len().saturating_sub(OPENS_AFTER));
        let opens = self.failures.len() == OPENS_AFTER
            && self.failures.front().is_some_and(|first| now.since(*first) <= OPENS_WITHIN);
        if opens && self.next_probe.is_none() {
            self.next_probe = Some(now.plus(PROBE_EVERY));
        }
        let Some(next_probe) = self.next_probe else { return Circuit::Closed };
        if report.probe && now >= next_probe {
            self.next_probe = Some(now.plus(PROBE_EVERY));
            return Circuit::Open { probe: true, ask_after: PROBE_EVERY };
        }
        let wait = next_probe.since(now).clamp(Duration::from_millis(100), LOOK_AGAIN);
        Circuit::Open { probe: false, ask_after: wait }
    }

    /// Lends to those who want, a fair part each when not all wishes can be met.
    fn lend(&mut self, report: &Report, want: usize, lendable: usize, now: Timestamp) -> usize {
        self.held.retain(|node, held| *node != report.node && held.until > now);
        let others = self.held.values();
        let taken: usize = others.clone().map(|held| held.places).sum();
        let claimants = 1 + others.clone().filter(|held| held.want > 0).count();
        let fair = lendable.div_ceil(claimants);
        // What others want up to their fair part is left to them, also while they do not have it yet.
        let claimed: usize = others.map(|held| held.places.min(fair).max(held.want.min(fair))).sum();
        let places = want.min(fair.max(lendable.saturating_sub(claimed))).min(lendable.saturating_sub(taken));
        // Attempts that run on places which are lent no more still take them.
        let held = places.max(report.using);
        if held > 0 || want > 0 {
            self.held.insert(report.node, Held { places: held, want, until: now.plus(HELD_FOR) });
        }
        places
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENDPOINT: EndpointId = EndpointId(uuid::Uuid::from_u128(1));

    fn report(node: NodeId) -> Report {
        Report { endpoint: ENDPOINT, node, using: 0, want: 0, succeeded: false, failed: 0, probe: false }
    }

    fn at(seconds: i64) -> Timestamp {
        Timestamp(1_000_000 + seconds * 1000)
    }

    #[test]
    fn one_node_gets_all_and_gives_up_a_fair_part_to_the_next() {
        let mut coordinator = Coordinator::default();
        let want = |node, using| Report { want: 10, using, ..report(node) };
        assert_eq!(coordinator.rule(&want(1, 0), 3, at(0)).places, 7);
        assert_eq!(coordinator.rule(&want(2, 0), 3, at(0)).places, 0, "all are lent");
        let first = coordinator.rule(&want(1, 7), 3, at(1)).places;
        assert_eq!(first, 4, "it begins no more than its part from now on");
        assert_eq!(coordinator.rule(&want(2, 0), 3, at(1)).places, 0, "but its attempts still run");
        assert_eq!(coordinator.rule(&want(1, 4), 3, at(2)).places, 4);
        assert_eq!(coordinator.rule(&want(2, 0), 3, at(2)).places, 3);
        // Who wants nothing gives all back; who is silent for long has nothing.
        assert_eq!(coordinator.rule(&report(1), 3, at(3)).places, 0);
        assert_eq!(coordinator.rule(&want(2, 3), 3, at(3)).places, 7);
        assert_eq!(coordinator.rule(&want(3, 0), 3, at(40)).places, 7);
    }

    #[test]
    fn ten_failures_in_a_row_open_the_circuit_and_one_success_closes_it() {
        let mut coordinator = Coordinator::default();
        let failed = |failed| Report { failed, ..report(1) };
        assert_eq!(coordinator.rule(&failed(9), 3, at(0)).circuit, Circuit::Closed);
        coordinator.rule(&Report { succeeded: true, ..failed(9) }, 3, at(1));
        assert!(matches!(coordinator.rule(&failed(1), 3, at(2)).circuit, Circuit::Open { probe: false, .. }));
        let probe = |node| Report { probe: true, ..report(node) };
        assert!(matches!(coordinator.rule(&probe(2), 3, at(20)).circuit, Circuit::Open { probe: false, .. }));
        assert!(matches!(coordinator.rule(&probe(2), 3, at(32)).circuit, Circuit::Open { probe: true, .. }));
        assert!(
            matches!(coordinator.rule(&probe(1), 3, at(33)).circuit, Circuit::Open { probe: false, .. }),
            "one in 30 s"
        );
        let ruling = coordinator.rule(&Report { failed: 1, want: 5, ..report(2) }, 3, at(40));
        assert!(matches!(ruling, Ruling { places: 0, circuit: Circuit::Open { .. } }));
        assert_eq!(coordinator.rule(&Report { succeeded: true, ..report(2) }, 3, at(63)).circuit, Circuit::Closed);
        assert_eq!(coordinator.rule(&probe(1), 3, at(64)).circuit, Circuit::Closed);
    }

    #[test]
    fn slow_failures_leave_the_circuit_closed() {
        let mut coordinator = Coordinator::default();
        for n in 0..20 {
            let ruling = coordinator.rule(&Report { failed: 1, ..report(1) }, 3, at(n * 60));
            assert_eq!(ruling.circuit, Circuit::Closed);
        }
    }

    #[test]
    fn ten_tests_a_minute_pass() {
        let mut coordinator = Coordinator::default();
        let customer = CustomerId::random();
        (0..10).for_each(|n| assert_eq!(coordinator.take_test(customer, at(n)), Ok(())));
        assert_eq!(coordinator.take_test(customer, at(10)), Err(50));
        assert_eq!(coordinator.take_test(CustomerId::random(), at(10)), Ok(()));
        assert_eq!(coordinator.take_test(customer, at(60)), Ok(()));
        assert_eq!(coordinator.take_test(customer, at(60)), Err(1));
    }

    proptest! {
        /// Nodes that begin attempts as they may, and report now and then, whatever they want.
        #[test]
        fn no_more_run_than_there_are_places(steps in prop::collection::vec((0_u64..3, 0_usize..12, 0_usize..4), 0..200)) {
            let mut coordinator = Coordinator::default();
            let mut using = [0_usize; 3];
            for (second, (node, want, ended)) in (0..).zip(steps) {
                let place = &mut using[node as usize];
                *place = place.saturating_sub(ended);
                let places = coordinator.rule(&Report { want, using: *place, ..report(node) }, 3, at(second)).places;
                *place = (*place).max(places.min(want));
                // Who holds places reports before its lease ends, as the engine does.
                for (node, used) in (0..).zip(using).filter(|(_, used)| *used > 0) {
                    coordinator.rule(&Report { want: used, using: used, ..report(node) }, 3, at(second));
                }
                prop_assert!(using.iter().sum::<usize>() <= 7, "{using:?}");
            }
        }
    }
}
