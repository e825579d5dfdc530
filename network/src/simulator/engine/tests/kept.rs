//! Persistence: state is written to a folder and read again.

use model::group::{ParticipantAction, Rank};

use super::contents::{key, messages};
use super::*;
use crate::operation::Area;
use crate::operation::groups::{GroupAnswer, GroupOperation};
use crate::operation::picture::Picture;
use crate::simulator::store::{Store, StoreError};

/// Stores a world's state, as a process does at shutdown or just before it is killed.
fn store(world: &World, folder: &std::path::Path, ends_in_order: bool) {
    let (mut store, _) = Store::open(folder).unwrap();
    store.write(&world.engine.snapshot(), ends_in_order).unwrap();
}

/// Starts the next process.
fn started(folder: &std::path::Path, now: Timestamp) -> World {
    let (_, found) = Store::open(folder).unwrap();
    let found = found.expect("something was stored");
    let mut world = World::new();
    world.engine = Engine::new([9; 32], "http://control.example".into(), 1.0);
    world.now = now;
    world.engine.restore(now, found.snapshot, found.ended_in_order);
    for (connection, node) in [(1, 1), (2, 2)] {
        world.frame(connection, NodeFrame::Hello { version: WIRE_VERSION, node });
    }
    world
}

fn restarted(world: &World, ends_in_order: bool) -> World {
    let folder = tempfile::tempdir().unwrap();
    store(world, folder.path(), ends_in_order);
    started(folder.path(), world.now)
}

fn groups(world: &mut World, by: &str, operation: GroupOperation) -> GroupAnswer {
    let now = world.now;
    let answer = world.call(|engine| engine.phone_operation(now, number_of(by), operation.into())).unwrap();
    GroupOperation::answer(answer).unwrap()
}

fn make_group(world: &mut World) -> Address {
    let participants = vec![Address::parse(&format!("{CHANNEL}@s.example")).unwrap()];
    match groups(world, FRIEND, GroupOperation::Create { subject: "Friends".into(), participants }) {
        GroupAnswer::Created { group, .. } => group.id,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_linked_device_logs_in_again_with_its_credentials_and_starts_where_it_was() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 7, &credentials);
    world.send(session, "A", &friend());
    let waiting = world.phone_sends(FRIEND, CHANNEL, 3);
    let before = items(&world.take(session));
    world.acknowledge(session, &before.iter().find(|item| is_message(item, &waiting[0])).unwrap().id);

    let mut world = restarted(&world, true);
    let logins = world.logins();
    assert_eq!((logins.len(), logins[0].epoch, logins[0].end), (1, 7, Some(LoginEnd::Lost)));
    assert_eq!(world.stats().sessions, 0);
    // A lower epoch is no conflict, as after any other end of a session: no session holds the device.
    let session = world.login(2, 5, &credentials);
    let told = world.take(session);
    assert!(matches!(told.first(), Some(SessionFrame::LoggedIn(_))), "{told:?}");
    assert_eq!((world.stats().conflicts, world.stats().fenced), (0, 0));
    // Unacknowledged items come again under the same ids.
    let again = items(&told);
    let expected: Vec<_> = before.into_iter().filter(|item| !is_message(item, &waiting[0])).collect();
    assert_eq!(again, expected);

    // A repeat of an accepted message is dropped; the inbox has it once.
    world.send(session, "A", &friend());
    assert_eq!(world.stats().duplicates_dropped, 1);
    assert_eq!(world.inbox_ids(FRIEND), ["A"]);
    assert_eq!(world.engine.accepted(&LedgerQuery::default()).data[0].raw_copies, 2);
    // A higher epoch fences this session, as usual.
    world.login(1, 9, &credentials);
    assert_eq!(ended(&world.take(session)), Some(EndReason::Fenced));
}

fn is_message(item: &InboundItem, id: &MessageId) -> bool {
    matches!(&item.kind, InboundKind::Message(message) if message.id == *id)
}

#[test]
fn messages_are_shared_again_by_all_who_hold_them() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 1, &credentials);
    world.send(session, "A", &friend());
    let group = make_group(&mut world);
    let in_group = world.phone_sends(FRIEND, group.as_str(), 1);

    let mut world = restarted(&world, true);
    let session = world.login(1, 2, &credentials);
    world.take(session);
    // The phone reads an older message and reacts to it: the sender is told of both.
    let now = world.now;
    world.call(|engine| engine.open_chat(now, number_of(FRIEND), CHANNEL)).unwrap();
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
    world.call(|engine| engine.react(now, number_of(FRIEND), "A", "👍")).unwrap();
    let told = world.take(session);
    let mut content = messages(&told).pop().unwrap().content;
    assert_eq!(content.target_mut().cloned(), Some(key("A", true, &friend())));
    // The group is unchanged.
    let GroupAnswer::Group(shown) = groups(&mut world, CHANNEL, GroupOperation::Show { group: group.clone() }) else {
        panic!("a group is shown")
    };
    let ranks: Vec<Rank> = shown.participants.iter().map(|member| member.rank).collect();
    assert_eq!((shown.subject.as_str(), ranks), ("Friends", vec![Rank::Creator, Rank::Member]));
    assert!(world.inbox_ids(CHANNEL).contains(&in_group[0].0));
    let promote = GroupOperation::Participants {
        group,
        action: ParticipantAction::Promote,
        participants: vec![Address::parse(&format!("{CHANNEL}@s.example")).unwrap()],
    };
    groups(&mut world, FRIEND, promote);
}

