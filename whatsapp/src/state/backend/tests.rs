//! The store's contract: each method by example, and where it differs from the library's own store.

mod map;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use wacore::appstate::hash::HashState;
use wacore::appstate::processor::AppStateMutationMAC;
use wacore::store::Device;
use wacore::store::traits::{
    AppStateSyncKey, AppSyncStore, DeviceInfo, DeviceListRecord, DeviceStore, MsgSecretEntry, MsgSecretStore,
    PendingInboundKey, PendingInboundRow, ProtocolStore, SignalStore, TcTokenEntry,
};
use wacore_binary::Jid;
use waproto::whatsapp as wa;

use super::polls::Author;
use super::*;
use crate::state::log::tests::Store;

/// The result of a call that is ready on its first poll: no store call may yield.
fn now<T>(call: impl Future<Output = Result<T>>) -> T {
    let call = std::pin::pin!(call);
    match call.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer.unwrap(),
        Poll::Pending => panic!("a store call yielded"),
    }
}

struct World {
    backend: Backend,
    pairs: Arc<Mutex<Vec<String>>>,
}

fn world() -> World {
    world_on(&Store::free())
}

fn world_on(store: &Arc<Store>) -> World {
    let pairs: Arc<Mutex<Vec<String>>> = Arc::default();
    let told = Arc::clone(&pairs);
    let on_pair = move |pair: &LidPnMappingEntry| told.lock().push(pair.lid.clone());
    let log = StateLog::new(Arc::clone(store) as Arc<dyn network::driver::AuthStore>);
    World { backend: Backend::new(log, Box::new(on_pair)), pairs }
}

fn paired() -> Device {
    let mut device = Device::new();
    device.pn = Some("15550000001:3@s.whatsapp.net".parse().unwrap());
    device.lid = Some("100000000000001:3@lid".parse().unwrap());
    device.account = Some(Arc::new(wa::ADVSignedDeviceIdentity { details: Some(vec![1]), ..Default::default() }));
    device.push_name = "Shop".into();
    device
}

#[test]
fn sessions_identities_and_senders_keys_are_kept_under_their_addresses() {
    let World { backend, .. } = world();
    let (one, other) = ("100@lid.0", "100:3@lid.0");
    now(backend.put_session(one, b"a"));
    now(backend.put_sessions_batch(&[(other.into(), Bytes::from_static(b"b"))]));
    assert_eq!(now(backend.get_session(one)).unwrap(), "a");
    assert!(now(backend.has_session(other)));
    now(backend.delete_session(other));
    assert!(!now(backend.has_session(other)) && now(backend.get_session(other)).is_none());
    now(backend.put_identity(one, [1; 32]));
    now(backend.put_identities_batch(&[(other.into(), [2; 32])]));
    now(backend.delete_identity(one));
    assert_eq!((now(backend.load_identity(one)), now(backend.load_identity(other))), (None, Some([2; 32])));
    assert!(now(backend.has_signal_state_for_user("100")));
    assert!(!now(backend.has_signal_state_for_user("10")), "a beginning of a number is another's");
    assert!(!now(backend.has_signal_state_for_user("1000")));
    now(backend.put_sender_key("g::u", b"k"));
    now(backend.put_sender_keys_batch(&[("h::u".into(), Bytes::from_static(b"l"))]));
    now(backend.delete_sender_key("g::u"));
    assert_eq!((now(backend.get_sender_key("g::u")), now(backend.get_sender_key("h::u"))), (None, Some(b"l".to_vec())));
}

#[test]
fn a_prekey_that_was_consumed_stays_away_and_the_highest_id_stays_known() {
    let World { backend, .. } = world();
    assert_eq!(now(backend.get_max_prekey_id()), 0);
    now(backend.store_prekey(7, b"seven", false));
    now(backend.store_prekeys_batch(&[(8, Bytes::from_static(b"eight")), (9, Bytes::from_static(b"nine"))], false));
    now(backend.remove_prekey(9));
    now(backend.mark_prekeys_uploaded(&[7, 8, 9]));
    assert!(now(backend.load_prekey(9)).is_none());
    assert_eq!(now(backend.load_prekey(7)).unwrap(), "seven");
    let found: Vec<u32> = now(backend.load_prekeys_batch(&[7, 8, 9])).into_iter().map(|(id, _)| id).collect();
    assert_eq!(found, [7, 8]);
    assert_eq!(now(backend.get_max_prekey_id()), 9);
}

