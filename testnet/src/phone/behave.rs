//! Actions of phones: reading, receipts, writing, and retries.

use std::collections::BTreeMap;
use std::time::Duration;

use buffa::{Message as _, MessageField};
use network::simulator::answers::ControlError;
use wacore::libsignal::protocol::{PreKeySignalMessage, SignalProtocolError};
use wacore::messages::{MessageUtils, decode_plaintext, unwrap_device_sent, wrap_device_sent};
use wacore::send::{media_type_from_message, stanza_type_from_message};
use wacore_binary::{Jid, NodeRef};
use waproto::whatsapp as wa;

use super::attachment::is_intact;
use super::content::is_for_people;
use super::signal::Signal;
use super::{Arrival, Chat, EncType, ReceiptRow, Sent};
use crate::account::{Account, KeyBundle};
use crate::number::{DeviceAddress, Naming, Number};
use crate::route::{Receipt, receipt_from};
use crate::stanza::{bytes, element, parent};
use crate::state::{State, Timer};

/// Maximum number of retries that a phone requests for a message, and that it sends.
const MAX_RETRIES: u8 = 5;

/// Version of the wire's padding and of sender keys.
const VERSION: u8 = 2;

/// A random message id, in the form that these phones use.
pub fn mint_id() -> String {
    format!("3A{}", hex::encode_upper(rand::random::<[u8; 9]>()))
}

/// The content of a message, the same for all recipients' copies.
fn body(message: &wa::Message) -> Vec<u8> {
    let mut bare = message.clone();
    let context = bare.message_context_info.take();
    bare.sender_key_distribution_message.take();
    let secret = context.and_then(|context| context.message_secret);
    let mut body = bare.encode_to_vec();
    body.extend(secret.unwrap_or_default());
    body
}

