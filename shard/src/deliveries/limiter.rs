//! How many attempts this node may make at one endpoint now, and what it reports to the endpoint's coordinator.

use std::time::{Duration, Instant};

use model::id::{EndpointId, NodeId};

use crate::coordinator::{AT_ONCE, Circuit, LEASE, OPENS_AFTER, Report, Ruling};

/// How many outcomes of one endpoint may be on their way into the log. If answers come faster than they can be stored,
/// attempts wait, so that memory stays bounded.
const UNCOMMITTED: usize = 256;

/// How long after a request has ended the coordinator may be asked again.
const ASK_AGAIN: Duration = Duration::from_millis(250);

/// How often the lease of places in use is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// One endpoint's limiter on one node.
#[derive(Default)]
pub struct EndpointLimiter {
    /// Attempts that wait for their answer.
    running: usize,
    /// Attempts that were answered but whose outcome is not stored yet.
    uncommitted: usize,
    /// Places that the coordinator has lent, and until when attempts may begin on them.
    lent: Option<(usize, Instant)>,
    /// Whether the coordinator is being asked, and from when on it may be asked again.
    asking: bool,
    ask_from: Option<Instant>,
    circuit: Option<Open>,
    /// Outcomes that were not reported to the coordinator.
    succeeded: bool,
    failed: usize,
    /// Failures in the report that is on its way.
    telling: usize,
    /// The coordinator knows of failures here, so the next success has to be reported.
    tainted: bool,
}

#[derive(Clone, Copy)]
struct Open {
    probe: bool,
    ask_at: Instant,
}

impl EndpointLimiter {
    /// How many more attempts may begin. This node has `own` places without asking; an endpoint that is not called
    /// (deleted, disabled) needs none.
    pub fn room(&self, own: usize, is_called: bool, now: Instant) -> usize {
        // This many failures in a row may have opened the circuit, so the coordinator is asked first. Otherwise a
        // receiver that refuses at once would be called a hundred times before anybody is told.
        if self.uncommitted >= UNCOMMITTED || (is_called && self.failed + self.telling >= OPENS_AFTER) {
            return 0;
        }
        let places = match self.circuit {
            _ if !is_called => AT_ONCE,
            Some(open) => usize::from(open.probe),
            None => own + self.lent_now(now),
        };
        places.saturating_sub(self.running)
    }

    fn lent_now(&self, now: Instant) -> usize {
        self.lent.filter(|(_, until)| now < *until).map_or(0, |(places, _)| places)
    }

    pub fn begin(&mut self) {
        self.running += 1;
        if let Some(open) = &mut self.circuit {
            open.probe = false;
        }
    }

    /// An attempt was answered, or needs no answer: its place is free.
    pub fn answered(&mut self) {
        self.running = self.running.saturating_sub(1);
        self.uncommitted += 1;
    }

    /// Called when the outcome of an attempt is stored.
    pub fn committed(&mut self) {
        self.uncommitted = self.uncommitted.saturating_sub(1);
    }

    /// Counts the result of an answer.
    pub fn heard(&mut self, success: bool) {
        if success {
            (self.succeeded, self.failed) = (true, 0);
        } else {
            self.failed += 1;
        }
    }

    /// Nothing is running, and nothing is held that has to be returned.
    pub fn is_idle(&self) -> bool {
        let holds = self.circuit.is_some() || self.lent.is_some();
        self.is_at_rest() && !holds && !self.tainted && self.failed == 0
    }

    /// No attempt and no request is in progress.
    pub fn is_at_rest(&self) -> bool {
        self.running == 0 && self.uncommitted == 0 && !self.asking
    }

    pub fn running(&self) -> usize {
        self.running
    }

    /// The report to be sent to the coordinator now, if any. `waiting`: due attempts found no room.
    pub fn report(&mut self, id: EndpointId, node: NodeId, own: usize, waiting: bool, now: Instant) -> Option<Report> {
        if self.asking || self.ask_from.is_some_and(|from| now < from) {
            return None;
        }
        let using = self.running.saturating_sub(own);
        let lent = self.lent.map_or(0, |(places, _)| places);
        let ages = self.lent.is_some_and(|(_, until)| until.saturating_duration_since(now) < LEASE - RENEW_EVERY);
        let lacks = waiting && self.circuit.is_none() && self.running >= own + self.lent_now(now) && lent < AT_ONCE;
        let looks = self.circuit.is_some_and(|open| waiting && !open.probe && now >= open.ask_at);
        if !(lacks || ages || looks || self.has_news()) {
            return None;
        }
        self.asking = true;
        let want = if waiting { AT_ONCE } else { using };
        let report =
            Report { endpoint: id, node, using, want, succeeded: self.succeeded, failed: self.failed, probe: looks };
        (self.succeeded, self.failed, self.telling) = (false, 0, self.failed);
        self.tainted = report.failed > 0 || (self.tainted && !report.succeeded);
        Some(report)
    }

    /// Whether there are outcomes to report even if no places are needed.
    fn has_news(&self) -> bool {
        self.failed > 0 || (self.succeeded && self.tainted)
    }

    /// Applies the coordinator's ruling on a report that was sent at `sent`.
    pub fn ruled(&mut self, ruling: Ruling, sent: Instant, now: Instant) {
        self.asking = false;
        self.telling = 0;
        self.lent = (ruling.places > 0).then_some((ruling.places, sent + LEASE));
        self.circuit = match ruling.circuit {
            Circuit::Closed => None,
            Circuit::Open { probe, ask_after } => Some(Open { probe, ask_at: now + ask_after }),
        };
        // Places that are not lent now may be lent a moment later; asking without a pause would only load the
        // coordinator.
        self.ask_from = Some(now + ASK_AGAIN);
    }

