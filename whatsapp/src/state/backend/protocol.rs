//! Protocol state other than keys: which devices have which sender key, LIDs, device lists, groups, tokens, messages to
//! send again, and messages to report again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use wacore::store::error::Result;
use wacore::store::traits::{
    DeviceListRecord, LidPnMappingEntry, PendingInboundKey, PendingInboundRow, ProtocolStore, TcTokenEntry,
};
use wacore::types::jid::JidExt;
use wacore::types::lid_pn::LearningSource;
use wacore_binary::Jid;

use super::{Backend, dated, now, undated};
use crate::failpoint::{Point, reach};
use crate::state::keys;
use crate::state::log::{Class, Write};
use crate::telemetry::{self, Asker};

/// The largest group metadata that is stored, in bytes; larger ones are queried each time.
const LARGEST_GROUP: usize = 32 << 10;

/// Bounds of messages that are kept for resending: bytes of one, number, total bytes, and age in seconds.
const LARGEST_SENT: usize = 64 << 10;
const MOST_SENT: usize = 1_024;
const MOST_SENT_BYTES: usize = 1 << 20;
const SENT_KEPT: i64 = 7 * 86_400;

/// Bytes of such messages that may come in between two sweeps of the library, which are minutes apart.
const MOST_UNSWEPT: usize = 4 << 20;

/// A message that waits to be reported again is split into rows of this size, in bytes. A message above
/// [`LARGEST_PENDING`] is not kept: it is lost if its owner dies between decrypting and committing it.
const PENDING_PIECE: usize = 128 << 10;
const LARGEST_PENDING: usize = 1 << 20;

/// How long a message waits to be reported again, in seconds. The library's seven days are less than a channel may be
/// away.
const PENDING_KEPT: i64 = 30 * 86_400;

/// A device number that nobody has. It marks a person who may have a group's key, on whichever device.
const NOBODYS_DEVICE: u16 = u16::MAX;

/// A row with some devices of a group: which of them have the sender key. Valid for these generations only.
#[derive(Default, Serialize, Deserialize)]
struct GroupDevices {
    all: u32,
    group: u32,
    devices: BTreeMap<String, bool>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    jid: String,
    entry: TcTokenEntry,
}

impl Backend {
    fn generations(&self, group: &str) -> Result<(u32, u32)> {
        let all = self.read(keys::ALL_GROUPS)?.unwrap_or_default();
        Ok((all, self.read(&keys::group_generation(group))?.unwrap_or_default()))
    }

    /// A row of a group's devices; empty if the stored one is of an older generation.
    fn group_row(&self, name: &str, (all, group): (u32, u32)) -> Result<GroupDevices> {
        let row = self.read::<GroupDevices>(name)?.filter(|row| (row.all, row.group) == (all, group));
        Ok(row.unwrap_or(GroupDevices { all, group, devices: BTreeMap::new() }))
    }

    /// The other name of a device, by LID or number, if it is known.
    fn other_name(&self, device: &Jid) -> Result<Option<Jid>> {
        let row = if device.is_pn() {
            keys::phone(&device.user)
        } else if device.is_lid() {
            keys::lid(&device.user)
        } else {
            return Ok(None);
        };
        let pair: Option<LidPnMappingEntry> = self.read(&row)?;
        Ok(pair.map(|pair| {
            if device.is_pn() {
                Jid::lid_device(pair.lid, device.device)
            } else {
                Jid::pn_device(pair.phone_number, device.device)
            }
        }))
    }

    /// Whether a session with a device exists. The library names a session by the device's JID, followed by a number
    /// that is always 0, and by its LID if known; groups may name their members by number.
    fn has_session_with(&self, device: &str) -> Result<bool> {
        let Ok(jid) = device.parse::<Jid>() else { return Ok(false) };
        let has = |jid: &Jid| self.log.has(&keys::session(&jid.to_protocol_address_string()));
        if has(&jid) {
            return Ok(true);
        }
        let other = if jid.is_pn() { self.other_name(&jid)? } else { None };
        Ok(other.is_some_and(|other| has(&other)))
    }

    /// The number of the last key distribution to a device.
    pub fn told_so_far(&self) -> u64 {
        self.told.lock().last
    }

