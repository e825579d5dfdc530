//! Prekeys: those that devices offer, and the bundles for starting sessions.

use wacore::prekeys::compute_key_bundle_digest;
use wacore_binary::{Node, NodeRef};

use crate::account::{KeyBundle, SignedKey, list, parse_prekey};
use crate::number::DeviceAddress;
use crate::pairing::signed_by;
use crate::stanza::{bytes, element, error, jid, key, parent, result, uint};
use crate::state::State;

/// Maximum number of one-time prekeys that are stored per device.
const MAX_PREKEYS: usize = 10_000;

/// Maximum number of devices in a query.
const MAX_USERS: usize = 10_000;

impl State {
    pub(super) fn keys_query(&mut self, at: DeviceAddress, id: &str, stanza: &NodeRef<'_>) -> Node {
        if stanza.get_optional_child("count").is_some() {
            let left = self.device(at).map_or(0, |device| device.prekeys.len());
            return result(id).children([element("count").attr("value", left).build()]).build();
        }
        if stanza.get_optional_child("digest").is_some() {
            return self.digest(at, id);
        }
        if let Some(asked) = stanza.get_optional_child("key") {
            return self.give_keys(id, asked);
        }
        if let Some(rotated) = stanza.get_optional_child("rotate") {
            return match rotated.get_optional_child("skey").and_then(SignedKey::parse) {
                Some(signed) => self.take_signed(at, id, signed),
                None => error(id, 400, "bad-request"),
            };
        }
        self.take_keys(at, id, stanza)
    }

    /// Stores the prekeys that a device offers.
    fn take_keys(&mut self, at: DeviceAddress, id: &str, stanza: &NodeRef<'_>) -> Node {
        let signed = stanza.get_optional_child("skey").and_then(SignedKey::parse);
        let identity = stanza.get_optional_child("identity").and_then(key);
        let registration = stanza.get_optional_child("registration").and_then(uint);
        let offered = stanza.get_optional_child("list").and_then(NodeRef::children).unwrap_or_default();
        let (Some(signed), Some(identity), Some(registration)) = (signed, identity, registration) else {
            return error(id, 400, "bad-request");
        };
        let Some(device) = self.device_mut(at) else { return error(id, 401, "not-authorized") };
        if device.identity != identity || device.registration_id != registration {
            self.check.prekey_conflict(at, "prekeys came with another identity or registration");
            return error(id, 406, "not-acceptable");
        }
        let mut conflicts = Vec::new();
        for offer in offered.iter().filter_map(parse_prekey) {
            let (number, public) = offer;
            match device.offered.get(&number) {
                Some(before) if *before != public => {
                    conflicts.push(format!("prekey {number} was offered with two keys"))
                }
                // A repeated offer, after the response was lost. A prekey that was given out is not given out again.
                Some(_) => {}
                None if device.prekeys.len() < MAX_PREKEYS => {
                    device.offered.insert(number, public);
                    device.prekeys.insert(number, public);
                }
                None => return error(id, 406, "too many prekeys"),
            }
        }
        for conflict in conflicts {
            self.check.prekey_conflict(at, &conflict);
        }
        self.take_signed(at, id, signed)
    }

    fn take_signed(&mut self, at: DeviceAddress, id: &str, signed: SignedKey) -> Node {
        let Some(device) = self.device_mut(at) else { return error(id, 401, "not-authorized") };
        if !signed_by(&device.identity, &signed) {
            self.check.prekey_conflict(at, "a signed prekey has a wrong signature");
            return error(id, 406, "not-acceptable");
        }
        let changed = device.signed.id == signed.id && device.signed.public != signed.public;
        device.signed = signed;
        if changed {
            self.check.prekey_conflict(at, "a signed prekey's id got a second key");
        }
        result(id).build()
    }

    fn digest(&self, at: DeviceAddress, id: &str) -> Node {
        let Some(device) = self.device(at).filter(|device| !device.offered.is_empty()) else {
            return error(id, 404, "item-not-found");
        };
        let publics: Vec<&[u8]> = device.prekeys.values().map(<[u8; 32]>::as_slice).collect();
        let hash =
            compute_key_bundle_digest(&device.identity, &device.signed.public, &device.signed.signature, &publics);
        let ids = device.prekeys.keys().map(|number| bytes("id", &number.to_be_bytes()[1..]));
        let digest = parent(
            "digest",
            [
                bytes("registration", device.registration_id.to_be_bytes()),
                bytes("type", [5]),
                bytes("identity", device.identity),
                device.signed.node(),
                list(ids.collect()),
                bytes("hash", hash),
            ],
        );
        result(id).children([digest]).build()
    }

    fn give_keys(&mut self, id: &str, asked: &NodeRef<'_>) -> Node {
        let mut users = Vec::new();
        for user in asked.get_children_by_tag("user").take(MAX_USERS) {
            let Some(jid) = jid(user, "jid") else { continue };
            let bundle = DeviceAddress::of_jid(&jid).and_then(|at| self.give_bundle(at));
            let user = element("user").attr("jid", jid);
            users.push(match bundle {
                Some(bundle) => user.children(bundle.nodes()).build(),
                None => {
                    let missing = element("error").attr("code", 404).attr("text", "item-not-found").build();
                    user.children([missing]).build()
                }
            });
        }
        result(id).children([list(users)]).build()
    }

    /// The bundle for starting a session with a device. Each one-time prekey is given out once.
    pub fn give_bundle(&mut self, at: DeviceAddress) -> Option<KeyBundle> {
        let with_prekey = !self.faults.prekeys_empty.contains(&at.number);
        let account = self.accounts.get_mut(&at.number)?;
        if at.is_phone() {
            return Some(account.phone.signal().bundle(with_prekey));
        }
        let device = account.devices.get_mut(&at.device)?;
        let bundle = device.bundle(with_prekey);
        let left = device.prekeys.len();
        if bundle.one_time.is_some() {
            self.check.prekey_given(left);
        }
        self.tell_of_few_prekeys(at, left);
        Some(bundle)
    }

    /// Uses up all one-time prekeys of a device, and notifies it.
    pub fn spend_prekeys(&mut self, at: DeviceAddress) {
        if let Some(device) = self.device_mut(at) {
            device.prekeys.clear();
        }
        self.tell_of_few_prekeys(at, 0);
    }

    /// Asks a device to offer more prekeys before it runs out.
    fn tell_of_few_prekeys(&mut self, at: DeviceAddress, left: usize) {
        // Like the real network, only at these counts, not for every prekey.
        if ![10, 5, 0].contains(&left) {
            return;
        }
        let id = self.next();
        let notice = element("notification")
            .attr("from", crate::stanza::SERVER)
            .attr("id", format!("keys-{id}"))
            .attr("type", "encrypt")
            .attr("t", self.seconds())
            .children([element("count").attr("value", left).build()])
            .build();
        self.enqueue(at, "notification", &format!("keys-{id}"), notice);
    }
}
