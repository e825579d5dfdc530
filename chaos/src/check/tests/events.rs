//! Tests of I5 and I6.

use std::time::Duration;

use super::play::{CHANNEL, HOOK, MAIN, done, refused, unknown};
use super::{breaks, holds};
use crate::check::Invariant::{I5, I6, I8, I12};
use crate::history::record::Manner;
use crate::history::{Answer, At, FaultKind, LeaderSeen, Op, Outcome, Record, Request};

#[test]
fn a_second_event_for_one_message_is_found() {
    breaks(&[I5], |play| {
        let message = play.send("told twice");
        play.hook("message.sent", &message);
    });
}

#[test]
fn a_second_delivery_of_one_event_is_found() {
    breaks(&[I5], |play| {
        let mut request = play.last_hook("message.received").clone();
        request.delivery = "a second delivery".to_owned();
        request.at = request.at.plus(Duration::from_millis(1));
        play.fault(FaultKind::Crash);
        play.run.records.push(Record::Webhook(request));
    });
    breaks(&[I5], |play| {
        let rows = play.run.evidence.deliveries.get_mut("endpoint main").expect("it has some");
        let mut row = rows[0].clone();
        row.id = "a second delivery".to_owned();
        rows.push(row);
    });
}

#[test]
fn an_event_id_is_not_given_twice() {
    breaks(&[I5], |play| {
        let known = play.last_hook("message.sent").event_id.clone();
        play.send("another");
        play.last_hook("message.sent").event_id = known;
    });
}

#[test]
fn an_inbound_message_of_which_nobody_is_told_is_lost() {
    breaks(&[I5], |play| {
        let op = Op::Inbound { channel: CHANNEL.to_owned(), text: "unheard".to_owned() };
        play.call_at(0, MAIN, op, Outcome::Done(Answer::Made { id: "inbound".to_owned() }));
    });
}

#[test]
fn a_delivery_that_failed_waits_or_is_lost() {
    let fail = |play: &mut super::Play, state: &str| {
        play.last_hook("message.received").answered = Some(500);
        let rows = play.run.evidence.deliveries.get_mut("endpoint main").expect("it has some");
        let row = rows.iter_mut().find(|row| row.event == "message.received").expect("it has one");
        row.state = state.to_owned();
    };
    holds(|play| fail(play, "retrying"));
    breaks(&[I5], |play| fail(play, "delivered"));
    breaks(&[I5], |play| {
        fail(play, "pending");
        let rows = play.run.evidence.deliveries.get_mut("endpoint main").expect("it has some");
        rows.iter_mut().for_each(|row| row.overdue = true);
    });
    breaks(&[I5], |play| {
        fail(play, "retrying");
        play.run.evidence.deliveries.clear();
    });
}

#[test]
fn an_attempt_is_under_way_for_its_time_and_not_for_ever() {
    let stick = |play: &mut super::Play, overdue: bool| {
        play.last_hook("message.received").answered = None;
        let rows = play.run.evidence.deliveries.get_mut("endpoint main").expect("it has some");
        let row = rows.iter_mut().find(|row| row.event == "message.received").expect("it has one");
        (row.state, row.overdue) = ("in_flight".to_owned(), overdue);
    };
    holds(|play| stick(play, false));
    breaks(&[I5], |play| stick(play, true));
}

#[test]
fn each_status_of_a_send_is_told() {
    for status in ["sent", "delivered"] {
        let forget = |play: &mut super::Play| {
            let message = play.send("told of in part");
            let told = |request: &Request| request.message.as_ref() == Some(&message);
            let its_own = |request: &Request| told(request) && request.status.as_deref() == Some(status);
            play.run.records.retain(|record| !matches!(record, Record::Webhook(request) if its_own(request)));
            play.wait(Duration::from_secs(20));
            play.send("later");
            message
        };
        breaks(&[I5], |play| _ = forget(play));
        // An event that no receiver has seen may be of any status.
        let wait = |play: &mut super::Play, overdue: bool| {
            let message = forget(play);
            let heard: Vec<String> = play.run.webhooks().map(|request| request.event_id.clone()).collect();
            let rows = play.run.evidence.deliveries.get_mut("endpoint main").expect("it has some");
            let mut unheard = rows.iter_mut().filter(|row| !heard.contains(&row.event_id));
            let row = unheard.next().expect("it was forgotten");
            assert_eq!(row.message_id, Some(message));
            (row.state, row.overdue) = ("pending".to_owned(), overdue);
        };
        holds(|play| wait(play, false));
        breaks(&[I5], |play| wait(play, true));
    }
}

