//! Compares the store with a plain map as its model.

use proptest::prelude::*;

use super::*;

/// A kind of row: how the library writes, deletes and reads one, with a byte for its name.
struct Kind {
    name: &'static str,
    put: fn(&Backend, u8, u8),
    delete: fn(&Backend, u8),
    get: fn(&Backend, u8) -> Option<u8>,
}

/// Number of names and values that the property uses.
const NAMES: u8 = 5;
const VALUES: u8 = 8;

fn address(who: u8) -> String {
    format!("{who}@lid.0")
}

fn first(row: Option<Vec<u8>>) -> Option<u8> {
    row.map(|row| row[0])
}

static KINDS: [Kind; 10] = [
    Kind {
        name: "session",
        put: |backend, who, value| now(backend.put_session(&address(who), &[value])),
        delete: |backend, who| now(backend.delete_session(&address(who))),
        get: |backend, who| {
            let found = now(backend.get_session(&address(who))).map(|row| row[0]);
            assert_eq!(now(backend.has_session(&address(who))), found.is_some());
            found
        },
    },
    Kind {
        name: "identity",
        put: |backend, who, value| now(backend.put_identity(&address(who), [value; 32])),
        delete: |backend, who| now(backend.delete_identity(&address(who))),
        get: |backend, who| now(backend.load_identity(&address(who))).map(|key| key[0]),
    },
    Kind {
        name: "sender key",
        put: |backend, who, value| now(backend.put_sender_key(&address(who), &[value])),
        delete: |backend, who| now(backend.delete_sender_key(&address(who))),
        get: |backend, who| first(now(backend.get_sender_key(&address(who)))),
    },
    Kind {
        name: "prekey",
        put: |backend, who, value| now(backend.store_prekey(u32::from(who) + 1, &[value], false)),
        delete: |backend, who| now(backend.remove_prekey(u32::from(who) + 1)),
        get: |backend, who| now(backend.load_prekey(u32::from(who) + 1)).map(|row| row[0]),
    },
    Kind {
        name: "base key",
        put: |backend, who, value| now(backend.save_base_key(&address(who), "m", &[value])),
        delete: |backend, who| now(backend.delete_base_key(&address(who), "m")),
        get: |backend, who| (0..VALUES).find(|value| now(backend.has_same_base_key(&address(who), "m", &[*value]))),
    },
    Kind {
        name: "device list",
        put: |backend, who, value| {
            let devices = vec![DeviceInfo::new(value.into(), None)];
            let record = DeviceListRecord { user: who.to_string(), devices, timestamp: 9, phash: None, raw_id: None };
            now(backend.update_device_list(record));
        },
        delete: |backend, who| now(backend.delete_devices(&who.to_string())),
        get: |backend, who| now(backend.get_devices(&who.to_string())).map(|known| known.devices[0].device_id as u8),
    },
    Kind {
        name: "group",
        put: |backend, who, value| now(backend.put_group_metadata(&address(who), &[value])),
        delete: |backend, who| now(backend.delete_group_metadata(&address(who))),
        get: |backend, who| first(now(backend.get_group_metadata(&address(who)))),
    },
    Kind {
        name: "token",
        put: |backend, who, value| {
            let entry = TcTokenEntry { token: vec![value], token_timestamp: 5, sender_timestamp: None };
            now(backend.put_tc_token(&address(who), &entry));
        },
        delete: |backend, who| now(backend.delete_tc_token(&address(who))),
        get: |backend, who| now(backend.get_tc_token(&address(who))).map(|entry| entry.token[0]),
    },
    Kind {
        name: "pending message",
        put: |backend, who, value| now(backend.store_pending_inbound("c", &address(who), "1", &[value])),
        delete: |backend, who| now(backend.delete_pending_inbound("c", &address(who), "1")),
        get: |backend, who| first(now(backend.get_pending_inbound("c", &address(who), "1"))),
    },
    Kind {
        name: "mutation",
        put: |backend, who, value| {
            let mac = AppStateMutationMAC { index_mac: vec![who; 32], value_mac: vec![value] };
            now(backend.put_mutation_macs("regular", 1, &[mac]));
        },
        delete: |backend, who| now(backend.delete_mutation_macs("regular", &[vec![who; 32]])),
        get: |backend, who| first(now(backend.get_mutation_mac("regular", &[who; 32]))),
    },
];

/// Steps: the kind, the name, a value or `None` for a delete, and whether to wait until all is stored.
fn steps() -> impl Strategy<Value = Vec<(usize, u8, Option<u8>, bool)>> {
    prop::collection::vec((0..KINDS.len(), 0..NAMES, prop::option::of(0..VALUES), any::<bool>()), 1..80)
}

proptest! {
    /// Rows of all kinds, written and deleted in any order, read like a map, whether they are stored yet or not; and
    /// the next owner reads the same.
    #[test]
    fn the_store_is_a_map_whatever_of_it_is_stored(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let store = Store::free();
            let World { backend, .. } = world_on(&store);
            tokio::spawn(Arc::clone(backend.log()).write());
            let mut model = BTreeMap::new();
            for (kind, who, value, settles) in steps {
                match value {
                    Some(value) => {
                        (KINDS[kind].put)(&backend, who, value);
                        model.insert((kind, who), value);
                    }
                    None => {
                        (KINDS[kind].delete)(&backend, who);
                        model.remove(&(kind, who));
                    }
                }
                if settles {
                    backend.log().flush().await.unwrap();
                }
                for who in 0..NAMES {
                    let kept = model.get(&(kind, who)).copied();
                    assert_eq!((KINDS[kind].get)(&backend, who), kept, "{} {who}", KINDS[kind].name);
                }
            }
            backend.log().flush().await.unwrap();
            let next = world_on(&store).backend;
            for (kind, who) in (0..KINDS.len()).flat_map(|kind| (0..NAMES).map(move |who| (kind, who))) {
                let kept = model.get(&(kind, who)).copied();
                assert_eq!((KINDS[kind].get)(&next, who), kept, "{} {who}, of the next owner", KINDS[kind].name);
            }
            let sessions = model.keys().filter(|(kind, _)| KINDS[*kind].name == "session").count();
            assert_eq!(next.log().names(keys::SESSIONS).len(), sessions);
        });
    }
}