    /// Confirms the key distributions of a group up to `until`: the network has a message to it that left after those.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn confirm_sender_keys(&self, group: &str, until: u64) -> Result<()> {
        let mut have = Vec::new();
        if let Some(devices) = self.told.lock().groups.get_mut(group) {
            devices.retain(|device, told| {
                let has_it = *told <= until;
                if has_it {
                    have.push(device.clone());
                }
                !has_it
            });
        }
        self.note_sender_keys(Class::Lazy, group, have.iter().map(String::as_str), true)
    }

    /// Whether a message may have left before, from this owner or a former one: a message is kept from then on.
    pub fn may_have_left(&self, chat: &str, id: &str) -> bool {
        self.log.has(&keys::sent(chat, id))
    }

    /// Drops a group's unconfirmed key distributions. The network ignores a second message with an id that it has had,
    /// so the last message may have carried the key to nobody.
    pub fn doubt_sender_keys(&self, group: &str) {
        self.told.lock().groups.remove(group);
    }

    /// Records for devices whether they have a group's key. Unchanged rows are not written.
    fn note_sender_keys<'a>(
        &self,
        class: Class,
        group: &str,
        devices: impl IntoIterator<Item = &'a str>,
        has_key: bool,
    ) -> Result<()> {
        let generations = self.generations(group)?;
        let mut rows: BTreeMap<String, (GroupDevices, bool)> = BTreeMap::new();
        for device in devices {
            let name = keys::group_devices(group, device);
            if !rows.contains_key(&name) {
                rows.insert(name.clone(), (self.group_row(&name, generations)?, false));
            }
            if let Some((row, is_news)) = rows.get_mut(&name) {
                *is_news |= row.devices.insert(device.to_owned(), has_key) != Some(has_key);
            }
        }
        let mut told = rows.into_iter().filter(|(_, (_, is_news))| *is_news);
        told.try_for_each(|(name, (row, _))| self.write(class, name, &row))
    }

    /// Stores the pair of names that a message brought. For an offline message, the library keeps the pair only in
    /// memory, while the session that the message began is stored under its LID. The next owner would begin another
    /// session under the phone's number, which would replace the first one when the pair is learned, and could not read
    /// what was written in that.
    ///
    /// # Errors
    /// The log is poisoned.
    pub async fn learn_pair(&self, sender: &Jid, alternative: Option<&Jid>) -> Result<()> {
        let (lid, phone, source) = match alternative {
            Some(phone) if sender.is_lid() && phone.is_pn() => (sender, phone, LearningSource::PeerLidMessage),
            Some(lid) if sender.is_pn() && lid.is_lid() => (lid, sender, LearningSource::PeerPnMessage),
            _ => return Ok(()),
        };
        let known = self.get_lid_mapping(&lid.user).await?;
        if known.is_some_and(|known| known.phone_number == phone.user.as_str()) {
            return Ok(());
        }
        let at = now();
        let entry = LidPnMappingEntry {
            lid: lid.user.to_string(),
            phone_number: phone.user.to_string(),
            created_at: at,
            updated_at: at,
            learning_source: source.as_str().to_owned(),
        };
        self.put_lid_mapping(&entry).await
    }

    /// The writes of a waiting message, and the deletes of further pieces of a longer one with its name.
    fn pending(&self, name: String, at: i64, message: &[u8]) -> Vec<Write> {
        if message.len() > LARGEST_PENDING {
            return self.not_pending(name);
        }
        let (first, rest) = message.split_at(message.len().min(PENDING_PIECE));
        let mut writes = vec![Write::put(name.clone(), dated(at, first))];
        for (before, piece) in rest.chunks(PENDING_PIECE).enumerate() {
            writes.push(Write::put(keys::pending_piece(&name, before + 1), dated(at, piece)));
        }
        let longer = self.pending_pieces(&name, writes.len());
        writes.extend(longer.into_iter().map(Write::delete));
        writes
    }

    fn not_pending(&self, name: String) -> Vec<Write> {
        let pieces = self.pending_pieces(&name, 1);
        std::iter::once(name).chain(pieces).map(Write::delete).collect()
    }

    /// The names of a message's stored pieces, from number `from` on.
    fn pending_pieces(&self, name: &str, from: usize) -> Vec<String> {
        let names = (from..).map(|piece| keys::pending_piece(name, piece));
        names.take_while(|piece| self.log.has(piece)).collect()
    }

    fn tokens(&self) -> Result<Vec<Token>> {
        let names = self.log.names(keys::TOKENS);
        names.iter().filter_map(|name| self.read(name).transpose()).collect()
    }

    fn put_token(&self, class: Class, jid: &str, entry: TcTokenEntry) -> Result<()> {
        self.write(class, keys::token(jid), &Token { jid: jid.to_owned(), entry })
    }

    fn token(&self, jid: &str) -> Result<Option<TcTokenEntry>> {
        Ok(self.read::<Token>(&keys::token(jid))?.map(|token| token.entry))
    }

    /// Deletes the rows under a prefix that were written before `cutoff`.
    fn delete_older(&self, prefix: &str, cutoff: i64) -> Result<u32> {
        let mut old = Vec::new();
        for name in self.log.names(prefix) {
            if let Some(row) = self.get(&name)?
                && undated(&row)?.0 < cutoff
            {
                old.push(name);
            }
        }
        self.delete_all(Class::Lazy, old)
    }

    /// Deletes the oldest messages kept for resending, if there are too many or they are too large.
    fn bound_sent(&self) -> Result<u32> {
        self.sent.store(0, Ordering::Relaxed);
        let mut rows = Vec::new();
        for name in self.log.names(keys::SENT) {
            if let Some(row) = self.get(&name)? {
                rows.push((undated(&row)?.0, row.len(), name));
            }
        }
        rows.sort_by_key(|(at, _, _)| std::cmp::Reverse(*at));
        let mut bytes = 0;
        let goes = rows.into_iter().enumerate().filter(|(place, (_, size, _))| {
            bytes += size;
            *place >= MOST_SENT || bytes > MOST_SENT_BYTES
        });
        self.delete_all(Class::Lazy, goes.map(|(_, (_, _, name))| name).collect())
    }
}

