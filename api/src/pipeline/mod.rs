//! The steps that every request goes through (docs/design/http.md):
//!
//! request id → per-IP bucket → key → customer bucket → \[channel bucket\] → scope → channel lookup → key binding →
//! plan → handler (body, then work).
//!
//! A CORS preflight (`OPTIONS`) is answered after the per-IP bucket.
//!
//! The channel's token is taken at the channel's owner in the same call as the work, so a send costs one call to the
//! owner. When an earlier check fails, the token is taken alone, and its refusal takes precedence. So a caller sees the
//! order above.

mod authentication;
mod cors;
mod head;
mod path_metrics;
mod rate;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt;
use model::error::{CallError, ErrorCode, JSON_LIMIT_BYTES};
use model::id::{ChannelId, CustomerId, RequestId};
use model::limit::{BucketLevel, LimitScope};
use model::time::Timestamp;
use raft::directory::records::ChannelRecord;
use salvo::http::header::{
    ACCEPT, ACCEPT_ENCODING, ALLOW, CONNECTION, LOCATION, STRICT_TRANSPORT_SECURITY, VARY, X_CONTENT_TYPE_OPTIONS,
};
use salvo::http::{HeaderName, HeaderValue, Method, StatusCode};
use salvo::{Depot, FlowCtrl, Handler, Request, Response, async_trait};
use shard::trace::{self, Kind, Place};
use tracing::{Instrument, Span, field};

pub use authentication::ticket::Grant as TicketGrant;
pub use authentication::{Address, caller, fresh_directory};
pub use head::MOST_HTTP2_LIST;

use crate::app::App;
use crate::body::STRANGERS_LIMIT_BYTES;
use crate::caller::Caller;
use crate::client::client_of;
use crate::failure;
use crate::memory::Holder;
use crate::openapi::{judge_parameter, parameters_of};
use crate::reply::{HTTPS_ALONE, Outcome, Reply};
use crate::request_context::{AccountCall, ChannelCall, ChannelToken, Charged, OperatorCall, RequestContext};
use crate::route::{Action, Endpoint, Grant, PathRoutes, Route, Rules};
use crate::unread::Unread;
use authentication::{DIRECTORY_OLD, ticket};
use cors::Judgement;
use path_metrics::PathMetrics;
use rate::RateHeaders;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Runs the steps before the handlers of one path, and finishes the response.
pub struct Pipeline {
    app: Arc<App>,
    /// `None` where no route matches.
    paths: Option<PathRoutes>,
    /// Path of the start page that browsers at the root are redirected to; empty where a route matches.
    home: &'static str,
    entry: Entry,
    metrics: PathMetrics,
}

/// How an account's request comes in, which decides the bucket that pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The public interface; charges the customer's bucket and the channel's.
    Interface,
    /// The console's copy of the interface; only for members, and charges the bucket of their session.
    Console,
}

/// An outcome, and the rate limit headers that go with it.
struct Answered {
    outcome: Outcome,
    rate: Option<RateHeaders>,
}

impl Answered {
    fn uncounted(outcome: Outcome) -> Self {
        Self { outcome, rate: None }
    }

    /// A refusal by an empty bucket.
    fn by_bucket(scope: LimitScope, level: &BucketLevel) -> Self {
        Self { outcome: Err(failure::empty_bucket(scope, level)), rate: Some(RateHeaders::new(scope, level)) }
    }
}

impl From<CallError> for Answered {
    fn from(error: CallError) -> Self {
        Self::uncounted(Err(error))
    }
}

impl Pipeline {
    pub fn new(app: Arc<App>, paths: PathRoutes, entry: Entry) -> Self {
        let metrics = PathMetrics::new(paths.path);
        Self { app, paths: Some(paths), home: "", entry, metrics }
    }

    /// Answers requests that match no route. Browsers that ask for the root are redirected to the page `home`.
    pub fn nowhere(app: Arc<App>, home: &'static str) -> Self {
        Self { app, paths: None, home, entry: Entry::Interface, metrics: PathMetrics::new("") }
    }