#[test]
fn prekeys_share_rows_which_go_with_the_last_of_them() {
    let World { backend, .. } = world();
    let record = Bytes::from(vec![0xff; 74]);
    let offered: Vec<u32> = (1..=812).collect();
    let batch: Vec<(u32, Bytes)> = offered.iter().map(|id| (*id, record.clone())).collect();
    now(backend.store_prekeys_batch(&batch, false));
    let rows = || backend.sized(&[keys::PREKEY_ROWS]).unwrap();
    assert_eq!(rows().len(), 51);
    let bytes: usize = rows().iter().map(|(size, _)| size).sum();
    assert!(bytes < 812 * 82, "{bytes} bytes for 812 keys of 74");
    assert_eq!(now(backend.load_prekeys_batch(&offered)), batch);
    (1..16).for_each(|id| now(backend.remove_prekey(id)));
    assert_eq!((rows().len(), now(backend.load_prekeys_batch(&offered))), (50, batch[15..].to_vec()));
    assert_eq!(now(backend.load_prekey(17)), Some(record));
}

#[test]
fn a_prekey_that_was_stored_in_a_row_of_its_own_is_found_until_it_is_consumed() {
    let store = Store::free();
    let World { backend, .. } = world_on(&store);
    store.rows.lock().insert(keys::prekey(7), b"seven".to_vec());
    now(backend.store_prekey(8, b"eight", false));
    let found = || now(backend.load_prekeys_batch(&[7, 8, 9]));
    assert_eq!(found(), [(7, Bytes::from_static(b"seven")), (8, Bytes::from_static(b"eight"))]);
    now(backend.remove_prekey(7));
    assert_eq!(found(), [(8, Bytes::from_static(b"eight"))]);
}

#[test]
fn the_newest_twelve_signed_prekeys_stay_whatever_the_library_removes() {
    let World { backend, .. } = world();
    for id in 1..=14 {
        now(backend.store_signed_prekey(id, &[u8::try_from(id).unwrap()]));
    }
    for id in 1..=14 {
        now(backend.remove_signed_prekey(id));
    }
    let left: Vec<u32> = now(backend.load_all_signed_prekeys()).into_iter().map(|(id, _)| id).collect();
    assert_eq!(left, (3..=14).collect::<Vec<_>>());
    assert_eq!((now(backend.load_signed_prekey(2)), now(backend.load_signed_prekey(3))), (None, Some(vec![3])));
}

#[test]
fn macs_of_a_collection_that_was_cleared_count_no_more() {
    let World { backend, .. } = world();
    now(backend.set_sync_key(b"k1", AppStateSyncKey { key_data: vec![1], ..Default::default() }));
    now(backend.set_sync_key(b"k2", AppStateSyncKey::default()));
    assert_eq!(now(backend.get_sync_key(b"k1")).unwrap().key_data, [1]);
    assert_eq!(now(backend.get_latest_sync_key_id()).unwrap(), b"k2");
    assert_eq!(now(backend.get_version("regular")).version, 0);
    now(backend.set_version("regular", HashState { version: 5, ..Default::default() }));
    let macs: Vec<_> =
        (0..3).map(|n| AppStateMutationMAC { index_mac: vec![n; 32], value_mac: vec![n + 10] }).collect();
    now(backend.put_mutation_macs("regular", 5, &macs));
    now(backend.delete_mutation_macs("regular", &[vec![1; 32]]));
    assert_eq!(now(backend.get_mutation_mac("regular", &[0; 32])), Some(vec![10]));
    let found = now(backend.get_mutation_macs("regular", &[[0; 32], [1; 32], [2; 32]]));
    assert_eq!(found.keys().copied().collect::<BTreeSet<_>>(), BTreeSet::from([[0; 32], [2; 32]]));
    // The clear after the next one deletes what a dead owner has left of this generation.
    let left = format!("{}left", keys::macs("regular", 0));
    now(backend.clear_mutation_macs("regular"));
    backend.append(Class::Lazy, [Write::put(left.clone(), [1_u8])]).unwrap();
    now(backend.clear_mutation_macs("regular"));
    assert!(!backend.log().has(&left));
    assert_eq!(now(backend.get_mutation_mac("regular", &[0; 32])), None);
    assert_eq!(now(backend.get_version("regular")).version, 5);
    now(backend.put_mutation_macs("regular", 6, &macs[..1]));
    assert_eq!(now(backend.get_mutation_mac("regular", &[0; 32])), Some(vec![10]));
}

