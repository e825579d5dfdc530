//! Tests of I6, for what is off or gone, and of I9 to I12.

use std::time::Duration;

use super::play::{
    CHANNEL, MAIN, NUMBER, OTHERS_CHANNEL, PASSING, PASSING_NUMBER, Play, RECIPIENT, STEP, STRANGER, done, made,
    refused, unknown,
};
use super::{breaks, holds};
use crate::check::Invariant::{I6, I9, I10, I11, I12};
use crate::check::judge_one;
use crate::history::{Answer, At, FaultKind, Look, Op, Outcome, Replica};

fn send(channel: &str, text: &str) -> Op {
    Op::Send { channel: channel.to_owned(), text: text.to_owned() }
}

#[test]
fn nothing_that_is_sent_through_a_deleted_channel_comes_to_the_network() {
    let accept = |play: &mut Play| {
        play.call(MAIN, send(PASSING, "too late"), unknown());
        play.accept_of_passing("too late", "a message");
    };
    breaks(&[I6], accept);
    // No fault excuses a send that began after the answer.
    breaks(&[I6], |play| {
        accept(play);
        play.fault(FaultKind::Pause);
    });
}

#[test]
fn what_was_sent_before_a_delete_comes_to_the_network_soon_or_amid_faults() {
    let accept = |play: &mut Play, later: Duration| {
        let deleted = play.end_of(|call| matches!(call.op, Op::DeleteChannel { .. }));
        play.call(MAIN, send(PASSING, "just before"), unknown());
        let mut sends = play.calls(|call| call.op == send(PASSING, "just before"));
        (sends[0].begin, sends[0].end) = (deleted.minus(STEP), deleted.plus(STEP));
        play.wait(later);
        play.accept_of_passing("just before", "a message");
    };
    let late = Duration::from_secs(10);
    holds(|play| accept(play, Duration::ZERO));
    breaks(&[I6], |play| accept(play, late));
    // Also if it is unknown which send it was.
    breaks(&[I6], |play| {
        accept(play, late);
        play.run.evidence.inboxes.get_mut(RECIPIENT).and_then(Vec::pop).expect("it has arrived");
    });
    for kind in [FaultKind::NetworkCut, FaultKind::Crash, FaultKind::Slow] {
        holds(|play| {
            accept(play, late);
            play.fault(kind);
        });
    }
    breaks(&[I6], |play| {
        accept(play, late);
        play.fault(FaultKind::LoseSends);
    });
    breaks(&[I6], |play| {
        play.fault(FaultKind::NetworkCut);
        accept(play, Duration::from_secs(100));
    });
}

#[test]
fn no_owner_logs_in_for_a_deleted_channel_but_one_that_comes_after_a_fault() {
    let log_in = |play: &mut Play| {
        play.wait(Duration::from_secs(10));
        play.login(2, 6);
        let logins = &mut play.run.evidence.logins;
        let login = logins.get_mut(NUMBER).and_then(Vec::pop).expect("it logged in");
        logins.insert(PASSING_NUMBER.to_owned(), vec![login]);
    };
    breaks(&[I6], log_in);
    holds(|play| {
        log_in(play);
        play.fault(FaultKind::Crash);
    });
}

#[test]
fn a_channel_that_is_off_is_sent_through_nowhere_until_it_may_be_on_again() {
    let off = |play: &mut Play| play.call(MAIN, Op::DisableChannel { channel: CHANNEL.to_owned() }, done());
    let on = |play: &mut Play, outcome| play.call(MAIN, Op::EnableChannel { channel: CHANNEL.to_owned() }, outcome);
    holds(|play| {
        off(play);
        play.call_at(2, MAIN, send(CHANNEL, "while off"), refused(409, "channel_unavailable"));
        // A disabled channel can still be read.
        let name = Answer::Channel { name: "Off".to_owned() };
        play.call_at(3, MAIN, Op::ReadChannel { channel: CHANNEL.to_owned() }, Outcome::Done(name));
        on(play, done());
        play.send("on again");
    });
    breaks(&[I6], |play| {
        off(play);
        play.send("while off");
        on(play, done());
    });
    holds(|play| {
        off(play);
        on(play, unknown());
        play.send("on again, perhaps");
    });
    breaks(&[I6], |play| {
        off(play);
        on(play, refused(429, "rate_limited"));
        play.send("still off");
    });
}

