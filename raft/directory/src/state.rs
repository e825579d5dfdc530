//! The directory's state in memory, and its pure function: state and command in, reply and change out.

mod authority;
mod data_keys;
mod deletion;
mod layout;
mod members;
mod purge;
mod quotas;
mod retention;
mod secrets;
mod support;
mod users;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::Bound;
use std::sync::Arc;

use model::customer::{MOST_CHANNELS, Quota};
use model::id::{ChannelId, CustomerId, EndpointId, KeyId, NodeId, SLOT_COUNT, SessionId, ShardId, Slot, UserId};
use model::seal::MasterKeyId;
use model::time::Timestamp;
use model::webhook::MOST_ENDPOINTS;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::command::{Command, Proposal, Rejection, Reply};
use super::keys::{self, Table};
use super::layout::LayoutRecord;
use super::members::{AuthorityRecord, JoinToken, RemovedNode};
use super::records::{
    AuditEntry, ChannelRecord, ClusterRecord, CustomerRecord, Ended, EndpointRecord, KeyRecord, NodeRecord,
    PlacementRecord, StreamedRecord,
};
use machine::record::{decode, encode};
use machine::{State, View};

pub use deletion::Rest;
pub use quotas::open_tickets;
pub use retention::{ended_before, keys_before};
pub use users::Users;

/// Sort key of a channel in a list that shows the newest first.
type Newest = (Timestamp, ChannelId);

/// Everything except the audit log, which is read from disk.
#[derive(Default)]
pub struct DirectoryState {
    pub cluster: Option<Arc<ClusterRecord>>,
    pub nodes: BTreeMap<NodeId, Arc<NodeRecord>>,
    pub placement: BTreeMap<ShardId, Arc<PlacementRecord>>,
    /// The latest change of the placement.
    pub layout: Option<Arc<LayoutRecord>>,
    /// Nodes that were removed for good.
    pub removed: BTreeMap<NodeId, Arc<RemovedNode>>,
    pub authority: Option<Arc<AuthorityRecord>>,
    tokens: BTreeMap<[u8; 32], Arc<JoinToken>>,
    pub customers: HashMap<CustomerId, Arc<CustomerRecord>>,
    /// Number of customers' data keys that are sealed under each master key.
    data_keys_under: BTreeMap<MasterKeyId, usize>,
    pub keys: HashMap<KeyId, Arc<KeyRecord>>,
    pub endpoints: HashMap<EndpointId, Arc<EndpointRecord>>,
    pub channels: HashMap<ChannelId, Arc<ChannelRecord>>,
    pub users: Users,
    streamed: HashMap<CustomerId, Timestamp>,
    keys_by_prefix: HashMap<String, Vec<KeyId>>,
    keys_of: HashMap<CustomerId, BTreeSet<KeyId>>,
    /// Number of a customer's keys that are not revoked.
    live_keys_of: HashMap<CustomerId, u64>,
    endpoints_of: HashMap<CustomerId, BTreeSet<EndpointId>>,
    live_channels_of: HashMap<CustomerId, BTreeSet<Newest>>,
    live_channels_in: Vec<BTreeSet<ChannelId>>,
    slots_of: HashMap<CustomerId, BTreeSet<Slot>>,
    /// Deletions with records left to end.
    ending: BTreeSet<Ended>,
}

/// A command that is being applied: when it was proposed, the store that it changes, and the changes so far.
struct Update<'a> {
    at: Timestamp,
    store: &'a mut dyn State,
    changes: Vec<Change>,
}

impl Update<'_> {
    /// Stores a record.
    fn put<T: Serialize>(&mut self, key: &[u8], record: &T) {
        self.store.put(key, &encode(record));
    }

    /// Accepts a command with its last change and its reply.
    fn done(&mut self, change: Change, reply: Reply) -> Result<Reply, Rejection> {
        self.changes.push(change);
        Ok(reply)
    }
}

