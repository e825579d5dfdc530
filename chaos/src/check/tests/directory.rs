//! Tests of I8.

use std::time::Duration;

use proptest::prelude::*;

use super::play::{CHANNEL, MAIN, Play, done, made, refused, unknown};
use super::{breaks, holds};
use crate::check::Invariant::{I6, I8};
use crate::check::{Finding, judge_one};
use crate::history::{Answer, At, Call, Op, Outcome, Record};

const ID: &str = "x";

fn named(name: &str) -> Outcome {
    Outcome::Done(Answer::Channel { name: name.to_owned() })
}

fn read() -> Op {
    Op::ReadChannel { channel: ID.to_owned() }
}

fn rename(name: &str) -> Op {
    Op::RenameChannel { channel: ID.to_owned(), name: name.to_owned() }
}

fn create() -> Op {
    Op::CreateChannel { name: "0".to_owned() }
}

#[test]
fn a_key_that_was_answered_is_known_to_every_node() {
    breaks(&[I8], |play| {
        play.call(MAIN, Op::CreateKey { name: "New".to_owned() }, made("new"));
        play.call_at(2, MAIN, Op::UseKey { key: "new".to_owned() }, refused(401, "auth_invalid"));
    });
}

#[test]
fn a_node_that_shows_an_old_name_is_found() {
    breaks(&[I8], |play| {
        play.call(MAIN, create(), made(ID));
        play.call(MAIN, rename("1"), done());
        play.call_at(2, MAIN, read(), named("0"));
    });
}

#[test]
fn a_list_without_what_is_there_is_found() {
    breaks(&[I8], |play| {
        play.call(MAIN, create(), made(ID));
        play.list(MAIN, &[CHANNEL]);
    });
}

#[test]
fn a_change_of_unknown_outcome_may_come_late_or_never_but_not_be_undone() {
    let begin = |play: &mut Play| {
        play.call(MAIN, create(), made(ID));
        play.call(MAIN, rename("1"), unknown());
        play.call_at(2, MAIN, read(), named("0"));
    };
    holds(begin);
    holds(|play| {
        begin(play);
        play.call_at(2, MAIN, read(), named("1"));
    });
    breaks(&[I8], |play| {
        begin(play);
        play.call_at(2, MAIN, read(), named("1"));
        play.call_at(2, MAIN, read(), named("0"));
    });
}

#[test]
fn a_refused_change_has_no_effect() {
    breaks(&[I8], |play| {
        play.call(MAIN, create(), made(ID));
        play.call(MAIN, rename("1"), refused(429, "rate_limited"));
        play.call_at(2, MAIN, read(), named("1"));
    });
}

#[test]
fn nothing_comes_back_after_its_end() {
    breaks(&[I6, I8], |play| {
        play.call(MAIN, create(), made(ID));
        play.call(MAIN, Op::DeleteChannel { channel: ID.to_owned() }, done());
        play.call_at(2, MAIN, read(), refused(404, "channel_not_found"));
        play.call_at(2, MAIN, read(), named("0"));
    });
}

#[test]
fn a_change_that_undoes_another_of_something_else_is_found() {
    let change = |hook: Option<&str>, enabled| Op::ChangeEndpoint {
        endpoint: ID.to_owned(),
        hook: hook.map(ToOwned::to_owned),
        enabled,
    };
    let judged = |hook: &str, enabled| {
        let mut play = Play::empty();
        play.call(MAIN, Op::CreateEndpoint { hook: "/0".to_owned() }, made(ID));
        play.call(MAIN, change(Some("/1"), None), done());
        play.call(MAIN, change(None, Some(false)), done());
        // Both changes happen at the same time.
        let changes = play.calls(|call| matches!(call.op, Op::ChangeEndpoint { .. }));
        let (begin, end) = (changes[0].begin, changes[1].end);
        for change in changes {
            (change.begin, change.end) = (begin, end);
        }
        let shown = Answer::Endpoint { hook: hook.to_owned(), enabled };
        play.call_at(2, MAIN, Op::ReadEndpoint { endpoint: ID.to_owned() }, Outcome::Done(shown));
        judge_one(I8, &play.run)
    };
    assert!(judged("/1", false).holds());
    assert!(!judged("/1", true).holds() && !judged("/0", false).holds());
}