#[test]
fn what_came_to_a_phone_at_the_very_end_may_not_be_told_of_yet() {
    holds(|play| {
        let message = play.take("just now");
        play.accept("just now", &message);
        play.hook("message.sent", &message);
        play.status(&message, "sent");
    });
}

#[test]
fn that_a_phone_has_read_a_message_is_told() {
    let read = |play: &mut super::Play| {
        let message = play.send("to be read");
        play.wait(Duration::from_secs(5));
        play.open_chat();
        message
    };
    let later = |play: &mut super::Play| {
        play.wait(Duration::from_secs(20));
        play.send("later");
    };
    let told = |play: &mut super::Play| {
        let sent: Vec<String> = play.run.evidence.ledger.iter().map(|row| row.id.clone()).collect();
        sent.iter().for_each(|message| play.status(message, "read"));
    };
    breaks(&[I5], |play| {
        read(play);
        later(play);
    });
    holds(|play| {
        read(play);
        told(play);
        later(play);
    });
    // Another status does not make up for the missing one.
    breaks(&[I5], |play| {
        read(play);
        told(play);
        play.last_hook("message.status").status = Some("played".to_owned());
        later(play);
    });
    // At the end of a run the status may still be in flight.
    holds(|play| _ = read(play));
    // Whether the chat was opened is unknown.
    holds(|play| {
        read(play);
        play.calls(|call| matches!(call.op, Op::OpenChat { .. }))[0].outcome = unknown();
        later(play);
    });
}

#[test]
fn that_a_send_failed_is_told() {
    let fail = |play: &mut super::Play| {
        let message = play.queue("refused");
        play.run.evidence.failed.insert(message.clone(), "other".to_owned());
        play.fault(FaultKind::Refuse);
        message
    };
    breaks(&[I5], |play| _ = fail(play));
    breaks(&[I5], |play| {
        let message = fail(play);
        play.status(&message, "delivered");
    });
    holds(|play| {
        let message = fail(play);
        play.status(&message, "failed");
    });
    // A copy of it was accepted, which the gateway learned too late.
    holds(|play| {
        let message = fail(play);
        play.accept("refused", &message);
        play.status(&message, "failed");
    });
}

#[test]
fn that_a_send_failed_at_once_is_told_though_its_caller_was_told_no_id() {
    let fail = |play: &mut super::Play| {
        play.run.evidence.failed.insert("its id".to_owned(), "other".to_owned());
        play.fault(FaultKind::Refuse);
    };
    breaks(&[I5], fail);
    holds(|play| {
        fail(play);
        play.status("its id", "failed");
    });
    // An event may be missing if its channel was deleted meanwhile.
    let passing = |play: &mut super::Play, outcome: Outcome| {
        fail(play);
        let send = Op::Send { channel: "a passing channel".to_owned(), text: "refused".to_owned() };
        play.call(MAIN, send, outcome);
    };
    holds(|play| passing(play, unknown()));
    holds(|play| passing(play, refused(422, "other")));
    breaks(&[I5], |play| passing(play, refused(409, "not_connected")));
    // What one endpoint receives, each endpoint must receive.
    let beside = |play: &mut super::Play| {
        let stage = &mut play.run.evidence.stage;
        let mut other = stage.endpoints.iter().find(|endpoint| endpoint.hook == HOOK).expect("it is there").clone();
        (other.id, other.hook, other.events) =
            ("other".to_owned(), "/Good/other".to_owned(), vec!["message.status".to_owned()]);
        stage.endpoints.push(other);
        let requests: Vec<Request> =
            play.run.webhooks().filter(|request| request.event == "message.status").cloned().collect();
        let told = |request: Request| {
            let delivery = format!("{} there", request.delivery);
            Record::Webhook(Request { hook: "/Good/other".to_owned(), delivery, ..request })
        };
        play.run.records.extend(requests.into_iter().map(told));
    };
    holds(|play| {
        fail(play);
        play.status("its id", "failed");
        beside(play);
    });
    breaks(&[I5], |play| {
        fail(play);
        beside(play);
        play.status("its id", "failed");
    });
    // If no endpoint receives everything, the message may be of a channel without an endpoint.
    holds(|play| {
        fail(play);
        let stage = &mut play.run.evidence.stage;
        stage.endpoints.iter_mut().for_each(|endpoint| endpoint.channel = Some(CHANNEL.to_owned()));
    });
}

