//! Calls of the control API, with parsed arguments; [`http`] serves them.

mod groups;
pub(crate) mod http;

use std::collections::BTreeMap;

use model::id::MessageId;
use model::presence::Presence;
use model::time::Timestamp;
use network::simulator::answers::writing::GivenKey;
use network::simulator::answers::{
    ChannelSession, ControlError, InboxQuery, InboxRow, List, LoginEnd, Phone, PhoneDevice, PhoneMessage,
    PhoneSettings, RegisterPhone, RegisterPhones, SessionRow, SessionsQuery, Stats,
};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use wacore_binary::{Jid, JidExt};

use crate::account::{Account, Ban, Failure, unknown};
use crate::faults::{Faults, FaultsChange};
use crate::ledger::limit;
use crate::login::Phase;
use crate::number::{DeviceAddress, Number};
use crate::pairing::{CodeWrap, LinkOutcome};
use crate::phone::behave::mint_id;
use crate::phone::content::{compose, reaction, target_key};
use crate::phone::{Chat, ReceiptRow};
use crate::route::Receipt;
use crate::state::State;

/// Maximum number of messages per call.
const MAX_COUNT: u32 = 100_000;

/// Maximum number of phones.
const MAX_PHONES: usize = 1_000_000;

/// Reason for a refused call.
#[derive(Debug)]
pub(crate) enum Refused {
    Control(ControlError),
    /// This network does not support the call yet.
    Unsupported(String),
}

impl From<ControlError> for Refused {
    fn from(error: ControlError) -> Self {
        Self::Control(error)
    }
}

pub(crate) fn invalid(text: impl Into<String>) -> Refused {
    Refused::Control(ControlError::Invalid(text.into()))
}

/// A row of `GET /devices/{n}`.
#[derive(Debug, Serialize)]
pub(crate) struct DeviceRow {
    id: u32,
    registration_id: u32,
    signed_prekey_id: u32,
    prekeys_left: usize,
    highest_prekey_id: u32,
    queue: usize,
    connected: bool,
    last_login_at: Option<Timestamp>,
    /// Number of Signal sessions of the phone.
    signal_sessions: usize,
    shows: BTreeMap<String, String>,
}

/// Body of `POST /devices/{n}/{device}/failure`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FailureBody {
    reason: u16,
    code: Option<u16>,
    expire_s: Option<u64>,
}

/// Parses a number of a path or body.
pub(crate) fn number(text: &str) -> Result<Number, Refused> {
    Number::of_text(text)
        .ok_or_else(|| invalid(format!("{text:?} is no number: 3 to 15 digits, the first not 0, or such an address")))
}

impl State {
    /// Registers or changes a phone; returns whether it is new.
    pub(crate) fn register(&mut self, body: &RegisterPhone) -> Result<(Phone, bool), Refused> {
        let number = number(&body.number)?;
        let is_new = !self.accounts.contains_key(&number);
        if is_new && self.accounts.len() == MAX_PHONES {
            return Err(invalid(format!("there are {MAX_PHONES} phones")));
        }
        self.set_up(number, &body.settings);
        Ok((self.phone(number)?, is_new))
    }

    pub(crate) fn register_many(&mut self, body: &RegisterPhones) -> Result<(), Refused> {
        let first = number(&body.first)?;
        let room = (MAX_PHONES - self.accounts.len()) as u64;
        if body.count > room || first.plus(body.count).is_none() {
            return Err(invalid(format!("count must be at most {room}, and all numbers have at most fifteen digits")));
        }
        for number in (0..body.count).filter_map(|offset| first.plus(offset)) {
            self.set_up(number, &body.settings);
        }
        Ok(())
    }

    fn set_up(&mut self, number: Number, settings: &PhoneSettings) {
        let account = self.accounts.entry(number).or_insert_with(Account::new);
        let renamed = settings.name.as_ref().filter(|name| account.name.as_ref() != Some(*name));
        account.name = settings.name.clone().or(account.name.take());
        account.online = settings.online.unwrap_or(account.online);
        account.read_receipts = settings.read_receipts.unwrap_or(account.read_receipts);
        account.business = settings.business.unwrap_or(account.business);
        account.hide_number = settings.hide_number.unwrap_or(account.hide_number);
        account.auto_read_ms = settings.auto_read_ms.unwrap_or(account.auto_read_ms);
        if let Some(name) = renamed {
            self.tell_of_name(number, name);
        }
        self.phone_wakes(number);
    }