#[test]
fn what_one_client_switches_off_while_another_switches_it_on_may_be_either() {
    let at_once = |play: &mut Play| {
        play.call_at(1, MAIN, Op::DisableChannel { channel: CHANNEL.to_owned() }, done());
        play.call_at(2, MAIN, Op::EnableChannel { channel: CHANNEL.to_owned() }, done());
        let end = play.end_of(|_| true);
        play.calls(|call| matches!(call.op, Op::DisableChannel { .. }))[0].end = end;
    };
    holds(|play| {
        at_once(play);
        play.send("on or off");
    });
    // Whatever the result of both calls was, a later disable ensures that it is off.
    breaks(&[I6], |play| {
        at_once(play);
        play.call_at(1, MAIN, Op::DisableChannel { channel: CHANNEL.to_owned() }, done());
        play.send("while off");
    });
}

#[test]
fn what_is_sent_while_a_channel_is_off_comes_to_the_network_after_that_or_never() {
    let sent = |play: &mut Play| {
        play.call(MAIN, Op::DisableChannel { channel: CHANNEL.to_owned() }, done());
        play.call(MAIN, send(CHANNEL, "while off"), unknown());
    };
    let on = |play: &mut Play| {
        play.wait(Duration::from_secs(2));
        play.call(MAIN, Op::EnableChannel { channel: CHANNEL.to_owned() }, done());
    };
    breaks(&[I6], |play| {
        sent(play);
        play.accept("while off", "a message");
        on(play);
    });
    // A node may have delayed it until then.
    holds(|play| {
        sent(play);
        on(play);
        play.accept("while off", "a message");
    });
}

#[test]
fn an_endpoint_that_is_off_is_called_no_later_than_a_fault_explains() {
    let call = |play: &mut Play, seconds: u64| {
        let off = play.end_of(|call| matches!(call.op, Op::ChangeEndpoint { .. }));
        play.late_hook(off.plus(Duration::from_secs(seconds)));
        off
    };
    for kind in [FaultKind::PeerCut, FaultKind::NetworkCut, FaultKind::Disk, FaultKind::Failpoint] {
        let amid = |play: &mut Play, seconds| {
            call(play, seconds);
            play.fault(kind);
        };
        holds(|play| amid(play, 24));
        breaks(&[I6], |play| amid(play, 26));
    }
    // A dead node has nothing in flight, and the messaging network does not affect webhooks.
    for kind in [FaultKind::Crash, FaultKind::Membership, FaultKind::Clock, FaultKind::Slow, FaultKind::LoseSends] {
        breaks(&[I6], |play| {
            call(play, 8);
            play.fault(kind);
        });
    }
    // A fault that ended long before excuses nothing.
    breaks(&[I6], |play| {
        let off = call(play, 8);
        play.fault_within(FaultKind::PeerCut, At::default(), off.minus(Duration::from_secs(11)));
    });
    // Excused for the duration of the pause, and no longer.
    let stand = |play: &mut Play, seconds| {
        let off = call(play, seconds);
        let after = |seconds| off.plus(Duration::from_secs(seconds));
        play.fault_within(FaultKind::Pause, after(1), after(6));
    };
    holds(|play| stand(play, 29));
    breaks(&[I6], |play| stand(play, 31));
}

#[test]
fn an_endpoint_is_judged_that_was_off_for_longer_than_an_attempt() {
    let judged = |seconds: u64| {
        let mut play = Play::empty();
        let change = |enabled| Op::ChangeEndpoint { endpoint: "x".to_owned(), hook: None, enabled: Some(enabled) };
        play.call(MAIN, Op::CreateEndpoint { hook: "/passing/x".to_owned() }, made("x"));
        play.call(MAIN, change(false), done());
        play.fault(FaultKind::PeerCut);
        play.wait(Duration::from_secs(seconds));
        play.call(MAIN, change(true), done());
        judge_one(I6, &play.run).judged
    };
    assert_eq!((judged(20), judged(40)), (0, 1));
}

#[test]
fn replicas_of_one_position_are_alike() {
    breaks(&[I9], |play| play.run.evidence.replicas[1].hash = "abd".to_owned());
    holds(|play| {
        let replica = &mut play.run.evidence.replicas[1];
        (replica.applied, replica.hash) = (71, "abd".to_owned());
    });
}

#[test]
fn replicas_that_nobody_could_compare_hold_nothing() {
    breaks(&[I9], |play| play.run.evidence.replicas.clear());
    breaks(&[I9], |play| {
        for (node, replica) in play.run.evidence.replicas.iter_mut().enumerate() {
            replica.applied += node as u64;
        }
    });
    // Two looks at one node are not two replicas.
    breaks(&[I9], |play| {
        play.run.evidence.replicas.truncate(1);
        let again = play.run.evidence.replicas[0].clone();
        play.run.evidence.replicas.push(again);
    });
}