/// The real devices of a group, and whether each has its key.
fn devices_of(backend: &Backend, group: &str) -> BTreeMap<String, bool> {
    let mut devices: BTreeMap<String, bool> = now(backend.get_sender_key_devices(group)).into_iter().collect();
    devices.retain(|device, _| !device.contains(":65535@"));
    devices
}

#[test]
fn who_was_told_a_group_s_key_may_have_it_whatever_the_network_said_of_that_message() {
    let World { backend, .. } = world();
    let group = "1203@g.us";
    now(backend.put_session("100:2@lid.0", b"s"));
    now(backend.set_sender_key_status(group, &[("100:2@lid", true), ("200@lid", true)]));
    backend.doubt_sender_keys(group);
    let may_have = || {
        let rows = now(backend.get_sender_key_devices(group)).into_iter();
        // Holders, as the library finds them when somebody leaves the group.
        let people = rows.filter(|(_, has_key)| *has_key).map(|(device, _)| device.parse::<Jid>().unwrap());
        people.map(|person| (person.user.to_string(), person.device)).collect::<Vec<_>>()
    };
    assert_eq!(may_have(), [("100".to_owned(), u16::MAX)]);
    assert!(devices_of(&backend, group).is_empty(), "it is told again");
    now(backend.set_sender_key_status(group, &[("100:2@lid", false)]));
    assert_eq!(may_have().len(), 1, "what it has lost it may have kept");
    // The library marks all devices like this when it cannot begin again.
    now(backend.set_sender_key_status(group, &[("100:65535@lid", false)]));
    assert!(may_have().is_empty());
    now(backend.set_sender_key_status(group, &[("100:2@lid", true)]));
    assert_eq!(may_have().len(), 1, "it is told again");
    now(backend.clear_sender_key_devices(group));
    assert!(may_have().is_empty(), "there is another key");
}

#[test]
fn no_device_without_a_session_is_said_to_have_a_group_s_key() {
    let World { backend, .. } = world();
    let group = "1203@g.us";
    now(backend.put_session("100@lid.0", b"s"));
    now(backend.put_session("100:2@lid.0", b"s"));
    now(backend.set_sender_key_status(group, &[("100@lid", true), ("100:2@lid", true), ("200@lid", true)]));
    now(backend.set_sender_key_status("other@g.us", &[("100@lid", true)]));
    let has = |group| devices_of(&backend, group);
    assert!(has(group).is_empty(), "the network is not known to have told them");
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    backend.confirm_sender_keys("other@g.us", backend.told_so_far()).unwrap();
    assert_eq!(has(group), BTreeMap::from([("100@lid".into(), true), ("100:2@lid".into(), true)]));
    now(backend.set_sender_key_status(group, &[("200@lid", false)]));
    assert_eq!(has(group).get("200@lid"), Some(&false));
    now(backend.delete_sender_key_device_rows(&["100@lid"]));
    assert!(!has(group).contains_key("100@lid") && has("other@g.us").is_empty());
    now(backend.clear_sender_key_devices(group));
    assert!(has(group).is_empty());
    now(backend.set_sender_key_status(group, &[("100@lid", true)]));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    now(backend.clear_all_sender_key_devices());
    assert!(has(group).is_empty());
    // The acceptance of one message does not confirm the keys that another one carried.
    now(backend.set_sender_key_status(group, &[("100@lid", true)]));
    let first = backend.told_so_far();
    now(backend.set_sender_key_status(group, &[("100:2@lid", true)]));
    backend.confirm_sender_keys(group, first).unwrap();
    assert_eq!(has(group), BTreeMap::from([("100@lid".into(), true)]));
    now(backend.clear_sender_key_devices(group));
    // A message that the network may have had before does not confirm keys either.
    now(backend.set_sender_key_status(group, &[("100@lid", true)]));
    assert!(!backend.may_have_left(group, "3EB0A1"));
    now(backend.store_sent_message(group, "3EB0A1", b"hello"));
    assert!(backend.may_have_left(group, "3EB0A1"));
    backend.doubt_sender_keys(group);
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert!(has(group).is_empty());
    // A device that got a replaced key, or is to get it again, does not have it.
    now(backend.set_sender_key_status(group, &[("100@lid", true), ("100:2@lid", true)]));
    now(backend.set_sender_key_status(group, &[("100:2@lid", false)]));
    now(backend.delete_sender_key_device_rows(&["100@lid"]));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert_eq!(has(group), BTreeMap::from([("100:2@lid".into(), false)]));
    now(backend.set_sender_key_status(group, &[("100@lid", true)]));
    now(backend.clear_sender_key_devices(group));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert!(has(group).is_empty());
}