/// One node may show an update in flight before another does, but no node may go back.
#[test]
fn an_update_under_way_shows_at_one_node_first_and_stays() {
    let play = |first: u64, second: u64| {
        let mut play = Play::empty();
        play.call(MAIN, create(), made(ID));
        play.call(MAIN, rename("1"), done());
        play.call_at(first, MAIN, read(), named("1"));
        play.call_at(second, MAIN, read(), named("0"));
        let end = play.end_of(|_| true);
        play.calls(|call| matches!(call.op, Op::RenameChannel { .. }))[0].end = end;
        judge_one(I8, &play.run)
    };
    assert!(play(2, 3).holds());
    assert_eq!(play(2, 3).notes.len(), 1);
    assert!(!play(2, 2).holds());
}

/// Reads at nodes, `apart` from each other, after a rename of unknown outcome.
fn turns(apart: Duration, reads: &[(u64, &str)]) -> Finding {
    let mut play = Play::empty();
    play.call(MAIN, create(), made(ID));
    play.call(MAIN, rename("1"), unknown());
    for (node, name) in reads {
        play.wait(apart);
        play.call_at(*node, MAIN, read(), named(name));
    }
    judge_one(I8, &play.run)
}

#[test]
fn nodes_do_not_differ_for_longer_than_a_copy_may_be_old() {
    let split = turns(Duration::from_secs(15), &[(1, "1"), (2, "0"), (1, "1"), (2, "0")]);
    assert!(!split.holds(), "{split:?}");
    assert!(split.violations[0].what.contains("copies"), "{split:?}");
    // A single old read is enough.
    assert!(!turns(Duration::from_secs(3), &[(1, "1"), (2, "0")]).holds());
    // A copy of the permitted age.
    let aged = turns(Duration::from_secs(1), &[(1, "1"), (2, "0"), (2, "1")]);
    assert!(aged.holds(), "{aged:?}");
    assert_eq!(aged.notes.len(), 1, "{aged:?}");
    // A change that appears late at every node is no difference between nodes.
    let late = turns(Duration::from_secs(15), &[(1, "0"), (2, "0"), (1, "1"), (2, "1")]);
    assert!(late.holds() && late.notes.is_empty(), "{late:?}");
}

/// Two clients rename at the same time, through two nodes.
fn two_renames() -> Play {
    let mut play = Play::empty();
    play.call(MAIN, create(), made(ID));
    play.call_at(1, MAIN, rename("here"), done());
    play.call_at(2, MAIN, rename("there"), done());
    let end = play.end_of(|_| true);
    play.calls(|call| matches!(call.op, Op::RenameChannel { .. }))[0].end = end;
    play
}

fn shows(play: &mut Play, reads: &[(u64, &str)]) {
    for (node, name) in reads {
        play.call_at(*node, MAIN, read(), named(name));
    }
}

#[test]
fn of_two_names_that_are_given_at_once_either_may_stay_and_the_same_one_at_all_nodes() {
    let judged = |reads: &[(u64, &str)]| {
        let mut play = two_renames();
        shows(&mut play, reads);
        judge_one(I8, &play.run)
    };
    for last in ["here", "there"] {
        let finding = judged(&[(1, last), (2, last), (3, last)]);
        assert!(finding.holds() && finding.notes.is_empty(), "{finding:?}");
    }
    for reads in [[(1, "here"), (2, "there")], [(1, "there"), (1, "here")], [(3, "0"), (3, "here")]] {
        assert!(!judged(&reads).holds(), "{reads:?}");
    }
}

#[test]
fn while_two_updates_are_under_way_one_node_may_be_ahead_of_another_by_both() {
    let judged = |reads: &[(u64, &str)]| {
        let mut play = two_renames();
        shows(&mut play, reads);
        let end = play.end_of(|_| true);
        play.calls(|call| matches!(call.op, Op::RenameChannel { .. })).into_iter().for_each(|call| call.end = end);
        judge_one(I8, &play.run)
    };
    let finding = judged(&[(2, "there"), (3, "0"), (1, "here"), (1, "there")]);
    assert!(finding.holds(), "{finding:?}");
    assert_eq!(finding.notes.len(), 1, "{finding:?}");
    // No node goes back to an earlier state.
    assert!(!judged(&[(2, "there"), (2, "here"), (2, "there")]).holds());
}

