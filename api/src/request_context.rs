//! What a handler sees of a request: one type per kind of route, so that a channel's handler has a channel.

use std::ops::{Deref, DerefMut};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::error::{CallError, ErrorCode, SEND_LIMIT_BYTES};
use model::field::Body;
use model::id::{AuditId, ChannelId, CustomerId, RequestId};
use model::limit::{BucketLevel, BucketRule, LimitScope};
use model::page::ListId;
use model::time::Timestamp;
use raft::directory::command::{Command, Reply as Updated};
use raft::directory::records::{AuditActor, AuditEntry, ChannelRecord};
use raft::directory::state::DirectoryState;
use raft::directory::{Directory, UpdateError};
use raft::room::Level;
use salvo::Request;
use salvo::http::header::CONTENT_LENGTH;
use salvo::hyper::body::Body as _;
use shard::cluster::{CallContext, Cluster};
use uuid::Uuid;

use crate::app::App;
use crate::audit::{Suspect, Target};
use crate::auth::operators::Operator;
use crate::body;
use crate::body_limiter::{self, BodyPermit};
use crate::caller::Caller;
use crate::client::Client;
use crate::failure;
use crate::memory::{Held, Holder};
use crate::query::Query;

/// How long a request waits for a shard without a leader.
const OWNER_PATIENCE: Duration = Duration::from_secs(5);

/// Timeout of an update of the directory. It covers an election, and waiting for a node that stopped responding.
const UPDATE_PATIENCE: Duration = Duration::from_secs(10);

/// The waits of a request add up. Once a request is this old, each further wait takes [`LAST_PATIENCE`] at most, so
/// that the waits for the directory, the buckets and the work itself take less than 13 s together.
const OLD: Duration = Duration::from_secs(10);

/// How long an old request still waits: longer than a failover takes.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// The deadline of a request's next wait, which takes up to `patience`.
fn deadline(arrived: Instant, now: Instant, patience: Duration) -> Instant {
    (arrived + OLD).clamp(now + LAST_PATIENCE.min(patience), now + patience)
}

/// How long a node waits for its copy of the directory to catch up with a newer one.
const CATCHING_UP: Duration = Duration::from_millis(500);

/// The largest JSON body, in bytes, that is accepted while the disks have little room.
const SMALL_BODY: u64 = 64 * 1024;

/// A request on any route.
pub struct RequestContext {
    pub app: Arc<App>,
    pub request_id: RequestId,
    pub client: Client,
    /// When the request arrived.
    pub now: Timestamp,
    pub arrived: Instant,
    pub http: Request,
    /// The account, once it is known; shared with the pipeline, which writes the response.
    pub account: Arc<OnceLock<CustomerId>>,
    /// The largest JSON body that is read, in bytes. It is raised once the caller is authenticated.
    pub body_limit: u64,
    /// The right to process a large body of an account.
    pub body_permit: Option<BodyPermit>,
    /// The memory that such a body takes.
    pub kept: Option<Held>,
}

impl RequestContext {
    pub fn cluster(&self) -> &Cluster {
        &self.app.cluster
    }

    pub fn directory(&self) -> &Arc<Directory> {
        self.cluster().directory()
    }

    /// Has an authenticated client's connection keep its place at the port. `account` is `None` for operators.
    pub fn recognise(&self, account: Option<CustomerId>) {
        if let Some(client) = self.http.remote_addr().clone().into_std() {
            self.app.connections.recognised(client, account);
        }
    }

    /// The context for calls to owners of shards.
    pub fn context(&self) -> CallContext {
        CallContext { request_id: self.request_id.clone(), deadline: self.deadline(OWNER_PATIENCE) }
    }

    /// Reads the body, which must be a JSON object. A large body of an account waits for a permit.
    ///
    /// # Errors
    /// Those of [`body::json`], `bad_request` for invalid JSON, `invalid_request` for JSON that is no object, and
    /// `worker_at_capacity` when no permit is free in time.
    pub async fn object(&mut self) -> Result<Body, CallError> {
        self.object_within(self.body_limit).await
    }

