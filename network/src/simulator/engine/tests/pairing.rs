//! How a device is linked: QR texts, pair codes, credentials.

use super::*;

#[test]
fn six_qr_texts_rotate_and_then_the_session_ends() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let started = world.now;
    let mut shown = Vec::new();
    for _ in 0..1_600 {
        world.pass(100);
        shown.extend(world.take(session));
    }
    let last = shown.pop();
    assert_eq!(last, Some(SessionFrame::QrTimeout));
    let lives: Vec<_> = shown
        .iter()
        .map(|frame| match frame {
            SessionFrame::Qr { expires_at, sequence, .. } => (*sequence, expires_at.0 - started.0),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lives, [(1, 60_000), (2, 80_000), (3, 100_000), (4, 120_000), (5, 140_000), (6, 160_000)]);
    world.frame(1, NodeFrame::Close { session: session.number });
    assert_eq!(world.stats().late_writes, 0);
}

#[test]
fn a_qr_text_that_has_rotated_away_links_nothing() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.pass(60_000);
    assert!(world.link(FRIEND, LinkBy::Raw(raw), 1).is_err());
    let raw = world.raw(session);
    assert!(world.link(FRIEND, LinkBy::Raw(raw), 2).is_ok());
}

#[test]
fn qr_times_are_scaled() {
    let mut world = World::new();
    world.faults(FaultsChange { qr_time_scale: Some(0.01), ..Default::default() });
    let session = world.start_pairing(1);
    world.pass(1_600);
    assert_eq!(world.take(session).pop(), Some(SessionFrame::QrTimeout));
}

#[test]
fn a_device_exists_only_once_its_credentials_are_stored() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.link(CHANNEL, LinkBy::Raw(raw), 9).unwrap();
    let credentials = match world.take(session).pop() {
        Some(SessionFrame::Credentials { credentials, .. }) => credentials,
        other => panic!("{other:?}"),
    };
    assert!(world.links.is_empty());
    assert!(world.engine.phone(number_of(CHANNEL)).unwrap().devices.is_empty());
    let early = world.login(2, 5, &credentials);
    assert_eq!(ended(&world.take(early)), Some(EndReason::Invalidated));

    world.frame(1, NodeFrame::Stored { session: session.number });
    assert_eq!(world.links.get(&9), Some(&Ok(1)));
    assert_eq!(world.engine.phone(number_of(CHANNEL)).unwrap().devices.len(), 1);
    world.frame(1, NodeFrame::Login { session: session.number, epoch: 1, credentials });
    assert!(matches!(world.take(session)[..], [SessionFrame::Linked, SessionFrame::LoggedIn(_)]));
}

#[test]
fn a_link_fails_when_the_session_ends_before_the_credentials_are_stored() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.link(CHANNEL, LinkBy::Raw(raw.clone()), 9).unwrap();
    assert!(world.link(CHANNEL, LinkBy::Raw(raw), 10).is_err());
    let now = world.now;
    world.call(|engine| engine.disconnected(now, 1));
    assert!(world.links.get(&9).unwrap().is_err());
}

#[test]
fn a_pair_code_links_its_own_number_while_it_lives() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    world.pass(100_000);
    world.take(session);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    let code = match world.take(session).pop() {
        Some(SessionFrame::PairCode(code)) => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code.expires_at, Timestamp(world.now.0 + 160_000));
    let shape: String = code.code.chars().map(|c| if c.is_ascii_digit() { '9' } else { 'A' }).collect();
    assert_eq!(shape, "AAAAA9999", "{}", code.code);
    assert_eq!(code.code.as_bytes()[4], b'-');
    assert!(world.link(FRIEND, LinkBy::PairCode(code.code.clone()), 1).is_err());
    // The QR texts are used up after 160 s; a valid pair code keeps the session open.
    world.pass(159_000);
    assert!(world.link(CHANNEL, LinkBy::PairCode(code.code.to_lowercase()), 2).is_ok());
}

#[test]
fn a_session_ends_with_its_pair_code() {
    let mut world = World::new();
    let session = world.start_pairing(1);
    world.pass(100_000);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    world.pass(160_000);
    assert_eq!(world.take(session).pop(), Some(SessionFrame::QrTimeout));
}

#[test]
fn pairing_is_refused_as_the_faults_say() {
    let mut world = World::new();
    world.faults(FaultsChange { refuse_pairing: Some(Switch::On(RefusePairing::Code)), ..Default::default() });
    let session = world.start_pairing(1);
    let raw = world.raw(session);
    world.frame(1, NodeFrame::PairCode { session: session.number, phone: CHANNEL.into() });
    assert!(matches!(world.take(session)[..], [SessionFrame::PairCodeRefused { code: 400, .. }]));
    world.faults(FaultsChange { refuse_pairing: Some(Switch::On(RefusePairing::DeviceLimit)), ..Default::default() });
    assert!(world.link(CHANNEL, LinkBy::Raw(raw), 1).is_err());
    assert!(matches!(world.take(session)[..], [SessionFrame::PairingRefused { .. }]));
}