#[test]
fn a_name_that_another_clients_later_one_replaced_is_found() {
    for old in ["0", "here", "there"] {
        let mut play = two_renames();
        play.call_at(3, MAIN, rename("new"), done());
        shows(&mut play, &[(2, "new")]);
        assert!(judge_one(I8, &play.run).holds());
        shows(&mut play, &[(1, old)]);
        assert!(!judge_one(I8, &play.run).holds(), "{old}");
    }
}

#[test]
fn who_comes_second_with_a_revocation_is_in_the_order_of_all_nodes_and_may_rely_on_it() {
    let revoke = || Op::RevokeKey { key: "new".to_owned() };
    let using = || Op::UseKey { key: "new".to_owned() };
    let revoked_twice = |second: Outcome| {
        let mut play = Play::empty();
        play.call(MAIN, Op::CreateKey { name: "New".to_owned() }, made("new"));
        play.call_at(1, MAIN, revoke(), done());
        play.call_at(2, MAIN, revoke(), second);
        // Including the node that refused: the refusal came from the directory's leader.
        for node in [2, 3] {
            play.call_at(node, MAIN, using(), done());
        }
        let end = play.end_of(|_| true);
        play.calls(|call| call.op == revoke())[0].end = end;
        play
    };
    let mut play = revoked_twice(refused(409, "no_op"));
    let finding = judge_one(I8, &play.run);
    assert!(finding.holds(), "{finding:?}");
    assert_eq!(finding.notes.len(), 1, "{finding:?}");
    assert!(!judge_one(I6, &play.run).holds(), "a key is let in that was said to be revoked");
    // Once the first revocation is answered, the key is revoked everywhere.
    play.call_at(3, MAIN, using(), done());
    assert!(!judge_one(I8, &play.run).holds());
    // A key can be revoked only once.
    assert!(!judge_one(I8, &revoked_twice(done()).run).holds());
}

#[test]
fn an_object_that_was_said_to_be_gone_may_be_shown_for_no_longer_than_a_copy_may_be_old() {
    let judged = |apart: Duration| {
        let mut play = Play::empty();
        let delete = || Op::DeleteChannel { channel: ID.to_owned() };
        play.call(MAIN, create(), made(ID));
        play.call_at(1, MAIN, delete(), unknown());
        play.call_at(2, MAIN, delete(), refused(404, "channel_not_found"));
        play.wait(apart);
        play.call_at(3, MAIN, read(), named("0"));
        judge_one(I8, &play.run)
    };
    assert!(judged(Duration::from_secs(1)).holds());
    assert!(!judged(Duration::from_secs(3)).holds());
}

#[test]
fn an_old_copy_excuses_no_read_after_an_update_was_answered() {
    let mut play = Play::empty();
    play.call(MAIN, create(), made(ID));
    play.call(MAIN, rename("1"), done());
    play.call_at(1, MAIN, read(), named("1"));
    // Half a second old.
    play.call_at(2, MAIN, read(), named("0"));
    assert!(!judge_one(I8, &play.run).holds());
}

#[test]
fn many_reads_beside_many_changes_of_unknown_outcome_are_judged_at_once() {
    let mut play = Play::empty();
    play.call(MAIN, create(), made(ID));
    for name in 1..=10 {
        play.call(MAIN, rename(&name.to_string()), unknown());
    }
    for round in 1..=10 {
        play.wait(Duration::from_secs(3));
        for node in [1, 2, 3, 1, 2, 3] {
            play.call_at(node, MAIN, read(), named(&round.to_string()));
        }
    }
    assert!(judge_one(I8, &play.run).holds());
    // Back to an old name, at a node that had shown nothing yet.
    play.wait(Duration::from_secs(3));
    play.call_at(4, MAIN, read(), named("9"));
    assert!(!judge_one(I8, &play.run).holds());
}

