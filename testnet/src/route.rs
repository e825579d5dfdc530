//! Messages, receipts and acknowledgements between devices. The server reads only the clear heads of ciphertexts.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Instant;

use wacore::messages::MessageUtils;
use wacore_binary::builder::NodeBuilder;
use wacore_binary::{Jid, JidExt, Node, NodeRef};

use crate::account::{Account, MAX_QUEUE, StanzaKey, Waiting};
use crate::faults::Faults;
use crate::groups::GroupRefusal;
use crate::ledger::Sender;
use crate::login::{Drain, Phase};
use crate::number::{DeviceAddress, Naming, Number};
use crate::phone::{Arrival, EncType};
use crate::stanza::{bytes, element, jid, parent, text};
use crate::state::{ConnectionId, State, Timer};

/// Longest accepted message id.
const MAX_ID: usize = 128;

/// A receipt that a phone sends.
pub struct Receipt<'a> {
    pub from: Number,
    /// Whether the phone is named by number or LID.
    pub naming: Naming,
    pub to: Number,
    pub group: Option<&'a Jid>,
    pub ids: &'a [String],
    /// The receipt's type; `None` means delivered.
    pub kind: Option<&'static str>,
}

/// A ciphertext.
#[derive(Clone)]
struct Enc {
    kind: EncType,
    bytes: Vec<u8>,
    /// Number of the retry that the ciphertext answers.
    count: Option<String>,
    mediatype: Option<String>,
}

/// One ciphertext of a message, and its recipient.
struct Sealed {
    to: DeviceAddress,
    naming: Naming,
    enc: Enc,
}

/// A message without its ciphertexts.
struct Message<'a> {
    from: DeviceAddress,
    chat: Jid,
    group: Option<Jid>,
    id: &'a str,
    kind: &'a str,
    edit: Option<String>,
    peer: bool,
    device_identity: Option<&'a [u8]>,
}

impl State {
    pub fn take_message(&mut self, connection: ConnectionId, from: DeviceAddress, stanza: &NodeRef<'_>) {
        let (Some(id), Some(to)) = (text(stanza, "id").filter(|id| id.len() <= MAX_ID), jid(stanza, "to")) else {
            tracing::warn!(%from, "a message without an id or a recipient");
            return;
        };
        let sealed = ciphertexts(stanza, &to);
        let again = !sealed.is_empty() && sealed.iter().all(|sealed| sealed.enc.count.is_some());
        let peer = text(stanza, "category").as_deref() == Some("peer");
        self.ledger.stats.raw_sends += 1;
        let shared = shared_ciphertext(stanza);
        for sealed in &sealed {
            if !self.check.ciphertext(from, sealed.to, sealed.enc.kind, &sealed.enc.bytes) {
                self.check.undecryptable(from, sealed.to, &id, "the ciphertext has no readable head");
            }
            if !sealed.to.is_phone() {
                self.check.opening(from, sealed.to, &id, sealed.enc.kind, &sealed.enc.bytes);
            }
        }
        if let Some(shared) = &shared
            && !self.check.group_ciphertext(from, &to.to_string(), &shared.bytes)
        {
            self.check.undecryptable(from, from, &id, "the group's ciphertext has no readable head");
        }
        if Faults::hits(self.faults.drop_before_accept_pct) {
            return;
        }
        if let Some(code) = self.refusal(from.number, &to, sealed.is_empty() && shared.is_none()) {
            self.ledger.stats.refused += 1;
            self.answer(connection, &id, &to, Some(("error", code.to_string())));
            return;
        }
        // The ledger does not include messages to the account's own devices (`peer`), nor retries.
        let known = !again && !peer && self.ledger.seen(from.number, &id);
        if known && self.faults.dedup {
            self.ledger.stats.duplicates_dropped += 1;
            self.answer(connection, &id, &to, None);
            return;
        }
        let are_all_meant = !again && !peer && !to.is_group();
        let others = if are_all_meant { self.other_devices(from, &to, &sealed) } else { None };
        self.check.wrong_devices(others.is_some());
        if !known && !again && !peer {
            let caller = self.connections[&connection].caller;
            let sender = Sender { number: from.number, node: caller.node, epoch: caller.epoch };
            let now = self.now();
            self.ledger.accept(sender, &id, &to, now);
        }
        let device_identity = stanza.get_optional_child("device-identity").and_then(NodeRef::content_bytes);
        let message = Message {
            from,
            // A retry for a device of the same account belongs to another chat than that device's.
            chat: jid(stanza, "recipient").unwrap_or_else(|| to.clone()),
            group: to.is_group().then(|| to.clone()),
            id: &id,
            kind: &text(stanza, "type").unwrap_or_else(|| "text".into()),
            edit: text(stanza, "edit"),
            peer,
            device_identity,
        };
        match shared {
            Some(shared) => self.deliver_to_group(&message, sealed, shared),
            None => {
                for sealed in sealed {
                    let (to, naming) = (sealed.to, sealed.naming);
                    self.deliver(&message, to, naming, vec![sealed.enc]);
                }
            }
        }
        if !Faults::hits(self.faults.drop_after_accept_pct) {
            self.answer(connection, &id, &to, others.map(|hash| ("phash", hash)));
        }
    }