/// Part of the state that a command has changed, for watchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The cluster was formed, or its nodes or its placement changed.
    Layout,
    Customer(CustomerId),
    Key(KeyId),
    Channel(ChannelId),
    Endpoint(EndpointId),
    User(UserId),
    Session(SessionId),
    /// A customer's events are kept for its stream from now on, or for longer.
    Streamed(CustomerId),
    /// The whole state was replaced, or changes were missed: re-read everything.
    Everything,
}

impl DirectoryState {
    /// Reads from disk only which nodes belong to the cluster, and which were removed.
    pub fn load_members(view: &dyn View) -> Self {
        let removed = records(view, keys::REMOVED_NODES);
        Self {
            cluster: view.get(keys::CLUSTER).map(|bytes| Arc::new(decode(&bytes))),
            nodes: records(view, keys::NODES).map(|node: NodeRecord| (node.id, Arc::new(node))).collect(),
            removed: removed.map(|node: RemovedNode| (node.id, Arc::new(node))).collect(),
            live_channels_in: vec![BTreeSet::new(); usize::from(SLOT_COUNT)],
            ..Self::default()
        }
    }

    /// Reads the whole state from disk, after a start or an installed snapshot.
    pub fn load(view: &dyn View) -> Self {
        let mut state = Self::load_members(view);
        state.authority = view.get(keys::AUTHORITY).map(|bytes| Arc::new(decode(&bytes)));
        state.layout = view.get(keys::LAYOUT).map(|bytes| Arc::new(decode(&bytes)));
        let (tokens, placement) = (records(view, keys::JOIN_TOKENS), records(view, keys::PLACEMENTS));
        state.tokens = tokens.map(|token: JoinToken| (token.hash, Arc::new(token))).collect();
        state.placement = placement.map(|place: PlacementRecord| (place.shard, Arc::new(place))).collect();
        records(view, keys::CUSTOMERS).for_each(|customer| state.index_customer(customer));
        records(view, keys::API_KEYS).for_each(|key| state.index_key(key));
        records(view, keys::ENDPOINTS).for_each(|endpoint| state.index_endpoint(endpoint));
        records(view, keys::CHANNELS).for_each(|channel| state.index_channel(channel));
        state.users = Users::load(view);
        let streamed = records(view, keys::STREAMED_CUSTOMERS);
        state.streamed = streamed.map(|record: StreamedRecord| (record.customer, record.until)).collect();
        state.find_ending();
        state
    }

    /// Keys with this display prefix; more than one is possible, though unlikely.
    pub fn keys_with_prefix(&self, prefix: &str) -> impl Iterator<Item = &Arc<KeyRecord>> {
        self.keys_by_prefix.get(prefix).into_iter().flatten().filter_map(|id| self.keys.get(id))
    }

    /// A customer's keys, newest first.
    pub fn keys_of(&self, customer: CustomerId) -> Vec<Arc<KeyRecord>> {
        let mut keys: Vec<_> = ids_of(&self.keys_of, customer).filter_map(|id| self.keys.get(id).cloned()).collect();
        keys.sort_by_key(|key| Reverse((key.created_at, key.id)));
        keys
    }

    /// A customer's endpoints, newest first.
    pub fn endpoints_of(&self, customer: CustomerId) -> Vec<Arc<EndpointRecord>> {
        let mut endpoints: Vec<_> =
            ids_of(&self.endpoints_of, customer).filter_map(|id| self.endpoints.get(id).cloned()).collect();
        endpoints.sort_by_key(|endpoint| Reverse((endpoint.created_at, endpoint.id)));
        endpoints
    }

    /// A customer's live channels, newest first, after `after`.
    pub fn channels_of(&self, customer: CustomerId, after: Option<Newest>, limit: usize) -> Vec<Arc<ChannelRecord>> {
        let Some(channels) = self.live_channels_of.get(&customer) else { return Vec::new() };
        let older: (Bound<Newest>, Bound<Newest>) = (Bound::Unbounded, after.map_or(Bound::Unbounded, Bound::Excluded));
        channels.range(older).rev().take(limit).filter_map(|(_, id)| self.channels.get(id).cloned()).collect()
    }

