//! Tests of I14.

use std::time::Duration;

use super::play::{Play, done, made, refused, unknown};
use super::{breaks, holds};
use crate::check::Invariant::{I1, I14};
use crate::check::judge_one;
use crate::history::{Answer, At, Call, FaultKind, Op, Outcome, Record, Size};

const QUIET: &str = "quiet";
const NOISES: [u64; 3] = [100, 130, 160];
const LASTS: u64 = 6;

fn is_noisy(at: At) -> bool {
    NOISES.iter().any(|from| At::seconds(*from) <= at && at < At::seconds(from + LASTS))
}

/// The quiet tenant sends without a pause. Each send takes `calm_ms`, or `loud_ms` while there is noise.
fn day(play: &mut Play, calm_ms: u64, loud_ms: u64) {
    play.run.evidence.stage.quiet = Some(QUIET.to_owned());
    for from in NOISES {
        play.strike(FaultKind::Noise, &[], from, from + LASTS);
    }
    let mut at = At::seconds(90);
    while at < At::seconds(180) {
        let end = at.plus(Duration::from_millis(if is_noisy(at) { loud_ms } else { calm_ms }));
        let op = Op::Send { channel: "quiet's".to_owned(), text: format!("quiet {}", at.0) };
        let (tenant, outcome) = (QUIET.to_owned(), done());
        play.run.records.push(Record::Call(Call { client: 7, tenant, node: 1, begin: at, end, op, outcome }));
        at = end;
    }
}

#[test]
fn a_tenant_that_costs_another_more_than_a_fifth_of_its_speed_is_found() {
    holds(|play| day(play, 40, 40));
    holds(|play| day(play, 40, 49));
    breaks(&[I14], |play| day(play, 40, 51));
    breaks(&[I14], |play| day(play, 40, 200));
    // Hardly any sends are left, but that must not count as too few to judge.
    breaks(&[I14], |play| day(play, 40, 5_900));
}

#[test]
fn one_noise_amid_something_else_does_not_decide_and_few_say_nothing() {
    let judged = |noises: usize, amid: Option<(FaultKind, u64)>| {
        let mut play = Play::empty();
        day(&mut play, 40, 80);
        play.run.faults.truncate(noises);
        if let Some((kind, at)) = amid {
            play.strike(kind, &[2], at, at + 1);
        }
        let finding = judge_one(I14, &play.run);
        (finding.judged, finding.holds())
    };
    assert_eq!(judged(3, None), (3, false));
    assert_eq!(judged(2, None), (0, true));
    // Shortly before, during and shortly after the measured intervals.
    for at in [90, 103, 113] {
        assert_eq!(judged(3, Some((FaultKind::Crash, at))), (0, true), "{at}");
    }
    assert_eq!(judged(3, Some((FaultKind::Crash, 118))), (3, false));
    assert_eq!(judged(3, Some((FaultKind::Use, 103))), (3, false));
}

#[test]
fn sends_that_fail_are_no_speed() {
    breaks(&[I14], |play| {
        day(play, 40, 40);
        for (n, call) in play.calls(|call| call.tenant == QUIET && is_noisy(call.begin)).into_iter().enumerate() {
            if n % 2 == 0 {
                call.outcome = unknown();
            }
        }
    });
}

/// Calls of the quiet tenant beside its sends. During noise each takes `loud_ms` and ends as `loud`, else it succeeds
/// at once.
fn beside(play: &mut Play, op: &Op, loud_ms: u64, loud: &Outcome) {
    day(play, 40, 40);
    let mut at = At::seconds(90);
    while at < At::seconds(180) {
        let (lasts, outcome) = if is_noisy(at) { (loud_ms, loud.clone()) } else { (20, done()) };
        let end = at.plus(Duration::from_millis(lasts));
        let (tenant, op) = (QUIET.to_owned(), op.clone());
        play.run.records.push(Record::Call(Call { client: 8, tenant, node: 1, begin: at, end, op, outcome }));
        at = end.plus(Duration::from_millis(300));
    }
}