    /// If a direct message was not encrypted for exactly the devices of both accounts, except its author: the hash of
    /// the right device list.
    fn other_devices(&self, from: DeviceAddress, to: &Jid, sealed: &[Sealed]) -> Option<String> {
        let devices_of = |number: Number| {
            let devices = self.accounts.get(&number).map(Account::device_ids).unwrap_or_default();
            devices.into_iter().map(move |device| number.device(device))
        };
        let both = devices_of(Number::of_jid(to)?).chain(devices_of(from.number));
        let meant: BTreeSet<DeviceAddress> = both.filter(|device| *device != from).collect();
        let written: BTreeSet<DeviceAddress> = sealed.iter().map(|sealed| sealed.to).collect();
        if meant == written {
            return None;
        }
        let meant: Vec<Jid> = meant.into_iter().map(|device| device.jid(Naming::Number)).collect();
        MessageUtils::participant_list_hash(&meant).ok()
    }

    /// The error code if a message must be refused.
    fn refusal(&self, from: Number, to: &Jid, is_empty: bool) -> Option<u16> {
        if let Some(nack) = self.faults.nack.filter(|nack| Faults::hits(nack.pct)) {
            return Some(nack.code);
        }
        if to.is_group() {
            if let Err(refusal) = self.check_group_message(to, from) {
                return Some(refusal.code);
            }
        } else if !Number::of_jid(to).is_some_and(|number| self.accounts.contains_key(&number)) {
            return Some(404);
        }
        // A message without ciphertexts is invalid.
        is_empty.then_some(479)
    }

    /// The members of a group, if `from` may write to it.
    pub fn check_group_message(&self, group: &Jid, from: Number) -> Result<Vec<Number>, GroupRefusal> {
        let group = self.group(group)?;
        group.check(from, group.announcement)?;
        Ok(group.members.keys().copied().collect())
    }