    async fn answer(&self, ctx: RequestContext, origin: &Judgement) -> Answered {
        if let Err(error) = head::judge(&ctx.http) {
            return error.into();
        }
        if let Err(level) = self.app.take_from_address(ctx.client.ip, Timestamp::steady()) {
            return Answered::by_bucket(LimitScope::Ip, &level);
        }
        let Some(paths) = &self.paths else { return Answered::uncounted(self.lead_home(&ctx.http)) };
        if let Some(preflight) = origin.preflight(&ctx.http, paths) {
            return Answered::uncounted(Ok(preflight));
        }
        let Some(route) = paths.find(ctx.http.method()) else {
            // [`Pipeline::handle`] adds the `Allow` header with the methods of this path.
            return CallError::route_not_found().into();
        };
        self.run(ctx, route).await.unwrap_or_else(|refused| refused)
    }

    /// Redirects browsers at the root to the start page, since people type a port's address into a browser. Every other
    /// request is told that there is no such route.
    fn lead_home(&self, request: &Request) -> Outcome {
        let accepts = request.headers().get(ACCEPT).and_then(|types| types.to_str().ok());
        let is_browser = request.method() == Method::GET && accepts.is_some_and(|types| types.contains("text/html"));
        if is_browser && request.uri().path() == "/" {
            let reply = Reply::empty(StatusCode::FOUND).with(LOCATION, HeaderValue::from_static(self.home));
            return Ok(reply.with(VARY, HeaderValue::from_static("Accept")));
        }
        Err(CallError::new(ErrorCode::NotFound, "no such route; /docs lists all routes"))
    }

    /// The error is a refusal before the handler ran. Rarely taken branches are boxed here and below, because every
    /// request's future has the size of its largest unboxed branch.
    async fn run(&self, mut ctx: RequestContext, route: &Route) -> Result<Answered, Answered> {
        Ok(match &route.action {
            Action::Public(endpoint) => {
                let outcome = guarded(&**endpoint, &mut ctx).await;
                let rate = outcome.as_ref().err().and_then(RateHeaders::refused_by);
                Answered { outcome, rate }
            }
            Action::Operator(endpoint) => Answered::uncounted(Box::pin(operate(ctx, route, &**endpoint)).await),
            Action::Account(endpoint) => account(admit(ctx, self.entry).await?, route, &**endpoint).await,
            Action::Channel(endpoint) => channel(admit(ctx, self.entry).await?, route, &**endpoint).await,
        })
    }
}

async fn operate(mut ctx: RequestContext, route: &Route, endpoint: &dyn Endpoint<OperatorCall>) -> Outcome {
    let rules = &route.rules;
    let operator = authentication::operator(&ctx, rules).await?;
    ctx.recognise(None);
    ctx.body_limit = JSON_LIMIT_BYTES;
    let is_fresh = authentication::operators_directory_is_fresh(&ctx, rules).await?;
    check_path(&ctx, route.path)?;
    let reply = guarded(endpoint, &mut OperatorCall { ctx, operator }).await?;
    Ok(if is_fresh { reply } else { reply.with(DIRECTORY_OLD, HeaderValue::from_static("true")) })
}

/// Authenticates, then takes the token that the request costs.
async fn admit(mut ctx: RequestContext, entry: Entry) -> Result<AccountCall, Answered> {
    let caller = match ticket::shown(&ctx).filter(|_| entry == Entry::Interface) {
        Some(text) => Box::pin(ticket::redeem(&ctx, text)).await?,
        None => authentication::caller(&ctx, Address::Confirmed).await?,
    };
    ctx.recognise(Some(caller.customer.id));
    let _ = ctx.account.set(caller.customer.id);
    if ctx.app.memory.is_full(Holder::Account(caller.customer.id)) {
        return Err(CallError::worker_at_capacity().into());
    }
    ctx.body_limit = JSON_LIMIT_BYTES;
    Span::current().record("customer", field::display(caller.customer.id));
    let (bucket, rule, scope) = match (entry, caller.session()) {
        (Entry::Interface, _) => (caller.customer.id, ctx.app.customer_rule(&caller.customer), LimitScope::Customer),
        (Entry::Console, Some(session)) => {
            (CustomerId(session.bucket(caller.customer.id)), ctx.app.config.limits.console, LimitScope::Session)
        }
        // The console's copy of the interface does not exist for API keys.
        (Entry::Console, None) => return Err(CallError::route_not_found().into()),
    };
    let (level, taken) = ctx.cluster().charge_customer(bucket, rule, &ctx.context()).await?;
    if !taken {
        return Err(Answered::by_bucket(scope, &level));
    }
    Ok(AccountCall { ctx, caller, charged: Charged { scope, level } })
}

