//! I9 to I12.

use std::time::Duration;

use super::play::{CHANNEL, MAIN, OTHERS_CHANNEL, STRANGER, done, refused};
use super::{breaks, holds};
use crate::check::Invariant::{I9, I10, I11, I12};
use crate::history::{At, Look, Op, Replica};

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
    // A node that is looked at twice is not two.
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
    // The others go on, and it crawls.
    breaks(&[I9], |play| looks(play, 6, [[60, 80, 80], [61, 95, 90]]));
    holds(|play| looks(play, 6, [[60, 80, 80], [80, 95, 90]]));
    // Nobody knows that it would not have come.
    holds(|play| looks(play, 1, [[60, 80, 80], [60, 80, 80]]));
    // No two had been further.
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
}

#[test]
fn a_list_with_anothers_row_is_found() {
    breaks(&[I12], |play| play.list(MAIN, &[CHANNEL, OTHERS_CHANNEL]));
}

#[test]
fn a_stream_with_anothers_event_is_found() {
    breaks(&[I12], |play| play.frame(1, "evt_9", OTHERS_CHANNEL));
}