impl State {
    /// Passes a ciphertext to a phone, or queues it while the phone is off.
    pub fn phone_takes(&mut self, number: Number, arrival: Arrival) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        if account.online { self.open(number, arrival) } else { account.phone.wait(arrival) }
    }

    /// Lets a phone that was turned on read its queue.
    pub fn phone_wakes(&mut self, number: Number) {
        while let Some(account) = self.accounts.get_mut(&number)
            && account.online
            && let Some(arrival) = account.phone.away.pop_front()
        {
            self.open(number, arrival);
        }
    }

    fn open(&mut self, number: Number, arrival: Arrival) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let signal = account.phone.signal();
        let group = arrival.group.as_ref().map(Jid::to_string);
        let opened = match (arrival.kind, &group) {
            (EncType::SenderKey, Some(group)) => signal.open_group(group, arrival.from, &arrival.bytes),
            (kind, _) => signal.decrypt(arrival.from, kind, &arrival.bytes),
        };
        let message = match opened {
            Ok(plain) => match decode_plaintext(&plain, VERSION) {
                Ok(message) => message,
                Err(error) => {
                    let why = format!("what it holds is no message: {error}");
                    self.check.undecryptable(arrival.from, number.device(0), &arrival.id, &why);
                    return;
                }
            },
            // The phone has read this ciphertext before; the checks count such repeats.
            Err(SignalProtocolError::DuplicatedMessage(..)) => return,
            Err(error) => return self.cannot_open(number, &arrival, &error),
        };
        account.phone.asked.remove(&(arrival.from, arrival.id.clone()));
        account.phone.forgotten.remove(&arrival.from);
        let sent_to = message.device_sent_message.as_option().and_then(|sent| sent.destination_jid.clone());
        let message = unwrap_device_sent(message);
        if let Some(told) = message.sender_key_distribution_message.as_option() {
            let distribution = told.axolotl_sender_key_distribution_message.as_deref().unwrap_or_default();
            let group = told.group_id.as_deref().or(group.as_deref()).unwrap_or_default();
            if let Err(error) = account.phone.signal().learn_sender_key(group, arrival.from, distribution) {
                self.check.undecryptable(
                    arrival.from,
                    number.device(0),
                    &arrival.id,
                    &format!("a sender key: {error}"),
                );
            }
        }
        let sender = arrival.from.number;
        let tells = is_for_people(&message);
        if tells {
            self.check.body(sender, &arrival.id, &body(&message));
        }
        if sender == number {
            if tells {
                self.keep_own(arrival, sent_to, message);
            }
            return;
        }
        // A stanza with only a sender key accompanies its message, which is acknowledged separately.
        if !tells && message.sender_key_distribution_message.is_set() {
            return;
        }
        let intact = is_intact(&self.files, &message);
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let is_new = tells && account.phone.inbox.take(&arrival, &message, intact);
        if is_new {
            self.ledger.stats.delivered += 1;
        }
        let auto_read = account.auto_read_ms.filter(|_| is_new && account.read_receipts);
        let ids = [arrival.id.clone()];
        let Arrival { naming, group, id, .. } = arrival;
        self.receipt_of_phone(Receipt {
            from: number,
            naming,
            to: sender,
            group: group.as_ref(),
            ids: &ids,
            kind: None,
        });
        if let Some(delay) = auto_read {
            self.later(Duration::from_millis(u64::from(delay)), Timer::Read { number, id, from: sender });
        }
    }

    /// Stores a message from another device of the account: the phone can react to it, delete it and vote on it.
    fn keep_own(&mut self, arrival: Arrival, sent_to: Option<String>, message: wa::Message) {
        let number = arrival.from.number;
        let to = match arrival.group {
            Some(group) => Some(Chat::Group(group)),
            // A message to the account itself names no recipient.
            None => sent_to.map_or(Some(number), |to| Number::of_jid(&to.parse::<Jid>().ok()?)).map(Chat::With),
        };
        if let (Some(to), Some(account)) = (to, self.accounts.get_mut(&number)) {
            account.phone.keep_sent(&arrival.id, Sent { to, message, peer: false });
        }
    }

    fn cannot_open(&mut self, number: Number, arrival: &Arrival, error: &SignalProtocolError) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let by_order = account.phone.forgotten.contains(&arrival.from);
        let asked = account.phone.asked.entry((arrival.from, arrival.id.clone())).or_insert(0);
        *asked += 1;
        let count = *asked;
        if !by_order {
            self.check.undecryptable(arrival.from, number.device(0), &arrival.id, &error.to_string());
        }
        if count <= MAX_RETRIES {
            self.ask_again(number, arrival, count);
        }
    }

    /// Asks a device to send a message again, with the keys for a new session.
    fn ask_again(&mut self, number: Number, arrival: &Arrival, count: u8) {
        let (t, id) = (self.seconds(), arrival.id.as_str());
        // Phones do not ask other phones, since all of them are in this process; after `forget-session`, their next
        // message starts a new session.
        let (Some(account), false) = (self.accounts.get_mut(&number), arrival.from.is_phone()) else { return };
        let bundle = account.phone.signal().bundle(true);
        let retry = element("retry").attr("v", 1).attr("count", count).attr("id", id).attr("t", t).build();
        let receipt = receipt_from(number.device(0).jid(arrival.naming), arrival.group.as_ref())
            .attr("id", id)
            .attr("type", "retry")
            .attr("t", t)
            .children([
                retry,
                bytes("registration", bundle.registration_id.to_be_bytes()),
                parent("keys", bundle.key_nodes()),
            ])
            .build();
        self.enqueue(arrival.from, "receipt", &format!("{id}/retry"), receipt);
    }

    /// Encrypts a message again, in a new session, for a device that could not read it.
    pub fn phone_sends_again(&mut self, number: Number, asker: DeviceAddress, receipt: &NodeRef<'_>) {
        let retry = receipt.get_optional_child("retry");
        let Some(id) = retry.and_then(|retry| crate::stanza::text(retry, "id")) else { return };
        let count: u8 = retry.and_then(|retry| crate::stanza::text(retry, "count")?.parse().ok()).unwrap_or(1);
        let sent = self.accounts.get(&number).and_then(|account| account.phone.sent.get(&id)).cloned();
        let (Some(sent), true) = (sent, count <= MAX_RETRIES) else { return };
        let may_ask = match &sent.to {
            Chat::With(to) => asker.number == *to || asker.number == number,
            Chat::Group(jid) => self.group(jid).is_ok_and(|group| group.members.contains_key(&asker.number)),
        };
        let bundle = KeyBundle::of_retry(receipt).or_else(|| self.give_bundle(asker));
        let (Some(bundle), true, Some(account)) = (bundle, may_ask, self.accounts.get_mut(&number)) else { return };
        let signal = account.phone.signal();
        signal.forget(asker);
        if let Err(error) = signal.begin(asker, &bundle) {
            tracing::warn!(%asker, %error, "a phone cannot begin a session");
            return;
        }
        let plain = match &sent.to {
            Chat::With(to) => plain_for(number, asker, *to, &sent.message),
            Chat::Group(jid) => {
                let told = told_key(signal, &jid.to_string(), number);
                let message = wa::Message { sender_key_distribution_message: told, ..sent.message.clone() };
                MessageUtils::encode_and_pad(&message)
            }
        };
        if let Some(sealed) = self.seal(number, asker, &plain, true) {
            self.hand_over(number, asker, &id, &sent, vec![sealed], Some(count));
        }
    }

    /// Sends a phone's message to a chat, to every device of all participants.
    pub fn phone_writes(
        &mut self,
        number: Number,
        to: &Chat,
        id: &str,
        message: wa::Message,
    ) -> Result<(), ControlError> {
        let sent = Sent { to: to.clone(), message, peer: false };
        let everybody: Vec<Number> = match to {
            Chat::With(to) => {
                self.account(*to)?;
                if *to == number { vec![number] } else { vec![*to, number] }
            }
            Chat::Group(jid) => self.check_group_message(jid, number).map_err(|refusal| {
                ControlError::Invalid(format!("{number} may not write to {jid}: {}", refusal.text))
            })?,
        };
        self.check.body(number, id, &body(&sent.message));
        let me = number.device(0);
        let signal = {
            let phone = &mut self.account_mut(number)?.phone;
            phone.keep_sent(id, sent.clone());
            phone.signal()
        };
        // For a group: the sender key for its members, and the message encrypted with it.
        let shared = match to {
            Chat::With(_) => None,
            Chat::Group(jid) => {
                let group = jid.to_string();
                let told = told_key(signal, &group, number);
                let plain = MessageUtils::encode_and_pad(&sent.message);
                let sealed = signal.seal_group(&group, me, &plain);
                let sealed = sealed.map_err(|error| ControlError::Invalid(error.to_string()))?;
                let told = wa::Message { sender_key_distribution_message: told, ..Default::default() };
                self.check.group_ciphertext(me, &group, &sealed);
                Some((MessageUtils::encode_and_pad(&told), sealed))
            }
        };
        let devices = everybody.into_iter().flat_map(|number| {
            let devices = self.accounts.get(&number).map(Account::device_ids).unwrap_or_default();
            devices.into_iter().map(move |device| number.device(device))
        });
        for device in devices.filter(|device| *device != me).collect::<Vec<_>>() {
            let plain = match (&shared, to) {
                (Some((told, _)), _) => told.clone(),
                (None, Chat::With(to)) => plain_for(number, device, *to, &sent.message),
                (None, Chat::Group(_)) => continue,
            };
            let Some(sealed) = self.seal(number, device, &plain, false) else { continue };
            let shared = shared.as_ref().map(|(_, sealed)| (EncType::SenderKey, sealed.clone()));
            self.hand_over(number, device, id, &sent, [sealed].into_iter().chain(shared).collect(), None);
        }
        Ok(())
    }

    /// Sends a newly linked device the key for synchronizing chats, contacts and settings.
    pub fn phone_greets(&mut self, device: DeviceAddress) {
        use wa::message::protocol_message::Type;
        use wa::message::{
            AppStateSyncKey, AppStateSyncKeyData, AppStateSyncKeyFingerprint, AppStateSyncKeyId, AppStateSyncKeyShare,
            ProtocolMessage,
        };
        let (number, now) = (device.number, self.now());
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let (id, key) = account.phone.app_state_key();
        let fingerprint =
            AppStateSyncKeyFingerprint { raw_id: Some(1), current_index: Some(1), device_indexes: vec![0, 1] };
        let data = AppStateSyncKeyData {
            key_data: Some(key.to_vec()),
            fingerprint: MessageField::some(fingerprint),
            timestamp: Some(now.0),
        };
        let key = AppStateSyncKey {
            key_id: MessageField::some(AppStateSyncKeyId { key_id: Some(id.to_vec()) }),
            key_data: MessageField::some(data),
        };
        let protocol = ProtocolMessage {
            r#type: Some(Type::APP_STATE_SYNC_KEY_SHARE),
            app_state_sync_key_share: MessageField::some(AppStateSyncKeyShare { keys: vec![key] }),
            ..Default::default()
        };
        let message = wa::Message { protocol_message: MessageField::some(protocol), ..Default::default() };
        let id = mint_id();
        let sent = Sent { to: Chat::With(number), message, peer: true };
        account.phone.keep_sent(&id, sent.clone());
        let plain = MessageUtils::encode_and_pad(&sent.message);
        if let Some(sealed) = self.seal(number, device, &plain, true) {
            self.hand_over(number, device, &id, &sent, vec![sealed], None);
        }
    }

    /// Encrypts for one device, and starts a session if there is none.
    fn seal(&mut self, number: Number, to: DeviceAddress, plain: &[u8], again: bool) -> Option<(EncType, Vec<u8>)> {
        let has_session = self.accounts.get_mut(&number)?.phone.signal().has_session(to);
        if !has_session {
            let bundle = self.give_bundle(to)?;
            if let Err(error) = self.accounts.get_mut(&number)?.phone.signal().begin(to, &bundle) {
                tracing::warn!(%to, %error, "a phone cannot begin a session");
                return None;
            }
        }
        let phone = &mut self.accounts.get_mut(&number)?.phone;
        let (kind, mut sealed) = match phone.signal().encrypt(to, plain) {
            Ok(sealed) => sealed,
            Err(error) => {
                tracing::warn!(%to, %error, "a phone cannot seal a message");
                return None;
            }
        };
        // Only companions are under test, so messages to the recipient's phone are not damaged.
        if !again
            && !to.is_phone()
            && let Some(left) = phone.damage.get_mut(&to.number).filter(|left| **left > 0)
        {
            damage(kind, &mut sealed);
            *left -= 1;
        }
        self.check.ciphertext(number.device(0), to, kind, &sealed);
        Some((kind, sealed))
    }

    fn hand_over(
        &mut self,
        number: Number,
        to: DeviceAddress,
        id: &str,
        sent: &Sent,
        sealed: Vec<(EncType, Vec<u8>)>,
        retry: Option<u8>,
    ) {
        let (at, from) = (self.now(), number.device(0));
        let group = match &sent.to {
            Chat::Group(jid) => Some(jid.clone()),
            Chat::With(_) => None,
        };
        if to.is_phone() {
            for (kind, bytes) in sealed {
                let (id, group) = (id.to_owned(), group.clone());
                let arrival = Arrival { id, from, naming: Naming::Number, group, kind, bytes, at };
                self.phone_takes(to.number, arrival);
            }
            return;
        }
        for (kind, bytes) in &sealed {
            self.check.opening(from, to, id, *kind, bytes);
        }
        let encs = sealed.into_iter().map(|(kind, sealed)| {
            let mut enc = element("enc").attr("v", VERSION).attr("type", kind.as_str());
            if let Some(count) = retry {
                enc = enc.attr("count", count);
            }
            if let Some(kind) = media_type_from_message(&sent.message) {
                enc = enc.attr("mediatype", kind);
            }
            enc.bytes(sealed).build()
        });
        let mut message = self
            .message_from(from, to, Naming::Number, group.as_ref())
            .attr("id", id)
            .attr("type", stanza_type_from_message(&sent.message));
        if let Some(edit) = edit_of(&sent.message) {
            message = message.attr("edit", edit);
        }
        if sent.peer {
            message = message.attr("category", "peer");
        } else if let Chat::With(with) = sent.to
            && from.number == to.number
        {
            message = message.attr("recipient", with.pn());
        }
        let stanza = message.children(encs).build();
        self.enqueue(to, "message", id, stanza);
    }

    /// Lets a phone read a message.
    pub fn read(&mut self, number: Number, id: &str, from: Number) {
        let Some(account) = self.accounts.get_mut(&number) else { return };
        let Some(item) = account.phone.inbox.item_mut(from, id).filter(|item| !item.read) else { return };
        item.read = true;
        let (naming, group) = (item.naming, item.group.clone());
        if account.read_receipts {
            let (ids, group) = ([id.to_owned()], group.as_ref());
            self.receipt_of_phone(Receipt { from: number, naming, to: from, group, ids: &ids, kind: Some("read") });
        }
    }

    /// Lets a phone open a chat: the authors get receipts for unread messages.
    pub fn open_chat(&mut self, number: Number, chat: &Chat) -> Result<(), ControlError> {
        let account = self.account_mut(number)?;
        let mut read: BTreeMap<Number, (Naming, Vec<String>)> = BTreeMap::new();
        for (id, author, naming) in account.phone.inbox.read_all(chat) {
            read.entry(author).or_insert_with(|| (naming, Vec::new())).1.push(id);
        }
        if !account.read_receipts {
            return Ok(());
        }
        let group = match chat {
            Chat::Group(jid) => Some(jid),
            Chat::With(_) => None,
        };
        for (to, (naming, ids)) in read {
            self.receipt_of_phone(Receipt { from: number, naming, to, group, ids: &ids, kind: Some("read") });
        }
        Ok(())
    }

    /// Records a receipt that a phone receives.
    pub fn phone_takes_receipt(&mut self, number: Number, from: Number, ids: &[String], kind: Option<&str>) {
        let at = self.now();
        let Some(account) = self.accounts.get_mut(&number) else { return };
        for id in ids {
            let kind = kind.unwrap_or("delivered").to_owned();
            account.phone.take_receipt(ReceiptRow {
                id: id.clone(),
                from: from.address().as_str().to_owned(),
                kind,
                at,
            });
        }
    }
}

