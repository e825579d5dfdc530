//! Tests of I1 for a channel that stops with sends in its outbox, and of I5 for reused ids and for notices of phones.

use std::time::Duration;

use super::play::{CHANNEL, HOOK, MAIN, Play, RECIPIENT, done, refused, unknown};
use super::{breaks, holds};
use crate::check::Invariant::{I1, I5};
use crate::history::record::Channel;
use crate::history::{Answer, FaultKind, Login, Op, Outcome, Record};

/// A channel that is stopped and resumed.
const STOPPED: &str = "a stopped channel";
const STOPPED_NUMBER: &str = "496";

/// Adds the stopped channel, with a send that was accepted before the stop.
fn taken(play: &mut Play) -> String {
    let number = STOPPED_NUMBER.to_owned();
    let channel = Channel { id: STOPPED.to_owned(), tenant: MAIN.to_owned(), number, recipient: RECIPIENT.to_owned() };
    let stage = &mut play.run.evidence.stage;
    stage.passing.push(channel.clone());
    stage.stopped = vec![channel];
    let message = "before the stop".to_owned();
    let answer = Answer::Taken { message: message.clone(), queued: true };
    let op = Op::Send { channel: STOPPED.to_owned(), text: "before the stop".to_owned() };
    play.call(MAIN, op, Outcome::Done(answer));
    message
}

/// The network accepts the send.
fn accept(play: &mut Play, message: &str) {
    play.accept("before the stop", message);
    let from = format!("{STOPPED_NUMBER}@s.example");
    let inbox = play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something");
    inbox.last_mut().expect("it got something").from.clone_from(&from);
    play.run.evidence.ledger.last_mut().expect("it was accepted").from = from;
}

fn stop(play: &mut Play, outcome: Outcome) {
    play.call_at(2, MAIN, Op::DisconnectChannel { channel: STOPPED.to_owned() }, outcome);
}

fn let_on(play: &mut Play) {
    play.call_at(2, MAIN, Op::ConnectChannel { channel: STOPPED.to_owned() }, done());
}

/// The send is failed in the gateway's records, and its customer was told.
fn fail(play: &mut Play, message: &str, code: &str) {
    play.run.evidence.failed.insert(message.to_owned(), code.to_owned());
    play.status(message, "failed");
}

#[test]
fn what_was_taken_before_a_stop_is_accepted_or_ends() {
    breaks(&[I1], |play| {
        taken(play);
        stop(play, done());
    });
    holds(|play| {
        let message = taken(play);
        stop(play, done());
        fail(play, &message, "channel_unavailable");
    });
    holds(|play| {
        let message = taken(play);
        stop(play, unknown());
        fail(play, &message, "outcome_unknown");
    });
    holds(|play| {
        let message = taken(play);
        accept(play, &message);
        stop(play, done());
    });
}

#[test]
fn a_send_ends_for_a_stop_that_there_was_and_as_what_it_is() {
    for (outcome, code) in [(refused(409, "no_op"), "channel_unavailable"), (done(), "expired_in_queue")] {
        breaks(&[I1], |play| {
            let message = taken(play);
            stop(play, outcome);
            fail(play, &message, code);
        });
    }
    let both = |code: &'static str| {
        move |play: &mut Play| {
            let message = taken(play);
            stop(play, done());
            accept(play, &message);
            fail(play, &message, code);
        }
    };
    breaks(&[I1], both("channel_unavailable"));
    holds(both("outcome_unknown"));
}

/// The owner of an epoch logs in for the channel.
fn login(play: &mut Play, epoch: u64) {
    let now = play.step();
    let at = play.run.meta.wall(now);
    let logins = play.run.evidence.logins.entry(STOPPED_NUMBER.to_owned()).or_default();
    if let Some(before) = logins.last_mut() {
        (before.ended_at, before.end) = (Some(at), Some("closed".to_owned()));
    }
    let login_seq = logins.len() as u64;
    logins.push(Login { login_seq, node: 1, epoch, at, ended_at: None, end: None });
}

#[test]
fn nothing_from_before_a_stop_goes_out_once_the_channel_is_let_on() {
    let late = |writer: u64, outcome: Outcome| {
        move |play: &mut Play| {
            login(play, 5);
            let message = taken(play);
            stop(play, outcome);
            let_on(play);
            login(play, 6);
            play.wait(Duration::from_secs(3));
            accept(play, &message);
            play.run.evidence.ledger.last_mut().expect("it was accepted").epoch = writer;
        }
    };
    breaks(&[I1], late(6, done()));
    // The network was slow to accept what had been written before.
    holds(late(5, done()));
    // With an unknown outcome the channel may not have been stopped.
    holds(late(6, unknown()));
}

/// Two phones write under the same id, and events are delivered for those in `told`.
fn namesakes(play: &mut Play, told: &[&str]) {
    for from in ["497", RECIPIENT] {
        let op = Op::InboundAs { channel: CHANNEL.to_owned(), from: from.to_owned(), id: "one id".to_owned() };
        play.call_at(0, MAIN, op, done());
        if told.contains(&from) {
            play.hook("message.received", "one id");
            play.last_hook("message.received").from = Some(from.to_owned());
        }
    }
}

#[test]
fn messages_of_two_senders_under_one_id_both_arrive() {
    holds(|play| namesakes(play, &["497", RECIPIENT]));
    breaks(&[I5], |play| namesakes(play, &["497"]));
    breaks(&[I5], |play| namesakes(play, &[RECIPIENT]));
    // Each has only one event.
    breaks(&[I5], |play| {
        namesakes(play, &["497", RECIPIENT]);
        play.hook("message.received", "one id");
        play.last_hook("message.received").from = Some("497".to_owned());
    });
}

#[test]
fn a_late_endpoint_hears_of_what_began_after_it_was_answered() {
    let late = |play: &mut Play, told: bool| {
        let answered = play.step();
        let mut endpoint = play.run.evidence.stage.endpoints[0].clone();
        (endpoint.id, endpoint.hook) = ("late".to_owned(), "/Good/late/0".to_owned());
        (endpoint.channel, endpoint.since) = (Some(CHANNEL.to_owned()), Some(answered));
        play.run.evidence.stage.endpoints.push(endpoint);
        play.fault(FaultKind::Failpoint);
        let message = play.inbound("after that");
        if told {
            let mut request = play.last_hook("message.received").clone();
            assert_eq!((request.message.as_ref(), request.hook.as_str()), (Some(&message), HOOK));
            (request.hook, request.delivery) = ("/Good/late/0".to_owned(), "late".to_owned());
            play.run.records.push(Record::Webhook(request));
        }
    };
    holds(|play| late(play, true));
    breaks(&[I5], |play| late(play, false));
}

#[test]
fn a_notice_is_one_event_in_a_stream() {
    let show = |play: &mut Play, ids: [&str; 2], stream: u32| {
        for id in ids {
            play.frame(1, id, CHANNEL);
            let Some(Record::Frame(frame)) = play.run.records.last_mut() else { panic!("it was just added") };
            (frame.event, frame.notice) = ("group.updated".to_owned(), Some("Group 1, name 2".to_owned()));
            if id == "evt_92" {
                frame.stream = stream;
            }
        }
    };
    breaks(&[I5], |play| {
        show(play, ["evt_91", "evt_92"], 1);
        play.fault(FaultKind::Crash);
    });
    // Another stream is another reader.
    holds(|play| show(play, ["evt_91", "evt_92"], 2));
}
