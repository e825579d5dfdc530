//! Who holds a device: epochs, conflicts, ends, refusals.

use super::*;

#[test]
fn a_higher_epoch_fences_the_live_session_and_late_writes_are_dropped() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let old = world.login(1, 5, &credentials);
    let new = world.login(2, 6, &credentials);
    assert_eq!(ended(&world.take(old)), Some(EndReason::Fenced));
    world.send(old, "LATE", &friend());
    assert_eq!(world.stats().late_writes, 1);
    assert!(world.inbox_ids(FRIEND).is_empty());
    world.send(new, "GOOD", &friend());
    assert_eq!(world.inbox_ids(FRIEND), ["GOOD"]);
    assert_eq!((world.stats().fenced, world.stats().conflicts, world.stats().sessions), (1, 0, 1));
    let logins = world.logins();
    assert_eq!((logins[0].end, logins[0].node, logins[0].epoch), (Some(LoginEnd::Fenced), 1, 5));
    assert_eq!((logins[1].end, logins[1].node, logins[1].epoch), (None, 2, 6));
}

#[test]
fn the_same_or_a_lower_epoch_is_a_conflict_and_the_new_session_lives() {
    for epoch in [5, 4] {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        let old = world.login(1, 5, &credentials);
        let new = world.login(2, epoch, &credentials);
        assert_eq!(ended(&world.take(old)), Some(EndReason::Replaced));
        assert_eq!((world.stats().fenced, world.stats().conflicts), (0, 1));
        let sessions = world.engine.sessions(&SessionsQuery::default()).unwrap();
        assert_eq!((sessions.data[0].node, sessions.data[0].epoch, sessions.total), (2, epoch, 1));
        world.send(new, "GOOD", &friend());
        assert_eq!(world.inbox_ids(FRIEND), ["GOOD"]);
    }
}

#[test]
fn a_foreign_copy_of_the_device_is_one_conflict_and_then_gone() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let old = world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.replace(now, number_of(CHANNEL))).unwrap();
    assert_eq!(ended(&world.take(old)), Some(EndReason::Replaced));
    world.login(1, 5, &credentials);
    assert_eq!((world.stats().conflicts, world.stats().sessions), (1, 1));
}

#[test]
fn ends_are_recorded_as_closed_or_lost() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let closed = world.login(1, 5, &credentials);
    world.frame(1, NodeFrame::Close { session: closed.number });
    assert_eq!(world.take(closed).pop(), Some(SessionFrame::Closed));
    let cut = world.login(1, 5, &credentials);
    world.frame(1, NodeFrame::Reset { session: cut.number });
    world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.disconnected(now, 1));
    let ends: Vec<_> = world.logins().into_iter().map(|login| login.end).collect();
    assert_eq!(ends, [Some(LoginEnd::Closed), Some(LoginEnd::Lost), Some(LoginEnd::Lost)]);
    assert_eq!(world.stats().conflicts, 0);
}

#[test]
fn a_node_that_connects_again_has_lost_its_older_connection() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    world.frame(3, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    assert_eq!(world.disconnected, [1]);
    world.login(3, 5, &credentials);
    assert_eq!(world.stats().conflicts, 0);
}

#[test]
fn logins_are_refused_for_their_reasons() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let refusals =
        [(RefuseLogins::Version, EndReason::ClientOutdated), (RefuseLogins::Banned, EndReason::Banned { until: None })];
    for (fault, reason) in refusals {
        world.faults(FaultsChange { refuse_logins: Some(Switch::On(fault)), ..Default::default() });
        let session = world.login(1, 5, &credentials);
        assert_eq!(ended(&world.take(session)), Some(reason));
    }
    world.faults(FaultsChange { refuse_logins: Some(Switch::Off(false)), ..Default::default() });
    let forged = world.login(1, 5, &Bytes::from_static(b"forged"));
    assert_eq!(ended(&world.take(forged)), Some(EndReason::Invalidated));

    let now = world.now;
    let until = Some(Timestamp(now.0 + 1_000));
    let live = world.login(1, 5, &credentials);
    world.call(|engine| engine.ban(now, number_of(CHANNEL), until)).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Banned { until }));
    world.pass(1_000);
    let live = world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.unlink(now, number_of(CHANNEL), None)).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Unlinked));
    let later = world.login(1, 5, &credentials);
    assert_eq!(ended(&world.take(later)), Some(EndReason::Unlinked));

    let credentials = world.pair(CHANNEL);
    let live = world.login(1, 5, &credentials);
    world.call(|engine| engine.invalidate(now, number_of(CHANNEL))).unwrap();
    assert_eq!(ended(&world.take(live)), Some(EndReason::Invalidated));
    world.call(|engine| engine.delete_phone(now, number_of(CHANNEL))).unwrap();
    let later = world.login(1, 5, &credentials);
    assert_eq!(ended(&world.take(later)), Some(EndReason::Invalidated));
}

#[test]
fn a_delayed_login_is_judged_when_it_is_due() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.faults(FaultsChange { login_delay_ms: Some(500), ..Default::default() });
    let session = world.login(1, 5, &credentials);
    assert_eq!(world.take(session), []);
    world.pass(500);
    assert!(matches!(world.take(session)[..], [SessionFrame::LoggedIn(_)]));
    let gone = world.login(1, 6, &credentials);
    world.frame(1, NodeFrame::Reset { session: gone.number });
    world.pass(500);
    assert_eq!((world.stats().logins, world.stats().fenced), (1, 0));
}
