//! Tests of I1 to I4.

use std::time::Duration;

use super::play::{CHANNEL, MAIN, NUMBER, RECIPIENT, refused, unknown};
use super::{breaks, holds};
use crate::check::Invariant::{I1, I2, I3, I4, I5};
use crate::history::{At, FaultKind, InboxRow, Op, Record};

#[test]
fn a_send_that_was_promised_and_never_accepted_is_lost() {
    breaks(&[I1], |play| _ = play.take("promised"));
}

#[test]
fn a_send_may_end_failed_where_the_network_refuses_and_nowhere_else() {
    let fail = |play: &mut super::Play| {
        let message = play.queue("refused");
        play.status(&message, "failed");
        play.run.evidence.failed.insert(message, "refused".to_owned());
    };
    breaks(&[I1], fail);
    holds(|play| {
        fail(play);
        play.fault(FaultKind::Refuse);
    });
}

#[test]
fn a_send_that_the_network_took_ends_failed_nowhere() {
    breaks(&[I1], |play| {
        let message = play.take("sent");
        play.status(&message, "failed");
        play.run.evidence.failed.insert(message, "refused".to_owned());
        play.fault(FaultKind::Refuse);
    });
}

#[test]
fn a_refusal_excuses_what_failed_while_it_was_in_force_and_nothing_else() {
    let fail = |play: &mut super::Play, code: &str| {
        let message = play.queue("refused");
        let begin = play.calls(|call| call.taken() == Some(&message))[0].begin;
        play.wait(Duration::from_secs(5));
        play.status(&message, "failed");
        let told = play.last_hook("message.status").at;
        play.run.evidence.failed.insert(message, code.to_owned());
        (begin, told)
    };
    let moment = Duration::from_millis(1);
    holds(|play| {
        let (begin, _) = fail(play, "other");
        play.fault_within(FaultKind::Refuse, begin.minus(Duration::from_secs(2)), begin.plus(moment));
    });
    breaks(&[I1], |play| {
        let (begin, _) = fail(play, "other");
        play.fault_within(FaultKind::Refuse, begin.minus(Duration::from_secs(2)), begin.minus(moment));
    });
    breaks(&[I1], |play| {
        let (_, told) = fail(play, "other");
        play.fault_within(FaultKind::Refuse, told.plus(moment), told.plus(Duration::from_secs(2)));
    });
    // No receiver was told of the failure, which is another violation, so its time is unknown.
    breaks(&[I5], |play| {
        let (_, told) = fail(play, "other");
        play.last_hook("message.status").status = Some("delivered".to_owned());
        play.fault_within(FaultKind::Refuse, told.plus(moment), told.plus(Duration::from_secs(2)));
    });
    // A send that expired in the queue was not refused.
    breaks(&[I1], |play| {
        fail(play, "expired_in_queue");
        play.fault(FaultKind::Refuse);
    });
}

#[test]
fn a_send_goes_from_its_channels_number_to_its_recipient_and_nowhere_else() {
    breaks(&[I1], |play| play.run.evidence.ledger[0].to = "494@s.example".to_owned());
    breaks(&[I1], |play| play.run.evidence.ledger[0].from = "777@s.example".to_owned());
    // Another phone has it as well, or alone.
    let stray = |play: &mut super::Play| {
        let row = play.run.evidence.inboxes[RECIPIENT][0].clone();
        play.run.evidence.inboxes.insert("494".to_owned(), vec![row]);
    };
    breaks(&[I2], stray);
    breaks(&[I1, I2], |play| {
        stray(play);
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something").remove(0);
    });
    breaks(&[I1, I2], |play| {
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something")[0].from = "493@s.example".to_owned();
    });
}

#[test]
fn a_send_reaches_its_recipient_and_whole() {
    breaks(&[I1], |play| {
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something").remove(0);
    });
    breaks(&[I1], |play| {
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something")[2].text = "thr".to_owned();
    });
}

#[test]
fn what_no_client_sent_has_no_effect() {
    breaks(&[I2], |play| play.accept("sent by nobody", "an id"));
    // Also if the recipient's inbox was not read.
    breaks(&[I2], |play| {
        play.accept("sent by nobody", "an id");
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something").pop();
        play.run.evidence.ledger.last_mut().expect("it has rows").to = "494@s.example".to_owned();
    });
    // Messages between other phones do not concern the gateway.
    holds(|play| {
        let row = InboxRow { id: "b".to_owned(), from: "777@s.example".to_owned(), text: "hi".to_owned(), copies: 1 };
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something").push(row);
    });
}

#[test]
fn a_send_of_unknown_outcome_may_arrive_or_not() {
    let send = |text: &str| Op::Send { channel: CHANNEL.to_owned(), text: text.to_owned() };
    holds(|play| {
        play.call(MAIN, send("never"), unknown());
        play.call(MAIN, send("perhaps"), unknown());
        play.accept("perhaps", "its id");
    });
}