async fn account(mut call: AccountCall, route: &Route, endpoint: &dyn Endpoint<AccountCall>) -> Answered {
    let rules = &route.rules;
    let allowed = check_grant(&call.caller, rules).and_then(|()| check_plan(&call.caller, rules, call.now));
    let allowed = allowed.and_then(|()| check_path(&call, route.path));
    let outcome = match allowed {
        Ok(()) => guarded(endpoint, &mut call).await,
        Err(error) => Err(error),
    };
    let refused = outcome.as_ref().err().and_then(RateHeaders::refused_by);
    Answered { outcome, rate: Some(refused.unwrap_or_else(|| RateHeaders::deciding(&call.charged, None))) }
}

async fn channel(call: AccountCall, route: &Route, endpoint: &dyn Endpoint<ChannelCall>) -> Answered {
    let rules = &route.rules;
    let Some(id) = call.id::<ChannelId>("id") else {
        // An invalid id has no bucket to charge; the scope is still checked first.
        let outcome = check_grant(&call.caller, rules).and(Err(CallError::channel_not_found()));
        return Answered { outcome, rate: Some(RateHeaders::deciding(&call.charged, None)) };
    };
    let pays = call.charged.scope != LimitScope::Session;
    let mut token = ChannelToken::new(id, pays.then(|| call.app.channel_rule(&call.caller.customer)));
    let checked = check_channel(&call, rules, id).and_then(|channel| check_path(&call, route.path).map(|()| channel));
    match checked {
        Ok(channel) => {
            let mut call = ChannelCall { account: call, channel, token };
            let outcome = guarded(endpoint, &mut call).await;
            let ChannelCall { account, mut token, .. } = call;
            finish(account, &mut token, outcome).await
        }
        Err(error) => finish(call, &mut token, Err(error)).await,
    }
}

/// Takes the channel's token if still due. Its refusal replaces the outcome, and returns the customer's token.
async fn finish(call: AccountCall, token: &mut ChannelToken, outcome: Outcome) -> Answered {
    let outcome = token.settle(&call).await.and(outcome);
    if token.was_refused() {
        Box::pin(call.cluster().refund_customer(call.customer_id(), &call.context())).await;
    }
    let refused = outcome.as_ref().err().and_then(RateHeaders::refused_by);
    let rate = refused.unwrap_or_else(|| RateHeaders::deciding(&call.charged, token.level()));
    Answered { outcome, rate: Some(rate) }
}

fn check_channel(call: &AccountCall, rules: &Rules, id: ChannelId) -> Result<Arc<ChannelRecord>, CallError> {
    check_grant(&call.caller, rules)?;
    let channel = call.own_channel(id)?;
    check_plan(&call.caller, rules, call.now)?;
    Ok(channel)
}

/// Checks the scope, then whether a channel-bound key may call the route.
fn check_grant(caller: &Caller, rules: &Rules) -> Result<(), CallError> {
    match rules.grant {
        Grant::Scope(resource, access) => caller.scopes.require(resource, access)?,
        Grant::Account(access) => caller.require_account(access)?,
        Grant::Session => caller.require_session().map(drop)?,
    }
    match caller.bound_channel() {
        Some(bound) if rules.multi_channel => Err(CallError::channel_scoped_key(bound)),
        _ => Ok(()),
    }
}

fn check_plan(caller: &Caller, rules: &Rules, now: Timestamp) -> Result<(), CallError> {
    let blocked = rules.plan_blocks.then(|| caller.customer.plan.blocks(now)).flatten();
    blocked.map_or(Ok(()), Err)
}