    /// Reads the body of a send, which has a smaller limit.
    ///
    /// # Errors
    /// As [`RequestContext::object`].
    pub async fn send_object(&mut self) -> Result<Body, CallError> {
        self.object_within(SEND_LIMIT_BYTES).await
    }

    /// Reads the body of a route for which it is optional.
    ///
    /// # Errors
    /// As [`RequestContext::object`].
    pub async fn optional_object(&mut self) -> Result<Body, CallError> {
        self.can_take_body(self.body_limit)?;
        match body::optional_json(&mut self.http, self.body_limit).await? {
            Some(bytes) => self.parse(&bytes).await,
            None => Ok(Body::default()),
        }
    }

    /// Reads a body that is not JSON.
    ///
    /// # Errors
    /// `payload_too_large`, and `storage_full` while the disks have little room.
    pub async fn octets(&mut self, limit: u64) -> Result<Bytes, CallError> {
        self.can_take_body(limit)?;
        body::octets(&mut self.http, limit).await
    }

    async fn object_within(&mut self, limit: u64) -> Result<Body, CallError> {
        self.can_take_body(limit)?;
        let bytes = body::json(&mut self.http, limit).await?;
        self.parse(&bytes).await
    }

    async fn parse(&mut self, bytes: &[u8]) -> Result<Body, CallError> {
        if let Some(account) = self.account.get().filter(|_| bytes.len() > body_limiter::SMALL) {
            self.body_permit = Some(self.app.body_limiter.take(*account).await?);
        }
        Body::parse(bytes)
    }

    /// Refuses large bodies while the disks, where they would be stored, or the account's share of memory lack room.
    fn can_take_body(&mut self, limit: u64) -> Result<(), CallError> {
        let announced = self.http.headers().get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let is_empty = self.http.body().is_end_stream();
        let is_small = is_empty || announced.is_some_and(|length: u64| length <= SMALL_BODY);
        if !is_small && self.cluster().room().large() != Level::Enough {
            metrics::counter!("gateway_refused_for_room_total", "what" => "body").increment(1);
            return Err(CallError::storage_full());
        }
        let length = if is_empty { 0 } else { announced.unwrap_or(limit).min(limit) as usize };
        if let Some(account) = self.account.get().copied().filter(|_| length > body_limiter::SMALL) {
            self.kept = Some(self.app.memory.body(Holder::Account(account), length)?);
        }
        Ok(())
    }

