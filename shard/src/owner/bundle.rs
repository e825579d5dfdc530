//! Moves a channel's session to another cluster, or from one: it is read while it does not run, and stored part by
//! part, the credentials last. If an owner dies during an import, the channel cannot log in; the next import, or a
//! pairing, clears what is there.

use std::sync::Arc;

use bytes::Bytes;
use model::address::Address;
use model::error::CallError;
use model::event::{EventId, EventName};
use model::status::{Status, Trigger, allowed_from};
use network::driver::{AuthWrite, Identity, RESTORED};
use raft::directory::records::CustomerRecord;
use raft::machine::{View, just_after, scan_all};
use uuid::Uuid;

use super::auth::{self, purpose};
use super::channel::{Channel, Worked};
use super::committer::Answered;
use super::lifecycle::Extra;
use super::submission::LARGEST_COMMAND;
use crate::call::OwnerResponse;
use crate::call::bundle::{Export, Exported, Import, LIDS, LidPair, PART, Place, StateRow};
use crate::command::{Command, NewEvent, Reply};
use crate::keys;
use crate::machine::CREDENTIALS;
use crate::records::{LidRow, decode};

/// Rows that are read from disk at a time.
const ROWS_AT_ONCE: usize = 32;

impl Channel {
    /// Reads a part of the channel's state, in a status that only an explicit call leaves.
    pub async fn export(&mut self, Export { from }: Export) -> Answered<Worked> {
        if self.row.deleted {
            return Err(CallError::channel_not_found().into());
        }
        let status = self.row.status;
        if !status.is_terminal() {
            return Err(CallError::invalid_lifecycle_transition(status, "export", &resting()).into());
        }
        if !self.row.credentials {
            return Err(refused(status, "export", &resting(), "the channel holds no session").into());
        }
        // A killed session writes nothing from here on.
        drop(self.close_state().await);
        // Another cluster may go on with the session; the state here is then older than what the network has seen.
        if from == Place::Rows(None) {
            self.store(vec![mark()], Vec::new()).await?;
        }
        Ok(self.read_part(from)?)
    }

    fn read_part(&self, from: Place) -> Result<Worked, CallError> {
        let (mut rows, mut lids) = (Vec::new(), Vec::new());
        let next = match from {
            Place::Rows(after) => {
                let has_more = self.read_rows(after.as_deref(), &mut rows)?;
                let last = rows.last().filter(|_| has_more);
                Some(last.map_or(Place::Lids(None), |last| Place::Rows(Some(last.name.clone()))))
            }
            Place::Lids(after) => {
                lids = self.lids_behind(after.as_deref());
                let last = lids.last().filter(|_| lids.len() == LIDS);
                last.map(|last| Place::Lids(Some(last.lid.clone())))
            }
        };
        let identity = Identity {
            phone_number: self.row.phone_number.clone().unwrap_or_default(),
            lid: self.row.lid.clone(),
            push_name: self.row.push_name.clone(),
        };
        let part = Exported { version: self.row.version, identity, rows, lids, next };
        Ok(Worked::Done(OwnerResponse::Exported(Box::new(part))))
    }

