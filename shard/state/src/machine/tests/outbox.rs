//! Tests of what an owner can tell about an outbox that an earlier owner left.

use super::*;

/// For each send in the outbox, in order, whether the network may have received it.
fn may_be_out(rig: &Rig) -> Vec<bool> {
    let row: ChannelRow = decode(&rig.get(&keys::channel(CHANNEL)).unwrap());
    let places = rig.state.scan_range(keys::outbox_of(CHANNEL), usize::MAX);
    places.iter().map(|(key, _)| row.may_be_out(keys::parse_outbox(key).unwrap().1)).collect()
}

fn send(rig: &mut Rig, id: &str, at: i64) {
    let sent = MessageRow { created_at: Timestamp(at), ..row(id, Direction::Outbound) };
    assert_eq!(rig.run(accept(&sent)), Reply::Done);
}

#[test]
fn what_was_taken_while_a_channel_was_not_connected_is_not_out_whatever_the_clocks_say() {
    let mut rig = Rig::default();
    rig.run(moved(0, Status::Connecting));
    send(&mut rig, "before the first login", 5);
    assert_eq!(may_be_out(&rig), [false]);
    rig.run(moved(1, Status::Connected));
    // One send has a clock an hour ahead of the one that records the lost connection, the other an hour behind.
    send(&mut rig, "ahead", 3_600_000);
    assert_eq!(may_be_out(&rig), [true, true]);
    rig.run(moved(2, Status::Reconnecting));
    send(&mut rig, "behind", -3_600_000);
    assert_eq!(may_be_out(&rig), [true, true, false]);
    rig.run(moved(3, Status::StoppedByUser));
    assert_eq!(may_be_out(&rig), [true, true, false]);
}

#[test]
fn sends_are_told_apart_from_a_move_in_the_same_entry() {
    let mut rig = Rig::connected();
    let sends = ["A", "B"].map(|id| accept(&row(id, Direction::Outbound)));
    let [before, after] = sends;
    rig.apply(1, 1, vec![before, moved(1, Status::Reconnecting), after]);
    assert_eq!(may_be_out(&rig), [true, false]);
}

#[test]
fn before_the_third_format_nobody_knows_and_nothing_is_noted() {
    let mut rig = Rig { format: Format::SECOND, ..Rig::default() };
    rig.run(moved(0, Status::Connected));
    rig.run(moved(1, Status::Reconnecting));
    send(&mut rig, "A", 5);
    assert_eq!(may_be_out(&rig), [true]);
    let row: ChannelRow = decode(&rig.get(&keys::channel(CHANNEL)).unwrap());
    assert_eq!(row.unwritten_from, None);
}