/// Validates path parameters by the same rules as fields of a body.
fn check_path(ctx: &RequestContext, path: &str) -> Result<(), CallError> {
    for name in parameters_of(path) {
        judge_parameter(path, name, ctx.parameter(name)).map_err(|violation| violation.at(&[name]))?;
    }
    Ok(())
}

/// Runs a handler. A panic in it costs only its caller, who gets an `internal_error`.
async fn guarded<C>(endpoint: &dyn Endpoint<C>, call: &mut C) -> Outcome {
    AssertUnwindSafe(endpoint.call(call)).catch_unwind().await.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        tracing::error!(panic = what.unwrap_or("unknown"), "a handler panicked");
        Err(CallError::internal_error())
    })
}

fn request_id_of(request: &Request) -> RequestId {
    let caller = request.headers().get(&REQUEST_ID).and_then(|value| value.to_str().ok());
    caller.and_then(RequestId::from_caller).unwrap_or_else(RequestId::mint)
}

/// The method's label in metrics, traces and logs. Unknown methods become `other`, so that labels stay few and short.
fn label_of(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|known| *known == method.as_str()).unwrap_or("other")
}

#[async_trait]
impl Handler for Pipeline {
    async fn handle(&self, request: &mut Request, depot: &mut Depot, response: &mut Response, _: &mut FlowCtrl) {
        let started = Instant::now();
        let request_id = request_id_of(request);
        let method = request.method().clone();
        let origin = self.app.cors_origins.judge(request);
        let path = self.paths.as_ref().map_or("", |paths| paths.path);
        let encodings: Vec<HeaderValue> = request.headers().get_all(ACCEPT_ENCODING).iter().cloned().collect();
        let unread = Unread::of(request);
        let ctx = RequestContext {
            app: self.app.clone(),
            request_id: request_id.clone(),
            client: client_of(request, &self.app.config.trusted_proxies),
            now: Timestamp::now(),
            arrived: started,
            http: std::mem::take(request),
            account: Arc::default(),
            body_limit: STRANGERS_LIMIT_BYTES,
            body_permit: None,
            kept: None,
        };
        let (account, address) = (ctx.account.clone(), ctx.client.ip);
        let label = label_of(&method);
        // The server reads the method again, to leave out the body of the response to a HEAD.
        *request.method_mut() = method.clone();

        let span = tracing::info_span!(
            "request", request_id = %request_id, method = label, path, customer = field::Empty, trace_id = field::Empty,
        );
        // Probes come every second and cause no further work, so they are not traced.
        let traced = path.starts_with("/v1/").then(|| {
            let name = || format!("{label} {path}");
            let begun = trace::begin(&request_id.0, Place::First, Kind::Server, name)?;
            span.record("trace_id", begun.trace());
            let theirs = ctx.http.headers().get("traceparent").and_then(|value| value.to_str().ok());
            Some(begun.linked(theirs).with("http.request.method", label).with("http.route", path))
        });
        let Answered { outcome, rate } = self.answer(ctx, &origin).instrument(span.clone()).await;
        let goes_on = match unread {
            Some(unread) => unread.discard().await,
            None => true,
        };
        let mut refused = outcome.as_ref().err().map(|error| error.code.as_str()).unwrap_or_default();
        let has_done_something = outcome.is_ok() && !method.is_safe();
        let mut reply = outcome.unwrap_or_else(|error| Reply::error(&error, &request_id));
        let length = if method == Method::HEAD { 0 } else { reply.length() };
        let holder = Holder::of(account.get().copied(), address);
        match self.app.memory.answer(holder, length, has_done_something) {
            Ok(None) => {}
            Ok(Some(held)) => {
                depot.insert_typed(held);
            }
            Err(error) => {
                refused = error.code.as_str();
                reply = Reply::error(&error, &request_id);
            }
        }
        if let Some(paths) = self.paths.as_ref().filter(|paths| paths.find(&method).is_none())
            && let Ok(allowed) = HeaderValue::from_str(&paths.allowed())
        {
            reply = reply.with(ALLOW, allowed);
        }
        if let Some(rate) = &rate {
            reply = rate.write(reply);
        }
        if let Ok(value) = HeaderValue::from_str(&request_id.0) {
            reply = reply.with(REQUEST_ID, value);
        }

        if !goes_on {
            reply = reply.with(CONNECTION, HeaderValue::from_static("close"));
        }
        reply = origin.write(reply).with(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.app.is_https {
            reply = reply.with(STRICT_TRANSPORT_SECURITY, HTTPS_ALONE);
        }

        let (status, elapsed) = (reply.status.as_u16(), started.elapsed());
        if let Some(traced) = traced.flatten() {
            let node = i64::try_from(self.app.cluster.node()).unwrap_or(i64::MAX);
            let failure = (status >= 500).then(|| refused.to_owned());
            let traced = traced.with("gateway.request_id", request_id.0.as_str()).with("gateway.node_id", node);
            traced.with("http.response.status_code", i64::from(status)).failed(failure).end();
        }
        span.in_scope(|| {
            let elapsed_ms = elapsed.as_secs_f64() * 1000.0;
            // A 5xx without a code answers a probe: probes come every second while a node starts, and are no failures.
            let is_failure = status >= 500 && !refused.is_empty();
            if is_failure && self.app.failure_lines.has_one(Timestamp::steady()) {
                tracing::warn!(status, code = refused, elapsed_ms, "answered");
            } else {
                tracing::debug!(status, code = refused, elapsed_ms, "answered");
            }
        });
        self.metrics.answered(label, status, elapsed);
        if let (429, Some(rate)) = (status, &rate) {
            metrics::counter!("gateway_rate_limited_total", "scope" => rate.scope.as_str()).increment(1);
        }
        // The server reads these headers again, to compress the response.
        if !reply.has_ranges() {
            for encoding in encodings {
                request.headers_mut().append(ACCEPT_ENCODING, encoding);
            }
        }
        reply.write(response);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::resources::test_caller;
    use model::scope::{Access, Resource};

    const NOW: Timestamp = Timestamp(1_767_225_600_000);
    const RULES: Rules = Rules {
        grant: Grant::Scope(Resource::Messages, Access::Write),
        multi_channel: false,
        plan_blocks: true,
        old_directory: false,
        operator_access: Access::Write,
    };

    fn code(checked: Result<(), CallError>) -> Option<ErrorCode> {
        checked.err().map(|error| error.code)
    }

    #[test]
    fn the_scope_is_judged_before_the_binding() {
        let multi = Rules { multi_channel: true, ..RULES };
        let unrestricted = Rules { grant: Grant::Account(Access::Read), ..RULES };
        let channel = Some(ChannelId::new());
        let table = [
            (&[][..], None, RULES, None),
            (&["messages.write"][..], None, RULES, None),
            (&["messages.read"][..], None, RULES, Some(ErrorCode::InsufficientScope)),
            (&["messages.*"][..], channel, RULES, None),
            (&["messages.*"][..], channel, multi, Some(ErrorCode::ChannelScopedKey)),
            (&["media.*"][..], channel, multi, Some(ErrorCode::InsufficientScope)),
            (&["messages.*"][..], None, unrestricted, Some(ErrorCode::InsufficientScope)),
            (&["*"][..], None, unrestricted, None),
        ];
        for (scopes, bound, rules, expected) in table {
            assert_eq!(code(check_grant(&test_caller(scopes, bound), &rules)), expected, "{scopes:?} {bound:?}");
        }
    }

    #[test]
    fn a_plan_blocks_only_what_declares_it() {
        let mut caller = test_caller(&[], None);
        let customer = Arc::make_mut(&mut caller.customer);
        customer.plan.overdue_since = Some(NOW);
        assert_eq!(code(check_plan(&caller, &RULES, NOW)), Some(ErrorCode::PaymentOverdue));
        assert_eq!(code(check_plan(&caller, &Rules { plan_blocks: false, ..RULES }, NOW)), None);
        assert_eq!(code(check_plan(&caller, &RULES, Timestamp(NOW.0 - 1))), None);
    }
}