    pub fn channel_count(&self, customer: CustomerId) -> usize {
        self.live_channels_of.get(&customer).map_or(0, BTreeSet::len)
    }

    /// Slots of all present and former channels of a customer: its deliveries are stored there.
    pub fn slots_of(&self, customer: CustomerId) -> impl Iterator<Item = Slot> {
        ids_of(&self.slots_of, customer).copied()
    }

    /// A live channel.
    pub fn channel(&self, id: ChannelId) -> Option<&Arc<ChannelRecord>> {
        self.channels.get(&id).filter(|channel| channel.deleted_at.is_none())
    }

    /// Number of a shard's live channels.
    pub fn channel_count_in(&self, shard: ShardId) -> usize {
        let Some(cluster) = &self.cluster else { return 0 };
        let slots = (0..SLOT_COUNT).map(Slot).filter(|slot| cluster.shard_of(*slot) == shard);
        slots.map(|slot| self.live_channels_in[usize::from(slot.0)].len()).sum()
    }

    /// Until when a customer's events are kept for its stream.
    pub fn streamed_until(&self, customer: CustomerId) -> Option<Timestamp> {
        self.streamed.get(&customer).copied()
    }

    /// Customers whose events were kept at the time of the latest announcement.
    pub fn streamed_customers(&self) -> impl Iterator<Item = CustomerId> {
        self.streamed.keys().copied()
    }

    pub fn shard_of(&self, slot: Slot) -> Option<ShardId> {
        self.cluster.as_ref().map(|cluster| cluster.shard_of(slot))
    }

    /// Applies a command: changes both memory and `store`, or neither.
    pub fn apply(&mut self, proposal: Proposal, store: &mut dyn State) -> (Result<Reply, Rejection>, Vec<Change>) {
        let mut update = Update { at: proposal.at, store, changes: Vec::new() };
        let reply = self.run(proposal.command, &mut update);
        if reply.is_ok() {
            for entry in &proposal.audit {
                write_audit(entry, update.store);
            }
        }
        (reply, update.changes)
    }