#[test]
fn one_send_under_two_ids_is_a_second_effect() {
    breaks(&[I2], |play| play.accept("two", "a new id"));
    let send = Op::Send { channel: CHANNEL.to_owned(), text: "perhaps".to_owned() };
    breaks(&[I2], |play| {
        play.call(MAIN, send, unknown());
        play.accept("perhaps", "an id");
        play.accept("perhaps", "another id");
    });
}

#[test]
fn an_id_in_the_ledger_twice_is_a_second_effect() {
    breaks(&[I2], |play| {
        let mut row = play.run.evidence.ledger[0].clone();
        row.seq = 100;
        play.run.evidence.ledger.insert(0, row);
    });
}

#[test]
fn a_copy_more_at_the_phone_is_a_second_effect_unless_the_network_keeps_repeats() {
    let copy = |play: &mut super::Play| {
        play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something")[0].copies = 2;
    };
    breaks(&[I2], copy);
    holds(|play| {
        copy(play);
        play.fault(FaultKind::KeepRepeats);
    });
}

#[test]
fn the_network_keeps_repeats_of_what_is_on_its_way_and_of_nothing_else() {
    let copy = |play: &mut super::Play| {
        play.wait(Duration::from_secs(100));
        let message = play.send("twice");
        let begin = play.calls(|call| call.taken() == Some(&message))[0].begin;
        let rows = play.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something");
        rows.last_mut().expect("it got something").copies = 2;
        (begin, play.step())
    };
    let second = Duration::from_secs(1);
    breaks(&[I2], |play| {
        let (begin, _) = copy(play);
        play.fault_within(FaultKind::KeepRepeats, begin.minus(10 * second), begin.minus(second));
    });
    // A copy may arrive late if it was held up.
    let later = |play: &mut super::Play, after: Duration| {
        let (_, told) = copy(play);
        play.fault_within(FaultKind::KeepRepeats, told.plus(after), told.plus(after + second));
    };
    holds(|play| later(play, 5 * second));
    breaks(&[I2], |play| later(play, 25 * second));
    holds(|play| {
        play.fault_within(FaultKind::NetworkCut, At::seconds(1), At::seconds(31));
        later(play, 25 * second);
    });
    // Without a webhook it is unknown for how long the message was written.
    breaks(&[I5], |play| {
        let (_, told) = copy(play);
        let message = play.last_hook("message.sent").message.clone();
        play.run.records.retain(|record| !matches!(record, Record::Webhook(request) if request.message == message));
        play.fault_within(FaultKind::KeepRepeats, told.plus(40 * second), told.plus(50 * second));
    });
}

#[test]
fn a_refused_send_has_no_effect() {
    let send = Op::Send { channel: CHANNEL.to_owned(), text: "refused".to_owned() };
    breaks(&[I2], |play| {
        play.call(MAIN, send, refused(429, "rate_limited"));
        play.accept("refused", "an id");
    });
}

/// A send of which `copies` copies reach the network. `meanwhile` happens before the gateway knows the outcome.
fn written(play: &mut super::Play, copies: u32, meanwhile: impl FnOnce(&mut super::Play)) -> At {
    let message = play.take("again");
    play.accept("again", &message);
    play.run.evidence.ledger.last_mut().expect("it was accepted").raw_copies = copies;
    meanwhile(play);
    play.tell(&message);
    play.step()
}

#[test]
fn raw_copies_need_a_login_or_a_silence_of_the_network() {
    let silence = |play: &mut super::Play| play.wait(Duration::from_secs(20));
    breaks(&[I2], |play| _ = written(play, 2, |_| {}));
    holds(|play| _ = written(play, 2, |play| play.login(2, 6)));
    breaks(&[I2], |play| _ = written(play, 2, silence));
    holds(|play| {
        written(play, 2, silence);
        play.fault(FaultKind::LoseAcceptances);
    });
    breaks(&[I2], |play| {
        written(play, 3, silence);
        play.fault(FaultKind::LoseAcceptances);
    });
    // Each session restarts the timers: after ten seconds, and after thirty.
    let sessions = |play: &mut super::Play| {
        play.wait(Duration::from_secs(35));
        play.login(2, 6);
        play.wait(Duration::from_secs(35));
    };
    let lost = |copies| {
        move |play: &mut super::Play| {
            written(play, copies, sessions);
            play.fault(FaultKind::LoseAcceptances);
        }
    };
    holds(lost(6));
    breaks(&[I2], lost(7));
}

#[test]
fn a_silence_lasts_a_little_longer_than_what_brought_it_about() {
    let slow = |play: &mut super::Play, before: u64| {
        play.wait(Duration::from_secs(100));
        let begin = play.step();
        written(play, 2, |play| play.wait(Duration::from_secs(20)));
        let ended = begin.minus(Duration::from_secs(before));
        play.fault_within(FaultKind::Slow, ended.minus(Duration::from_secs(5)), ended);
    };
    holds(|play| slow(play, 5));
    breaks(&[I2], |play| slow(play, 15));
}

