//! Accounts and their devices: identities, keys and queues.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use model::time::Timestamp;
use network::simulator::answers::ControlError;
use wacore_binary::{Node, NodeRef};

use crate::number::{DeviceAddress, Number};
use crate::phone::Phone;
use crate::stanza::{bytes, element, empty, key, parent, text, uint};
use crate::state::{ConnectionId, State};

/// Maximum number of queued stanzas per device; the oldest are dropped first.
pub const MAX_QUEUE: usize = 100_000;

/// Maximum number of chats per device for which a presence is stored.
const MAX_SHOWN: usize = 10_000;

/// Maximum number of delivered stanzas per device that are remembered, to tell late acknowledgements from wrong ones.
const MAX_REMEMBERED: usize = 100_000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedKey {
    pub id: u32,
    pub public: [u8; 32],
    pub signature: Vec<u8>,
}

/// The keys that are needed to start a Signal session with a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBundle {
    pub registration_id: u32,
    pub identity: [u8; 32],
    pub one_time: Option<(u32, [u8; 32])>,
    pub signed: SignedKey,
    /// For companions: the account's signed statement that the device belongs to it.
    pub device_identity: Option<Vec<u8>>,
}

fn id(value: u32) -> Node {
    bytes("id", &value.to_be_bytes()[1..])
}

impl SignedKey {
    pub fn node(&self) -> Node {
        parent("skey", [id(self.id), bytes("value", self.public), bytes("signature", self.signature.clone())])
    }

    /// Parses a `<skey>`.
    pub fn parse(node: &NodeRef<'_>) -> Option<Self> {
        Some(Self {
            id: uint(node.get_optional_child("id")?)?,
            public: key(node.get_optional_child("value")?)?,
            signature: node.get_optional_child("signature")?.content_bytes()?.to_vec(),
        })
    }
}

/// Parses a `<key>`.
pub fn parse_prekey(node: &NodeRef<'_>) -> Option<(u32, [u8; 32])> {
    Some((uint(node.get_optional_child("id")?)?, key(node.get_optional_child("value")?)?))
}

impl KeyBundle {
    pub fn nodes(&self) -> Vec<Node> {
        let mut nodes = vec![bytes("registration", self.registration_id.to_be_bytes())];
        nodes.extend(self.key_nodes());
        nodes
    }

    /// All elements except the registration id, as in `<keys>` of a retry receipt.
    pub fn key_nodes(&self) -> Vec<Node> {
        let mut nodes = vec![bytes("type", [5]), bytes("identity", self.identity)];
        if let Some((number, public)) = &self.one_time {
            nodes.push(parent("key", [id(*number), bytes("value", *public)]));
        }
        nodes.push(self.signed.node());
        nodes.extend(self.device_identity.clone().map(|identity| bytes("device-identity", identity)));
        nodes
    }

    /// Parses `<registration>` and `<keys>` of a retry receipt.
    pub fn of_retry(receipt: &NodeRef<'_>) -> Option<Self> {
        let keys = receipt.get_optional_child("keys")?;
        let identity = keys.get_optional_child("device-identity").and_then(NodeRef::content_bytes);
        Some(Self {
            registration_id: uint(receipt.get_optional_child("registration")?)?,
            identity: key(keys.get_optional_child("identity")?)?,
            one_time: keys.get_optional_child("key").and_then(parse_prekey),
            signed: SignedKey::parse(keys.get_optional_child("skey")?)?,
            device_identity: identity.map(<[u8]>::to_vec),
        })
    }
}

/// Class and id, which identify a stanza until it is acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StanzaKey {
    pub class: &'static str,
    pub id: String,
}

/// A stanza that a device has not acknowledged.
pub struct Waiting {
    pub key: StanzaKey,
    pub stanza: Node,
    /// The last connection that it was sent on.
    pub sent_on: Option<ConnectionId>,
}

/// A refusal of all logins of a device, set by the control API.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub reason: u16,
    pub code: Option<u16>,
    pub expire_seconds: Option<u64>,
}

/// A linked device.
pub struct Device {
    pub name: String,
    pub full_history: bool,
    pub linked_at: Timestamp,
    pub key_index: u32,
    /// The device's static Noise key: logins with another key are refused.
    pub wire_key: [u8; 32],
    pub identity: [u8; 32],
    pub registration_id: u32,
    pub signed: SignedKey,
    /// The account's signed statement that the device belongs to it, countersigned by the device.
    pub device_identity: Vec<u8>,
    /// One-time prekeys that are still available.
    pub prekeys: BTreeMap<u32, [u8; 32]>,
    /// All one-time prekeys ever offered, to detect an id with two keys.
    pub offered: HashMap<u32, [u8; 32]>,
    pub queue: VecDeque<Waiting>,
    /// Sent stanzas that may still be acknowledged, oldest first.
    pub delivered: VecDeque<StanzaKey>,
    pub delivered_set: HashSet<StanzaKey>,
    pub connection: Option<ConnectionId>,
    pub last_login_at: Option<Timestamp>,
    pub highest_epoch: u64,
    pub failure: Option<Failure>,
    /// The last presence that the device sent to each chat; the account's presence has an empty name. It is not
    /// forwarded yet.
    pub shows: BTreeMap<String, String>,
}