#[test]
fn what_a_phone_would_read_by_itself_is_read_after_a_restart() {
    let mut world = World::new();
    world.register(FRIEND, PhoneSettings { auto_read_ms: Some(Some(500)), ..PhoneSettings::default() });
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 1, &credentials);
    world.send(session, "A", &friend());
    let mut world = restarted(&world, true);
    let session = world.login(1, 2, &credentials);
    world.take(session);
    world.pass(499);
    assert!(statuses(&world.take(session)).is_empty());
    world.pass(1);
    assert_eq!(statuses(&world.take(session)), [ReceiptStatus::Read]);
}

#[test]
fn media_and_pictures_are_there_after_a_restart_and_gone_from_the_folder_with_their_last_handle() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 1, &credentials);
    let now = world.now;
    let bytes = Bytes::from_static(b"abc");
    let stored = world.call(|engine| engine.finish_upload(now, session, [1; 32], bytes.clone())).unwrap();
    let picture = Picture { full: Bytes::from_static(b"full"), preview: Bytes::from_static(b"preview") };
    let id = world.engine.replace_picture(None, Some(picture)).unwrap();
    let url = world.engine.picture_url(&id);
    let name = url.rsplit('/').next().unwrap();

    let folder = tempfile::tempdir().unwrap();
    store(&world, folder.path(), true);
    let mut world = started(folder.path(), now);
    let session = world.login(1, 2, &credentials);
    let (_, digest, read) = world.call(|engine| engine.begin_download(now, session, &stored.handle)).unwrap();
    assert_eq!((digest, read), ([1; 32], bytes));
    assert_eq!(world.engine.picture(name, false), Some(Bytes::from_static(b"full")));
    assert_eq!(world.engine.picture(name, true), Some(Bytes::from_static(b"preview")));

    let files = || std::fs::read_dir(folder.path().join("files")).unwrap().count();
    assert_eq!(files(), 3);
    world.call(|engine| engine.reset(now));
    store(&world, folder.path(), true);
    assert_eq!(files(), 0);
}

#[test]
fn after_a_kill_no_name_is_given_away_twice() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let folder = tempfile::tempdir().unwrap();
    store(&world, folder.path(), false);
    // The following happened before the process was killed.
    let session = world.login(1, 1, &credentials);
    let lost_group = make_group(&mut world);
    world.phone_sends(FRIEND, CHANNEL, 2);
    let lost = items(&world.take(session));
    assert!(!lost.is_empty());

    let mut world = started(folder.path(), world.now);
    let session = world.login(1, 2, &credentials);
    assert_ne!(make_group(&mut world), lost_group);
    world.phone_sends(FRIEND, CHANNEL, 2);
    let new = items(&world.take(session));
    assert!(!new.is_empty());
    assert!(new.iter().all(|item| !lost.iter().any(|lost| lost.id == item.id)), "{lost:?} {new:?}");
}

#[test]
fn what_is_damaged_or_of_a_newer_release_is_refused_and_left_alone() {
    let mut world = World::new();
    world.pair(CHANNEL);
    let folder = tempfile::tempdir().unwrap();
    store(&world, folder.path(), true);
    let path = folder.path().join("state");
    let whole = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let refused = Store::open(folder.path()).err().unwrap_or_else(|| panic!("{} bytes were taken", bytes.len()));
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
        refused
    };
    for cut in [0, 1, 30, whole.len() / 2, whole.len() - 1] {
        assert!(matches!(refused(&whole[..cut]), StoreError::Damaged { .. }), "cut off at {cut}");
    }
    for flipped in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[flipped] ^= 1;
        // The flipped byte may be the format's digit, which then names a higher format.
        assert!(matches!(refused(&bytes), StoreError::Damaged { .. } | StoreError::Newer { .. }), "byte {flipped}");
    }
    let text = b"gateway simulator state 2\nwhatever follows";
    assert!(matches!(refused(text), StoreError::Newer { format: 2, .. }));
    std::fs::write(&path, &whole).unwrap();
    assert!(Store::open(folder.path()).is_ok());
}

#[test]
fn one_process_uses_a_folder_and_a_new_one_holds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, found) = Store::open(&folder.path().join("deep/new")).unwrap();
    assert!(found.is_none());
    let second = Store::open(&folder.path().join("deep/new"));
    assert!(matches!(second, Err(StoreError::InUse(_))));
    drop(first);
    assert!(Store::open(&folder.path().join("deep/new")).is_ok());
}

#[test]
fn what_changes_after_a_copy_was_taken_is_not_in_it() {
    let mut world = World::new();
    let credentials = world.pair(CHANNEL);
    let session = world.login(1, 1, &credentials);
    world.send(session, "A", &friend());
    let copy = world.engine.snapshot();
    world.send(session, "B", &friend());
    world.send(session, "A", &friend());
    let folder = tempfile::tempdir().unwrap();
    let (mut store, _) = Store::open(folder.path()).unwrap();
    store.write(&copy, true).unwrap();
    drop(store);
    assert_eq!(world.inbox_ids(FRIEND), ["A", "B"]);
    let world = started(folder.path(), world.now);
    assert_eq!(world.inbox_ids(FRIEND), ["A"]);
    let rows = world.engine.accepted(&LedgerQuery::default()).data;
    assert_eq!((rows.len(), rows[0].raw_copies), (1, 1));
}
