//! Sends, receipts and inbound items between one channel and one friend.

use super::*;

#[test]
fn a_send_is_accepted_then_delivered_then_read() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.take(session);
    world.send(session, "A", &friend());
    let frames = world.take(session);
    assert!(matches!(&frames[0], SessionFrame::Accepted { id, .. } if id.as_str() == "A"), "{frames:?}");
    assert_eq!(statuses(&frames), [ReceiptStatus::Delivered]);
    let now = world.now;
    world.call(|engine| engine.open_chat(now, number_of(FRIEND), CHANNEL)).unwrap();
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
    world.call(|engine| engine.open_chat(now, number_of(FRIEND), CHANNEL)).unwrap();
    assert_eq!(statuses(&world.take(session)), []);
}

#[test]
fn a_phone_with_read_receipts_off_never_tells_that_it_read() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let settings = PhoneSettings { read_receipts: Some(false), auto_read_ms: Some(Some(0)), ..Default::default() };
    world.register(FRIEND, settings);
    world.send(session, "A", &friend());
    world.pass(10);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
}

#[test]
fn a_phone_reads_by_itself_after_its_time() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { auto_read_ms: Some(Some(200)), ..Default::default() });
    world.send(session, "A", &friend());
    world.pass(199);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
    world.pass(1);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
}

#[test]
fn a_phone_that_was_away_gets_its_messages_when_it_comes_back() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { online: Some(false), ..Default::default() });
    world.send(session, "A", &friend());
    world.send(session, "B", &friend());
    assert_eq!(statuses(&world.take(session)), []);
    assert!(world.inbox_ids(FRIEND).is_empty());
    world.register(FRIEND, PhoneSettings { online: Some(true), ..Default::default() });
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered; 2]);
    assert_eq!(world.inbox_ids(FRIEND), ["A", "B"]);
}

#[test]
fn a_send_to_nobody_is_refused() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let nobody = [
        ("19999999999@s.example", 479),
        ("123456789012345@lid", 479),
        ("1555@elsewhere", 479),
        ("120363@g.example", 404),
        ("120363@n.example", 404),
    ];
    for (to, expected) in nobody {
        world.take(session);
        world.send(session, "A", to);
        let heard = world.take(session);
        assert!(matches!(heard[..], [SessionFrame::Refused { code, .. }] if code == expected), "{to}: {heard:?}");
    }
    assert_eq!((world.stats().refused, world.stats().accepted), (5, 0));
}

#[test]
fn a_lid_reaches_its_subscriber() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let lid = number_of(FRIEND).lid();
    world.send(session, "A", lid.as_str());
    let row = &world.engine.accepted(&LedgerQuery::default()).data[0];
    assert_eq!((&row.to, row.seq, row.raw_copies, row.node, row.epoch), (&lid, 1, 1, 1, 5));
    assert_eq!(world.inbox_ids(FRIEND), ["A"]);
}

/// How the friend is addressed towards the channel in a new message.
fn sender_of_next(world: &mut World, session: SessionId) -> (Address, Option<Address>) {
    world.phone_sends(FRIEND, CHANNEL, 1);
    match items(&world.take(session)).pop().unwrap().kind {
        InboundKind::Message(message) => (message.from, message.from_phone),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_hidden_number_shows_its_lid_alone_until_it_is_disclosed() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { hide_number: Some(true), ..Default::default() });
    let lid = number_of(FRIEND).lid();
    let phone = Address::parse(&friend()).unwrap();
    world.take(session);
    assert_eq!(sender_of_next(&mut world, session), (lid.clone(), None));
    let now = world.now;
    for _ in 0..2 {
        world.call(|engine| engine.disclose(now, number_of(FRIEND), CHANNEL)).unwrap();
    }
    let disclosed: Vec<_> = items(&world.take(session)).into_iter().map(|item| item.kind).collect();
    assert_eq!(disclosed, [InboundKind::LidDisclosed { lid: lid.clone(), phone: phone.clone() }]);
    assert_eq!(sender_of_next(&mut world, session), (lid, Some(phone.clone())));
    world.register(FRIEND, PhoneSettings { hide_number: Some(false), ..Default::default() });
    assert_eq!(sender_of_next(&mut world, session), (phone, None));
}

#[test]
fn with_dedup_off_every_copy_reaches_the_phone() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.faults(FaultsChange { dedup: Some(false), ..Default::default() });
    for _ in 0..3 {
        world.send(session, "A", &friend());
    }
    let inbox = world.engine.inbox(number_of(FRIEND), &InboxQuery::default()).unwrap();
    assert_eq!((inbox.total, inbox.data[0].copies), (1, 3));
    assert_eq!(world.engine.accepted(&LedgerQuery::default()).data[0].raw_copies, 3);
    let stats = world.stats();
    assert_eq!((stats.accepted, stats.raw_sends, stats.duplicates_dropped, stats.delivered), (1, 3, 0, 1));
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Delivered]);
}

