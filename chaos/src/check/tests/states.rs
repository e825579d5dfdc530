//! I9 to I12.

use std::time::Duration;

use super::play::{CHANNEL, MAIN, OTHERS_CHANNEL, STRANGER, done, refused};
use super::{breaks, holds};
use crate::check::Invariant::{I9, I10, I11, I12};
use crate::history::Op;

#[test]
fn replicas_of_one_position_are_alike() {
    breaks(&[I9], |play| play.run.evidence.replicas[1].hash = "abd".to_owned());
    holds(|play| {
        let replica = &mut play.run.evidence.replicas[1];
        (replica.applied, replica.hash) = (71, "abd".to_owned());
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