    pub(crate) fn phone(&self, number: Number) -> Result<Phone, ControlError> {
        let account = self.account(number)?;
        let devices = account.devices.iter().map(|(id, device)| {
            let session = device.connection.and_then(|connection| self.connections.get(&connection));
            PhoneDevice {
                id: u32::from(*id),
                name: device.name.clone(),
                full_history: device.full_history,
                linked_at: device.linked_at,
                channel_session: session.map(|connection| ChannelSession {
                    node: connection.caller.node,
                    epoch: connection.caller.epoch,
                    since: connection.since,
                }),
            }
        });
        Ok(Phone {
            number: number.to_string(),
            name: account.name.clone(),
            online: account.online,
            read_receipts: account.read_receipts,
            business: account.business,
            hide_number: account.hide_number,
            auto_read_ms: account.auto_read_ms,
            banned: account.ban.is_some(),
            lid: number.lid_address(),
            address: number.address(),
            presence: Presence::Unavailable,
            devices: devices.collect(),
        })
    }

    pub(crate) fn delete_phone(&mut self, number: Number) -> Result<(), ControlError> {
        let devices: Vec<u16> = self.account(number)?.devices.keys().copied().collect();
        for device in devices {
            self.unlink_device(number.device(device));
        }
        self.accounts.remove(&number);
        Ok(())
    }

    /// Scans a QR text with a phone; the receiver gets the result.
    pub(crate) fn scan_text(&mut self, number: Number, raw: &str) -> Result<oneshot::Receiver<LinkOutcome>, Refused> {
        let (sender, outcome) = oneshot::channel();
        self.scan(number, raw, sender)?;
        Ok(outcome)
    }

    /// Types a code on a phone; the receiver gets the result.
    pub(crate) fn type_code(
        &mut self,
        number: Number,
        wrap: CodeWrap,
    ) -> Result<oneshot::Receiver<LinkOutcome>, Refused> {
        let (sender, outcome) = oneshot::channel();
        self.answer_code(number, wrap, sender)?;
        Ok(outcome)
    }

    /// Unlinks one device, or all.
    pub(crate) fn unlink(&mut self, number: Number, device: Option<u32>) -> Result<(), Refused> {
        let devices: Vec<u16> = match device {
            Some(device) => vec![device_id(device)?],
            None => self.account(number)?.devices.keys().copied().collect(),
        };
        let mut unlinked = false;
        for device in devices {
            unlinked |= self.unlink_device(number.device(device));
        }
        if unlinked { Ok(()) } else { Err(ControlError::NotFound(format!("{number} has no such device")).into()) }
    }

    pub(crate) fn ban(&mut self, number: Number, until: Option<Timestamp>) -> Result<(), ControlError> {
        self.account_mut(number)?.ban = Some(Ban { until });
        // Like the real network: the stream ends, and the next login gets the reason.
        for connection in self.connections_of(number) {
            self.end(connection, Some("503"), LoginEnd::Closed);
        }
        Ok(())
    }

    /// Forgets the keys of all linked devices.
    pub(crate) fn invalidate(&mut self, number: Number) -> Result<(), ControlError> {
        for device in self.account_mut(number)?.devices.values_mut() {
            device.wire_key = rand::random();
        }
        for connection in self.connections_of(number) {
            self.end(connection, Some("401"), LoginEnd::Closed);
        }
        Ok(())
    }

    /// Replaces the phone's live sessions by a foreign client, which disconnects at once.
    pub(crate) fn replace(&mut self, number: Number) -> Result<(), ControlError> {
        self.account(number)?;
        let live = self.connections_of(number);
        if live.is_empty() {
            return Err(ControlError::Invalid(format!("{number} has no live session")));
        }
        for connection in live {
            self.ledger.stats.conflicts += 1;
            self.end(connection, Some("409"), LoginEnd::Replaced);
        }
        Ok(())
    }

