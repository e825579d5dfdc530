//! Invariants that hold for any behaviour of nodes, as property tests.

use super::*;

/// Actions that may happen in any order.
#[derive(Clone, Debug)]
enum Deed {
    Login { connection: ConnectionId, epoch: Epoch },
    Close { session: usize },
    Reset { session: usize },
    Send { session: usize, id: u8 },
    Inbound,
    Acknowledge { session: usize, items: usize },
    Lose { connection: ConnectionId },
    Pass { milliseconds: i64 },
    Delays { milliseconds: u64 },
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let session = 0..8_usize;
    let deed = prop_oneof![
        3 => (1..=2_u64, 1..6_u64).prop_map(|(connection, epoch)| Deed::Login { connection, epoch }),
        1 => session.clone().prop_map(|session| Deed::Close { session }),
        1 => session.clone().prop_map(|session| Deed::Reset { session }),
        6 => (session.clone(), 0..20_u8).prop_map(|(session, id)| Deed::Send { session, id }),
        4 => Just(Deed::Inbound),
        4 => (session, 1..5_usize).prop_map(|(session, items)| Deed::Acknowledge { session, items }),
        1 => (1..=2_u64).prop_map(|connection| Deed::Lose { connection }),
        3 => (1..400_i64).prop_map(|milliseconds| Deed::Pass { milliseconds }),
        1 => (0..300_u64).prop_map(|milliseconds| Deed::Delays { milliseconds }),
    ];
    proptest::collection::vec(deed, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// At all times: one live session per device, no message twice, nothing inbound lost or reordered.
    #[test]
    fn the_network_keeps_its_promises(deeds in deeds()) {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        let mut opened: Vec<SessionId> = Vec::new();
        let mut sent: Vec<String> = Vec::new();
        let mut acknowledged: Vec<ItemId> = Vec::new();
        for deed in deeds {
            let pick = |index: usize| (!opened.is_empty()).then(|| opened[opened.len() - 1 - index % opened.len()]);
            match deed {
                Deed::Login { connection, epoch } => opened.push(world.login(connection, epoch, &credentials)),
                Deed::Close { session } => if let Some(id) = pick(session) {
                    world.frame(id.connection, NodeFrame::Close { session: id.number });
                },
                Deed::Reset { session } => if let Some(id) = pick(session) {
                    world.frame(id.connection, NodeFrame::Reset { session: id.number });
                },
                Deed::Send { session, id } => if let Some(session) = pick(session) {
                    world.send(session, &format!("M{id}"), &friend());
                },
                Deed::Inbound => sent.extend(world.phone_sends(FRIEND, CHANNEL, 1).into_iter().map(|id| id.0)),
                Deed::Acknowledge { session, items: count } => if let Some(session) = pick(session) {
                    let seen = items(world.heard.get(&session).map_or(&[][..], |heard| &heard[..]));
                    let live = world.engine.live(session).is_some();
                    let open: Vec<_> = seen.into_iter().filter(|item| !acknowledged.contains(&item.id)).collect();
                    for item in open.into_iter().take(count) {
                        world.acknowledge(session, &item.id);
                        if live {
                            acknowledged.push(item.id);
                        }
                    }
                },
                Deed::Lose { connection } => {
                    let now = world.now;
                    world.call(|engine| engine.disconnected(now, connection));
                    world.frame(connection, NodeFrame::Hello { version: WIRE_VERSION, node: connection });
                }
                Deed::Pass { milliseconds } => world.pass(milliseconds),
                Deed::Delays { milliseconds } => world.faults(FaultsChange {
                    accept_delay_ms: Some(milliseconds),
                    accept_jitter_ms: Some(milliseconds),
                    login_delay_ms: Some(milliseconds),
                    ..Default::default()
                }),
            }
            let live = opened.iter().filter(|session| world.engine.live(**session).is_some()).count();
            prop_assert!(live <= 1, "{live} sessions of one device");
            prop_assert_eq!(world.stats().sessions, live as u64);
            let unended = world.logins().iter().filter(|login| login.end.is_none()).count();
            prop_assert_eq!(unended, live);
        }
        world.pass(10_000);
        let mut inbox = world.inbox_ids(FRIEND);
        let rows = world.engine.accepted(&LedgerQuery { since_seq: None, limit: Some(10_000) });
        let copies: u64 = rows.data.iter().map(|row| u64::from(row.raw_copies)).sum();
        prop_assert_eq!(copies, world.stats().raw_sends);
        prop_assert_eq!(inbox.len(), rows.total);
        inbox.sort_unstable();
        inbox.dedup();
        prop_assert_eq!(inbox.len(), rows.total);

        // A final login receives, in order, every message that was not acknowledged.
        let now = world.now;
        world.call(|engine| engine.clear_faults(now));
        let mut known: HashMap<ItemId, String> = HashMap::new();
        for item in world.heard.values().flat_map(|heard| items(heard)) {
            if let InboundKind::Message(message) = item.kind {
                known.insert(item.id, message.id.0);
            }
        }
        let gone: Vec<&String> = acknowledged.iter().filter_map(|item| known.get(item)).collect();
        let expected: Vec<String> = sent.iter().filter(|id| !gone.contains(id)).cloned().collect();
        let last = world.login(1, 100, &credentials);
        let mut received = Vec::new();
        loop {
            let batch = items(&world.take(last));
            if batch.is_empty() {
                break;
            }
            for item in batch {
                world.acknowledge(last, &item.id);
                if let InboundKind::Message(message) = item.kind {
                    received.push(message.id.0);
                }
            }
        }
        prop_assert_eq!(received, expected);
    }

    /// No frame in any state makes the engine panic.
    #[test]
    fn no_frame_upsets_the_engine(frames in proptest::collection::vec((1..4_u64, 0..9_u8, 0..4_u64), 1..60)) {
        let mut world = World::new();
        let credentials = world.pair(CHANNEL);
        for (connection, kind, session) in frames {
            let frame = match kind {
                0 => NodeFrame::Hello { version: WIRE_VERSION, node: connection },
                1 => NodeFrame::Login { session, epoch: session, credentials: credentials.clone() },
                2 => NodeFrame::Pair { session, epoch: 1, device_name: String::new(), full_history: false },
                3 => NodeFrame::PairCode { session, phone: CHANNEL.into() },
                4 => NodeFrame::Stored { session },
                5 => NodeFrame::Acknowledge { session, item: ItemId(format!("x-{session}")) },
                6 => NodeFrame::Logout { session },
                7 => NodeFrame::Close { session },
                _ => NodeFrame::Reset { session },
            };
            world.frame(connection, frame);
            world.pass(1_000);
        }
        let live = world.engine.sessions(&SessionsQuery::default()).unwrap().total;
        prop_assert_eq!(world.stats().sessions, live as u64);
    }
}