#[test]
fn lost_sends_and_lost_acceptances_look_the_same_to_the_sender() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.register(FRIEND, PhoneSettings { online: Some(false), ..Default::default() });
    world.take(session);
    world.faults(FaultsChange { drop_before_accept_pct: Some(100.0), ..Default::default() });
    world.send(session, "A", &friend());
    assert_eq!((world.take(session), world.stats().raw_sends, world.stats().accepted), (vec![], 0, 0));
    world.faults(FaultsChange {
        drop_before_accept_pct: Some(0.0),
        drop_after_accept_pct: Some(100.0),
        ..Default::default()
    });
    world.send(session, "A", &friend());
    assert_eq!((world.take(session), world.stats().raw_sends, world.stats().accepted), (vec![], 1, 1));
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    world.send(session, "A", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Accepted { .. }]));
    assert_eq!((world.stats().accepted, world.stats().duplicates_dropped), (1, 1));
}

#[test]
fn delayed_acceptances_keep_their_order_and_outlive_the_session() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    let delays = FaultsChange { accept_delay_ms: Some(100), accept_jitter_ms: Some(900), ..Default::default() };
    world.faults(delays);
    let ids: Vec<String> = (0..50).map(|n| format!("M{n}")).collect();
    for id in &ids {
        world.send(session, id, &friend());
        world.pass(5);
    }
    world.frame(1, NodeFrame::Reset { session: session.number });
    world.pass(5_000);
    assert_eq!(world.inbox_ids(FRIEND), ids);
    let again = world.login(1, 5, &credentials);
    world.send(again, "M0", &friend());
    world.pass(5_000);
    assert_eq!(world.stats().duplicates_dropped, 1);
}

#[test]
fn acknowledgements_held_back_make_items_come_again() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.faults(FaultsChange { hold_inbound_acks: Some(true), ..Default::default() });
    world.phone_sends(FRIEND, CHANNEL, 3);
    let first = items(&world.take(session));
    first.iter().for_each(|item| world.acknowledge(session, &item.id));
    let session = world.login(2, 6, &credentials);
    assert_eq!(items(&world.take(session)), first);
    assert_eq!(world.stats().redelivered, 3);
    first.iter().for_each(|item| world.acknowledge(session, &item.id));
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    let session = world.login(1, 7, &credentials);
    assert_eq!(items(&world.take(session)), []);
}

#[test]
fn a_node_that_is_cut_stays_out_until_the_fault_ends() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    world.faults(FaultsChange { cut_node: Some(vec![1]), ..Default::default() });
    assert_eq!(world.logins()[0].end, Some(LoginEnd::Lost));
    world.frame(3, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    assert_eq!(world.disconnected, [1, 3]);
    let now = world.now;
    world.call(|engine| engine.clear_faults(now));
    world.frame(4, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    let session = world.login(4, 5, &credentials);
    assert!(matches!(world.take(session)[..], [SessionFrame::LoggedIn(_)]));
}

#[test]
fn a_nack_refuses_new_sends_and_never_one_that_was_accepted() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    world.send(session, "A", &friend());
    let nack = crate::simulator::faults::Nack { code: 463, pct: 100.0 };
    world.faults(FaultsChange { nack: Some(Some(nack)), ..Default::default() });
    world.take(session);
    world.send(session, "A", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Accepted { .. }]));
    world.send(session, "B", &friend());
    assert!(matches!(world.take(session)[..], [SessionFrame::Refused { code: 463, .. }]));
}

#[test]
fn a_reset_forgets_everything() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    world.login(1, 5, &credentials);
    let now = world.now;
    world.call(|engine| engine.reset(now));
    assert_eq!(world.disconnected, [1, 2]);
    assert_eq!(world.stats(), Stats::default());
    assert!(world.engine.phone(number_of(CHANNEL)).is_err());
    world.frame(5, NodeFrame::Hello { version: WIRE_VERSION, node: 1 });
    let session = world.login(5, 6, &credentials);
    assert_eq!(ended(&world.take(session)), Some(EndReason::Invalidated));
}

#[test]
fn the_inbox_and_the_ledger_are_paged() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 5, &credentials);
    for n in 0..5 {
        world.send(session, &format!("M{n}"), &friend());
    }
    let query = InboxQuery { after: Some("M1".into()), limit: Some(2), ..Default::default() };
    let page = world.engine.inbox(number_of(FRIEND), &query).unwrap();
    assert_eq!(page.data.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["M2", "M3"]);
    assert_eq!(page.total, 5);
    let one = InboxQuery { id: Some("M4".into()), from: Some(CHANNEL.into()), ..Default::default() };
    assert_eq!(world.engine.inbox(number_of(FRIEND), &one).unwrap().total, 1);
    let page = world.engine.accepted(&LedgerQuery { since_seq: Some(3), limit: None });
    assert_eq!(page.data.iter().map(|row| row.seq).collect::<Vec<_>>(), [4, 5]);
    assert_eq!(page.total, 5);
    let shown = serde_json::to_value(&world.engine.inbox(number_of(FRIEND), &one).unwrap().data[0]).unwrap();
    assert_eq!(shown["type"], "text");
    assert_eq!(shown["text"], "hello");
}
