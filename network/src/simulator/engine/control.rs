//! Requests of the control API: phones, their actions, lists, faults.

use model::address::Address;
use model::time::Timestamp;

use super::sessions::{FOREIGN_NODE, LoginRecord};
use super::subscriber::{Ban, Kept, Standing, Subscriber};
use super::{ControlError, Engine, Holder, LoginEnd, SessionId};
use crate::driver::EndReason;
use crate::simulator::answers::{
    AcceptedRow, ChannelSession, LedgerQuery, List, LoginRow, LoginsQuery, Phone, PhoneDevice, PhoneSettings,
    PresenceRow, SessionRow, SessionsQuery, Stats, page_size,
};
use crate::simulator::faults::{Faults, FaultsChange};
use crate::simulator::number::Number;

/// Maximum number of subscribers registered at once; more is most likely a typo.
const MAX_BULK: u64 = 1_000_000;

impl Engine {
    /// Registers or updates a phone; returns whether it is new.
    pub fn register(&mut self, now: Timestamp, number: Number, settings: &PhoneSettings) -> (Phone, bool) {
        self.advance(now);
        let new = self.put(number, settings);
        let phone = self.subscribers.get(&number).map(|subscriber| self.show(subscriber));
        (phone.expect("a phone exists once it is put"), new)
    }

    fn put(&mut self, number: Number, settings: &PhoneSettings) -> bool {
        let known = self.subscribers.len();
        let subscriber = self.subscribers.put(number);
        let was_business = subscriber.business;
        subscriber.set(settings);
        let turned = subscriber.business != was_business;
        if subscriber.online {
            for (message, copies) in std::mem::take(&mut subscriber.waiting) {
                self.take_in(message, copies, number);
            }
        }
        if turned {
            self.tell_business_account(number);
        }
        self.subscribers.len() > known
    }

    /// Registers `count` phones with consecutive numbers from `first` on.
    ///
    /// # Errors
    /// Too many phones, or numbers that become too long.
    pub fn register_many(
        &mut self,
        now: Timestamp,
        first: Number,
        count: u64,
        settings: &PhoneSettings,
    ) -> Result<(), ControlError> {
        self.advance(now);
        if count > MAX_BULK {
            return Err(ControlError::Invalid(format!("count must be at most {MAX_BULK}")));
        }
        if first.plus(count).is_none() {
            return Err(ControlError::Invalid("the last number would have more than 15 digits".into()));
        }
        for number in (0..count).filter_map(|offset| first.plus(offset)) {
            self.put(number, settings);
        }
        Ok(())
    }

    pub fn phone(&self, number: Number) -> Result<Phone, ControlError> {
        self.subscriber(number).map(|subscriber| self.show(subscriber))
    }

    /// Deletes a phone; the credentials of its devices become invalid.
    pub fn delete_phone(&mut self, now: Timestamp, number: Number) -> Result<(), ControlError> {
        self.advance(now);
        self.retire_all(number, Standing::Invalidated)?;
        self.subscribers.remove(&number);
        self.groups.remove_number(number);
        self.newsletters.remove_number(number);
        self.businesses.remove_number(number);
        Ok(())
    }

    /// Unlinks one device, or all if `device` is `None`.
    pub fn unlink(&mut self, now: Timestamp, number: Number, device: Option<u32>) -> Result<(), ControlError> {
        self.advance(now);
        match device {
            None => self.retire_all(number, Standing::Unlinked),
            Some(id) => {
                self.subscriber_mut(number)?
                    .linked_mut(id)
                    .ok_or_else(|| ControlError::NotFound(format!("{number} has no linked device {id}")))?;
                self.retire(number, id, Standing::Unlinked);
                Ok(())
            }
        }
    }

    /// Invalidates the credentials of all devices.
    pub fn invalidate(&mut self, now: Timestamp, number: Number) -> Result<(), ControlError> {
        self.advance(now);
        self.retire_all(number, Standing::Invalidated)
    }

    fn retire_all(&mut self, number: Number, standing: Standing) -> Result<(), ControlError> {
        self.subscriber(number)?;
        for device in self.subscribers.linked_devices(number) {
            self.retire(number, device, standing);
        }
        Ok(())
    }

    pub fn ban(&mut self, now: Timestamp, number: Number, until: Option<Timestamp>) -> Result<(), ControlError> {
        self.advance(now);
        let subscriber = self.subscriber_mut(number)?;
        subscriber.ban = Some(Ban { until });
        let live: Vec<_> = subscriber.linked().filter_map(|device| device.live).collect();
        for session in live {
            self.dismiss(session, EndReason::Banned { until });
        }
        Ok(())
    }