#[test]
fn uploads_and_new_connections_have_their_promised_time_beside_noise() {
    for op in [Op::Upload, Op::AskAnew] {
        holds(|play| beside(play, &op, 4_900, &done()));
        breaks(&[I14], |play| beside(play, &op, 7_000, &done()));
        // Calls that fail at once have no speed.
        breaks(&[I14], |play| beside(play, &op, 20, &unknown()));
        breaks(&[I14], |play| beside(play, &op, 20, &refused(0, "no_connection")));
    }
}

/// All sends of the quiet tenant are accepted and their events delivered at once, during noise with this delay or
/// never.
fn told(play: &mut Play, loud: Option<u64>) {
    day(play, 40, 40);
    let mut request = play.last_hook("message.sent").clone();
    (request.hook, request.channel) = ("/Good/quiet".to_owned(), "quiet's".to_owned());
    let mut told = Vec::new();
    for (n, call) in play.calls(|call| call.tenant == QUIET).into_iter().enumerate() {
        let message = format!("quiet {n}");
        call.outcome = Outcome::Done(Answer::Taken { message: message.clone(), queued: false });
        let late = if is_noisy(call.begin) { loud } else { Some(5) };
        told.extend(late.map(|late| (call.end.plus(Duration::from_millis(late)), message)));
    }
    for (at, message) in told {
        (request.at, request.event_id, request.delivery) = (at, message.clone(), message.clone());
        request.message = Some(message);
        play.run.records.push(Record::Webhook(request.clone()));
    }
}

#[test]
fn a_receiver_hears_within_the_promised_time_beside_noise() {
    holds(|play| told(play, Some(5)));
    holds(|play| told(play, Some(4_900)));
    breaks(&[I14], |play| told(play, Some(7_000)));
    breaks(&[I14], |play| told(play, None));
}

#[test]
fn what_is_within_a_limit_is_taken_and_what_is_beyond_is_refused_for_its_size() {
    breaks(&[I14], |play| play.sized(Size::Within, refused(400, "invalid_request")));
    breaks(&[I14], |play| play.sized(Size::Within, refused(413, "payload_too_large")));
    breaks(&[I14], |play| play.sized(Size::Beyond, made("an endpoint")));
    holds(|play| play.sized(Size::Beyond, refused(413, "payload_too_large")));
    // Outcomes that show nothing about sizes hold for both.
    for size in [Size::Within, Size::Beyond] {
        holds(|play| play.sized(size, unknown()));
        for (status, code) in [(0, "no_connection"), (404, "channel_not_found"), (409, "no_op"), (429, "rate_limited")]
        {
            holds(|play| play.sized(size, refused(status, code)));
        }
    }
}

#[test]
fn a_large_send_is_lost_as_any_other() {
    let take = |play: &mut Play| {
        let taken = Answer::Taken { message: "large".to_owned(), queued: false };
        play.sized(Size::Within, Outcome::Done(taken));
    };
    breaks(&[I1], take);
    holds(|play| {
        take(play);
        play.accept("large", "large");
        // No other check considers this number.
        let row = play.run.evidence.ledger.last_mut().expect("it was accepted");
        row.from = "499@s.example".to_owned();
        play.run.evidence.inboxes.values_mut().for_each(|rows| rows.retain(|row| row.id != "large"));
    });
}

#[test]
fn a_node_that_ends_by_itself_is_found() {
    breaks(&[I14], |play| play.end(2));
    for kind in [FaultKind::Crash, FaultKind::Disk, FaultKind::Damage, FaultKind::Failpoint] {
        holds(|play| {
            play.end(2);
            play.strike(kind, &[2], 0, 60);
        });
        breaks(&[I14], |play| {
            play.end(2);
            play.strike(kind, &[3], 0, 60);
        });
    }
    for kind in [FaultKind::Noise, FaultKind::PeerCut, FaultKind::Slow, FaultKind::Pause, FaultKind::Membership] {
        breaks(&[I14], |play| {
            play.end(2);
            play.strike(kind, &[2], 0, 60);
        });
    }
    let removed = "exit status: 2: gateway: node.data_dir (/data): node 2 was removed from this cluster; let it in";
    let cases = [(FaultKind::Membership, 2, &[][..]), (FaultKind::Membership, 3, &[I14]), (FaultKind::Slow, 2, &[I14])];
    for (kind, whom, broken) in cases {
        breaks(broken, |play| {
            play.end_as(2, removed);
            play.strike(kind, &[whom], 0, 60);
        });
    }
}