#[test]
fn a_replica_that_stays_behind_for_seconds_is_found_and_one_that_catches_up_is_not() {
    let looks = |play: &mut super::Play, apart: u64, positions: [[u64; 3]; 2]| {
        let look = |(number, applied): (u64, [u64; 3])| {
            let rows = (1..=3).zip(applied);
            let rows = rows.map(|(node, applied)| Replica { node, group: 1, applied, hash: format!("at {applied}") });
            Look { at: At::seconds(100 + number * apart), replicas: rows.collect() }
        };
        play.run.evidence.looks = (0..).zip(positions).map(look).collect();
    };
    breaks(&[I9], |play| looks(play, 6, [[60, 80, 80], [60, 80, 80]]));
    // The replica makes some progress, but does not reach the position of the others.
    breaks(&[I9], |play| looks(play, 6, [[60, 80, 80], [61, 95, 90]]));
    holds(|play| looks(play, 6, [[60, 80, 80], [80, 95, 90]]));
    // The looks are too close to know that it would not have caught up.
    holds(|play| looks(play, 1, [[60, 80, 80], [60, 80, 80]]));
    // No two replicas were further.
    holds(|play| looks(play, 6, [[60, 79, 80], [60, 79, 80]]));
    breaks(&[I9], |play| {
        looks(play, 6, [[90, 90, 90], [90, 90, 90]]);
        play.run.evidence.looks[0].replicas[2].hash = "another".to_owned();
    });
}

#[test]
fn a_channel_or_a_node_that_does_not_come_back_is_found() {
    breaks(&[I10], |play| {
        let liveness = play.run.evidence.liveness.as_mut().expect("somebody waited");
        liveness.channels.insert(CHANNEL.to_owned(), None);
    });
    breaks(&[I10], |play| {
        let liveness = play.run.evidence.liveness.as_mut().expect("somebody waited");
        let late = liveness.since.plus(liveness.bound + Duration::from_millis(1));
        liveness.nodes.insert(2, Some(late));
    });
    breaks(&[I10], |play| {
        let liveness = play.run.evidence.liveness.as_mut().expect("somebody waited");
        liveness.ready.insert(3, None);
    });
    breaks(&[I10], |play| {
        let liveness = play.run.evidence.liveness.as_mut().expect("somebody waited");
        liveness.sending.insert(CHANNEL.to_owned(), None);
    });
    breaks(&[I10], |play| play.run.evidence.untold.push("GET /v1/messages: nothing".to_owned()));
}

#[test]
fn what_nobody_has_looked_at_has_not_healed() {
    breaks(&[I10], |play| play.run.evidence.liveness = None);
    breaks(&[I10], |play| {
        let liveness = play.run.evidence.liveness.as_mut().expect("somebody waited");
        liveness.channels.remove(CHANNEL);
    });
    breaks(&[I10], |play| play.run.evidence.liveness.as_mut().expect("somebody waited").nodes.clear());
}

#[test]
fn a_node_that_runs_on_damaged_files_is_found() {
    breaks(&[I11], |play| play.damage(None));
}

#[test]
fn a_stranger_is_told_that_there_is_nothing() {
    let trespass = || Op::Trespass { what: "DELETE /v1/channels/channel".to_owned() };
    breaks(&[I12], |play| play.call(STRANGER, trespass(), done()));
    breaks(&[I12], |play| play.call(STRANGER, trespass(), refused(403, "channel_access_denied")));
    breaks(&[I12], |play| play.call(STRANGER, trespass(), refused(409, "not_connected")));
    holds(|play| play.call(STRANGER, trespass(), refused(0, "no_connection")));
    let listed = |ids: &[&str]| Outcome::Done(Answer::Ids { ids: ids.iter().map(|id| (*id).to_owned()).collect() });
    holds(|play| play.call(STRANGER, trespass(), listed(&[])));
    breaks(&[I12], |play| play.call(STRANGER, trespass(), listed(&["a delivery"])));
}

#[test]
fn a_try_that_nobody_answered_shows_nothing() {
    let judged = |outcome| {
        let mut play = Play::empty();
        play.call(STRANGER, Op::Trespass { what: "GET /v1/channels/channel".to_owned() }, outcome);
        judge_one(I12, &play.run).judged
    };
    assert_eq!(judged(refused(404, "channel_not_found")), 1);
    assert_eq!(judged(done()), 1);
    assert_eq!(judged(refused(429, "rate_limited")), 0);
    assert_eq!(judged(unknown()), 0);
}

#[test]
fn a_list_with_anothers_row_is_found() {
    breaks(&[I12], |play| play.list(MAIN, &[CHANNEL, OTHERS_CHANNEL]));
}

#[test]
fn a_stream_with_anothers_event_is_found() {
    breaks(&[I12], |play| play.frame(1, "evt_9", OTHERS_CHANNEL));
}