#[test]
fn a_device_that_a_group_names_by_its_number_has_a_group_s_key_by_the_session_under_its_lid() {
    let World { backend, .. } = world();
    let (group, number) = ("1203@g.us", "11@s.whatsapp.net");
    now(backend.put_session("1@lid.0", b"s"));
    let has = || {
        now(backend.set_sender_key_status(group, &[(number, true), ("11:2@s.whatsapp.net", true)]));
        backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
        devices_of(&backend, group)
    };
    assert!(has().is_empty(), "nobody knows whose that session is");
    now(backend.put_lid_mapping(&pair("1", "11", "usync")));
    assert_eq!(has(), BTreeMap::from([(number.to_owned(), true)]));
}

#[test]
fn a_device_that_has_lost_a_group_s_key_is_told_it_again_whichever_of_its_names_it_asks_by() {
    let World { backend, .. } = world();
    let (group, number, lid) = ("1203@g.us", "11:2@s.whatsapp.net", "1:2@lid");
    now(backend.put_lid_mapping(&pair("1", "11", "usync")));
    now(backend.put_session("1:2@lid.0", b"s"));
    let has = || devices_of(&backend, group);
    now(backend.set_sender_key_status(group, &[(number, true)]));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert_eq!(has().get(number), Some(&true));
    now(backend.set_sender_key_status(group, &[(lid, false)]));
    assert_eq!((has().get(number), has().get(lid)), (Some(&false), Some(&false)));
    // The device may ask again before the network has accepted the message.
    now(backend.set_sender_key_status(group, &[(number, true)]));
    now(backend.set_sender_key_status(group, &[(lid, false)]));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert_eq!(has().get(number), Some(&false));
    now(backend.set_sender_key_status(group, &[(lid, true)]));
    now(backend.set_sender_key_status(group, &[(number, false)]));
    backend.confirm_sender_keys(group, backend.told_so_far()).unwrap();
    assert_eq!(has().get(lid), Some(&false));
}

#[test]
fn groups_that_may_be_others_by_now_are_forgotten_with_the_keys_of_this_device_alone() {
    let World { backend, .. } = world();
    now(backend.save(&paired()));
    // The library names them by an older name of the server.
    let authors = ["15550000001:3@c.us", "100000000000001:3@lid", "15550000001@c.us", "2@lid"];
    let held = authors.map(|author| format!("1203@g.us:{author}.0"));
    held.iter().for_each(|name| now(backend.put_sender_key(name, b"k")));
    now(backend.put_group_metadata("1203@g.us", b"members"));
    backend.forget_groups().unwrap();
    let kept: Vec<bool> = held.iter().map(|name| now(backend.get_sender_key(name)).is_some()).collect();
    assert_eq!(kept, [false, false, true, true]);
    assert!(now(backend.get_group_metadata("1203@g.us")).is_none());
}

fn pair(lid: &str, phone: &str, source: &str) -> LidPnMappingEntry {
    LidPnMappingEntry {
        lid: lid.into(),
        phone_number: phone.into(),
        created_at: 1,
        updated_at: 2,
        learning_source: source.into(),
    }
}

#[test]
fn a_lid_is_found_by_either_side_and_told_once() {
    let World { backend, pairs } = world();
    now(backend.put_lid_mapping(&pair("1", "11", "usync")));
    now(backend.put_lid_mappings(&[pair("1", "11", "pairing"), pair("2", "22", "usync")]));
    assert_eq!(now(backend.get_lid_mapping("1")).unwrap().phone_number, "11");
    assert_eq!(now(backend.get_pn_mapping("22")).unwrap().lid, "2");
    assert_eq!(now(backend.get_all_lid_mappings()).len(), 2);
    assert_eq!(*pairs.lock(), ["1", "2"]);
}

