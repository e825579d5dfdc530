//! Tests of I7.

use std::time::Duration;

use proptest::prelude::*;

use super::play::{BURST, LIMITED, PER_SECOND, Play, done, refused};
use super::{breaks, holds};
use crate::check::Invariant::I7;
use crate::check::judge_one;
use crate::history::{At, Call, FaultKind, Op, Record};

/// A bucket that is empty, a while after its coordinator was seen in term 7.
fn drawn_empty() -> Play {
    let mut play = Play::empty();
    play.see_leader(7);
    play.wait(Duration::from_secs(1));
    play.draws(12);
    play
}

#[test]
fn a_second_burst_needs_a_fail_over_of_the_bucket() {
    breaks(&[I7], |play| play.draws(12));
    holds(|play| {
        play.draws(12);
        play.fault(FaultKind::Crash);
    });
    holds(|play| {
        play.wait(Duration::from_secs(10));
        play.draws(12);
    });
}

#[test]
fn a_new_term_gives_one_burst_and_not_two() {
    let bursts = |count: usize| {
        let mut play = drawn_empty();
        for _ in 1..count {
            play.draws(12);
        }
        play.see_leader(8);
        judge_one(I7, &play.run)
    };
    assert!(bursts(2).holds(), "{:?}", bursts(2));
    assert!(!bursts(3).holds());
}

#[test]
fn a_node_that_the_harness_saw_lead_all_the_time_gives_nothing_more() {
    let mut play = drawn_empty();
    play.draws(12);
    play.see_leader(7);
    play.fault(FaultKind::Crash);
    assert!(!judge_one(I7, &play.run).holds());
}

#[test]
fn looks_that_know_no_leader_tell_nothing_of_the_bucket() {
    let judged = |look: &dyn Fn(&mut Play)| {
        let mut play = drawn_empty();
        play.fault(FaultKind::Crash);
        play.draws(12);
        look(&mut play);
        judge_one(I7, &play.run)
    };
    // All nodes start, and none knows the group yet; or one is the candidate in an election that another one wins.
    assert!(judged(&|play| play.leaderless(0)).holds());
    assert!(judged(&|play| play.leaderless(9)).holds());
    // Only a node that is cut off was asked, which still considers itself the leader.
    assert!(judged(&|play| play.see_leader(6)).holds());
    assert!(!judged(&|play| play.see_leader(7)).holds());
}

#[test]
fn an_empty_bucket_gives_one_burst_in_a_fail_over_and_not_two() {
    let after_a_refusal = |admitted: usize| {
        let mut play = drawn_empty();
        // Long enough that the burst of a full bucket and its refill would excuse a second burst.
        for _ in 0..20 {
            play.wait(Duration::from_millis(300));
            play.call(LIMITED, Op::Draw, refused(429, "rate_limited"));
        }
        for _ in 0..admitted / BURST as usize {
            play.draws(BURST as usize);
        }
        play.see_leader(8);
        judge_one(I7, &play.run)
    };
    assert!(after_a_refusal(10).holds(), "{:?}", after_a_refusal(10));
    assert!(!after_a_refusal(20).holds());
}

#[test]
fn a_home_that_has_just_been_deposed_may_answer_once_more() {
    let mut play = Play::empty();
    play.see_leader(7);
    play.wait(Duration::from_secs(1));
    play.see_leader(8);
    // The first call is admitted by the former coordinator.
    play.draws(1 + BURST as usize);
    play.see_leader(8);
    assert!(judge_one(I7, &play.run).holds());
}

#[test]
fn a_leadership_that_moves_before_there_was_a_fault_counts_from_the_first_look() {
    let moved_to = |term: u64| {
        let mut play = Play::empty();
        play.draws(1 + BURST as usize);
        play.see_leader(7);
        play.wait(Duration::from_millis(500));
        play.draws(BURST as usize);
        play.see_leader(term);
        judge_one(I7, &play.run)
    };
    assert!(moved_to(8).holds(), "{:?}", moved_to(8));
    assert!(!moved_to(7).holds());
}

#[test]
fn a_move_that_was_seen_counts_also_where_nobody_looked_after_the_last_call() {
    let moved_to = |term: u64| {
        let mut play = drawn_empty();
        play.see_leader(term);
        play.draws(12);
        judge_one(I7, &play.run)
    };
    assert!(moved_to(8).holds(), "{:?}", moved_to(8));
    assert!(!moved_to(7).holds());
}

/// The answers of a correct bucket to calls that take effect at some moment between their begin and their end.
fn admitted_by_a_bucket(calls: &[(u64, u64, u64)]) -> Vec<Record> {
    let mut moments: Vec<(u64, u64, u64)> = Vec::new();
    let mut now = 0;
    for (gap, before, after) in calls {
        now += gap;
        moments.push((now, now.saturating_sub(*before), now + after));
    }
    let (mut tokens, mut last) = (BURST, 0);
    let answer = |(at, begin, end): (u64, u64, u64)| {
        tokens = BURST.min(tokens + (at - last) as f64 / 1_000.0 * PER_SECOND);
        last = at;
        let outcome = if tokens >= 1.0 {
            tokens -= 1.0;
            done()
        } else {
            refused(429, "rate_limited")
        };
        let at = |ms: u64| At(ms * 1_000_000);
        let tenant = LIMITED.to_owned();
        Record::Call(Call { client: 1, tenant, node: 1, begin: at(begin), end: at(end), op: Op::Draw, outcome })
    };
    moments.into_iter().map(answer).collect()
}

proptest! {
    #[test]
    fn what_a_bucket_admits_is_let_pass_and_a_burst_more_is_found(
        calls in prop::collection::vec((0_u64..300, 0_u64..200, 0_u64..200), 30..200),
    ) {
        let mut play = Play::empty();
        play.run.records = admitted_by_a_bucket(&calls);
        let finding = judge_one(I7, &play.run);
        prop_assert!(finding.holds(), "{finding:?}");
        // A burst of calls at one moment, as from a second bucket: more than any interval allows.
        let Some(Record::Call(call)) = play.run.records.first().cloned() else { return Ok(()) };
        let extra = std::iter::repeat_n(call, 2 * BURST as usize);
        play.run.records.extend(extra.map(Record::Call));
        prop_assert!(!judge_one(I7, &play.run).holds());
    }
}