    /// Reads rows until they fill a part; returns whether there may be more.
    fn read_rows(&self, after: Option<&str>, rows: &mut Vec<StateRow>) -> Result<bool, CallError> {
        let customer = self.customer()?;
        let mut weight = 0;
        for (key, sealed) in scan_all(&self.owner.reader, keys::auth_under(self.row.id, "", after), ROWS_AT_ONCE) {
            // Not exported: the importing cluster sets its own mark.
            let Some(name) = keys::name_of_auth(&key).filter(|name| name != RESTORED) else { continue };
            let opened = self.owner.node.secrets.open(&customer, &purpose(self.row.id, &name), &sealed);
            let value = Bytes::from(opened.map_err(|error| {
                tracing::error!(channel = %self.row.id, %error, "the channel's state cannot be exported");
                CallError::internal_error()
            })?);
            let row = StateRow { name, value };
            weight += row.weight();
            rows.push(row);
            if weight >= PART {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn lids_behind(&self, after: Option<&str>) -> Vec<LidPair> {
        let (first, to) = keys::lids(self.row.id);
        let from = after.map_or(first, |after| just_after(&keys::lid(self.row.id, after)));
        let pair = |(key, row): &(Vec<u8>, Vec<u8>)| {
            let LidRow { phone, first_seen_at } = decode(row);
            Some(LidPair { lid: keys::lid_at_end(key)?.to_owned(), phone: phone.local().to_owned(), first_seen_at })
        };
        self.owner.reader.scan(&from, &to, LIDS).iter().filter_map(pair).collect()
    }

    /// Performs one step of an import.
    pub async fn import(&mut self, import: Import, call_id: Uuid) -> Answered<Worked> {
        if self.row.deleted {
            return Err(CallError::channel_not_found().into());
        }
        match import {
            Import::Begin { identity } => self.begin_import(identity, call_id).await,
            Import::Rows { version, rows, lids } => self.store_part(version, rows, lids).await,
        }
    }

    async fn begin_import(&mut self, identity: Identity, call_id: Uuid) -> Answered<Worked> {
        let before = self.row.status;
        if self.row.credentials {
            let why = "the channel holds a session already; log it out first";
            return Err(refused(before, "import", &allowed_from(Trigger::Imported), why).into());
        }
        // A repeated call continues where it was cut off.
        if self.row.moved_by != Some(call_id) {
            // A session that ended between its pairing and its first login does not know its number.
            let is_known = !identity.phone_number.is_empty();
            let known = if is_known { Extra::identified(identity) } else { Extra::default() };
            let extra = Extra { call_id: Some(call_id), ..known };
            if let Err(refusal) = self.transition(Trigger::Imported, Some(extra)).await? {
                return Err(self.refusal(refusal, Trigger::Imported, before).into());
            }
        }
        self.clear_sync().await?;
        // The other cluster may have gone on with the session after the export.
        self.store(vec![mark()], Vec::new()).await?;
        Ok(self.imported())
    }

    async fn store_part(&mut self, version: u64, rows: Vec<StateRow>, lids: Vec<LidPair>) -> Answered<Worked> {
        if self.row.version != version || self.row.status != Status::StoppedByUser {
            return Err(CallError::concurrent_modification("channel").into());
        }
        self.store(rows, lids).await?;
        Ok(self.imported())
    }

    fn imported(&self) -> Worked {
        Worked::Done(OwnerResponse::Imported { version: self.row.version })
    }

    async fn store(&mut self, rows: Vec<StateRow>, lids: Vec<LidPair>) -> Answered<()> {
        let can_log_in = rows.iter().any(|row| row.name == CREDENTIALS);
        let writes = self.sealed(rows)?;
        let mut commands: Vec<Command> = lids.into_iter().map(|pair| self.learnt(pair)).collect();
        commands.push(Command::Auth { channel: self.row.id, customer: self.row.customer, writes });
        match self.owner.committer.commit(commands).await?.pop() {
            Some(Reply::Done) => {}
            Some(Reply::ChannelDeleted) => return Err(CallError::channel_not_found().into()),
            Some(Reply::TooLarge) => return Err(CallError::payload_too_large_over(LARGEST_COMMAND as u64).into()),
            _ => return Err(CallError::internal_error().into()),
        }
        self.row.credentials |= can_log_in;
        Ok(())
    }

    fn sealed(&self, rows: Vec<StateRow>) -> Result<Vec<AuthWrite>, CallError> {
        let customer = self.customer()?;
        let seal = |StateRow { name: key, value }| {
            let write = AuthWrite { key, value: Some(value.into()) };
            auth::sealed(&self.owner.node.secrets, &customer, self.row.id, write)
        };
        rows.into_iter().map(seal).collect::<Result<_, _>>().map_err(|error| {
            tracing::error!(channel = %self.row.id, %error, "the session of a channel cannot be encrypted");
            CallError::internal_error()
        })
    }

    /// The command that stores the phone address behind a LID. It is not news, and no event reports it.
    fn learnt(&self, LidPair { lid, phone, first_seen_at: at }: LidPair) -> Command {
        let (channel, customer) = (self.row.id, self.row.customer);
        let event = NewEvent {
            id: EventId::mint(at, rand::random()),
            name: EventName::ContactResolved,
            channel,
            customer,
            message: None,
            correlation_id: None,
            chat: None,
            body: Bytes::new(),
            at,
            deliveries: Vec::new(),
            streamed: None,
            outdated: false,
        };
        let phone = self.owner.node.suffixes.phone_address(&phone);
        Command::LearnLid { channel, lid: Address::lid(&lid), phone, at, event }
    }

    fn customer(&self) -> Result<Arc<CustomerRecord>, CallError> {
        self.owner.node.customer(self.row.customer).ok_or_else(CallError::no_leader)
    }
}

/// The mark that tells a driver that its state may be older than what the network has seen.
fn mark() -> StateRow {
    StateRow { name: RESTORED.to_owned(), value: Bytes::new() }
}

/// The statuses of a channel whose session does not run and does not start by itself.
fn resting() -> Vec<Status> {
    Status::ALL.into_iter().filter(|status| status.is_terminal() && *status != Status::LoggedOut).collect()
}

fn refused(status: Status, action: &str, allowed_from: &[Status], why: &str) -> CallError {
    CallError { message: why.to_owned(), ..CallError::invalid_lifecycle_transition(status, action, allowed_from) }
}