#[test]
fn the_names_of_tens_of_thousands_of_people_are_told_at_once() {
    let World { backend, pairs } = world();
    let people: Vec<LidPnMappingEntry> = (0..40_000)
        .map(|n| pair(&format!("1000000000{n:05}"), &format!("49150000{n:05}"), "migration_sync_latest"))
        .collect();
    now(backend.put_lid_mappings(&people));
    assert_eq!(pairs.lock().len(), people.len());
    assert_eq!(now(backend.get_pn_mapping("4915000039999")).unwrap().lid, "100000000039999");
}

#[test]
fn a_pair_that_a_message_brings_is_kept_whichever_name_it_came_under() {
    let World { backend, pairs } = world();
    let learn = |sender: &str, alternative: Option<&str>| {
        let alternative: Option<Jid> = alternative.map(|alternative| alternative.parse().unwrap());
        now(backend.learn_pair(&sender.parse().unwrap(), alternative.as_ref()));
    };
    learn("1@lid", Some("11@s.whatsapp.net"));
    learn("22:4@s.whatsapp.net", Some("2@lid"));
    learn("1:4@lid", Some("11@s.whatsapp.net"));
    learn("3@lid", None);
    learn("4@lid", Some("5@lid"));
    assert_eq!(*pairs.lock(), ["1", "2"]);
    assert_eq!(now(backend.get_pn_mapping("11")).unwrap().lid, "1");
    let second = now(backend.get_lid_mapping("2")).unwrap();
    assert_eq!((second.phone_number.as_str(), second.learning_source.as_str()), ("22", "peer_pn_message"));
}

#[test]
fn devices_groups_and_base_keys_are_kept_and_a_group_that_is_too_large_is_not() {
    let World { backend, .. } = world();
    let record = |user: &str| DeviceListRecord {
        user: user.into(),
        devices: vec![DeviceInfo::new(0, None), DeviceInfo::new(4, Some(1))],
        timestamp: 9,
        phash: None,
        raw_id: Some(3),
    };
    now(backend.update_device_list(record("1")));
    now(backend.update_device_lists(vec![record("2"), record("3")]));
    now(backend.delete_devices("2"));
    assert_eq!(now(backend.get_devices("1")).unwrap().devices.len(), 2);
    assert!(now(backend.get_devices("2")).is_none() && now(backend.get_devices("3")).is_some());
    now(backend.put_group_metadata("g", &[1; 32 << 10]));
    assert_eq!(now(backend.get_group_metadata("g")).unwrap().len(), 32 << 10);
    now(backend.put_group_metadata("g", &[1; (32 << 10) + 1]));
    assert!(now(backend.get_group_metadata("g")).is_none(), "what stood there is of another time");
    now(backend.put_group_metadata("g", b"x"));
    now(backend.delete_group_metadata("g"));
    assert!(now(backend.get_group_metadata("g")).is_none());
    now(backend.save_base_key("a", "m", b"k"));
    assert!(now(backend.has_same_base_key("a", "m", b"k")) && !now(backend.has_same_base_key("a", "m", b"l")));
    now(backend.delete_base_key("a", "m"));
    assert!(!now(backend.has_same_base_key("a", "m", b"k")));
}

#[tokio::test]
async fn the_network_does_not_hear_that_it_told_of_devices_names_and_members_before_they_are_stored() {
    async fn waits(backend: &Backend) -> bool {
        let barrier = std::pin::pin!(backend.log().barrier());
        futures::poll!(barrier).is_pending()
    }
    let devices = world().backend;
    let record = DeviceListRecord { user: "1".into(), devices: vec![], timestamp: 9, phash: None, raw_id: None };
    now(devices.update_device_lists(vec![record]));
    assert!(waits(&devices).await);
    let names = world().backend;
    now(names.put_lid_mapping(&pair("1", "11", "usync")));
    assert!(waits(&names).await);
    let members = world().backend;
    now(members.put_group_metadata("g", b"members"));
    assert!(waits(&members).await);
    let store = Store::free();
    store.rows.lock().insert("s/1@lid.0".to_owned(), vec![1]);
    let told = world_on(&store).backend;
    now(told.set_sender_key_status("g@g.us", &[("1@lid", true)]));
    assert!(waits(&told).await);
    let keys = world().backend;
    now(keys.save_base_key("a", "m", b"k"));
    assert!(!waits(&keys).await, "what nobody tells is not waited for");
}