    /// Acknowledges a message, in the order of messages. `says` is an additional attribute of the response.
    fn answer(&mut self, connection: ConnectionId, id: &str, to: &Jid, says: Option<(&'static str, String)>) {
        let mut ack = element("ack")
            .attr("class", "message")
            .attr("id", id)
            .attr("from", to.to_non_ad())
            .attr("t", self.seconds());
        if let Some((name, value)) = says {
            ack = ack.attr(name, value);
        }
        let due = Instant::now() + self.faults.accept_delay();
        let Some(found) = self.connections.get_mut(&connection) else { return };
        let due = found.answers_until.map_or(due, |until| until.max(due));
        found.answers_until = Some(due);
        if due <= Instant::now() {
            self.write(connection, ack.build());
        } else {
            self.at(due, Timer::Answer { connection, stanza: ack.build() });
        }
    }

    /// Delivers a group message to every device of every member, with the device's own ciphertext if there is one.
    fn deliver_to_group(&mut self, message: &Message<'_>, sealed: Vec<Sealed>, shared: Enc) {
        let Some(group) = &message.group else { return };
        let members: Vec<Number> =
            self.group(group).map(|group| group.members.keys().copied().collect()).unwrap_or_default();
        let mut own: HashMap<DeviceAddress, Vec<Sealed>> = HashMap::new();
        for sealed in sealed {
            own.entry(sealed.to).or_default().push(sealed);
        }
        for number in members {
            let devices = self.accounts.get(&number).map(Account::device_ids).unwrap_or_default();
            for to in devices.into_iter().map(|device| number.device(device)).filter(|to| *to != message.from) {
                let own = own.remove(&to).unwrap_or_default();
                let naming = own.first().map_or(Naming::Number, |sealed| sealed.naming);
                let encs = own.into_iter().map(|sealed| sealed.enc).chain([shared.clone()]).collect();
                self.deliver(message, to, naming, encs);
            }
        }
    }

    fn deliver(&mut self, message: &Message<'_>, to: DeviceAddress, naming: Naming, encs: Vec<Enc>) {
        let from = message.from;
        if to.is_phone() {
            let at = self.now();
            for Enc { kind, bytes, .. } in encs {
                let (id, group) = (message.id.to_owned(), message.group.clone());
                self.phone_takes(to.number, Arrival { id, from, naming, group, kind, bytes, at });
            }
            return;
        }
        if self.device(to).is_none() {
            return;
        }
        let begins = encs.iter().any(|enc| enc.kind == EncType::PreKey);
        let mut stanza = self
            .message_from(from, to, naming, message.group.as_ref())
            .attr("id", message.id)
            .attr("type", message.kind);
        if let Some(edit) = &message.edit {
            stanza = stanza.attr("edit", edit);
        }
        if message.peer {
            stanza = stanza.attr("category", "peer");
        } else if from.number == to.number && message.group.is_none() {
            stanza = stanza.attr("recipient", message.chat.to_non_ad());
        }
        let mut children: Vec<Node> = encs.into_iter().map(Enc::node).collect();
        if begins {
            children.extend(message.device_identity.map(|identity| bytes("device-identity", identity)));
        }
        self.enqueue(to, "message", message.id, stanza.children(children).build());
    }

    /// The head of a message for a device, with the name of the sender that the device may see.
    pub fn message_from(
        &self,
        from: DeviceAddress,
        to: DeviceAddress,
        naming: Naming,
        group: Option<&Jid>,
    ) -> NodeBuilder {
        let account = self.accounts.get(&from.number);
        let hidden = account.is_some_and(|account| account.hides_from(to.number)) && from.number != to.number;
        let mut message = element("message").attr("t", self.seconds());
        if let Some(name) = account.and_then(|account| account.name.as_deref()) {
            message = message.attr("notify", name);
        }
        if let Some(group) = group {
            return message
                .attr("from", group.clone())
                .attr("participant", from.jid(Naming::Number))
                .attr("participant_lid", from.number.lid())
                .attr("addressing_mode", "pn");
        }
        if hidden {
            message.attr("from", from.jid(Naming::Lid)).attr("addressing_mode", "lid")
        } else if naming == Naming::Lid {
            message.attr("from", from.jid(Naming::Lid)).attr("sender_pn", from.number.pn())
        } else {
            message.attr("from", from.jid(Naming::Number)).attr("sender_lid", from.number.lid())
        }
    }

    /// Adds a stanza to a device's queue, and sends it if the device is connected.
    pub fn enqueue(&mut self, to: DeviceAddress, class: &'static str, id: &str, stanza: Node) {
        let Some(device) = self.device(to) else { return };
        let connection = device.connection;
        let live = connection.filter(|connection| self.drain(*connection) == Some(Drain::Live));
        let Some(device) = self.device_mut(to) else { return };
        if device.queue.len() == MAX_QUEUE {
            tracing::warn!(%to, "a device's queue is full; the oldest stanza is lost");
            device.queue.pop_front();
        }
        let key = StanzaKey { class, id: id.to_owned() };
        if live.is_some() {
            device.remember(&key);
        }
        device.queue.push_back(Waiting { key, stanza: stanza.clone(), sent_on: live });
        if let Some(connection) = live {
            self.write(connection, stanza);
        }
    }

    /// Delivers a phone's receipt to all devices of the author, including the phone.
    pub fn receipt_of_phone(&mut self, receipt: Receipt<'_>) {
        let Receipt { from, naming, to, group, ids, kind } = receipt;
        let [first, rest @ ..] = ids else { return };
        let mut stanza = receipt_from(from.device(0).jid(naming), group).attr("id", first).attr("t", self.seconds());
        if let Some(kind) = kind {
            stanza = stanza.attr("type", kind);
        }
        if !rest.is_empty() {
            let items = rest.iter().map(|id| element("item").attr("id", id).build());
            stanza = stanza.children([parent("list", items)]);
        }
        let stanza = stanza.build();
        self.phone_takes_receipt(to, from, ids, kind);
        let devices: Vec<u16> =
            self.accounts.get(&to).map(|account| account.devices.keys().copied().collect()).unwrap_or_default();
        let key = format!("{first}/{}", kind.unwrap_or_default());
        for device in devices {
            self.enqueue(to.device(device), "receipt", &key, stanza.clone());
        }
    }

    /// Handles a device's receipt: it acknowledges messages in the device's queue, and is forwarded to their author.
    pub fn take_receipt(&mut self, connection: ConnectionId, from: DeviceAddress, stanza: &NodeRef<'_>) {
        let (Some(id), Some(to)) = (text(stanza, "id"), jid(stanza, "to")) else { return };
        let kind = text(stanza, "type");
        let mut acknowledgement =
            element("ack").attr("class", "receipt").attr("id", id.as_str()).attr("from", to.clone());
        if let Some(kind) = &kind {
            acknowledgement = acknowledgement.attr("type", kind);
        }
        self.write(connection, acknowledgement.attr("t", self.seconds()).build());
        if kind.as_deref() == Some("server-error") {
            return self.phone_gives_media_again(from, &id, stanza);
        }
        let group = to.is_group().then(|| to.clone());
        let author = if group.is_some() { jid(stanza, "participant") } else { Some(to.clone()) };
        let naming = author.as_ref().map_or(Naming::Number, Naming::of);
        let author = author.and_then(|author| DeviceAddress::of_jid(&author));
        if kind.as_deref() == Some("retry") {
            let error = stanza.get_optional_child("retry").and_then(|retry| text(retry, "error"));
            self.check.retry();
            // Error 3 means an unknown prekey, one-time or signed.
            if let (Some("3"), Some(author)) = (error.as_deref(), author) {
                let waiting = self.unacknowledged(from);
                self.check.prekey_unknown(from, author, &id, &waiting);
            }
            match author {
                Some(author) if author.is_phone() => self.phone_sends_again(author.number, from, stanza),
                Some(author) => self.pass_retry(from, author, &id, group.as_ref(), stanza),
                None => {}
            }
            return;
        }
        let mut ids = vec![id];
        let list = stanza.get_optional_child("list").and_then(NodeRef::children).unwrap_or_default();
        ids.extend(list.iter().filter_map(|item| text(item, "id")));
        for id in &ids {
            self.acknowledged(connection, from, StanzaKey { class: "message", id: id.clone() }, kind.as_deref());
        }
        let told = matches!(kind.as_deref(), None | Some("inactive" | "read" | "played"));
        let (true, Some(author)) = (told, author) else { return };
        if author.number == from.number {
            return;
        }
        // If several devices of a reader send receipts, the author gets only the first.
        let shown = kind.as_deref().filter(|kind| *kind != "inactive");
        self.phone_takes_receipt(author.number, from.number, &ids, shown);
        let devices: Vec<u16> = self
            .accounts
            .get(&author.number)
            .map(|account| account.devices.keys().copied().collect())
            .unwrap_or_default();
        let mut passed =
            receipt_from(from.jid(naming), group.as_ref()).attr("id", ids[0].as_str()).attr("t", self.seconds());
        if let Some(kind) = &kind {
            passed = passed.attr("type", kind);
        }
        if ids.len() > 1 {
            let items = ids[1..].iter().map(|id| element("item").attr("id", id).build());
            passed = passed.children([parent("list", items)]);
        }
        let passed = passed.build();
        let key = format!("{}/{}", ids[0], kind.unwrap_or_default());
        for device in devices {
            self.enqueue(author.number.device(device), "receipt", &key, passed.clone());
        }
    }

    /// Ids of the messages that a device has not acknowledged.
    fn unacknowledged(&self, device: DeviceAddress) -> HashSet<String> {
        let queue = self.device(device).into_iter().flat_map(|device| &device.queue);
        queue.filter(|waiting| waiting.key.class == "message").map(|waiting| waiting.key.id.clone()).collect()
    }

    /// Forwards a retry receipt from one companion to another.
    fn pass_retry(
        &mut self,
        from: DeviceAddress,
        author: DeviceAddress,
        id: &str,
        group: Option<&Jid>,
        stanza: &NodeRef<'_>,
    ) {
        let naming = jid(stanza, "to").map_or(Naming::Number, |to| Naming::of(&to));
        let children = stanza.children().unwrap_or_default().iter().map(NodeRef::to_owned);
        let mut passed = receipt_from(from.jid(naming), group)
            .attr("id", id)
            .attr("type", "retry")
            .attr("t", self.seconds())
            .children(children)
            .build();
        for name in ["category", "recipient"] {
            if let Some(value) = stanza.get_attr(name) {
                passed.attrs.insert(name, value.to_node_value());
            }
        }
        self.enqueue(author, "receipt", &format!("{id}/retry"), passed);
    }

    pub fn take_acknowledgement(&mut self, connection: ConnectionId, from: DeviceAddress, stanza: &NodeRef<'_>) {
        let Some(id) = text(stanza, "id") else { return };
        let class = match text(stanza, "class").as_deref() {
            Some("message") => "message",
            Some("receipt") => "receipt",
            Some("call") => "call",
            _ => "notification",
        };
        let kind = text(stanza, "type").unwrap_or_default();
        let id = if class == "receipt" { format!("{id}/{kind}") } else { id };
        self.acknowledged(connection, from, StanzaKey { class, id }, None);
    }

    /// Removes an acknowledged stanza from a device's queue.
    fn acknowledged(&mut self, connection: ConnectionId, device: DeviceAddress, key: StanzaKey, kind: Option<&str>) {
        let Some(found) = self.device(device) else { return };
        // Read messages are acknowledged twice, possibly in a later session.
        let read = matches!(kind, Some("read" | "played" | "read-self" | "played-self"));
        if !read && !found.delivered_set.contains(&key) {
            self.check.foreign_acknowledgement(device, key.class, &key.id);
            return;
        }
        if self.faults.hold_inbound_acks {
            if let Some(found) = self.connections.get_mut(&connection)
                && found.held.len() < MAX_QUEUE
            {
                found.held.push(key);
            }
            return;
        }
        self.clear(device, &key);
    }

    fn clear(&mut self, device: DeviceAddress, key: &StanzaKey) {
        if let Some(device) = self.device_mut(device)
            && let Some(place) = device.queue.iter().position(|waiting| waiting.key == *key)
        {
            device.queue.remove(place);
        }
    }

    /// When the fault `hold_inbound_acks` ends, processes the held acknowledgements of live sessions.
    pub fn release_acknowledgements(&mut self) {
        let held: Vec<(DeviceAddress, Vec<StanzaKey>)> = self
            .connections
            .values_mut()
            .filter_map(|connection| match connection.phase {
                Phase::LoggedIn { at, .. } => Some((at, std::mem::take(&mut connection.held))),
                _ => None,
            })
            .collect();
        for (device, keys) in held {
            for key in keys {
                self.clear(device, &key);
            }
        }
    }
}

/// The head of a receipt from an account, or from a participant of a group.
pub fn receipt_from(from: Jid, group: Option<&Jid>) -> NodeBuilder {
    match group {
        Some(group) => element("receipt").attr("from", group.clone()).attr("participant", from),
        None => element("receipt").attr("from", from),
    }
}

impl Enc {
    fn parse(enc: &NodeRef<'_>) -> Option<Self> {
        Some(Self {
            kind: EncType::parse(&text(enc, "type")?)?,
            bytes: enc.content_bytes()?.to_vec(),
            count: text(enc, "count"),
            mediatype: text(enc, "mediatype"),
        })
    }