    fn run(&mut self, command: Command, update: &mut Update<'_>) -> Result<Reply, Rejection> {
        let at = update.at;
        match command {
            Command::Form { cluster, placement } => {
                if self.cluster.is_some() {
                    return Err(Rejection::AlreadyFormed);
                }
                self.put_cluster(cluster, update);
                placement.into_iter().for_each(|place| self.put_placement(place, update));
                update.done(Change::Everything, Reply::Done)
            }
            Command::RegisterNode(node) => {
                let reply = self.register(node, update)?;
                update.done(Change::Layout, reply)
            }
            Command::Members(command) => self.run_members(command, update),
            Command::Layout(command) => self.run_layout(command, update),
            Command::RaiseFormat { format, sealed } => {
                let known = self.cluster.as_ref().ok_or(Rejection::NotFormed)?;
                if let Some(other) = self.nodes.keys().find(|node| !sealed.contains(node)) {
                    return Err(Rejection::NotSealed(*other));
                }
                let raised = ClusterRecord { format: format.max(known.format), ..(**known).clone() };
                self.put_cluster(raised, update);
                update.done(Change::Layout, Reply::Done)
            }
            Command::ShardFormed(shard) => {
                let known = self.placement.get(&shard).ok_or(Rejection::NotFormed)?;
                let formed = PlacementRecord { formed: true, ..(**known).clone() };
                self.put_placement(formed, update);
                update.done(Change::Layout, Reply::Done)
            }

            Command::Secrets(command) => self.run_secrets(command, update),
            Command::Authority(command) => self.run_authority(command, update),

            Command::CreateCustomer { customer, key } => {
                self.is_under_master(&customer.data_key)?;
                update.changes.extend([Change::Customer(customer.id), Change::Key(key.id)]);
                self.put_customer((*customer).clone(), update);
                self.put_key(key, update);
                Ok(Reply::Customer(*customer))
            }
            Command::UpdateCustomer { id, change } => {
                let mut customer = self.live_customer(id)?;
                change.name.apply(&mut customer.name);
                change.email.apply(&mut customer.email);
                change.timezone.apply(&mut customer.timezone);
                change.plan.apply(&mut customer.plan);
                change.limits.apply(&mut customer.limits);
                self.put_customer(customer.clone(), update);
                update.done(Change::Customer(id), Reply::Customer(customer))
            }
            Command::DeleteCustomer { id } => self.delete_customer(id, update),
            Command::EndPart { with, keys, channels, sessions, last } => {
                self.end_part(with, &keys, &channels, &sessions, last, update)
            }
            Command::PurgeCustomer { id, most } => self.purge_customer(id, most, update),

            Command::CreateKey(key) => {
                let customer = self.live_customer(key.customer_id)?;
                self.judge_key(&customer, at)?;
                if let Some(channel) = key.channel_id {
                    self.live_channel(key.customer_id, channel)?;
                }
                self.put_key(key.clone(), update);
                update.done(Change::Key(key.id), Reply::Key(key))
            }
            Command::RenameKey { customer, id, name } => {
                let known = self.key_of(customer, id)?;
                let renamed = KeyRecord { name, ..(*known).clone() };
                self.put_key(renamed.clone(), update);
                update.done(Change::Key(id), Reply::Key(renamed))
            }
            Command::RevokeKey { customer, id } => {
                let known = self.key_of(customer, id)?;
                if self.ended_at(&known).is_some() {
                    return Err(Rejection::KeyRevoked);
                }
                let revoked = self.revoke(&known, at, update);
                update.done(Change::Key(id), Reply::Key(revoked))
            }
            Command::KeysUsed(uses) => {
                for (id, used_at) in uses {
                    if let Some(known) = self.keys.get(&id).cloned()
                        && known.last_used_at.is_none_or(|last| last < used_at)
                    {
                        self.put_key(KeyRecord { last_used_at: Some(used_at), ..(*known).clone() }, update);
                    }
                }
                Ok(Reply::Done)
            }

            Command::CreateChannel { channel, scoped_key } => {
                let customer = self.live_customer(channel.customer_id)?;
                let current = self.channel_count(customer.id) as u32;
                let limit = customer.plan.channel_limit.or(self.is_of_third_format().then_some(MOST_CHANNELS));
                if let Some(limit) = limit.filter(|limit| current >= *limit) {
                    return Err(Rejection::ChannelLimit { limit, current });
                }
                if scoped_key.is_some() {
                    self.judge_key(&customer, at)?;
                }
                update.changes.push(Change::Channel(channel.id));
                self.put_channel(channel.clone(), update);
                if let Some(key) = scoped_key {
                    update.changes.push(Change::Key(key.id));
                    self.put_key(key, update);
                }
                Ok(Reply::Channel(channel))
            }
            Command::UpdateChannel { customer, id, name, metadata } => {
                let mut channel = (*self.live_channel(customer, id)?).clone();
                channel.name = name.unwrap_or(channel.name);
                channel.metadata = metadata.unwrap_or(channel.metadata);
                channel.updated_at = at;
                self.put_channel(channel.clone(), update);
                update.done(Change::Channel(id), Reply::Channel(channel))
            }
            Command::DeleteChannel { customer, id } => self.delete_channel(customer, id, update),

            Command::CreateEndpoint(endpoint) => {
                let customer = self.live_customer(endpoint.customer_id)?;
                if let Some(channel) = endpoint.channel_id {
                    self.live_channel(endpoint.customer_id, channel)?;
                }
                let used = self.endpoint_count(customer.id);
                self.judge_quota(&customer, Quota::Endpoints, used)?;
                if !self.is_of_third_format() && used >= u64::from(MOST_ENDPOINTS) {
                    return Err(Rejection::EndpointLimit { limit: MOST_ENDPOINTS });
                }
                if self.is_of_third_format() {
                    self.judge_urls(customer.id, None, &endpoint.url)?;
                }
                self.put_endpoint(endpoint.clone(), update);
                update.done(Change::Endpoint(endpoint.id), Reply::Endpoint(endpoint))
            }
            Command::UpdateEndpoint { customer, id, change } => {
                let known = self.endpoint_of(customer, id)?;
                if let model::field::Change::To(url) = &change.url
                    && self.is_of_third_format()
                {
                    self.judge_urls(customer, Some(&known), url)?;
                }
                let mut endpoint = (*known).clone();
                change.url.apply(&mut endpoint.url);
                change.events.apply(&mut endpoint.events);
                change.secret.apply(&mut endpoint.secret);
                change.chat_type_filter.apply(&mut endpoint.chat_type_filter);
                if let model::field::Change::To(headers) = change.headers {
                    (endpoint.header_names, endpoint.sealed_headers) = (headers.names, headers.sealed);
                }
                if !change.enabled.is_keep() {
                    change.enabled.apply(&mut endpoint.enabled);
                    endpoint.disabled_reason = None;
                    (endpoint.health.failing_since, endpoint.health.failures) = (None, 0);
                }
                endpoint.updated_at = at;
                self.put_endpoint(endpoint.clone(), update);
                update.done(Change::Endpoint(id), Reply::Endpoint(endpoint))
            }
            Command::DeleteEndpoint { customer, id } => {
                self.endpoint_of(customer, id)?;
                self.remove_endpoint(customer, id, update);
                update.done(Change::Endpoint(id), Reply::Done)
            }
            Command::NoteHealth(notes) => {
                // Not a watched change, because it does not affect deliveries.
                for note in notes {
                    if let Some(known) = self.endpoints.get(&note.endpoint) {
                        let mut endpoint = (**known).clone();
                        endpoint.health.note(&note);
                        self.put_endpoint(endpoint, update);
                    }
                }
                Ok(Reply::Done)
            }
            Command::DisableEndpoint { id, reason } => {
                let known = self.endpoints.get(&id).ok_or(Rejection::EndpointNotFound)?;
                if !known.enabled {
                    return Err(Rejection::EndpointDisabled);
                }
                let disabled = EndpointRecord {
                    enabled: false,
                    disabled_reason: Some(reason),
                    updated_at: at,
                    ..(**known).clone()
                };
                self.put_endpoint(disabled.clone(), update);
                update.done(Change::Endpoint(id), Reply::Endpoint(disabled))
            }

            Command::Users(command) => self.run_users(command, update),
            Command::Tickets(command) => self.run_tickets(command, update),
            Command::Streamed { customer, until } => {
                self.live_customer(customer)?;
                self.stream_until(customer, until, update);
                update.done(Change::Streamed(customer), Reply::Done)
            }

            Command::ExpireEnded { keys, channels, before } => {
                self.expire_ended(&keys, &channels, before, update);
                Ok(Reply::Done)
            }
            Command::Audit => Ok(Reply::Done),
            Command::Expire { audit, sessions, most } => Ok(self.expire(audit, sessions, most, update)),
        }
    }

