//! Queries about accounts: whether they exist, their LIDs and devices.

use buffa::Message as _;
use sha2::{Digest, Sha256};
use wacore_binary::{Node, NodeRef};
use waproto::whatsapp::{ADVKeyIndexList, ADVSignedKeyIndexList};

use crate::number::{DeviceAddress, Naming, Number};
use crate::stanza::{element, empty, jid, parent, result, text};
use crate::state::State;

/// Maximum number of users in a query.
const MAX_USERS: usize = 10_000;

/// Maximum number of devices that are notified when a device is added or removed.
const MAX_WATCHERS: usize = 10_000;

/// Prefix of the data that a phone signs for its device list.
const LIST_SIGNATURE: [u8; 2] = [6, 2];

impl State {
    pub(super) fn usync_query(&mut self, at: DeviceAddress, id: &str, stanza: &NodeRef<'_>) -> Node {
        let Some(asked) = stanza.get_optional_child("usync") else { return result(id).build() };
        let query = asked.get_optional_child("query").and_then(NodeRef::children).unwrap_or_default();
        let protocols: Vec<&str> = query.iter().map(|protocol| protocol.tag.as_ref()).collect();
        let users = asked.get_optional_child("list").and_then(NodeRef::children).unwrap_or_default();
        let users: Vec<Node> =
            users.iter().take(MAX_USERS).filter_map(|user| self.user(at, user, &protocols)).collect();
        let usync = element("usync")
            .attr("sid", text(asked, "sid").unwrap_or_default())
            .attr("mode", text(asked, "mode").unwrap_or_default())
            .attr("index", 0)
            .attr("last", "true")
            .children([empty("result"), parent("list", users)]);
        result(id).children([usync.build()]).build()
    }

    fn user(&mut self, asker: DeviceAddress, user: &NodeRef<'_>, protocols: &[&str]) -> Option<Node> {
        let given = user.get_optional_child("contact").and_then(NodeRef::content_as_string);
        let (number, name) = match jid(user, "jid") {
            Some(jid) => (Number::of_jid(&jid)?, jid.to_non_ad()),
            None => {
                let number = Number::parse(given.as_ref()?.trim_start_matches('+'))?;
                (number, number.pn())
            }
        };
        let registered = self.accounts.contains_key(&number);
        let mut answer = element("user").attr("jid", name.clone());
        if registered && Naming::of(&name) == Naming::Lid {
            answer = answer.attr("pn_jid", number.pn());
        }
        let mut children = Vec::new();
        for protocol in protocols {
            match *protocol {
                "contact" => {
                    let contact = element("contact").attr("type", if registered { "in" } else { "out" });
                    children.push(match &given {
                        Some(given) => contact.string_content(given.as_str()).build(),
                        None => contact.build(),
                    });
                }
                "devices" if registered => {
                    self.watch(number, asker);
                    children.push(self.devices(number));
                }
                "lid" if registered => children.push(element("lid").attr("val", number.lid()).build()),
                "status" if registered => children.push(empty("status")),
                // Responses have no element for a missing picture or business profile.
                _ => {}
            }
        }
        Some(answer.children(children).build())
    }

    fn watch(&mut self, number: Number, asker: DeviceAddress) {
        if let Some(account) = self.accounts.get_mut(&number)
            && account.watchers.len() < MAX_WATCHERS
        {
            account.watchers.insert(asker);
        }
    }

    fn devices(&mut self, number: Number) -> Node {
        if self.faults.usync_empty.contains(&number) {
            return empty("devices");
        }
        let t = self.seconds();
        let Some(account) = self.accounts.get(&number) else { return empty("devices") };
        let mut shown = vec![element("device").attr("id", 0).build()];
        shown.extend(account.devices.iter().map(|(id, device)| {
            element("device").attr("id", u32::from(*id)).attr("key-index", device.key_index).build()
        }));
        let hash = self.devices_hash(number);
        let list = element("device-list").attr("hash", hash).children(shown).build();
        match self.key_index_list(number, t) {
            Some(signed) => parent("devices", [list, element("key-index-list").attr("ts", t).bytes(signed).build()]),
            None => parent("devices", [list]),
        }
    }

    fn devices_hash(&self, number: Number) -> String {
        let mut hasher = Sha256::new();
        for device in self.accounts.get(&number).map(crate::account::Account::device_ids).unwrap_or_default() {
            hasher.update(number.device(device).to_string());
        }
        format!("2:{}", hex::encode(&hasher.finalize()[..6]))
    }

    /// The phone's signed device list; `None` if it never had a companion.
    fn key_index_list(&mut self, number: Number, t: i64) -> Option<Vec<u8>> {
        let account = self.accounts.get_mut(&number)?;
        let valid_indexes: Vec<u32> =
            std::iter::once(0).chain(account.devices.values().map(|device| device.key_index)).collect();
        if valid_indexes.len() == 1 && account.next_key_index == 1 {
            return None;
        }
        let details = ADVKeyIndexList {
            raw_id: Some(1),
            timestamp: u64::try_from(t).ok(),
            current_index: Some(account.next_key_index - 1),
            valid_indexes,
            ..Default::default()
        }
        .encode_to_vec();
        let signal = account.phone.signal();
        let signed = ADVSignedKeyIndexList {
            account_signature: Some(signal.sign(&[&LIST_SIGNATURE, &details])),
            account_signature_key: Some(signal.identity().to_vec()),
            details: Some(details),
        };
        Some(signed.encode_to_vec())
    }

    /// Notifies the devices that have queried this account when a device is added or removed.
    pub fn tell_of_devices(&mut self, changed: DeviceAddress) {
        let number = changed.number;
        let t = self.seconds();
        let added = self.device(changed).map(|device| device.key_index);
        let signed = self.key_index_list(number, t).unwrap_or_default();
        let hash = self.devices_hash(number);
        let Some(account) = self.accounts.get(&number) else { return };
        let watchers: Vec<DeviceAddress> = account.watchers.iter().copied().filter(|at| *at != changed).collect();
        let mut device =
            element("device").attr("jid", changed.jid(Naming::Number)).attr("lid", changed.jid(Naming::Lid));
        let mut list = element("key-index-list").attr("ts", t);
        let change = match added {
            Some(key_index) => {
                device = device.attr("key-index", key_index);
                list = list.bytes(signed);
                element("add")
            }
            None => element("remove"),
        };
        let change = change.attr("device_hash", hash).children([device.build(), list.build()]).build();
        for watcher in watchers {
            let id = format!("devices-{}", self.next());
            let notice = element("notification")
                .attr("from", number.pn())
                .attr("lid", number.lid())
                .attr("id", id.as_str())
                .attr("type", "devices")
                .attr("t", t)
                .children([change.clone()])
                .build();
            self.enqueue(watcher, "notification", &id, notice);
        }
    }
}