#[test]
fn a_newer_token_wins_and_neither_side_loses_the_other_s_time() {
    let World { backend, .. } = world();
    now(backend.touch_tc_token_sender_timestamp("j", 50));
    now(backend.store_received_tc_token("j", b"old", 10));
    now(backend.store_received_tc_token("j", b"new", 20));
    now(backend.store_received_tc_token("j", b"stale", 15));
    now(backend.touch_tc_token_sender_timestamp("j", 40));
    let entry = now(backend.get_tc_token("j")).unwrap();
    assert_eq!((entry.token.as_slice(), entry.token_timestamp, entry.sender_timestamp), (&b"new"[..], 20, Some(50)));
    now(backend.put_tc_token("k", &TcTokenEntry { token: vec![1], token_timestamp: 5, sender_timestamp: None }));
    assert_eq!(now(backend.get_all_tc_token_jids()), ["j", "k"]);
    assert_eq!(now(backend.delete_expired_tc_tokens(30, 30)), 1);
    assert!(now(backend.get_tc_token("j")).is_some() && now(backend.get_tc_token("k")).is_none());
    now(backend.delete_tc_token("j"));
    assert!(now(backend.get_tc_token("j")).is_none());
}

#[test]
fn a_sent_message_can_be_asked_for_twice_and_goes_by_age_number_and_size() {
    let World { backend, .. } = world();
    now(backend.store_sent_message("c", "1", b"hello"));
    for _ in 0..2 {
        assert_eq!(now(backend.take_sent_message("c", "1")).unwrap(), b"hello");
    }
    now(backend.store_sent_message("c", "large", &[0; (64 << 10) + 1]));
    assert!(now(backend.take_sent_message("c", "large")).is_none());
    let week_old = model::time::Timestamp::now().unix_seconds() - 7 * 86_400 - 1;
    backend.put(Class::Lazy, keys::sent("c", "old"), dated(week_old, b"x")).unwrap();
    assert_eq!(now(backend.delete_expired_sent_messages(i64::MAX)), 1, "not what is younger than seven days");
    for n in 0..1_024 {
        now(backend.store_sent_message("d", &n.to_string(), b"x"));
    }
    assert_eq!(now(backend.delete_expired_sent_messages(0)), 1, "1,024 are kept");
    for n in 0..80 {
        now(backend.store_sent_message("e", &n.to_string(), &[0; 64 << 10]));
    }
    let kept: usize = backend.log.names(keys::SENT).iter().filter(|name| name.starts_with("m/e/")).count();
    assert!(kept < 32, "{kept} of them are kept, and nobody swept");
}

#[test]
fn pending_messages_are_told_apart_by_chat_sender_and_id() {
    let World { backend, .. } = world();
    now(backend.store_pending_inbound("c", "s", "1", b"one"));
    let row = |id, message| PendingInboundRow { chat: "c", sender: "t", id, message };
    now(backend.store_pending_inbound_batch(&[row("1", b"two"), row("2", b"three")]));
    assert_eq!(now(backend.get_pending_inbound("c", "s", "1")).unwrap(), b"one");
    assert_eq!(now(backend.get_pending_inbound("c", "t", "1")).unwrap(), b"two");
    now(backend.delete_pending_inbound("c", "s", "1"));
    now(backend.delete_pending_inbound_batch(&[PendingInboundKey { chat: "c", sender: "t", id: "2" }]));
    assert!(now(backend.get_pending_inbound("c", "s", "1")).is_none());
    assert!(now(backend.get_pending_inbound("c", "t", "2")).is_none());
    assert_eq!(now(backend.delete_expired_pending_inbound(i64::MAX)), 0, "thirty days, and not the library's seven");
    assert!(now(backend.get_pending_inbound("c", "t", "1")).is_some());
}

#[test]
fn a_pending_message_of_several_rows_is_read_as_it_was_and_leaves_nothing() {
    let World { backend, .. } = world();
    let long: Vec<u8> = (0..300_000_u32).map(|n| (n % 251) as u8).collect();
    now(backend.store_pending_inbound("c", "s", "1", &long));
    assert_eq!(backend.log.names(keys::PENDING).len(), 3);
    assert_eq!(now(backend.get_pending_inbound("c", "s", "1")), Some(long.clone()));
    let row = PendingInboundRow { chat: "c", sender: "s", id: "1", message: &long[..200_000] };
    now(backend.store_pending_inbound_batch(&[row]));
    assert_eq!(now(backend.get_pending_inbound("c", "s", "1")).unwrap(), &long[..200_000]);
    now(backend.delete_pending_inbound_batch(&[PendingInboundKey { chat: "c", sender: "s", id: "1" }]));
    assert!(backend.log.names(keys::PENDING).is_empty());
    now(backend.store_pending_inbound("c", "s", "1", &vec![0; (1 << 20) + 1]));
    assert!(now(backend.get_pending_inbound("c", "s", "1")).is_none());
}