    /// Logs in a foreign copy of a linked device and ends it at once: the live session, if any, ends in a conflict.
    pub fn replace(&mut self, now: Timestamp, number: Number) -> Result<(), ControlError> {
        let device = self.acting(now, number)?.linked().max_by_key(|device| device.live.is_some());
        let device = device.ok_or_else(|| ControlError::Invalid(format!("{number} has no linked device")))?;
        let (device, live) = (device.id, device.live);
        let epoch = live.and_then(|live| self.session(live)).map_or(0, |session| session.epoch);
        if let Some(live) = live {
            self.displace(live, false);
        }
        let login = self.record_login(number, device, Holder { node: FOREIGN_NODE, epoch });
        if let Some(record) = self.logins.get_mut(login) {
            record.end = Some((now, LoginEnd::Closed));
        }
        Ok(())
    }

    /// Discloses the phone address behind a LID to another number's channels, once.
    pub fn disclose(&mut self, now: Timestamp, number: Number, to: &str) -> Result<(), ControlError> {
        self.acting(now, number)?;
        let to = self.parse_peer(to)?;
        let recipient =
            self.subscribers.get_mut(&to).ok_or_else(|| ControlError::Invalid(format!("{to} is not registered")))?;
        if recipient.disclosed.insert(number) {
            for device in self.subscribers.linked_devices(to) {
                self.keep(to, device, Kept::LidDisclosed { number, at: now });
            }
        }
        Ok(())
    }

    /// Presences that others showed in chats with a phone, newest first.
    pub fn presences(&self, number: Number) -> Result<List<PresenceRow>, ControlError> {
        let data: Vec<_> = self.subscriber(number)?.presences.iter().cloned().collect();
        Ok(List { total: data.len(), data })
    }

    pub fn sessions(&self, query: &SessionsQuery) -> Result<List<SessionRow>, ControlError> {
        let only = query.number.as_deref().map(|number| self.parse_peer(number)).transpose()?;
        let chosen = self.subscribers.values().filter(|s| only.is_none_or(|only| only == s.number));
        let live = chosen.flat_map(|s| s.devices.iter()).filter_map(|device| {
            let session = device.live?;
            Some((self.live(session)?.login, session))
        });
        let mut logins: Vec<(usize, SessionId)> = live.collect();
        let total = logins.len();
        logins.sort_unstable();
        logins.truncate(page_size(query.limit));
        let rows = logins.into_iter().filter_map(|(login, session)| {
            let record = self.logins.get(login)?;
            Some(SessionRow {
                number: record.number.to_string(),
                device: record.device,
                node: record.node,
                epoch: record.epoch,
                login_seq: login as u64 + 1,
                since: record.at,
                proxy: self.links.get(&session.connection)?.proxies.get(&session.number).cloned(),
            })
        });
        Ok(List { data: rows.collect(), total })
    }

    pub fn logins(&self, query: &LoginsQuery) -> Result<List<LoginRow>, ControlError> {
        let only = query.number.as_deref().map(|number| self.parse_peer(number)).transpose()?;
        let since = query.since.as_deref().map(Since::parse).transpose()?;
        let rows = (1_u64..).zip(&self.logins);
        let chosen = rows.filter(|(seq, record)| {
            only.is_none_or(|only| only == record.number) && since.is_none_or(|since| since.lets_through(*seq, record))
        });
        let chosen: Vec<_> = chosen.collect();
        let shown = chosen.iter().take(page_size(query.limit)).map(|(login_seq, record)| LoginRow {
            login_seq: *login_seq,
            number: record.number.to_string(),
            node: record.node,
            epoch: record.epoch,
            at: record.at,
            ended_at: record.end.map(|(at, _)| at),
            end: record.end.map(|(_, end)| end),
        });
        Ok(List { data: shown.collect(), total: chosen.len() })
    }

    pub fn stats(&self) -> Stats {
        self.stats
    }

    pub fn accepted(&self, query: &LedgerQuery) -> List<AcceptedRow> {
        let rows = self.ledger.rows(query.since_seq.unwrap_or(0), page_size(query.limit), &self.suffixes);
        List { data: rows, total: self.ledger.len() }
    }

    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Changes faults; omitted fields keep their value.
    pub fn change_faults(&mut self, now: Timestamp, change: FaultsChange) -> Result<Faults, ControlError> {
        self.advance(now);
        let next = self.faults.changed(change).map_err(ControlError::Invalid)?;
        Ok(self.set_faults(next))
    }

    pub fn clear_faults(&mut self, now: Timestamp) -> Faults {
        self.advance(now);
        self.set_faults(Faults::none(self.base_time_scale))
    }