    fn live_customer(&self, id: CustomerId) -> Result<CustomerRecord, Rejection> {
        let customer = self.customers.get(&id).filter(|customer| customer.deleted_at.is_none());
        customer.map(|customer| (**customer).clone()).ok_or(Rejection::CustomerNotFound)
    }

    fn live_channel(&self, customer: CustomerId, id: ChannelId) -> Result<Arc<ChannelRecord>, Rejection> {
        let channel = self.channel(id).filter(|channel| channel.customer_id == customer);
        channel.cloned().ok_or(Rejection::ChannelNotFound)
    }

    fn key_of(&self, customer: CustomerId, id: KeyId) -> Result<Arc<KeyRecord>, Rejection> {
        self.keys.get(&id).filter(|key| key.customer_id == customer).cloned().ok_or(Rejection::KeyNotFound)
    }

    fn endpoint_of(&self, customer: CustomerId, id: EndpointId) -> Result<Arc<EndpointRecord>, Rejection> {
        let endpoint = self.endpoints.get(&id).filter(|endpoint| endpoint.customer_id == customer);
        endpoint.cloned().ok_or(Rejection::EndpointNotFound)
    }

    fn revoke(&mut self, key: &KeyRecord, at: Timestamp, update: &mut Update<'_>) -> KeyRecord {
        let revoked = KeyRecord { revoked_at: Some(key.revoked_at.unwrap_or(at)), ..key.clone() };
        self.put_key(revoked.clone(), update);
        revoked
    }