#[test]
fn what_a_broken_receiver_never_took_stays_on_record() {
    let breaks_down = |play: &mut super::Play| {
        let stage = &mut play.run.evidence.stage;
        let mut broken = stage.endpoints.iter().find(|endpoint| endpoint.hook == HOOK).expect("it is there").clone();
        (broken.id, broken.hook, broken.manner) = ("broken".to_owned(), "/Broken/main".to_owned(), Manner::Broken);
        stage.endpoints.push(broken);
        let mut rows = play.run.evidence.deliveries["endpoint main"].clone();
        for row in &mut rows {
            (row.id, row.state) = (format!("{} again", row.id), "retrying".to_owned());
        }
        play.run.evidence.deliveries.insert("broken".to_owned(), rows);
    };
    holds(breaks_down);
    breaks(&[I5], |play| {
        breaks_down(play);
        play.run.evidence.deliveries.get_mut("broken").and_then(Vec::pop).expect("it has some");
    });
    breaks(&[I5], |play| {
        breaks_down(play);
        let rows = play.run.evidence.deliveries.get_mut("broken").expect("it has some");
        rows.iter_mut().for_each(|row| row.state = "delivered".to_owned());
    });
}

#[test]
fn a_success_that_was_forgotten_in_a_crash_is_tried_again_and_otherwise_not_for_ever() {
    let again = |play: &mut super::Play, times: u64| {
        for time in 1..=times {
            let mut request = play.last_hook("message.received").clone();
            request.at = request.at.plus(Duration::from_secs(time));
            play.run.records.insert(0, Record::Webhook(request));
        }
    };
    holds(|play| {
        again(play, 10);
        play.fault(FaultKind::Crash);
    });
    breaks(&[I5], |play| again(play, 10));
}

#[test]
fn a_success_is_told_again_once_for_want_of_an_answer_and_not_twice() {
    let again = |play: &mut super::Play, times: u64| {
        let first = play.last_hook("message.received").clone();
        for time in 1..=times {
            let request = Request { at: first.at.plus(Duration::from_secs(5 * time)), ..first.clone() };
            play.run.records.push(Record::Webhook(request));
        }
        first.at
    };
    holds(|play| _ = again(play, 1));
    breaks(&[I5], |play| _ = again(play, 2));
    // A fault of the messaging network does not affect deliveries.
    breaks(&[I5], |play| {
        again(play, 2);
        play.fault(FaultKind::LoseAcceptances);
    });
    // The fault ended long before.
    breaks(&[I5], |play| {
        play.wait(Duration::from_secs(60));
        play.inbound("much later");
        let first = again(play, 2);
        play.fault_within(FaultKind::Crash, At::default(), first.minus(Duration::from_secs(40)));
    });
    // The leadership moved, and the success that the old owner knew of was lost.
    let leader = |at: At, term: u64| {
        let asked = at.minus(Duration::from_millis(50));
        Record::Leader(LeaderSeen { asked, at, group: 5, leader: Some(2), term })
    };
    holds(|play| {
        let first = again(play, 2);
        let seen = [first.minus(Duration::from_secs(1)), first.plus(Duration::from_secs(3))];
        play.run.records.extend([leader(seen[0], 7), leader(seen[1], 8)]);
    });
    // The term did not change.
    breaks(&[I5], |play| {
        let first = again(play, 2);
        let seen = [first.minus(Duration::from_secs(1)), first.plus(Duration::from_secs(3))];
        play.run.records.extend([leader(seen[0], 7), leader(seen[1], 7)]);
    });
}

#[test]
fn a_forged_signature_is_found() {
    breaks(&[I5], |play| play.last_hook("message.sent").signed = Some(false));
}

#[test]
fn a_stream_shows_nothing_twice_over_its_connections() {
    breaks(&[I5], |play| play.frame(2, "evt_2", CHANNEL));
    holds(|play| play.frame(2, "evt_3", CHANNEL));
}

/// Three sends; a stream shows all events but the last `second` and `third` ones of the second and of the third.
fn watched(play: &mut super::Play, second: usize, third: usize) -> [String; 3] {
    play.wait(Duration::from_secs(200));
    let sends = ["first", "second", "third"].map(|text| play.send(text));
    for (message, without) in sends.iter().zip([0, second, third]) {
        play.show(message, without);
    }
    sends
}