    fn set_faults(&mut self, next: Faults) -> Faults {
        let released = self.faults.hold_inbound_acks && !next.hold_inbound_acks;
        self.faults = next;
        let nodes = self.faults.cut_node.clone();
        self.cut(|link| nodes.contains(&link.node));
        if released {
            self.release_acknowledgements();
        }
        self.faults.clone()
    }

    fn release_acknowledgements(&mut self) {
        let mut live = Vec::new();
        for subscriber in self.subscribers.values() {
            let devices = subscriber.devices.iter().filter(|device| device.live.is_some());
            live.extend(devices.map(|device| (subscriber.number, device.id)));
        }
        // In a deterministic order.
        live.sort_unstable();
        for (number, device) in live {
            if let Some(device) = self.subscribers.device_mut(number, device) {
                device.mailbox.release();
            }
            self.pump(number, device);
        }
    }

    /// Removes all state. Nodes are disconnected and find, when they return, that their credentials are unknown.
    pub fn reset(&mut self, now: Timestamp) {
        self.cut(|_| true);
        let fresh = Self::new(Default::default(), self.control_url.clone(), self.base_time_scale);
        let Self { rng, item_tag, items, links, qr_texts, pair_codes, effects, .. } = std::mem::replace(self, fresh);
        (self.now, self.rng, self.item_tag, self.items, self.effects) = (now, rng, item_tag, items, effects);
        (self.links, self.qr_texts, self.pair_codes) = (links, qr_texts, pair_codes);
    }

    /// The subscriber of a phone that is about to act. Runs due timers first.
    pub(super) fn acting(&mut self, now: Timestamp, number: Number) -> Result<&Subscriber, ControlError> {
        self.advance(now);
        self.subscriber(number)
    }

    pub(super) fn subscriber(&self, number: Number) -> Result<&Subscriber, ControlError> {
        self.subscribers.get(&number).ok_or_else(|| unknown(number))
    }

    pub(super) fn subscriber_mut(&mut self, number: Number) -> Result<&mut Subscriber, ControlError> {
        self.subscribers.get_mut(&number).ok_or_else(|| unknown(number))
    }

    pub(in crate::simulator) fn parse_address(&self, text: &str) -> Result<Address, ControlError> {
        Address::parse_or_digits(text, &self.suffixes)
            .map_err(|_| ControlError::Invalid(format!("{text:?} is neither a number nor an address")))
    }

    /// A subscriber, given by its number, phone address or LID.
    pub(super) fn parse_peer(&self, text: &str) -> Result<Number, ControlError> {
        let address = self.parse_address(text)?;
        Number::of_address(&address, &self.suffixes)
            .ok_or_else(|| ControlError::Invalid(format!("{text:?} names no subscriber")))
    }

    fn show(&self, subscriber: &Subscriber) -> Phone {
        let devices = subscriber.linked().map(|device| PhoneDevice {
            id: device.id,
            name: device.link_as.name.clone(),
            full_history: device.link_as.full_history,
            linked_at: device.linked_at,
            channel_session: (device.live.and_then(|session| self.logins.get(self.live(session)?.login)))
                .map(|record| ChannelSession { node: record.node, epoch: record.epoch, since: record.at }),
        });
        Phone {
            number: subscriber.number.to_string(),
            name: subscriber.name.as_deref().map(str::to_owned),
            online: subscriber.online,
            read_receipts: subscriber.read_receipts,
            business: subscriber.business,
            hide_number: subscriber.hide_number,
            auto_read_ms: subscriber.auto_read_ms,
            banned: subscriber.ban.is_some(),
            lid: subscriber.number.lid(),
            address: self.suffixes.phone_address(&subscriber.number.to_string()),
            presence: subscriber.presence,
            devices: devices.collect(),
        }
    }
}

fn unknown(number: Number) -> ControlError {
    ControlError::NotFound(format!("{number} is not registered"))
}

/// The start of a list of logins.
#[derive(Clone, Copy, Debug)]
enum Since {
    Time(Timestamp),
    Seq(u64),
}

impl Since {
    fn parse(text: &str) -> Result<Self, ControlError> {
        let seq = text.parse().ok().map(Self::Seq);
        seq.or_else(|| Timestamp::parse_iso(text).map(Self::Time))
            .ok_or_else(|| ControlError::Invalid("since must be an ISO 8601 time or a login_seq".into()))
    }

    fn lets_through(self, seq: u64, record: &LoginRecord) -> bool {
        match self {
            Self::Time(time) => record.at >= time,
            Self::Seq(last) => seq > last,
        }
    }
}