#[test]
fn what_no_batch_can_carry_is_not_kept_nor_what_stood_there_before() {
    let World { backend, .. } = world();
    now(backend.put_session("1@lid.0", b"small"));
    now(backend.put_sessions_batch(&[("1@lid.0".into(), Bytes::from(vec![0; LARGEST_ROW + 1]))]));
    assert!(!now(backend.has_session("1@lid.0")));
    now(backend.put_session("1@lid.0", &[0; LARGEST_ROW]));
    assert!(now(backend.has_session("1@lid.0")));
}

#[test]
fn a_state_that_is_nearly_full_loses_what_can_be_made_anew_and_the_largest_of_it_first() {
    let store = Store::free();
    let World { backend, .. } = world_on(&store);
    let own = "k/1203@g.us:15550000001:3@s.whatsapp.net.0";
    let rows = [("s/1@lid.0", 500), ("i/1@lid.0", 32), ("s/2@lid.0", 5_000), ("i/2@lid.0", 32), ("d/1", 300)];
    let others =
        [("k/1203@g.us:2@lid.0", 4_000), (own, 9_000), ("p/00000001", 200), ("gd/1@g.us", 1), ("gd/1@g.us/a", 1)];
    let pair = [("l/1", 50), ("ln/11", 50)];
    for (name, size) in rows.into_iter().chain(others).chain(pair) {
        store.rows.lock().insert(name.to_owned(), vec![0; size]);
    }
    now(backend.save(&paired()));
    backend.thin(1 << 20, 0).unwrap();
    assert_eq!(backend.log.names(keys::DEVICES).len(), 1, "one that has room loses nothing");
    backend.thin(10_000, 14_100).unwrap();
    let left = |prefix: &str| backend.log.names(prefix);
    assert_eq!((left("d/"), left("s/"), left("i/")), (vec![], vec!["s/1@lid.0".into()], vec!["i/1@lid.0".into()]));
    assert_eq!((left("k/").len(), left("p/").len()), (2, 1));
    assert_eq!((left("gd/").len(), left("l/").len(), left("ln/").len()), (1, 1, 1));
    backend.thin(10_000, 0).unwrap();
    assert_eq!((left("s/"), left("i/"), left("k/")), (vec![], vec![], vec![own.to_owned()]));
    assert_eq!((left("gd/").len(), left("l/").len(), left("ln/").len()), (1, 0, 0));
    assert!(now(backend.exists()) && left("p/").len() == 1);
}

#[test]
fn a_secret_s_time_only_grows_and_the_channel_s_own_are_the_same_whoever_sends() {
    let World { backend, .. } = world();
    let entry = |id: &str, sender: &str, expires_at, message_ts| MsgSecretEntry {
        chat: "c".into(),
        sender: sender.into(),
        msg_id: id.into(),
        secret: [3; 32],
        expires_at,
        message_ts,
    };
    now(backend.put_msg_secrets(vec![entry("1", "s@lid", 100, 7)]));
    now(backend.put_msg_secrets(vec![entry("1", "s@lid", 50, 0)]));
    assert_eq!(now(backend.get_msg_secret_with_ts("c", "s@lid", "1")), Some((vec![3; 32], 7)));
    now(backend.put_msg_secret("c", "s@lid", "for ever", &[4; 32]));
    assert_eq!(now(backend.delete_expired_msg_secrets(99)), 0);
    assert_eq!(now(backend.delete_expired_msg_secrets(100)), 1);
    assert_eq!(now(backend.get_msg_secret("c", "s@lid", "for ever")), Some(vec![4; 32]));
    now(backend.save(&paired()));
    let own = backend.own_secret("m").unwrap();
    assert_eq!(now(backend.get_msg_secret("c", "15550000001@s.whatsapp.net", "m")), Some(own.to_vec()));
    assert_eq!(now(backend.get_msg_secret("c", "100000000000001@lid", "m")), Some(own.to_vec()));
    assert_ne!(backend.own_secret("n"), Some(own));
}

