//! What a handler sees of a request: one type for each kind of route, so that a handler of a channel has a channel.

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

/// How long an update of the directory may take: an election, and a node that fell silent, lie inside.
const UPDATE_PATIENCE: Duration = Duration::from_secs(10);

/// Waits of a request add up: once it is so old, each further one takes [`LAST_PATIENCE`] at most, so that those for the
/// directory, the buckets and the work itself stay below 13 s together.
const OLD: Duration = Duration::from_secs(10);

/// How long an old request still waits: longer than a fail-over takes.
const LAST_PATIENCE: Duration = Duration::from_secs(2);

/// Until when a request waits for one thing more, which has this patience by itself.
fn deadline(arrived: Instant, now: Instant, patience: Duration) -> Instant {
    (arrived + OLD).clamp(now + LAST_PATIENCE.min(patience), now + patience)
}

/// How long a node waits for its copy of the directory after another one's was shown to be ahead.
const CATCHING_UP: Duration = Duration::from_millis(500);

/// The largest JSON body that is taken while there is little room on the disks.
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
    /// Whose it is, once that is known; also to who writes the answer.
    pub account: Arc<OnceLock<CustomerId>>,
    /// The largest JSON body that is read: more, once it is known who asks.
    pub body_limit: u64,
    /// The right to work on its body, where that is a large one of an account.
    pub body_permit: Option<BodyPermit>,
    /// The memory that it takes then.
    pub kept: Option<Held>,
}

impl RequestContext {
    pub fn cluster(&self) -> &Cluster {
        &self.app.cluster
    }

    pub fn directory(&self) -> &Arc<Directory> {
        self.cluster().directory()
    }

    /// The connection is of somebody who has shown a credential, of an account or of none: it keeps its place at the port.
    pub fn recognise(&self, account: Option<CustomerId>) {
        if let Some(client) = self.http.remote_addr().clone().into_std() {
            self.app.connections.recognised(client, account);
        }
    }

    /// For calls to owners of shards.
    pub fn context(&self) -> CallContext {
        CallContext { request_id: self.request_id.clone(), deadline: self.deadline(OWNER_PATIENCE) }
    }

    /// The body, which must be a JSON object; a large one of an account waits for its permit.
    ///
    /// # Errors
    /// Those of [`body::json`], `bad_request` for unreadable JSON, `invalid_request` for JSON that is no object, and
    /// `worker_at_capacity` when its permit does not come.
    pub async fn object(&mut self) -> Result<Body, CallError> {
        self.object_within(self.body_limit).await
    }

    /// The body of a send, which is a smaller one.
    ///
    /// # Errors
    /// As [`RequestContext::object`].
    pub async fn send_object(&mut self) -> Result<Body, CallError> {
        self.object_within(SEND_LIMIT_BYTES).await
    }

    /// The body of a route that works without one.
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

    /// The bytes of a body that is no JSON.
    ///
    /// # Errors
    /// `payload_too_large`, and `storage_full` while there is little room on the disks.
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

    /// What is large is not taken while there is little room on the disks, as it would be stored, nor while the node keeps much
    /// of its account already.
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

    /// What a parser takes from the query.
    ///
    /// # Errors
    /// `invalid_request` with all issues.
    pub fn asked<T>(&self, parser: impl FnOnce(&Query<'_>) -> T) -> Result<T, CallError> {
        let query = self.query();
        let asked = parser(&query);
        query.finish(asked)
    }

    /// A parameter of the path, as text.
    pub fn parameter(&self, name: &str) -> &str {
        self.http.params().get(name).map_or("", String::as_str)
    }

    /// A parameter of the path that is an identifier; `None` when it is none, which is a missing resource.
    pub fn id<T: FromStr>(&self, name: &str) -> Option<T> {
        self.parameter(name).parse().ok()
    }

    /// What the directory has under an identifier in the path; `None` when that is none, too.
    pub fn known<I: FromStr, T>(&self, name: &str, look: impl FnOnce(&DirectoryState, I) -> Option<T>) -> Option<T> {
        let id = self.id(name)?;
        self.directory().read(|state| look(state, id))
    }

    /// Changes the directory; returns when no node acts on what was before.
    ///
    /// # Errors
    /// The code of the interface for the rejection, or 503 while no leader answers or the disks have no room.
    pub async fn update(&self, command: Command, audit: Vec<AuditEntry>) -> Result<Updated, CallError> {
        self.has_room_for(&command)?;
        self.try_update(command, audit).await.map_err(failure::of_update)
    }

    /// Whether the directory may grow by this.
    ///
    /// # Errors
    /// `storage_full` while a quorum of its voters has no room.
    pub fn has_room_for(&self, command: &Command) -> Result<(), CallError> {
        if command.adds() && self.cluster().directory_lacks_room() {
            metrics::counter!("gateway_refused_for_room_total", "what" => "directory").increment(1);
            return Err(CallError::storage_full());
        }
        Ok(())
    }

    /// Writes an entry about what an owner has done already, so that a failure cannot undo anything: it is logged.
    pub async fn record(&self, entry: AuditEntry) {
        let (action, target) = (entry.action.clone(), entry.target.clone());
        if let Err(error) = self.update(Command::Audit, vec![entry]).await {
            tracing::error!(action, ?target, %error, "an audit entry could not be written");
        }
    }

    /// As [`RequestContext::update`], for callers that have their own answer to a rejection.
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

    /// An entry for a login or its end, of which an account has as many as its members like.
    pub fn login_entry(&self, customer: CustomerId, action: &str, actor: AuditActor, target: Target) -> AuditEntry {
        self.app.logins.told(self.audit_entry(customer, action, actor, target))
    }
}

/// A request of an account: authenticated, counted, inside its scope.
pub struct AccountCall {
    pub ctx: RequestContext,
    pub caller: Caller,
    /// Which bucket has paid for this request, and how it stands after it.
    pub charged: Charged,
}

/// The bucket that a request of an account costs a token of: the customer's, which is the budget of its programs, or that of the
/// member's session in the console. No channel's bucket pays then, either.
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

