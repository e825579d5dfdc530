//! Tests of I13.

use super::play::{CHANNEL, MAIN, Play};
use super::{breaks, holds};
use crate::check::Invariant::I13;
use crate::check::judge_one;
use crate::history::record::UNANSWERED;
use crate::history::{FaultKind, Op, Outcome};

/// Looks once a second at a leader that stays at one entry.
fn stand(play: &mut Play, from: u64, to: u64) {
    (from..=to).for_each(|second| play.progress(second, 50));
}

#[test]
fn a_leader_that_has_something_to_commit_and_commits_nothing_is_found() {
    breaks(&[I13], |play| stand(play, 100, 105));
    // A commit may take three seconds, and one more until it is seen.
    holds(|play| stand(play, 100, 104));
    holds(|play| (100..=120).for_each(|second| play.progress(second, second)));
    // A leader that committed something between two looks may stand still again.
    holds(|play| {
        stand(play, 100, 103);
        play.progress(104, 51);
        (105..=108).for_each(|second| play.progress(second, 52));
    });
}

#[test]
fn a_leader_whose_quorum_waits_for_a_snapshot_stands_while_it_is_sent_and_has_to_say_so() {
    // From the fourth second on the leader reports that it is stalled.
    let copy = |play: &mut Play, to: u64, sent: &dyn Fn(u64) -> Option<u64>| {
        (100..=to).for_each(|second| play.stalled(second, 50, second > 103, sent(second)));
    };
    holds(|play| copy(play, 220, &Some::<u64>));
    breaks(&[I13], |play| (100..=220).for_each(|second| play.stalled(second, 50, false, Some(second))));
    breaks(&[I13], |play| (100..=220).for_each(|second| play.stalled(second, 50, second != 150, Some(second))));
    // Installing a snapshot may take a minute without progress, and a whole transfer ten.
    holds(|play| copy(play, 161, &|_| Some(7)));
    breaks(&[I13], |play| copy(play, 162, &|_| Some(7)));
    holds(|play| copy(play, 701, &Some::<u64>));
    breaks(&[I13], |play| copy(play, 702, &Some::<u64>));
    // Once the snapshot has arrived, the leader must commit.
    let arrived = |second: u64| (second < 150).then_some(second);
    holds(|play| copy(play, 154, &arrived));
    breaks(&[I13], |play| copy(play, 155, &arrived));
    // A transfer that begins too late is no excuse, nor is a stall without one.
    breaks(&[I13], |play| copy(play, 220, &|second| (second > 105).then_some(second)));
    breaks(&[I13], |play| copy(play, 220, &|_| None));
}

#[test]
fn a_leader_without_a_quorum_commits_nothing_and_one_that_lacks_a_single_node_does() {
    let amid = |play: &mut Play, kind, nodes: &[u64]| {
        stand(play, 100, 110);
        play.strike(kind, nodes, 99, 111);
    };
    for kind in [FaultKind::PeerCut, FaultKind::Crash, FaultKind::Pause, FaultKind::Disk] {
        holds(|play| amid(play, kind, &[1]));
        holds(|play| amid(play, kind, &[2, 3]));
        holds(|play| amid(play, kind, &[]));
        breaks(&[I13], |play| amid(play, kind, &[2]));
    }
    // Actions of tenants and faults of the messaging network are no excuse.
    for kind in [FaultKind::Noise, FaultKind::Use, FaultKind::Slow, FaultKind::LoseSends] {
        breaks(&[I13], |play| amid(play, kind, &[]));
    }
    breaks(&[I13], |play| {
        stand(play, 100, 110);
        play.strike(FaultKind::PeerCut, &[1], 80, 94);
    });
}

#[test]
fn another_term_or_another_leader_begins_anew() {
    let run = |change: &dyn Fn(&mut crate::history::Progress)| {
        let mut play = Play::empty();
        stand(&mut play, 100, 103);
        stand(&mut play, 104, 107);
        for record in &mut play.run.records {
            if let crate::history::Record::Progress(progress) = record
                && progress.at.0 >= 104_000_000_000
            {
                change(progress);
            }
        }
        judge_one(I13, &play.run).holds()
    };
    assert!(!run(&|_| {}));
    assert!(run(&|progress| progress.term += 1) && run(&|progress| progress.leader = 2));
    // Groups are independent of each other.
    assert!(run(&|progress| progress.group += 1));
}

#[test]
fn a_call_without_an_answer_is_found_unless_its_node_cannot_give_one() {
    let ask = |play: &mut Play| {
        let outcome = Outcome::Unknown { why: UNANSWERED.to_owned() };
        play.call_at(2, MAIN, Op::ReadChannel { channel: CHANNEL.to_owned() }, outcome);
    };
    breaks(&[I13], ask);
    let amid = |play: &mut Play, kind, nodes: &[u64]| {
        ask(play);
        play.strike(kind, nodes, 0, 60);
    };
    for kind in [FaultKind::Pause, FaultKind::Crash, FaultKind::Disk, FaultKind::Failpoint, FaultKind::NetworkCut] {
        holds(|play| amid(play, kind, &[2]));
        breaks(&[I13], |play| amid(play, kind, &[1, 3]));
    }
    // A node that cannot reach its peers must answer that.
    breaks(&[I13], |play| amid(play, FaultKind::PeerCut, &[2]));
    breaks(&[I13], |play| amid(play, FaultKind::Noise, &[]));
    // Calls of phones are answered by the network.
    holds(|play| {
        let outcome = Outcome::Unknown { why: UNANSWERED.to_owned() };
        play.call_at(0, MAIN, Op::OpenChat { channel: CHANNEL.to_owned() }, outcome);
    });
}