    /// The coordinator could not be asked: the outcomes of the report count as unreported.
    pub fn unheard(&mut self, report: &Report, now: Instant) {
        self.asking = false;
        self.telling = 0;
        self.ask_from = Some(now + ASK_AGAIN);
        self.tainted |= report.succeeded || report.failed > 0;
        if !self.succeeded {
            self.succeeded = report.succeeded;
            self.failed += report.failed;
        }
    }

    /// When the limiter has to be evaluated again even if nothing happens.
    pub fn look_at(&self, waiting: bool) -> Option<Instant> {
        let asks = match self.circuit {
            _ if self.has_news() => self.ask_from,
            Some(open) if waiting && !open.probe => Some(open.ask_at.max(self.ask_from.unwrap_or(open.ask_at))),
            Some(_) => None,
            None if waiting => self.ask_from,
            None => None,
        };
        let renews = self.lent.map(|(_, until)| until - (LEASE - RENEW_EVERY));
        [asks, renews].into_iter().flatten().min().filter(|_| !self.asking)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const ENDPOINT: EndpointId = EndpointId(uuid::Uuid::from_u128(1));

    fn lent(places: usize) -> Ruling {
        Ruling { places, circuit: Circuit::Closed }
    }

    #[test]
    fn a_place_of_ones_own_costs_no_report_and_more_does() {
        let (mut limiter, now) = (EndpointLimiter::default(), Instant::now());
        assert_eq!(limiter.room(1, true, now), 1);
        assert_eq!(limiter.report(ENDPOINT, 1, 1, false, now), None);
        limiter.begin();
        assert_eq!(limiter.room(1, true, now), 0);
        let report = limiter.report(ENDPOINT, 1, 1, true, now).unwrap();
        assert_eq!((report.using, report.want), (0, AT_ONCE));
        assert_eq!(limiter.report(ENDPOINT, 1, 1, true, now), None, "one call at a time");
        limiter.ruled(lent(7), now, now);
        assert_eq!(limiter.room(1, true, now), 7);
        assert_eq!(limiter.room(1, true, now + LEASE), 0, "a lease ends by itself");
        limiter.answered();
        limiter.heard(true);
        limiter.committed();
        // Nothing waits any more: the places are returned when the lease would be renewed.
        let later = now + RENEW_EVERY + Duration::from_secs(1);
        let report = limiter.report(ENDPOINT, 1, 1, false, later).unwrap();
        assert_eq!((report.using, report.want), (0, 0));
        limiter.ruled(lent(0), later, later);
        assert!(limiter.is_idle());
    }

    #[test]
    fn failures_are_told_and_the_success_after_them() {
        let (mut limiter, now) = (EndpointLimiter::default(), Instant::now());
        limiter.heard(false);
        limiter.heard(false);
        let report = limiter.report(ENDPOINT, 1, 1, false, now).unwrap();
        assert_eq!((report.failed, report.succeeded), (2, false));
        limiter.unheard(&report, now);
        let later = now + ASK_AGAIN;
        let report = limiter.report(ENDPOINT, 1, 1, false, later).unwrap();
        assert_eq!(report.failed, 2, "told again");
        limiter.ruled(lent(0), later, later);
        limiter.heard(true);
        let later = later + ASK_AGAIN;
        assert!(limiter.report(ENDPOINT, 1, 1, false, later).unwrap().succeeded);
        limiter.ruled(lent(0), later, later);
        limiter.heard(true);
        assert_eq!(limiter.report(ENDPOINT, 1, 1, false, later + ASK_AGAIN), None, "no news");
    }

    #[test]
    fn ten_failures_in_a_row_wait_for_the_homes_word() {
        let (mut limiter, now) = (EndpointLimiter::default(), Instant::now());
        (0..OPENS_AFTER).for_each(|_| limiter.heard(false));
        assert_eq!((limiter.room(1, true, now), limiter.room(1, false, now)), (0, AT_ONCE));
        limiter.report(ENDPOINT, 1, 1, true, now).unwrap();
        assert_eq!(limiter.room(1, true, now), 0);
        limiter.ruled(lent(0), now, now);
        assert_eq!(limiter.room(1, true, now), 1);
    }

    #[test]
    fn an_open_circuit_lets_one_probe_through() {
        let (mut limiter, now) = (EndpointLimiter::default(), Instant::now());
        let open = |probe| Ruling { places: 0, circuit: Circuit::Open { probe, ask_after: Duration::from_secs(3) } };
        limiter.ruled(open(false), now, now);
        assert_eq!((limiter.room(1, true, now), limiter.room(1, false, now)), (0, AT_ONCE));
        assert_eq!(limiter.report(ENDPOINT, 1, 1, true, now + ASK_AGAIN), None);
        let later = limiter.look_at(true).unwrap();
        assert!(limiter.report(ENDPOINT, 1, 1, true, later).unwrap().probe);
        limiter.ruled(open(true), later, later);
        assert_eq!(limiter.room(1, true, later), 1);
        limiter.begin();
        limiter.answered();
        assert_eq!(limiter.room(1, true, later), 0, "one, and no more until the home says so");
        // The answer comes before the coordinator may be asked again: it is reported as soon as that is possible.
        limiter.heard(false);
        let soon = limiter.look_at(true).unwrap();
        assert_eq!(soon, later + ASK_AGAIN);
        assert_eq!(limiter.report(ENDPOINT, 1, 1, true, soon).unwrap().failed, 1);
    }
}