#[async_trait]
impl ProtocolStore for Backend {
    async fn get_sender_key_devices(&self, group_jid: &str) -> Result<Vec<(String, bool)>> {
        let generations = self.generations(group_jid)?;
        let mut devices = Vec::new();
        for name in self.log.names(&format!("{}/", keys::group_generation(group_jid))) {
            devices.extend(self.group_row(&name, generations)?.devices);
        }
        Ok(devices)
    }

    /// A device without a session cannot have got the key, whatever the library believes, and a device that was sent
    /// the key has it only when the network has the message: neither is marked as a holder here. A device that lost the
    /// key lost it under both of its names: it asks by its LID, and the group may name it by its number.
    async fn set_sender_key_status(&self, group_jid: &str, entries: &[(&str, bool)]) -> Result<()> {
        let (mut forgotten, mut holders) = (Vec::new(), BTreeSet::new());
        for &(device, has_key) in entries {
            if !has_key {
                let other = device.parse::<Jid>().ok().map(|jid| self.other_name(&jid)).transpose()?.flatten();
                forgotten.push(device.to_owned());
                forgotten.extend(other.map(|other| other.to_string()));
            } else if self.has_session_with(device)? {
                reach(Point::SenderKeySent);
                let mut told = self.told.lock();
                told.last += 1;
                let at = told.last;
                told.groups.entry(group_jid.to_owned()).or_default().insert(device.to_owned(), at);
                let person = device.parse::<Jid>().ok().map(|jid| Jid { device: NOBODYS_DEVICE, ..jid });
                holders.extend(person.map(|person| person.to_string()));
            }
        }
        // This is durable before anything else leaves, whether and to whom the message's acceptance is reported: the
        // library changes the key when a holder leaves the group.
        self.note_sender_keys(Class::Wire, group_jid, holders.iter().map(String::as_str), true)?;
        if let Some(devices) = self.told.lock().groups.get_mut(group_jid) {
            devices.retain(|device, _| !forgotten.contains(device));
        }
        self.note_sender_keys(Class::Wire, group_jid, forgotten.iter().map(String::as_str), false)
    }

    async fn clear_sender_key_devices(&self, group_jid: &str) -> Result<()> {
        self.told.lock().groups.remove(group_jid);
        let (_, group) = self.generations(group_jid)?;
        self.write(Class::Wire, keys::group_generation(group_jid), &(group + 1))
    }

    async fn delete_sender_key_device_rows(&self, device_jids: &[&str]) -> Result<()> {
        for devices in self.told.lock().groups.values_mut() {
            devices.retain(|device, _| !device_jids.contains(&device.as_str()));
        }
        for name in self.log.names(keys::GROUP_DEVICES) {
            if !keys::is_group_generation(&name)
                && let Some(mut row) = self.read::<GroupDevices>(&name)?
            {
                let before = row.devices.len();
                row.devices.retain(|device, _| !device_jids.contains(&device.as_str()));
                if row.devices.len() < before {
                    self.write(Class::Wire, name, &row)?;
                }
            }
        }
        Ok(())
    }