#[test]
fn nothing_is_written_again_once_its_outcome_is_known() {
    breaks(&[I2], |play| {
        written(play, 2, |_| {});
        play.wait(Duration::from_secs(5));
        play.login(2, 6);
    });
    breaks(&[I2], |play| {
        let told = written(play, 2, |_| {});
        play.wait(Duration::from_secs(60));
        play.send("much later");
        play.fault_within(
            FaultKind::LoseAcceptances,
            told.plus(Duration::from_secs(5)),
            told.plus(Duration::from_secs(60)),
        );
    });
}

#[test]
fn an_older_epoch_after_a_newer_one_is_no_owner() {
    breaks(&[I3], |play| {
        play.login(2, 6);
        play.login(1, 5);
    });
}

#[test]
fn a_late_write_that_the_network_accepts_is_found() {
    // The owner of epoch 6 follows that of epoch 5, a send of which is still accepted.
    let follow = |play: &mut super::Play, epochs: [(u64, u64); 2]| {
        play.login(2, 6);
        let (first, second) = (play.send("from the one"), play.send("from the other"));
        for (message, (node, epoch)) in [first, second].iter().zip(epochs) {
            let rows = &mut play.run.evidence.ledger;
            let row = rows.iter_mut().find(|row| row.id == *message).expect("it was accepted");
            (row.node, row.epoch) = (node, epoch);
        }
    };
    // What had reached the network before the new owner's login is accepted first.
    holds(|play| follow(play, [(1, 5), (2, 6)]));
    breaks(&[I3], |play| follow(play, [(2, 6), (1, 5)]));
    // A send of an epoch without a login, and one of a node that logged in with another epoch.
    breaks(&[I3], |play| follow(play, [(2, 6), (2, 7)]));
    breaks(&[I3], |play| follow(play, [(2, 6), (3, 6)]));
}

#[test]
fn nobody_writes_to_a_session_that_it_has_ended_itself() {
    let late = |play: &mut super::Play| play.run.evidence.stats.late_writes = 3;
    breaks(&[I3], late);
    // A node cannot know that the network has let another session take over.
    holds(|play| {
        late(play);
        play.login(2, 6);
        play.run.evidence.logins.get_mut(NUMBER).expect("it logged in")[0].end = Some("fenced".to_owned());
        play.fault(FaultKind::Pause);
    });
}

#[test]
fn one_epoch_has_one_node() {
    breaks(&[I3], |play| play.login(2, 5));
}

#[test]
fn sessions_of_one_channel_do_not_overlap() {
    breaks(&[I3], |play| {
        play.login(2, 6);
        let rows = play.run.evidence.logins.get_mut(NUMBER).expect("it logged in");
        rows[0].ended_at = None;
    });
    breaks(&[I3], |play| {
        play.login(2, 6);
        let rows = play.run.evidence.logins.get_mut(NUMBER).expect("it logged in");
        rows[0].ended_at = rows[0].ended_at.map(|at| at.plus(Duration::from_millis(5)));
    });
}

#[test]
fn a_session_ends_with_its_owners_time_unless_the_owner_stood_still() {
    let outlive = |play: &mut super::Play| {
        play.login(2, 6);
        play.run.evidence.logins.get_mut(NUMBER).expect("it logged in")[0].end = Some("fenced".to_owned());
    };
    breaks(&[I3], outlive);
    holds(|play| {
        outlive(play);
        play.fault(FaultKind::Pause);
    });
}

#[test]
fn a_conflict_that_the_network_counts_is_one_unless_the_owner_met_itself() {
    breaks(&[I3], |play| play.run.evidence.stats.conflicts = 1);
    let meet = |play: &mut super::Play| {
        play.login(1, 5);
        play.run.evidence.logins.get_mut(NUMBER).expect("it logged in")[0].end = Some("replaced".to_owned());
        play.run.evidence.stats.conflicts = 1;
    };
    breaks(&[I3], meet);
    holds(|play| {
        meet(play);
        play.fault(FaultKind::NetworkCut);
    });
}

#[test]
fn what_was_taken_first_goes_first_unless_the_network_lost_it_once() {
    let swap = |play: &mut super::Play| {
        let ledger = &mut play.run.evidence.ledger;
        (ledger[0].seq, ledger[1].seq) = (ledger[1].seq, ledger[0].seq);
    };
    breaks(&[I4], swap);
    holds(|play| {
        swap(play);
        play.fault(FaultKind::LoseSends);
    });
}

#[test]
fn sends_at_the_same_time_have_no_order() {
    holds(|play| {
        let (first, second) = (play.take("first"), play.take("second"));
        play.accept("second", &second);
        play.accept("first", &first);
        for message in [&first, &second] {
            play.tell(message);
        }
        let begin = play.calls(|call| call.taken() == Some(&first))[0].begin;
        play.calls(|call| call.taken() == Some(&second))[0].begin = begin;
    });
}

#[test]
fn an_accepted_send_of_which_nobody_is_told_is_a_lost_event() {
    breaks(&[I5], |play| {
        let message = play.take("unheard");
        play.accept("unheard", &message);
    });
}