    fn connections_of(&self, number: Number) -> Vec<u64> {
        let devices = self.accounts.get(&number).map(|account| account.devices.values());
        devices.into_iter().flatten().filter_map(|device| device.connection).collect()
    }

    /// Sends messages from a phone; returns their ids.
    pub(crate) fn send(&mut self, from: Number, body: &PhoneMessage) -> Result<Vec<String>, Refused> {
        self.account(from)?;
        if !(1..=MAX_COUNT).contains(&body.count) {
            return Err(invalid(format!("count must be from 1 to {MAX_COUNT}")));
        }
        let to = match (&body.to, &body.message_key) {
            (Some(to), _) => chat(to)?,
            (None, Some(key)) => {
                let chat = self.account(from)?.phone.chat_of(&key.id.0);
                chat.ok_or_else(|| no_message(from, &key.id.0))?
            }
            (None, None) => return Err(invalid("to is missing")),
        };
        let mut ids = Vec::new();
        for _ in 0..body.count {
            let id = body.message_id.clone().map_or_else(mint_id, |id| id.0);
            let phone = &self.accounts.get(&from).ok_or_else(|| unknown(from))?.phone;
            let message = compose(from, phone, &mut self.files, &to, body)?;
            self.phone_writes(from, &to, &id, message)?;
            ids.push(id);
        }
        Ok(ids)
    }

    /// Reacts to a message of the phone's chats; an empty emoji removes the reaction.
    pub(crate) fn react(&mut self, number: Number, id: &str, emoji: &str) -> Result<(), Refused> {
        let phone = &self.account(number)?.phone;
        let chat = phone.chat_of(id).ok_or_else(|| no_message(number, id))?;
        let key = target_key(phone, &chat, &GivenKey { id: MessageId(id.to_owned()) })?;
        Ok(self.phone_writes(number, &chat, &mint_id(), reaction(key, emoji))?)
    }

    /// Plays a received audio or video message.
    pub(crate) fn play(&mut self, number: Number, id: &str) -> Result<(), Refused> {
        let item = self.account(number)?.phone.inbox.by_id(id).ok_or_else(|| no_message(number, id))?;
        let (to, naming, group) = (item.from, item.naming, item.group.clone());
        let (ids, group) = ([id.to_owned()], group.as_ref());
        self.receipt_of_phone(Receipt { from: number, naming, to, group, ids: &ids, kind: Some("played") });
        Ok(())
    }

    pub(crate) fn inbox(&self, number: Number, query: &InboxQuery) -> Result<List<InboxRow>, ControlError> {
        Ok(self.account(number)?.phone.inbox.rows(number, query))
    }

    pub(crate) fn receipts(&self, number: Number, id: Option<&str>) -> Result<List<ReceiptRow>, ControlError> {
        let data = self.account(number)?.phone.receipts(id);
        Ok(List { total: data.len(), data })
    }

    pub(crate) fn disclose(&mut self, number: Number, to: Number) -> Result<(), ControlError> {
        self.account_mut(number)?.disclosed.insert(to);
        Ok(())
    }

    pub(crate) fn sessions(&self, query: &SessionsQuery) -> List<SessionRow> {
        let mut rows: Vec<SessionRow> = self
            .connections
            .values()
            .filter_map(|connection| match connection.phase {
                Phase::LoggedIn { at, login_seq, .. } => Some(SessionRow {
                    number: at.number.to_string(),
                    device: u32::from(at.device),
                    node: connection.caller.node,
                    epoch: connection.caller.epoch,
                    login_seq,
                    since: connection.since,
                    proxy: None,
                }),
                _ => None,
            })
            .filter(|row| query.number.as_ref().is_none_or(|number| row.number == *number))
            .collect();
        rows.sort_by_key(|row| row.login_seq);
        let total = rows.len();
        rows.truncate(limit(query.limit));
        List { data: rows, total }
    }