    async fn clear_all_sender_key_devices(&self) -> Result<()> {
        self.told.lock().groups.clear();
        let all: u32 = self.read(keys::ALL_GROUPS)?.unwrap_or_default();
        self.write(Class::Wire, keys::ALL_GROUPS.to_owned(), &(all + 1))
    }

    async fn get_lid_mapping(&self, lid: &str) -> Result<Option<LidPnMappingEntry>> {
        self.read(&keys::lid(lid))
    }

    async fn get_pn_mapping(&self, phone: &str) -> Result<Option<LidPnMappingEntry>> {
        self.read(&keys::phone(phone))
    }

    /// The wire waits for it: a session's address depends on it.
    async fn put_lid_mapping(&self, entry: &LidPnMappingEntry) -> Result<()> {
        let known: Option<LidPnMappingEntry> = self.read(&keys::lid(&entry.lid))?;
        self.write(Class::Wire, keys::lid(&entry.lid), entry)?;
        self.write(Class::Wire, keys::phone(&entry.phone_number), entry)?;
        let is_new = known.is_none_or(|known| known.phone_number != entry.phone_number);
        if is_new && !self.is_own(&entry.lid) {
            (self.on_pair)(entry);
        }
        Ok(())
    }

    async fn put_lid_mappings(&self, entries: &[LidPnMappingEntry]) -> Result<()> {
        for entry in entries {
            self.put_lid_mapping(entry).await?;
        }
        Ok(())
    }

    async fn get_all_lid_mappings(&self) -> Result<Vec<LidPnMappingEntry>> {
        self.check();
        self.log.names(keys::LIDS).iter().filter_map(|name| self.read(name).transpose()).collect()
    }

    async fn save_base_key(&self, address: &str, message_id: &str, base_key: &[u8]) -> Result<()> {
        self.put(Class::Lazy, keys::base_key(address, message_id), base_key)
    }

    async fn has_same_base_key(&self, address: &str, message_id: &str, current_base_key: &[u8]) -> Result<bool> {
        let saved = self.get(&keys::base_key(address, message_id))?;
        Ok(saved.is_some_and(|saved| saved == current_base_key))
    }

    async fn delete_base_key(&self, address: &str, message_id: &str) -> Result<()> {
        self.delete(Class::Lazy, keys::base_key(address, message_id))
    }

    /// The wire waits for it: the network announces a new device only once.
    async fn update_device_list(&self, record: DeviceListRecord) -> Result<()> {
        self.write(Class::Wire, keys::devices(&record.user), &record)
    }

    async fn update_device_lists(&self, records: Vec<DeviceListRecord>) -> Result<()> {
        records.iter().try_for_each(|record| self.write(Class::Wire, keys::devices(&record.user), record))
    }

    async fn get_devices(&self, user: &str) -> Result<Option<DeviceListRecord>> {
        self.read(&keys::devices(user))
    }

    /// The wire waits for it: the delete follows a change of an identity.
    async fn delete_devices(&self, user: &str) -> Result<()> {
        self.delete(Class::Wire, keys::devices(user))
    }

    async fn get_group_metadata(&self, group_jid: &str) -> Result<Option<Vec<u8>>> {
        self.get(&keys::group(group_jid))
    }

    /// The wire waits for it: the network reports only once who came and who left.
    async fn put_group_metadata(&self, group_jid: &str, blob: &[u8]) -> Result<()> {
        if blob.len() > LARGEST_GROUP {
            // The stored metadata is outdated.
            return self.delete(Class::Wire, keys::group(group_jid));
        }
        self.put(Class::Wire, keys::group(group_jid), blob)
    }

    async fn delete_group_metadata(&self, group_jid: &str) -> Result<()> {
        self.delete(Class::Wire, keys::group(group_jid))
    }

    async fn get_tc_token(&self, jid: &str) -> Result<Option<TcTokenEntry>> {
        self.token(jid)
    }

    async fn put_tc_token(&self, jid: &str, entry: &TcTokenEntry) -> Result<()> {
        self.put_token(Class::Lazy, jid, entry.clone())
    }

    async fn delete_tc_token(&self, jid: &str) -> Result<()> {
        self.delete(Class::Lazy, keys::token(jid))
    }

    async fn get_all_tc_token_jids(&self) -> Result<Vec<String>> {
        self.check();
        Ok(self.tokens()?.into_iter().map(|token| token.jid).collect())
    }