    pub fn query(&self) -> Query<'_> {
        Query::of(&self.http)
    }

    /// Parses the query.
    ///
    /// # Errors
    /// `invalid_request` with all issues.
    pub fn asked<T>(&self, parser: impl FnOnce(&Query<'_>) -> T) -> Result<T, CallError> {
        let query = self.query();
        let asked = parser(&query);
        query.finish(asked)
    }

    /// A path parameter, as text.
    pub fn parameter(&self, name: &str) -> &str {
        self.http.params().get(name).map_or("", String::as_str)
    }

    /// A path parameter that is an identifier; `None` if it is not one, in which case the resource does not exist.
    pub fn id<T: FromStr>(&self, name: &str) -> Option<T> {
        self.parameter(name).parse().ok()
    }

    /// Looks up an identifier in the path in the directory; `None` also when it is no identifier.
    pub fn known<I: FromStr, T>(&self, name: &str, look: impl FnOnce(&DirectoryState, I) -> Option<T>) -> Option<T> {
        let id = self.id(name)?;
        self.directory().read(|state| look(state, id))
    }

    /// Changes the directory. Returns once no node acts on the state before the change.
    ///
    /// # Errors
    /// The interface's code for the rejection; 503 while no leader answers, or while the disks have no room.
    pub async fn update(&self, command: Command, audit: Vec<AuditEntry>) -> Result<Updated, CallError> {
        self.has_room_for(&command)?;
        self.try_update(command, audit).await.map_err(failure::of_update)
    }

    /// Whether there is room for a command that makes the directory grow.
    ///
    /// # Errors
    /// `storage_full` while a quorum of the directory's voters has no room.
    pub fn has_room_for(&self, command: &Command) -> Result<(), CallError> {
        if command.adds() && self.cluster().directory_lacks_room() {
            metrics::counter!("gateway_refused_for_room_total", "what" => "directory").increment(1);
            return Err(CallError::storage_full());
        }
        Ok(())
    }

    /// Writes an audit entry about what an owner has done already. A failure cannot undo that, and is only logged.
    pub async fn record(&self, entry: AuditEntry) {
        let (action, target) = (entry.action.clone(), entry.target.clone());
        if let Err(error) = self.update(Command::Audit, vec![entry]).await {
            tracing::error!(action, ?target, %error, "an audit entry could not be written");
        }
    }

    /// Like [`RequestContext::update`], for callers that handle rejections themselves.
    ///
    /// # Errors
    /// [`UpdateError`].
    pub async fn try_update(&self, command: Command, audit: Vec<AuditEntry>) -> Result<Updated, UpdateError> {
        self.directory().update(command, audit, self.deadline(UPDATE_PATIENCE)).await
    }

    fn deadline(&self, patience: Duration) -> Instant {
        deadline(self.arrived, Instant::now(), patience)
    }

    /// Notes a failed authentication for the audit log.
    pub fn note_failure(&self, suspect: Suspect, code: ErrorCode) {
        self.app.failures.note(&self.client, &self.request_id, self.now, suspect, code);
    }

    /// A successful entry of a customer's audit log.
    pub fn audit_entry(&self, customer: CustomerId, action: &str, actor: AuditActor, target: Target) -> AuditEntry {
        AuditEntry {
            customer_id: Some(customer),
            ip: Some(self.client.ip.to_string()),
            user_agent: self.client.user_agent.clone(),
            request_id: Some(self.request_id.to_string()),
            ..AuditEntry::done(AuditId::new(), action, actor, target, self.now)
        }
    }

    /// An entry for a login or its end. Their number is not bounded, so beyond a number they are folded (`LoginLog`).
    pub fn login_entry(&self, customer: CustomerId, action: &str, actor: AuditActor, target: Target) -> AuditEntry {
        self.app.logins.told(self.audit_entry(customer, action, actor, target))
    }
}

/// An authenticated request of an account that was charged to a bucket and passed the checks of its route.
pub struct AccountCall {
    pub ctx: RequestContext,
    pub caller: Caller,
    /// The bucket that has paid for this request, and its level afterwards.
    pub charged: Charged,
}

/// The bucket that an account's request takes a token from: the customer's for the interface, or that of the member's
/// session for the console. In the console no channel's bucket is charged.
#[derive(Clone, Copy, Debug)]
pub struct Charged {
    pub scope: LimitScope,
    pub level: BucketLevel,
}

impl AccountCall {
    pub fn customer_id(&self) -> CustomerId {
        self.caller.customer.id
    }

    /// The channel that the key is bound to.
    pub fn bound_channel(&self) -> Option<ChannelId> {
        self.caller.bound_channel()
    }

    /// Whether the key may see something that belongs to `channel`, or to the account when that is `None`.
    pub fn reaches(&self, channel: Option<ChannelId>) -> bool {
        self.bound_channel().is_none_or(|bound| channel == Some(bound))
    }

    /// Returns a live channel of the account, named in the path, the body or the query.
    ///
    /// # Errors
    /// `channel_not_found`, or `channel_access_denied` when the key is bound to another channel.
    pub fn own_channel(&self, id: ChannelId) -> Result<Arc<ChannelRecord>, CallError> {
        let channel = self.directory().read(|state| state.channel(id).cloned());
        let own = channel.filter(|channel| channel.customer_id == self.customer_id());
        let channel = own.ok_or_else(CallError::channel_not_found)?;
        match self.bound_channel() {
            Some(bound) if bound != id => Err(CallError::channel_access_denied(bound)),
            _ => Ok(channel),
        }
    }