#[test]
fn a_stream_leaves_nothing_out_of_what_it_shows() {
    holds(|play| _ = watched(play, 0, 0));
    breaks(&[I5], |play| _ = watched(play, 1, 0));
    // One event of the third send was created after all of the second.
    breaks(&[I5], |play| _ = watched(play, 3, 2));
    // A stream that ended early or began late may lack events at that end.
    holds(|play| _ = watched(play, 1, 3));
    holds(|play| {
        let [first, ..] = watched(play, 3, 0);
        let told = play.run.webhooks().filter(|request| request.message.as_ref() == Some(&first));
        let told: Vec<Option<String>> = told.map(|request| Some(request.event_id.clone())).collect();
        play.run.records.retain(|record| !matches!(record, Record::Frame(frame) if told.contains(&frame.event_id)));
    });
}

#[test]
fn a_stream_may_leave_out_what_it_tells_of_and_what_nobody_knows_the_place_of() {
    holds(|play| {
        let [_, _, third] = watched(play, 1, 3);
        play.gap();
        play.show(&third, 0);
    });
    // The webhook came so late that the event may have been created after everything shown.
    holds(|play| {
        let [_, second, _] = watched(play, 1, 0);
        let late = play.step();
        let its_own = |request: &&mut Request| request.message.as_ref() == Some(&second);
        let webhooks = play.run.records.iter_mut().filter_map(|record| match record {
            Record::Webhook(request) => Some(request),
            _ => None,
        });
        webhooks.filter(its_own).last().expect("it was told").at = late;
    });
    let wrong_clock = |play: &mut super::Play, before: Duration| {
        let [_, second, _] = watched(play, 1, 0);
        let begin = play.calls(|call| call.taken() == Some(&second))[0].begin;
        play.fault_within(FaultKind::Clock, At::seconds(1), begin.minus(before));
    };
    holds(|play| wrong_clock(play, Duration::from_secs(60)));
    breaks(&[I5], |play| wrong_clock(play, Duration::from_secs(120)));
}

#[test]
fn a_revoked_key_is_let_in_nowhere() {
    breaks(&[I6, I8], |play| play.call_at(3, MAIN, Op::UseKey { key: "a key".to_owned() }, done()));
}

#[test]
fn a_use_that_began_before_the_revoke_was_answered_may_be_let_in() {
    holds(|play| {
        let revoke = play.calls(|call| matches!(call.op, Op::RevokeKey { .. }))[0].clone();
        play.call_at(2, MAIN, Op::UseKey { key: "a key".to_owned() }, done());
        let mut late = play.calls(|call| matches!(call.op, Op::UseKey { .. }));
        let late = late.last_mut().expect("there is one");
        (late.begin, late.end) = (revoke.begin, revoke.end.plus(Duration::from_millis(50)));
    });
}

#[test]
fn a_deleted_channel_is_read_renamed_listed_and_sent_through_nowhere() {
    let id = || "a channel".to_owned();
    let name = || "Second".to_owned();
    breaks(&[I6, I8], |play| {
        play.call_at(3, MAIN, Op::ReadChannel { channel: id() }, Outcome::Done(Answer::Channel { name: name() }));
    });
    breaks(&[I6, I8], |play| play.call_at(3, MAIN, Op::RenameChannel { channel: id(), name: name() }, done()));
    breaks(&[I6, I8], |play| play.list(MAIN, &[CHANNEL, "a channel"]));
    let taken = Outcome::Done(Answer::Taken { message: "message".to_owned(), queued: true });
    breaks(&[I6], |play| play.call(MAIN, Op::Send { channel: id(), text: "too late".to_owned() }, taken));
}

#[test]
fn an_endpoint_that_is_off_is_not_called_but_for_what_was_on_its_way() {
    let off = |play: &mut super::Play| play.end_of(|call| matches!(call.op, Op::ChangeEndpoint { .. }));
    holds(|play| {
        let off = off(play);
        play.late_hook(off.plus(Duration::from_secs(1)));
    });
    breaks(&[I6], |play| {
        let off = off(play);
        play.late_hook(off.plus(Duration::from_secs(8)));
    });
    // A paused process continues what it had begun.
    holds(|play| {
        let off = off(play);
        play.late_hook(off.plus(Duration::from_secs(8)));
        play.fault(FaultKind::Pause);
    });
}

#[test]
fn an_endpoint_hears_of_its_own_customers_channels_alone() {
    breaks(&[I12], |play| {
        let mut request = play.last_hook("message.sent").clone();
        request.message = Some("another's".to_owned());
        request.event_id = "evt of another".to_owned();
        request.channel = super::play::OTHERS_CHANNEL.to_owned();
        assert_eq!(request.hook, HOOK);
        play.run.records.push(Record::Webhook(request));
    });
}