impl Device {
    /// The device's bundle; each one-time prekey is given out once, lowest id first.
    pub fn bundle(&mut self, with_prekey: bool) -> KeyBundle {
        KeyBundle {
            registration_id: self.registration_id,
            identity: self.identity,
            one_time: if with_prekey { self.prekeys.pop_first() } else { None },
            signed: self.signed.clone(),
            device_identity: Some(self.device_identity.clone()),
        }
    }

    pub fn remember(&mut self, key: &StanzaKey) {
        if self.delivered_set.insert(key.clone()) {
            self.delivered.push_back(key.clone());
        }
        if self.delivered.len() > MAX_REMEMBERED
            && let Some(oldest) = self.delivered.pop_front()
        {
            self.delivered_set.remove(&oldest);
        }
    }
}

/// An account.
pub struct Account {
    pub name: Option<String>,
    pub online: bool,
    pub read_receipts: bool,
    pub business: bool,
    pub hide_number: bool,
    /// Numbers that may see this one in spite of `hide_number`.
    pub disclosed: HashSet<Number>,
    pub auto_read_ms: Option<u32>,
    pub ban: Option<Ban>,
    pub phone: Phone,
    pub devices: BTreeMap<u16, Device>,
    /// Devices that have queried this account's devices, and are notified of changes.
    pub watchers: HashSet<DeviceAddress>,
    pub next_device: u16,
    pub next_key_index: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Ban {
    pub until: Option<Timestamp>,
}

impl Account {
    pub fn new() -> Self {
        Self {
            name: None,
            online: true,
            read_receipts: true,
            business: false,
            hide_number: false,
            disclosed: HashSet::new(),
            auto_read_ms: None,
            ban: None,
            phone: Phone::default(),
            devices: BTreeMap::new(),
            watchers: HashSet::new(),
            next_device: 1,
            next_key_index: 1,
        }
    }

    /// Whether `to` sees only the LID.
    pub fn hides_from(&self, to: Number) -> bool {
        self.hide_number && !self.disclosed.contains(&to)
    }

    /// Ids of all devices, the phone first.
    pub fn device_ids(&self) -> Vec<u16> {
        std::iter::once(0).chain(self.devices.keys().copied()).collect()
    }
}

/// A `<list>`, empty without children.
pub fn list(children: Vec<Node>) -> Node {
    if children.is_empty() { empty("list") } else { parent("list", children) }
}

impl State {
    /// The account of a number.
    ///
    /// # Errors
    /// There is no such phone.
    pub fn account(&self, number: Number) -> Result<&Account, ControlError> {
        self.accounts.get(&number).ok_or_else(|| unknown(number))
    }

    /// The account of a number, to change it.
    ///
    /// # Errors
    /// There is no such phone.
    pub fn account_mut(&mut self, number: Number) -> Result<&mut Account, ControlError> {
        self.accounts.get_mut(&number).ok_or_else(|| unknown(number))
    }

    /// A linked device.
    pub fn device(&self, at: DeviceAddress) -> Option<&Device> {
        self.accounts.get(&at.number)?.devices.get(&at.device)
    }

    pub fn device_mut(&mut self, at: DeviceAddress) -> Option<&mut Device> {
        self.accounts.get_mut(&at.number)?.devices.get_mut(&at.device)
    }

    /// Notifies the devices of an account about its new name.
    pub fn tell_of_name(&mut self, number: Number, name: &str) {
        let devices: Vec<u16> =
            self.accounts.get(&number).map(|account| account.devices.keys().copied().collect()).unwrap_or_default();
        for device in devices {
            let id = format!("name-{}", self.next());
            let notice = element("notification")
                .attr("from", number.pn())
                .attr("id", id.as_str())
                .attr("type", "account_sync")
                .attr("t", self.seconds())
                .attr("pushname", name)
                .build();
            self.enqueue(number.device(device), "notification", &id, notice);
        }
    }

    /// Records a device's `<presence type>`, or its `<chatstate to>` with the activity in that chat.
    pub fn take_presence(&mut self, at: DeviceAddress, stanza: &NodeRef<'_>) {
        let shown = match stanza.children().and_then(<[_]>::first) {
            Some(child) if text(child, "media").as_deref() == Some("audio") => "recording".to_owned(),
            Some(child) => child.tag.to_string(),
            None => text(stanza, "type").unwrap_or_default(),
        };
        if let Some(device) = self.device_mut(at)
            && device.shows.len() < MAX_SHOWN
        {
            device.shows.insert(text(stanza, "to").unwrap_or_default(), shown);
        }
    }
}

pub fn unknown(number: Number) -> ControlError {
    ControlError::NotFound(format!("there is no phone {number}"))
}