    /// Checks whether the caller may create something that belongs to `channel`, or to the account when that is `None`.
    ///
    /// # Errors
    /// As [`Self::own_channel`], and `channel_scoped_key` when a bound key names no channel.
    pub fn may_bind_to(&self, channel: Option<ChannelId>) -> Result<(), CallError> {
        match (channel, self.bound_channel()) {
            (Some(id), _) => self.own_channel(id).map(drop),
            (None, Some(bound)) => Err(CallError::channel_scoped_key(bound)),
            (None, None) => Ok(()),
        }
    }

    /// The id of a list: all of what a route shows of the account, or the part that belongs to the resource `within`.
    /// Cursors are only valid for the same account, resource and order.
    pub fn list(&self, within: Option<Uuid>, ascending: bool) -> ListId {
        let within = within.unwrap_or_default();
        ListId::of(&[self.customer_id().as_bytes(), within.as_bytes(), &[u8::from(ascending)]])
    }

    /// An audit entry by this caller.
    pub fn audited(&self, action: &str, target: Target) -> AuditEntry {
        self.audit_entry(self.customer_id(), action, self.caller.actor(), target)
    }
}

/// A request on one channel of the account.
///
/// The channel's token is taken as late as possible: with the work at the owner ([`ChannelCall::ask`]), before an
/// update ([`ChannelCall::update`]), or else by the pipeline after the handler. So a send costs one call to the owner,
/// and a refused request still costs its token.
pub struct ChannelCall {
    pub account: AccountCall,
    pub channel: Arc<ChannelRecord>,
    pub token: ChannelToken,
}

/// The token of a channel's bucket that a request on it costs.
pub struct ChannelToken {
    channel: ChannelId,
    /// `None` for a call that costs the channel nothing.
    rule: Option<BucketRule>,
    /// The level of the bucket, once the owner has told it.
    level: Option<BucketLevel>,
    refused: bool,
    /// Set when the owner could not be reached. Trying again would only make the caller wait twice.
    unreachable: bool,
}

impl ChannelToken {
    pub fn new(channel: ChannelId, rule: Option<BucketRule>) -> Self {
        Self { channel, rule, level: None, refused: false, unreachable: false }
    }

    pub fn level(&self) -> Option<&BucketLevel> {
        self.level.as_ref()
    }

    /// Whether the bucket was empty, so that the customer's token must be returned.
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// Takes the token, unless that was done already.
    ///
    /// # Errors
    /// `rate_limited`, or 503 while the channel's shard has no leader.
    pub async fn settle(&mut self, call: &AccountCall) -> Result<(), CallError> {
        let Some(rule) = self.due().filter(|_| !self.unreachable) else { return Ok(()) };
        let (customer, context) = (call.customer_id(), call.context());
        let taking = call.cluster().take_channel(customer, self.channel, rule, &context).await;
        let (level, taken) = taking.inspect_err(|_| self.unreachable = true)?;
        self.level = Some(level);
        self.refused = !taken;
        if taken { Ok(()) } else { Err(failure::empty_bucket(LimitScope::Channel, &level)) }
    }

    /// The token to take together with work at the owner.
    fn due(&self) -> Option<BucketRule> {
        self.rule.filter(|_| self.level.is_none())
    }

    /// Notes what the owner reported of the bucket.
    fn taken_with<T>(&mut self, level: Option<BucketLevel>, done: &Result<T, CallError>) {
        self.unreachable = self.level.is_none() && level.is_none() && done.is_err();
        if let Some(level) = level {
            self.level = Some(level);
            self.refused = done.as_ref().is_err_and(|error| is_bucket_refusal(error, &level));
        }
    }
}

impl ChannelCall {
    /// Takes the channel's token before work that does not go to the owner.
    ///
    /// # Errors
    /// As [`ChannelToken::settle`].
    pub async fn settle(&mut self) -> Result<(), CallError> {
        self.token.settle(&self.account).await
    }