#[test]
fn votes_are_opened_by_the_poll_whose_secret_they_bear_and_polls_are_bounded() {
    use wacore::poll::{PollVoteCiphertext, compute_option_hash, encrypt_poll_vote_with_secret};

    let World { backend, .. } = world();
    now(backend.save(&paired()));
    let names = |name: &str| vec![name.to_owned()];
    let (ann, ben, own) = (names("ann@lid"), names("ben@lid"), names("own@lid"));
    let options = ["tea".to_owned(), "coffee".to_owned()];
    // Two authors have chosen the same id, and one of them uses it again.
    let other = |who: &Vec<String>| Author::Other(who.clone());
    backend.keep_poll("1", other(&ann), &options, Some([1; 32])).unwrap();
    backend.keep_poll("1", other(&ben), &options[..1], Some([2; 32])).unwrap();
    backend.keep_poll("1", other(&ann), &[], Some([3; 32])).unwrap();
    backend.keep_poll("2", Author::Own, &options, None).unwrap();
    let vote = |id: &str, secret: [u8; 32], author: &str| {
        let chosen = [compute_option_hash("tea").to_vec(), compute_option_hash("milk").to_vec()];
        let (payload, iv) = encrypt_poll_vote_with_secret(&chosen, &secret, id, author, "eve@lid").unwrap();
        let vote = PollVoteCiphertext { enc_payload: &payload, enc_iv: &iv };
        backend.opened_vote(id, vote, &own, &names("eve@lid")).unwrap()
    };
    assert_eq!(vote("1", [1; 32], "ann@lid"), Some(vec!["tea".to_owned()]), "what is no option is left out");
    assert_eq!(vote("1", [2; 32], "ben@lid"), Some(vec!["tea".to_owned()]));
    assert_eq!(vote("2", backend.own_secret("2").unwrap(), "own@lid"), Some(vec!["tea".to_owned()]));
    assert_eq!((vote("1", [3; 32], "ann@lid"), vote("3", [1; 32], "ann@lid")), (None, None));

    backend.keep_poll("large", other(&ann), &["x".repeat(9_000)], Some([1; 32])).unwrap();
    assert!(backend.log.names(&keys::polls("large")).is_empty());
    for n in 0..600 {
        backend.keep_poll(&format!("flood {n}"), other(&ann), &options, Some([1; 32])).unwrap();
    }
    let kept = backend.log.names(keys::POLLS).len();
    assert!((384..=512).contains(&kept), "{kept}");
    assert!(!backend.log.names(&keys::polls("flood 599")).is_empty(), "the newest is there");
}

#[test]
fn a_device_is_stored_once_it_is_paired_and_comes_back_as_it_was() {
    let World { backend, .. } = world();
    assert!(!now(backend.exists()));
    assert_eq!(now(backend.create()), 1);
    now(backend.save(&Device::new()));
    assert!(!now(backend.exists()) && now(backend.load()).is_none(), "one that is not paired is worth nothing");
    let device = paired();
    now(backend.save(&device));
    assert!(now(backend.exists()));
    let loaded = now(backend.load()).unwrap();
    assert_eq!((loaded.pn.clone(), loaded.registration_id), (device.pn.clone(), device.registration_id));
    assert_eq!(loaded.account, device.account);
    assert_eq!(loaded.identity_key.public_key, device.identity_key.public_key);
    assert!(loaded.push_name.is_empty(), "so that the first sync is made again");
    backend.note_bootstrap().unwrap();
    assert_eq!(now(backend.load()).unwrap().push_name, "Shop");
    now(backend.snapshot_db("x", None));
    let report = now(async { Ok(backend.resource_report().await) });
    assert!(report.memory_bytes.is_some());
}

#[test]
fn a_restored_channel_keeps_its_identity_and_begins_its_sessions_anew() {
    let World { backend, .. } = world();
    now(backend.save(&paired()));
    now(backend.store_prekey(1, b"p", true));
    now(backend.put_session("1@lid.0", b"s"));
    now(backend.put_sender_key("g::u", b"k"));
    backend.put(Class::Wire, network::driver::RESTORED.to_owned(), Vec::new()).unwrap();
    backend.begin_anew().unwrap();
    assert!(now(backend.get_session("1@lid.0")).is_none() && now(backend.get_sender_key("g::u")).is_none());
    assert!(now(backend.exists()) && now(backend.load_prekey(1)).is_some());
    assert!(backend.log.has(network::driver::RESTORED), "the network has no new prekeys yet");
    backend.has_begun_anew().unwrap();
    assert!(!backend.log.has(network::driver::RESTORED));
}