/// The plaintext for a device: devices of the sender's account are also told the recipient.
fn plain_for(number: Number, device: DeviceAddress, to: Number, message: &wa::Message) -> Vec<u8> {
    if device.number == number && to != number {
        MessageUtils::encode_and_pad(&wrap_device_sent(message.clone(), to.pn().to_string()))
    } else {
        MessageUtils::encode_and_pad(message)
    }
}

/// The phone's sender key for a group, as distributed to members.
fn told_key(
    signal: &mut Signal,
    group: &str,
    number: Number,
) -> MessageField<wa::message::SenderKeyDistributionMessage> {
    match signal.distribution(group, number.device(0)) {
        Ok(distribution) => MessageField::some(wa::message::SenderKeyDistributionMessage {
            group_id: Some(group.to_owned()),
            axolotl_sender_key_distribution_message: Some(distribution),
        }),
        Err(error) => {
            tracing::warn!(group, %error, "a phone has no sender key");
            MessageField::none()
        }
    }
}

/// Damages the last byte of a ciphertext's authentication code; the head stays readable.
fn damage(kind: EncType, sealed: &mut [u8]) {
    let inner = match kind {
        EncType::PreKey => {
            PreKeySignalMessage::try_from(&*sealed).ok().map(|outer| outer.message().serialized().to_vec())
        }
        _ => None,
    };
    let end = match inner {
        Some(inner) => sealed.windows(inner.len()).position(|window| window == inner).map(|start| start + inner.len()),
        None => Some(sealed.len()),
    };
    if let Some(last) = end.and_then(|end| sealed.get_mut(end - 1)) {
        *last ^= 0xFF;
    }
}

/// The `edit` attribute of a message that changes another one.
fn edit_of(message: &wa::Message) -> Option<&'static str> {
    use wa::message::protocol_message::Type;
    match message.protocol_message.as_option().and_then(|protocol| protocol.r#type) {
        Some(Type::MESSAGE_EDIT) => Some("1"),
        Some(Type::REVOKE) => Some("7"),
        _ => message.pin_in_chat_message.is_set().then_some("2"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_ciphertext_keeps_its_head_and_cannot_be_opened() {
        let device = |digits: &str| Number::parse(digits).unwrap().device(0);
        let (mut anna, mut bert) = (Signal::generate(), Signal::generate());
        anna.begin(device("2222"), &bert.bundle(true)).unwrap();
        let (kind, mut sealed) = anna.encrypt(device("2222"), b"hello").unwrap();
        damage(kind, &mut sealed);
        assert!(PreKeySignalMessage::try_from(sealed.as_slice()).is_ok());
        assert!(bert.decrypt(device("1111"), kind, &sealed).is_err());
    }
}