    /// Sends a request to the channel's owner, and takes the channel's token there.
    ///
    /// # Errors
    /// Those of the request, `rate_limited`, or 503 while the channel's shard has no leader.
    pub async fn ask<R: shard::call::request::Request>(&mut self, request: R) -> Result<R::Reply, CallError> {
        let (customer, channel, due) = (self.customer_id(), self.channel.id, self.token.due());
        let (level, done) = self.cluster().channel(customer, channel, due, request, &self.context()).await;
        self.token.taken_with(level, &done);
        if done.as_ref().is_err_and(|error| error.code == ErrorCode::ChannelNotFound) {
            // The owner's copy of the directory is ahead of this node's, which must not show the deleted channel again.
            // Without a leader of the directory this fails, but the copy then becomes too old to be used.
            let _ = self.directory().refresh(Instant::now() + CATCHING_UP).await;
        }
        done
    }

    /// Takes the channel's token, then changes the directory.
    ///
    /// # Errors
    /// As [`ChannelCall::settle`] and [`RequestContext::update`].
    pub async fn update(&mut self, command: Command, audit: Vec<AuditEntry>) -> Result<Updated, CallError> {
        self.settle().await?;
        self.account.update(command, audit).await
    }
}

/// Tells the refusal of the channel's bucket from that of other limits of the owner, such as for pair codes.
fn is_bucket_refusal(error: &CallError, level: &BucketLevel) -> bool {
    let limit = error.details.as_ref().and_then(|details| details["limit"].as_u64());
    error.code == ErrorCode::RateLimited && level.remaining == 0 && limit == Some(u64::from(level.limit))
}

/// A request with an operator's token.
pub struct OperatorCall {
    pub ctx: RequestContext,
    pub operator: Operator,
}

impl OperatorCall {
    /// An entry of a customer's audit log by the operator.
    pub fn audited(&self, customer: CustomerId, action: &str, target: Target) -> AuditEntry {
        let actor = AuditActor { id: self.operator.name.clone(), ..AuditActor::of_kind("operator") };
        self.audit_entry(customer, action, actor, target)
    }

    /// An audit entry by the operator that belongs to no customer.
    pub fn audited_of_cluster(&self, action: &str, target: Target) -> AuditEntry {
        AuditEntry { customer_id: None, ..self.audited(CustomerId(Uuid::nil()), action, target) }
    }
}

/// Declares that one kind of call contains another, by `Deref`.
macro_rules! contains {
    ($($outer:ident . $field:ident: $inner:ident;)*) => {$(
        impl Deref for $outer {
            type Target = $inner;
            fn deref(&self) -> &$inner {
                &self.$field
            }
        }

        impl DerefMut for $outer {
            fn deref_mut(&mut self) -> &mut $inner {
                &mut self.$field
            }
        }
    )*};
}

contains! {
    AccountCall.ctx: RequestContext;
    ChannelCall.account: AccountCall;
    OperatorCall.ctx: RequestContext;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_request_waits_for_in_turn_ends_within_its_time_and_an_old_one_still_waits_out_a_fail_over() {
        let seconds = Duration::from_secs;
        let arrived = Instant::now();
        let mut now = arrived;
        for (patience, waited) in [(OWNER_PATIENCE, 5), (OWNER_PATIENCE, 10), (UPDATE_PATIENCE, 12)] {
            now = deadline(arrived, now, patience);
            assert_eq!(now, arrived + seconds(waited));
        }
        assert_eq!(deadline(arrived, arrived + seconds(60), OWNER_PATIENCE), arrived + seconds(60) + LAST_PATIENCE);
        assert_eq!(deadline(arrived, arrived, CATCHING_UP), arrived + CATCHING_UP);
    }

    #[test]
    fn a_refusal_of_the_bucket_is_told_from_other_limits() {
        let level = |remaining| BucketLevel { limit: 60, remaining, reset_at: Timestamp(0), retry_after: 1 };
        let bucket = CallError::rate_limited(LimitScope::Channel, 60, 1);
        let pair_codes = CallError::rate_limited(LimitScope::Channel, 1, 40);
        assert!(is_bucket_refusal(&bucket, &level(0)));
        assert!(!is_bucket_refusal(&pair_codes, &level(0)));
        assert!(!is_bucket_refusal(&bucket, &level(5)));
        assert!(!is_bucket_refusal(&CallError::channel_not_found(), &level(0)));
    }
}