    async fn delete_expired_tc_tokens(&self, token_cutoff: i64, sender_cutoff: i64) -> Result<u32> {
        let is_over = |entry: &TcTokenEntry| {
            (entry.token.is_empty() || entry.token_timestamp < token_cutoff)
                && entry.sender_timestamp.is_none_or(|at| at < sender_cutoff)
        };
        let over = self.tokens()?.into_iter().filter(|token| is_over(&token.entry));
        self.delete_all(Class::Lazy, over.map(|token| keys::token(&token.jid)).collect())
    }

    async fn touch_tc_token_sender_timestamp(&self, jid: &str, sender_timestamp: i64) -> Result<()> {
        let entry = match self.token(jid)? {
            Some(known) => {
                let latest = known.sender_timestamp.map_or(sender_timestamp, |at| at.max(sender_timestamp));
                TcTokenEntry { sender_timestamp: Some(latest), ..known }
            }
            None => TcTokenEntry {
                token: Vec::new(),
                token_timestamp: sender_timestamp,
                sender_timestamp: Some(sender_timestamp),
            },
        };
        self.put_token(Class::Lazy, jid, entry)
    }

    async fn store_received_tc_token(&self, jid: &str, token: &[u8], token_timestamp: i64) -> Result<()> {
        let known = self.token(jid)?;
        let is_stale = |known: &TcTokenEntry| !known.token.is_empty() && token_timestamp < known.token_timestamp;
        if known.as_ref().is_some_and(is_stale) {
            return Ok(());
        }
        let sender_timestamp = known.and_then(|known| known.sender_timestamp);
        let entry = TcTokenEntry { token: token.to_vec(), token_timestamp, sender_timestamp };
        self.put_token(Class::Wire, jid, entry)
    }

    /// The wire waits for it: a device that cannot read the message may ask the next owner.
    async fn store_sent_message(&self, chat_jid: &str, message_id: &str, payload: &[u8]) -> Result<()> {
        if payload.len() > LARGEST_SENT {
            return Ok(());
        }
        let row = dated(now(), payload);
        let unswept = self.sent.fetch_add(row.len(), Ordering::Relaxed) + row.len();
        self.put(Class::Wire, keys::sent(chat_jid, message_id), row)?;
        if unswept > MOST_UNSWEPT {
            self.bound_sent()?;
        }
        Ok(())
    }

    /// The message stays: two devices may ask for it, and a crash before the resend must not lose it.
    async fn take_sent_message(&self, chat_jid: &str, message_id: &str) -> Result<Option<Vec<u8>>> {
        let Some(row) = self.get(&keys::sent(chat_jid, message_id))? else { return Ok(None) };
        telemetry::asked_again(Asker::Peer);
        Ok(Some(undated(&row)?.1.to_vec()))
    }

    async fn delete_expired_sent_messages(&self, cutoff_timestamp: i64) -> Result<u32> {
        let old = self.delete_older(keys::SENT, cutoff_timestamp.min(now() - SENT_KEPT))?;
        Ok(old + self.bound_sent()?)
    }

    async fn store_pending_inbound(&self, chat: &str, sender: &str, id: &str, message: &[u8]) -> Result<()> {
        self.append(Class::Wire, self.pending(keys::pending(chat, sender, id), now(), message))
    }

    async fn get_pending_inbound(&self, chat: &str, sender: &str, id: &str) -> Result<Option<Vec<u8>>> {
        let name = keys::pending(chat, sender, id);
        let Some(first) = self.get(&name)? else { return Ok(None) };
        let mut message = undated(&first)?.1.to_vec();
        for piece in self.pending_pieces(&name, 1) {
            if let Some(row) = self.get(&piece)? {
                message.extend_from_slice(undated(&row)?.1);
            }
        }
        Ok(Some(message))
    }

    async fn delete_pending_inbound(&self, chat: &str, sender: &str, id: &str) -> Result<()> {
        self.append(Class::Wire, self.not_pending(keys::pending(chat, sender, id)))
    }

    async fn delete_expired_pending_inbound(&self, cutoff_timestamp: i64) -> Result<u32> {
        self.delete_older(keys::PENDING, cutoff_timestamp.min(now() - PENDING_KEPT))
    }

    async fn store_pending_inbound_batch(&self, rows: &[PendingInboundRow<'_>]) -> Result<()> {
        let at = now();
        rows.iter().try_for_each(|row| {
            self.append(Class::Wire, self.pending(keys::pending(row.chat, row.sender, row.id), at, row.message))
        })
    }

    async fn delete_pending_inbound_batch(&self, keys: &[PendingInboundKey<'_>]) -> Result<()> {
        keys.iter()
            .try_for_each(|key| self.append(Class::Wire, self.not_pending(keys::pending(key.chat, key.sender, key.id))))
    }
}
