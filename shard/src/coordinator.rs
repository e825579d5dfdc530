//! Cluster-wide state of webhook endpoints, kept at the coordinator of their customer: how many attempts run
//! concurrently, and whether the endpoint answers at all.
//!
//! Each member of the cluster has one permit of its own at every endpoint, for which it asks nobody: a healthy endpoint
//! with few deliveries costs no call between nodes. The coordinator lends the rest of the ten permits to the nodes that
//! have more to deliver. Nodes report failures to it, and failures open the endpoint's circuit.
//!
//! All of this is in memory. After a failover of the coordinator, each node's next report tells which permits it held;
//! until then some nodes may hold more than they should, and circuits are closed until they have failed again. Times
//! are [`Timestamp::steady`]: setting the wall clock must neither hold permits nor delay probes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use model::id::{CustomerId, EndpointId, NodeId};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// The most concurrent attempts at one endpoint.
pub const AT_ONCE: usize = 10;

/// With up to this many members, each has a permit of its own; so at least half of the permits can be lent.
const MEMBERS_WITH_OWN: usize = 5;

/// How long a node may begin attempts on lent permits without another report.
pub const LEASE: Duration = Duration::from_secs(12);

/// How long lent permits are not lent to another node: the lease, and the longest attempt that began at its end.
const HELD_FOR: Duration = Duration::from_secs(12 + 20);

/// The number of consecutive failures that opens the circuit, and the period that they must fall into.
pub const OPENS_AFTER: usize = 10;
const OPENS_WITHIN: Duration = Duration::from_secs(300);

/// While a circuit is open, one attempt in this period tests whether the endpoint answers again.
pub const PROBE_EVERY: Duration = Duration::from_secs(30);

/// How soon nodes ask again whether another node's probe has closed the circuit.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// The most calls of the test routes in `TESTS_WITHIN`.
pub const TESTS: usize = 10;
pub const TESTS_WITHIN: Duration = Duration::from_secs(60);

/// Above this many endpoints or customers, entries without current information are evicted.
const EVICT_ABOVE: usize = 4096;

/// After this long without a report, an endpoint's counts are out of date.
const ENTRY_LIFE: Duration = Duration::from_secs(3600);

/// The number of permits that each member has without asking.
pub fn own_places(members: usize) -> usize {
    usize::from((1..=MEMBERS_WITH_OWN).contains(&members))
}

/// A node's report on an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub endpoint: EndpointId,
    pub node: NodeId,
    /// Lent permits that its running attempts use.
    pub using: usize,
    /// Lent permits that it could use, including those in use.
    pub want: usize,
    /// An attempt has succeeded since the last report; `failed` counts the failures after it.
    pub succeeded: bool,
    pub failed: usize,
    /// The node has something to attempt, and would attempt it as a probe.
    pub probe: bool,
}

/// The coordinator's answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    /// Lent permits, valid for [`LEASE`].
    pub places: usize,
    pub circuit: Circuit,
}

/// Whether an endpoint answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Circuit {
    /// Attempts are allowed.
    Closed,
    /// No attempts are allowed, except one by the node whose `probe` is true. Ask again after `ask_after`.
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
    /// The latest failures without a success in between.
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
    /// Records a node's report and answers it. `members` is the number of nodes of the cluster.
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
    /// The seconds to wait, if there were too many calls.
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

    /// Lends permits to a node: a fair share, if not all requests can be met.
    fn lend(&mut self, report: &Report, want: usize, lendable: usize, now: Timestamp) -> usize {
        self.held.retain(|node, held| *node != report.node && held.until > now);
        let others = self.held.values();
        let taken: usize = others.clone().map(|held| held.places).sum();
        let claimants = 1 + others.clone().filter(|held| held.want > 0).count();
        let fair = lendable.div_ceil(claimants);
        // The other nodes' requests up to their fair share stay reserved, even before they are granted.
        let claimed: usize = others.map(|held| held.places.min(fair).max(held.want.min(fair))).sum();
        let places = want.min(fair.max(lendable.saturating_sub(claimed))).min(lendable.saturating_sub(taken));
        // Attempts that still run on permits that were withdrawn keep using them.
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
        // A node that wants no permits returns all; the permits of a node that is silent for long expire.
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
        /// Nodes begin attempts as they are allowed to and report at random, whatever they want.
        #[test]
        fn no_more_run_than_there_are_places(steps in prop::collection::vec((0_u64..3, 0_usize..12, 0_usize..4), 0..200)) {
            let mut coordinator = Coordinator::default();
            let mut using = [0_usize; 3];
            for (second, (node, want, ended)) in (0..).zip(steps) {
                let place = &mut using[node as usize];
                *place = place.saturating_sub(ended);
                let places = coordinator.rule(&Report { want, using: *place, ..report(node) }, 3, at(second)).places;
                *place = (*place).max(places.min(want));
                // A node that holds permits reports before its lease ends, as the delivery engine does.
                for (node, used) in (0..).zip(using).filter(|(_, used)| *used > 0) {
                    coordinator.rule(&Report { want: used, using: used, ..report(node) }, 3, at(second));
                }
                prop_assert!(using.iter().sum::<usize>() <= 7, "{using:?}");
            }
        }
    }
}