    /// Records a streamed customer and drops expired ones, so that the table contains only current ones.
    fn stream_until(&mut self, customer: CustomerId, until: Timestamp, update: &mut Update<'_>) {
        let until = self.streamed_until(customer).map_or(until, |known| known.max(until));
        update.put(&keys::STREAMED_CUSTOMERS.key(customer.as_bytes()), &StreamedRecord { customer, until });
        self.streamed.insert(customer, until);
        self.streamed.retain(|customer, until| {
            let lives = *until > update.at;
            if !lives {
                update.store.delete(&keys::STREAMED_CUSTOMERS.key(customer.as_bytes()));
            }
            lives
        });
    }

    fn put_node(&mut self, node: NodeRecord, update: &mut Update<'_>) {
        update.put(&keys::node(node.id), &node);
        self.nodes.insert(node.id, Arc::new(node));
    }

    fn put_placement(&mut self, placement: PlacementRecord, update: &mut Update<'_>) {
        update.put(&keys::placement(placement.shard), &placement);
        self.placement.insert(placement.shard, Arc::new(placement));
    }

    fn put_customer(&mut self, customer: CustomerRecord, update: &mut Update<'_>) {
        update.put(&keys::CUSTOMERS.key(customer.id.as_bytes()), &customer);
        self.index_customer(customer);
    }

    fn put_key(&mut self, key: KeyRecord, update: &mut Update<'_>) {
        update.put(&keys::API_KEYS.key(key.id.as_bytes()), &key);
        self.index_key(key);
    }

    fn put_endpoint(&mut self, endpoint: EndpointRecord, update: &mut Update<'_>) {
        update.put(&keys::ENDPOINTS.key(endpoint.id.as_bytes()), &endpoint);
        self.index_endpoint(endpoint);
    }

    fn remove_endpoint(&mut self, customer: CustomerId, id: EndpointId, update: &mut Update<'_>) {
        update.store.delete(&keys::ENDPOINTS.key(id.as_bytes()));
        self.endpoints.remove(&id);
        remove_id(&mut self.endpoints_of, customer, &id);
    }

    fn put_channel(&mut self, channel: ChannelRecord, update: &mut Update<'_>) {
        update.put(&keys::CHANNELS.key(channel.id.as_bytes()), &channel);
        self.index_channel(channel);
    }

    fn index_customer(&mut self, customer: CustomerRecord) {
        *self.data_keys_under.entry(customer.data_key.master).or_default() += 1;
        if let Some(former) = self.customers.insert(customer.id, Arc::new(customer)) {
            self.uncount_data_key(&former);
        }
    }

    fn index_key(&mut self, key: KeyRecord) {
        let same_prefix = self.keys_by_prefix.entry(key.prefix.clone()).or_default();
        if !same_prefix.contains(&key.id) {
            same_prefix.push(key.id);
        }
        self.keys_of.entry(key.customer_id).or_default().insert(key.id);
        let lives = key.revoked_at.is_none();
        let customer = key.customer_id;
        let former = self.keys.insert(key.id, Arc::new(key));
        self.count_key(customer, former.is_some_and(|former| former.revoked_at.is_none()), lives);
    }

