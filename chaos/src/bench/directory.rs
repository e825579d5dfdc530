//! The memory that a million channels and a million keys take in every node: the directory holds all of them.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use model::customer::{Limits, Plan};
use model::id::{ChannelId, CustomerId, KeyId};
use model::seal::{DataKey, MasterKey};
use model::time::Timestamp;
use raft::directory::command::{Command, Proposal};
use raft::directory::records::{ChannelRecord, CustomerRecord, KeyOrigin, KeyRecord};
use raft::directory::state::DirectoryState;
use raft::machine::{Pairs, State, View};
use serde::Serialize;

/// Records per account, so that there are many accounts.
const OF_ONE_ACCOUNT: usize = 1_000;

/// Memory of a number of records.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Memory {
    pub records: usize,
    pub channel_bytes_each: u64,
    pub key_bytes_each: u64,
}

/// A store that keeps nothing, so that only memory is measured.
struct Nowhere;

impl View for Nowhere {
    fn get(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn scan(&self, _: &[u8], _: &[u8], _: usize) -> Pairs {
        Pairs::new()
    }

    fn scan_back(&self, _: &[u8], _: &[u8], _: usize) -> Pairs {
        Pairs::new()
    }
}

impl State for Nowhere {
    fn put(&mut self, _: &[u8], _: &[u8]) {}

    fn delete(&mut self, _: &[u8]) {}
}

/// Fills a directory and measures the memory of the process.
///
/// # Errors
/// When a record is refused, or the memory in use cannot be read.
pub fn measure(records: usize) -> anyhow::Result<Memory> {
    let mut state = DirectoryState::load(&Nowhere);
    let accounts: Vec<CustomerId> = (0..records.div_ceil(OF_ONE_ACCOUNT)).map(|_| CustomerId::new()).collect();
    for id in &accounts {
        let (customer, key) = (customer(*id), key(*id));
        run(&mut state, Command::CreateCustomer { customer: Box::new(customer), key })?;
    }
    let before = resident_bytes()?;
    for n in 0..records {
        let channel = channel(accounts[n / OF_ONE_ACCOUNT], n);
        run(&mut state, Command::CreateChannel { channel, scoped_key: None })?;
    }
    let between = resident_bytes()?;
    for n in 0..records {
        run(&mut state, Command::CreateKey(key(accounts[n / OF_ONE_ACCOUNT])))?;
    }
    let after = resident_bytes()?;
    ensure!(state.channels.len() == records, "{} channels", state.channels.len());
    let each = |from: u64, to: u64| to.saturating_sub(from) / records as u64;
    Ok(Memory { records, channel_bytes_each: each(before, between), key_bytes_each: each(between, after) })
}

fn run(state: &mut DirectoryState, command: Command) -> anyhow::Result<()> {
    let proposal = Proposal::new(command, Timestamp(1_767_225_600_000), Vec::new());
    let (reply, _) = state.apply(proposal, &mut Nowhere);
    reply.map(drop).context("the directory refuses a record")
}

/// A channel with a name and metadata of usual length.
fn channel(customer: CustomerId, n: usize) -> ChannelRecord {
    let at = Timestamp(1_767_225_600_000 + n as i64);
    ChannelRecord {
        id: ChannelId::new(),
        customer_id: customer,
        name: format!("Support line {n}"),
        metadata: serde_json::to_string(&BTreeMap::from([("region", "eu-central"), ("team", "support")]))
            .unwrap_or_default(),
        created_at: at,
        updated_at: at,
        deleted_at: None,
    }
}

fn key(customer: CustomerId) -> KeyRecord {
    let id = KeyId::random();
    KeyRecord {
        id,
        customer_id: customer,
        name: "A channel's key".to_owned(),
        prefix: format!("zpk_{}", &id.to_string()[..8]),
        hash: [7; 32],
        channel_id: None,
        scopes: vec!["messages.*".to_owned(), "media.*".to_owned()],
        created_at: Timestamp(0),
        expires_at: None,
        last_used_at: None,
        revoked_at: None,
        created_by: KeyOrigin::ApiKey,
        created_by_key_id: None,
    }
}

fn customer(id: CustomerId) -> CustomerRecord {
    CustomerRecord {
        id,
        name: "An account".to_owned(),
        email: None,
        timezone: "UTC".to_owned(),
        plan: Plan::default(),
        limits: Limits::default(),
        data_key: MasterKey::new([1; 32]).wrap(&DataKey::new([2; 32]), id, Default::default()),
        former_data_key: None,
        created_at: Timestamp(0),
        deleted_at: None,
    }
}

fn resident_bytes() -> anyhow::Result<u64> {
    const PAGE: u64 = 4096;
    let statm = std::fs::read_to_string("/proc/self/statm").context("/proc/self/statm")?;
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok());
    Ok(pages.context("/proc/self/statm says no size")? * PAGE)
}
