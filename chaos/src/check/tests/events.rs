//! I5 and I6.

use std::time::Duration;

use super::play::{CHANNEL, HOOK, MAIN, done};
use super::{breaks, holds};
use crate::check::Invariant::{I5, I6, I8, I12};
use crate::history::record::Manner;
use crate::history::{Answer, At, FaultKind, Lead, Op, Outcome, Record, Request};

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
    // The network is not who delivers.
    breaks(&[I5], |play| {
        again(play, 2);
        play.fault(FaultKind::LoseAcceptances);
    });
    // Long over by then.
    breaks(&[I5], |play| {
        play.wait(Duration::from_secs(60));
        play.inbound("much later");
        let first = again(play, 2);
        play.fault_within(FaultKind::Crash, At::default(), first.minus(Duration::from_secs(40)));
    });
    // The owner's lead went elsewhere, and what it had heard with it.
    let lead = |at: At, term: u64| {
        let asked = at.minus(Duration::from_millis(50));
        Record::Lead(Lead { asked, at, group: 5, leader: Some(2), term })
    };
    holds(|play| {
        let first = again(play, 2);
        let seen = [first.minus(Duration::from_secs(1)), first.plus(Duration::from_secs(3))];
        play.run.records.extend([lead(seen[0], 7), lead(seen[1], 8)]);
    });
    // Nobody followed it.
    breaks(&[I5], |play| {
        let first = again(play, 2);
        let seen = [first.minus(Duration::from_secs(1)), first.plus(Duration::from_secs(3))];
        play.run.records.extend([lead(seen[0], 7), lead(seen[1], 7)]);
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
    // A process that stood still goes on with what it had begun.
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