    /// A live channel of the account that the body or the query names.
    ///
    /// # Errors
    /// `channel_not_found`, or `channel_access_denied` when the key is bound to another one.
    pub fn own_channel(&self, id: ChannelId) -> Result<Arc<ChannelRecord>, CallError> {
        let channel = self.directory().read(|state| state.channel(id).cloned());
        let own = channel.filter(|channel| channel.customer_id == self.customer_id());
        let channel = own.ok_or_else(CallError::channel_not_found)?;
        match self.bound_channel() {
            Some(bound) if bound != id => Err(CallError::channel_access_denied(bound)),
            _ => Ok(channel),
        }
    }

    /// Whether something may be made that belongs to `channel`, or to the account when that is `None`.
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

    /// The account's list of what a route shows: all of it, or what belongs to the resource `within`. Another account's
    /// list, another resource's and the same in another order are others, and their cursors are refused.
    pub fn list(&self, within: Option<Uuid>, ascending: bool) -> ListId {
        let within = within.unwrap_or_default();
        ListId::of(&[self.customer_id().as_bytes(), within.as_bytes(), &[u8::from(ascending)]])
    }

    /// An entry of the audit log by this caller.
    pub fn audited(&self, action: &str, target: Target) -> AuditEntry {
        self.audit_entry(self.customer_id(), action, self.caller.actor(), target)
    }
}

/// A request on one channel of the account.
///
/// The channel's token is taken at the last moment before something happens: with the work at the owner
/// ([`ChannelCall::ask`]), before an update ([`ChannelCall::update`]), or else by the pipeline when the handler is
/// done. So a send costs one call to the owner, and a refusal still costs its token.
pub struct ChannelCall {
    pub account: AccountCall,
    pub channel: Arc<ChannelRecord>,
    pub token: ChannelToken,
}

/// The one token of a channel's bucket that a request on it costs.
pub struct ChannelToken {
    channel: ChannelId,
    /// `None` for a call that costs the channel nothing.
    rule: Option<BucketRule>,
    /// The bucket, once it was asked.
    level: Option<BucketLevel>,
    refused: bool,
    /// Set when the owner could not be reached: asking it once more would only make the caller wait twice.
    unreachable: bool,
}

impl ChannelToken {
    pub fn new(channel: ChannelId, rule: Option<BucketRule>) -> Self {
        Self { channel, rule, level: None, refused: false, unreachable: false }
    }

    pub fn level(&self) -> Option<&BucketLevel> {
        self.level.as_ref()
    }

    /// Whether the bucket was empty, so that the customer's token must go back.
    pub fn was_refused(&self) -> bool {
        self.refused
    }

    /// Takes the token, when that has not been done yet.
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

    /// What is to be taken together with work at the owner.
    fn due(&self) -> Option<BucketRule> {
        self.rule.filter(|_| self.level.is_none())
    }

    /// Notes what the owner said of the bucket.
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

    /// Asks the channel's owner, and takes the channel's token there.
    ///
    /// # Errors
    /// Those of the request, `rate_limited`, or 503 while the channel's shard has no leader.
    pub async fn ask<R: shard::call::request::Request>(&mut self, request: R) -> Result<R::Reply, CallError> {
        let (customer, channel, due) = (self.customer_id(), self.channel.id, self.token.due());
        let (level, done) = self.cluster().channel(customer, channel, due, request, &self.context()).await;
        self.token.taken_with(level, &done);
        if done.as_ref().is_err_and(|error| error.code == ErrorCode::ChannelNotFound) {
            // The owner's copy of the directory is ahead of this node's: what it has no more is not to be shown from here
            // again. Without a leader the copy grows old by itself, and is not used then.
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

/// Tells the refusal of the channel's bucket from another limit that the owner keeps, such as that of pair codes.
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

    /// An entry by the operator about what is no customer's.
    pub fn audited_of_cluster(&self, action: &str, target: Target) -> AuditEntry {
        AuditEntry { customer_id: None, ..self.audited(CustomerId(Uuid::nil()), action, target) }
    }
}

/// Declares that one kind of call contains another.
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
