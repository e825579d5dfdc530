//! Records of the network: accepted messages, logins and counters.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

use model::id::{Epoch, MessageId, NodeId};
use model::time::Timestamp;
use network::simulator::answers::{AcceptedRow, LedgerQuery, List, LoginEnd, LoginRow, LoginsQuery, MAX_LIMIT, Stats};
use serde::Serialize;
use wacore_binary::Jid;

use crate::number::{DeviceAddress, Number, address};

/// Maximum number of rows of each record; the oldest are dropped first.
const MAX_ROWS: usize = 1_000_000;

/// Number of rows that a list returns by default.
const DEFAULT_LIMIT: usize = 100;

/// Maximum number of source addresses that are counted; further ones are ignored.
const MAX_SOURCES: usize = 64;

/// Number of connections to each port, by source address.
#[derive(Default, Serialize)]
pub struct Sources {
    chat: BTreeMap<IpAddr, u64>,
    media: BTreeMap<IpAddr, u64>,
}

/// Ports that clients connect to.
#[derive(Clone, Copy)]
pub enum ClientPort {
    Chat,
    Media,
}

impl Sources {
    pub fn note(&mut self, port: ClientPort, from: IpAddr) {
        let sources = match port {
            ClientPort::Chat => &mut self.chat,
            ClientPort::Media => &mut self.media,
        };
        if sources.len() < MAX_SOURCES || sources.contains_key(&from) {
            *sources.entry(from).or_default() += 1;
        }
    }
}

#[derive(Default)]
pub struct Ledger {
    pub sources: Sources,
    pub stats: Stats,
    accepted: Vec<AcceptedRow>,
    by_id: HashMap<(Number, String), usize>,
    logins: Vec<LoginRow>,
}

/// The sender of a message.
#[derive(Clone, Copy)]
pub struct Sender {
    pub number: Number,
    pub node: NodeId,
    pub epoch: Epoch,
}

impl Ledger {
    /// Counts a copy of a message that was accepted before; `false` if it was not.
    pub fn seen(&mut self, number: Number, id: &str) -> bool {
        let Some(row) = self.by_id.get(&(number, id.to_owned())) else { return false };
        self.accepted[*row].raw_copies += 1;
        true
    }

    pub fn accept(&mut self, sender: Sender, id: &str, to: &Jid, at: Timestamp) {
        self.stats.accepted += 1;
        if self.accepted.len() == MAX_ROWS {
            return;
        }
        self.by_id.insert((sender.number, id.to_owned()), self.accepted.len());
        self.accepted.push(AcceptedRow {
            seq: self.accepted.len() as u64 + 1,
            id: MessageId(id.to_owned()),
            from: sender.number.address(),
            to: Number::of_jid(to).map_or_else(|| address(to), Number::address),
            raw_copies: 1,
            node: sender.node,
            epoch: sender.epoch,
            at,
        });
    }

    pub fn logged_in(&mut self, at: DeviceAddress, node: NodeId, epoch: Epoch, now: Timestamp) -> u64 {
        self.stats.logins += 1;
        let login_seq = self.stats.logins;
        if self.logins.len() == MAX_ROWS {
            self.logins.remove(0);
        }
        let number = at.number.to_string();
        self.logins.push(LoginRow { login_seq, number, node, epoch, at: now, ended_at: None, end: None });
        login_seq
    }

    pub fn logged_out(&mut self, login_seq: u64, end: LoginEnd, now: Timestamp) {
        let found = self.logins.binary_search_by_key(&login_seq, |row| row.login_seq);
        if let Ok(row) = found
            && self.logins[row].ended_at.is_none()
        {
            self.logins[row].ended_at = Some(now);
            self.logins[row].end = Some(end);
        }
    }

    pub fn accepted(&self, query: &LedgerQuery) -> List<AcceptedRow> {
        let since = query.since_seq.unwrap_or(0);
        let rows = self.accepted.iter().filter(|row| row.seq > since);
        List { data: rows.take(limit(query.limit)).cloned().collect(), total: self.accepted.len() }
    }

    pub fn logins(&self, query: &LoginsQuery) -> List<LoginRow> {
        // As in the simulator, an integer is a `login_seq`, anything else a time.
        let (mut after, mut from) = (0, None);
        if let Some(since) = &query.since {
            match since.parse() {
                Ok(login_seq) => after = login_seq,
                Err(_) => from = Timestamp::parse_iso(since),
            }
        }
        let rows: Vec<&LoginRow> = self
            .logins
            .iter()
            .filter(|row| query.number.as_ref().is_none_or(|number| row.number == *number))
            .filter(|row| row.login_seq > after && from.is_none_or(|from| row.at >= from))
            .collect();
        let total = rows.len();
        List { data: rows.into_iter().take(limit(query.limit)).cloned().collect(), total }
    }
}

/// The number of rows to return for a requested limit.
pub fn limit(asked: Option<usize>) -> usize {
    asked.unwrap_or(DEFAULT_LIMIT).min(MAX_LIMIT)
}