    /// Removes a key from all indexes.
    fn remove_key(&mut self, id: KeyId, update: &mut Update<'_>) {
        update.store.delete(&keys::API_KEYS.key(id.as_bytes()));
        let Some(key) = self.keys.remove(&id) else { return };
        if let Some(same_prefix) = self.keys_by_prefix.get_mut(&key.prefix) {
            same_prefix.retain(|other| *other != id);
            if same_prefix.is_empty() {
                self.keys_by_prefix.remove(&key.prefix);
            }
        }
        remove_id(&mut self.keys_of, key.customer_id, &id);
        self.count_key(key.customer_id, key.revoked_at.is_none(), false);
    }

    /// Updates the count of live keys when a key starts or ends to be live.
    fn count_key(&mut self, customer: CustomerId, lived: bool, lives: bool) {
        match (lived, lives) {
            (false, true) => *self.live_keys_of.entry(customer).or_default() += 1,
            (true, false) => {
                if let Some(count) = self.live_keys_of.get_mut(&customer) {
                    *count -= 1;
                    if *count == 0 {
                        self.live_keys_of.remove(&customer);
                    }
                }
            }
            _ => {}
        }
    }

    fn index_endpoint(&mut self, endpoint: EndpointRecord) {
        self.endpoints_of.entry(endpoint.customer_id).or_default().insert(endpoint.id);
        self.endpoints.insert(endpoint.id, Arc::new(endpoint));
    }

    fn index_channel(&mut self, channel: ChannelRecord) {
        self.slots_of.entry(channel.customer_id).or_default().insert(channel.slot());
        let of_customer = self.live_channels_of.entry(channel.customer_id).or_default();
        let in_slot = &mut self.live_channels_in[usize::from(channel.slot().0)];
        let place = (channel.created_at, channel.id);
        if channel.deleted_at.is_none() {
            of_customer.insert(place);
            in_slot.insert(channel.id);
        } else {
            of_customer.remove(&place);
            in_slot.remove(&channel.id);
        }
        self.channels.insert(channel.id, Arc::new(channel));
    }
}

/// How many entries of a minute are searched for one that folds the same failure. In a flood of more than that, two
/// nodes may leave one entry each.
const LOOKED_THROUGH: usize = 64;

/// Writes an audit entry. Writing the same entry again changes nothing, and neither does a folded failure that another
/// node has written first: its entry has the same id, and a time in the same minute.
fn write_audit(entry: &AuditEntry, store: &mut dyn State) {
    let key = keys::audit(entry.customer_id, entry.created_at, entry.id);
    let is_written = entry.action == "auth.failed" && {
        let minute = store.scan_range(keys::audit_minute(entry), LOOKED_THROUGH);
        minute.iter().any(|(key, _)| key.ends_with(entry.id.as_bytes()))
    };
    if !is_written && store.get(&key).is_none() {
        store.put(&key, &encode(entry));
    }
}

fn ids_of<T: Ord>(index: &HashMap<CustomerId, BTreeSet<T>>, customer: CustomerId) -> impl Iterator<Item = &T> {
    index.get(&customer).into_iter().flatten()
}

/// Removes an id from an index, and the key with its last id.
fn remove_id<K: Eq + Hash, T: Ord>(index: &mut HashMap<K, BTreeSet<T>>, key: K, id: &T) {
    if let Some(ids) = index.get_mut(&key) {
        ids.remove(id);
        if ids.is_empty() {
            index.remove(&key);
        }
    }
}

/// All records of a table.
fn records<T: DeserializeOwned>(view: &dyn View, table: Table) -> impl Iterator<Item = T> {
    view.scan_range(table.range(), usize::MAX).into_iter().map(|(_, value)| decode(&value))
}