/// A client's operation on the object: node, times, and whether the client gets the response.
#[derive(Clone, Debug)]
struct Act {
    gap: u64,
    before: u64,
    after: u64,
    node: u64,
    what: What,
    heard: bool,
}

#[derive(Clone, Debug)]
enum What {
    Read,
    Rename,
    Delete,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let what = prop_oneof![6 => Just(What::Read), 3 => Just(What::Rename), 1 => Just(What::Delete)];
    let act = (0_u64..5, 0_u64..12, 0_u64..12, 1_u64..4, what, prop::bool::weighted(0.85));
    let act = act.prop_map(|(gap, before, after, node, what, heard)| Act { gap, before, after, node, what, heard });
    prop::collection::vec(act, 1..40)
}

/// The outcomes of operations on an object that takes each at one moment between its begin and its end.
fn linearizable(acts: &[Act]) -> Play {
    let mut play = Play::empty();
    play.run.records.clear();
    let at = |moment: u64| At((moment + 20) * 1_000_000);
    let mut add = |node, begin, end, op, outcome| {
        let tenant = MAIN.to_owned();
        play.run.records.push(Record::Call(Call { client: 1, tenant, node, begin, end, op, outcome }));
    };
    add(1, At(1), At(2), create(), made(ID));
    let (mut state, mut now) = (Some("0".to_owned()), 0);
    for (number, act) in acts.iter().enumerate() {
        now += act.gap;
        // Never before the object was created.
        let (begin, end) = (at(now).0 - act.before.min(19) * 1_000_000, at(now + act.after));
        let gone = || refused(404, "channel_not_found");
        let name = (number + 1).to_string();
        let (op, outcome) = match (&act.what, &mut state) {
            (What::Read, Some(name)) => (read(), named(name)),
            (What::Read, None) => (read(), gone()),
            (What::Rename, None) => (rename(&name), gone()),
            (What::Rename, Some(old)) => {
                *old = name.clone();
                (rename(&name), done())
            }
            (What::Delete, state) => {
                let outcome = if state.take().is_some() { done() } else { gone() };
                (Op::DeleteChannel { channel: ID.to_owned() }, outcome)
            }
        };
        add(act.node, At(begin), end, op, if act.heard { outcome } else { unknown() });
    }
    play
}

proptest! {
    #[test]
    fn a_history_of_one_object_is_accepted(acts in acts()) {
        let finding = judge_one(I8, &linearizable(&acts).run);
        prop_assert!(finding.holds(), "{finding:?}");
        prop_assert!(finding.notes.is_empty() || finding.notes[0].contains("unknown outcome"), "{finding:?}");
    }

    #[test]
    fn a_name_that_nobody_gave_is_refused(acts in acts(), which in any::<prop::sample::Index>()) {
        let mut play = linearizable(&acts);
        let mut reads = play.calls(|call| matches!(call.answer(), Some(Answer::Channel { .. })));
        prop_assume!(!reads.is_empty());
        let which = which.index(reads.len());
        reads[which].outcome = named("never given");
        let finding = judge_one(I8, &play.run);
        prop_assert!(!finding.holds() || finding.notes.iter().any(|note| note.contains("unknown outcome")));
    }

    #[test]
    fn an_old_name_after_a_new_one_is_refused(acts in acts()) {
        let mut play = linearizable(&acts);
        // Two renames and a read after everything else, without concurrent operations.
        let last = play.end_of(|_| true).0 + 1_000_000_000;
        let add = |play: &mut Play, n: u64, op, outcome| {
            let (begin, end) = (At(last + 10 * n), At(last + 10 * n + 5));
            let tenant = MAIN.to_owned();
            play.run.records.push(Record::Call(Call { client: 1, tenant, node: 1, begin, end, op, outcome }));
        };
        prop_assume!(!acts.iter().any(|act| matches!(act.what, What::Delete)));
        add(&mut play, 1, rename("old"), done());
        add(&mut play, 2, rename("new"), done());
        add(&mut play, 3, read(), named("new"));
        prop_assert!(judge_one(I8, &play.run).holds());
        add(&mut play, 4, read(), named("old"));
        let finding = judge_one(I8, &play.run);
        prop_assert!(!finding.holds() || finding.notes.iter().any(|note| note.contains("unknown outcome")));
    }
}
