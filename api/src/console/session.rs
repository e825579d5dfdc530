//! `/console/session`: login of members to the console. The page gets the access token and keeps it in memory. The
//! refresh token is in a cookie that scripts cannot read, and that is sent only to this path.

use model::error::CallError;
use model::field::{Body, rule};
use salvo::http::HeaderValue;
use salvo::http::header::{COOKIE, SET_COOKIE};
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use crate::auth::session::TokensView;
use crate::failure;
use crate::pipeline::fresh_directory;
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;
use crate::resources::{end_session, exchange_token};

/// Header by which a browser marks a page's own requests; other sites' pages cannot forge it.
const FETCH_SITE: &str = "sec-fetch-site";

/// The lifetime of the cookie: that of an unused session.
const COOKIE_SECONDS: u64 = 30 * 24 * 3600;

/// The longest text that is accepted as a refresh token, in characters.
const LONGEST_TOKEN: usize = 1024;

#[derive(Serialize, JsonSchema)]
pub struct ConsoleSession {
    /// Access token for the header `Authorization: Bearer`.
    access_token: String,
    /// Seconds until the access token expires.
    expires_in: u64,
    /// Whether the network is simulated, and has a phone scan a QR code on request.
    simulated_phones: bool,
}

pub async fn log_in(ctx: &mut RequestContext) -> Outcome {
    require_own_page(ctx)?;
    let tokens = crate::resources::log_in(ctx).await?;
    signed_in(ctx, tokens).await
}

/// Refreshes the session by the cookie. On the node's own machine a token in the body works, too: `gateway dev` signs
/// its user in by a single-use link.
pub async fn refresh(ctx: &mut RequestContext) -> Outcome {
    require_own_page(ctx)?;
    let given = parse_link(&ctx.optional_object().await?)?;
    if given.is_some() && !ctx.client.ip.is_loopback() {
        return Err(CallError::bad_request("sign-in links work only on the node's own machine; log in instead"));
    }
    let token = match given {
        Some(token) => token,
        None => cookie(ctx).await?.ok_or_else(CallError::auth_missing)?,
    };
    let tokens = exchange_token(ctx, &token).await?;
    signed_in(ctx, tokens).await
}

/// Reads `{ "refresh_token"? }`.
fn parse_link(body: &Body) -> Result<Option<String>, CallError> {
    body.read(|fields| Some(fields.optional("refresh_token", rule::text(1..=LONGEST_TOKEN))))
}

pub async fn log_out(ctx: &mut RequestContext) -> Outcome {
    require_own_page(ctx)?;
    if let Some(token) = cookie(ctx).await? {
        end_session(ctx, &token).await?;
    }
    Ok(Reply::no_content().with(SET_COOKIE, set_cookie(ctx, "", 0).await?))
}

/// Refuses requests of other sites' pages, which could otherwise log their visitors in or out.
pub(super) fn require_own_page(ctx: &RequestContext) -> Result<(), CallError> {
    let site = ctx.http.headers().get(FETCH_SITE).map(HeaderValue::as_bytes);
    if site == Some(b"same-origin") {
        return Ok(());
    }
    let advice = "this call is for the console's own pages, of which browsers say so over HTTPS or on the node's machine; \
        a program logs in with POST /v1/auth/login";
    Err(CallError::bad_request(advice))
}

async fn signed_in(ctx: &RequestContext, tokens: TokensView) -> Outcome {
    let TokensView { access_token, expires_in, refresh_token } = tokens;
    let view = ConsoleSession { access_token, expires_in, simulated_phones: ctx.app.config.simulated_phones.is_some() };
    let cookie = set_cookie(ctx, &refresh_token, COOKIE_SECONDS).await?;
    Ok(Reply::ok(&view).uncached().with(SET_COOKIE, cookie))
}

/// The cookie's name, specific to the cluster and the same on all its nodes. Cookies ignore ports, so clusters on one
/// machine would otherwise log their members out of each other. The cluster's id cannot be read from the name. If the
/// deployment has TLS, the name has the prefix `__Secure-`, with which browsers accept cookies only over TLS.
fn cookie_name(is_https: bool, cluster: Uuid) -> String {
    let prefix = if is_https { "__Secure-" } else { "" };
    format!("{prefix}gateway_session_{}", Uuid::new_v5(&cluster, b"console session").simple())
}

/// The cookie's name for the cluster of this node. A node that has just started does not know its cluster yet, and
/// would find no cookie under another name and tell members to log in again. So it refreshes the directory first.
///
/// # Errors
/// `auth_backend_unavailable` while the node does not know its cluster.
async fn own_cookie_name(ctx: &RequestContext) -> Result<String, CallError> {
    let known = || ctx.directory().read(|state| state.cluster.as_ref().map(|cluster| cluster.cluster_id));
    if known().is_none() {
        fresh_directory(ctx).await?;
    }
    let cluster = known().ok_or_else(CallError::auth_backend_unavailable)?;
    Ok(cookie_name(is_https(ctx), cluster))
}

fn is_https(ctx: &RequestContext) -> bool {
    ctx.app.config.base_url.starts_with("https://")
}

async fn set_cookie(ctx: &RequestContext, value: &str, seconds: u64) -> Result<HeaderValue, CallError> {
    let secure = if is_https(ctx) { "; Secure" } else { "" };
    let name = own_cookie_name(ctx).await?;
    let text = format!("{name}={value}; Path=/console/session; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::try_from(text).map_err(|error| failure::internal("a cookie could not be written", &error))
}

async fn cookie(ctx: &RequestContext) -> Result<Option<String>, CallError> {
    let wanted = own_cookie_name(ctx).await?;
    let headers = ctx.http.headers().get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut cookies = headers.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let found = cookies.find(|(name, value)| *name == wanted && (1..=LONGEST_TOKEN).contains(&value.len()));
    Ok(found.map(|(_, value)| value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clusters_on_one_machine_keep_their_sessions_under_names_of_their_own() {
        let (one, other) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let name = cookie_name(false, one);
        assert_eq!(name, cookie_name(false, one), "the same on all nodes");
        assert_ne!(name, cookie_name(false, other));
        assert_eq!(cookie_name(true, one), format!("__Secure-{name}"));
        assert!(name.starts_with("gateway_session_") && !name.contains(&one.simple().to_string()), "{name}");
    }
}