    pub(crate) fn stats(&self) -> Stats {
        let live = self.connections.values().filter(|connection| matches!(connection.phase, Phase::LoggedIn { .. }));
        Stats { sessions: live.count() as u64, ..self.ledger.stats }
    }

    pub(crate) fn change_faults(&mut self, change: FaultsChange) -> Result<Faults, Refused> {
        self.faults = self.faults.changed(change).map_err(invalid)?;
        self.apply_faults();
        Ok(self.faults.clone())
    }

    pub(crate) fn clear_faults(&mut self) -> Faults {
        self.faults = Faults::none(self.faults.qr_time_scale);
        self.apply_faults();
        self.faults.clone()
    }

    fn apply_faults(&mut self) {
        self.cut_nodes();
        if !self.faults.hold_inbound_acks {
            self.release_acknowledgements();
        }
    }

    pub(crate) fn devices_of(&self, number: Number) -> Result<List<DeviceRow>, ControlError> {
        let account = self.account(number)?;
        let data: Vec<DeviceRow> = account
            .devices
            .iter()
            .map(|(id, device)| DeviceRow {
                id: u32::from(*id),
                registration_id: device.registration_id,
                signed_prekey_id: device.signed.id,
                prekeys_left: device.prekeys.len(),
                highest_prekey_id: device.offered.keys().copied().max().unwrap_or(0),
                queue: device.queue.len(),
                connected: device.connection.is_some(),
                last_login_at: device.last_login_at,
                signal_sessions: account.phone.session_count(),
                shows: device.shows.clone(),
            })
            .collect();
        Ok(List { total: data.len(), data })
    }

    /// Deletes a phone's Signal sessions with an account's devices.
    pub(crate) fn forget_session(&mut self, number: Number, with: Number) -> Result<(), ControlError> {
        let devices = self.account(with)?.device_ids();
        let phone = &mut self.account_mut(number)?.phone;
        for device in devices {
            phone.signal().forget(with.device(device));
            phone.forgotten.insert(with.device(device));
        }
        Ok(())
    }

    /// Damages the next messages of a phone to an account.
    pub(crate) fn corrupt(&mut self, number: Number, to: Number, count: u32) -> Result<(), ControlError> {
        self.account(to)?;
        self.account_mut(number)?.phone.damage.insert(to, count);
        Ok(())
    }

    pub(crate) fn device_named(&self, number: Number, device: &str) -> Result<DeviceAddress, Refused> {
        let at = device.parse().ok().map(|id| number.device(id)).filter(|at| self.device(*at).is_some());
        at.ok_or_else(|| ControlError::NotFound(format!("{number} has no device {device}")).into())
    }

    /// Ends the connection of a device, with a stream error or without one.
    pub(crate) fn cut_device(&mut self, at: DeviceAddress, code: Option<u16>) -> Result<(), Refused> {
        let connection = self.device(at).and_then(|device| device.connection);
        let connection = connection.ok_or_else(|| invalid(format!("{at} is not connected")))?;
        let code = code.map(|code| code.to_string());
        self.end(connection, code.as_deref(), if code.is_some() { LoginEnd::Closed } else { LoginEnd::Lost });
        Ok(())
    }

    pub(crate) fn fail_device(&mut self, at: DeviceAddress, failure: Option<FailureBody>) {
        if let Some(device) = self.device_mut(at) {
            device.failure =
                failure.map(|body| Failure { reason: body.reason, code: body.code, expire_seconds: body.expire_s });
        }
    }
}

/// Parses a number, or the address of an account or a group.
pub(crate) fn chat(text: &str) -> Result<Chat, Refused> {
    match text.parse::<Jid>() {
        Ok(jid) if jid.is_group() => Ok(Chat::Group(jid.to_non_ad())),
        _ => number(text).map(Chat::With),
    }
}

fn no_message(number: Number, id: &str) -> ControlError {
    ControlError::NotFound(format!("{number} has no message {id}"))
}

fn device_id(device: u32) -> Result<u16, Refused> {
    u16::try_from(device).map_err(|_| invalid(format!("{device} is no device")))
}