    fn node(self) -> Node {
        let mut enc = element("enc").attr("v", 2).attr("type", self.kind.as_str());
        if let Some(count) = self.count {
            enc = enc.attr("count", count);
        }
        if let Some(mediatype) = self.mediatype {
            enc = enc.attr("mediatype", mediatype);
        }
        enc.bytes(self.bytes).build()
    }
}

/// The ciphertexts of a message for individual devices.
fn ciphertexts(stanza: &NodeRef<'_>, to: &Jid) -> Vec<Sealed> {
    let participants = stanza.get_optional_child("participants").and_then(NodeRef::children).unwrap_or_default();
    let named = participants.iter().filter_map(|child| Some((jid(child, "jid")?, child.get_optional_child("enc")?)));
    // A retry is a single ciphertext; in a group, it names the device that asked.
    let asker = jid(stanza, "participant").unwrap_or_else(|| to.clone());
    let alone = stanza.get_optional_child("enc").map(|enc| (asker, enc));
    named
        .chain(alone)
        .filter_map(|(jid, enc)| {
            let enc = Enc::parse(enc).filter(|enc| enc.kind != EncType::SenderKey)?;
            Some(Sealed { to: DeviceAddress::of_jid(&jid)?, naming: Naming::of(&jid), enc })
        })
        .collect()
}

/// The ciphertext for all members of a group.
fn shared_ciphertext(stanza: &NodeRef<'_>) -> Option<Enc> {
    stanza.get_children_by_tag("enc").find_map(Enc::parse).filter(|enc| enc.kind == EncType::SenderKey)
}
