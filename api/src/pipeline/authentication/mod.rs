//! Authenticates callers: turns the `Authorization` header into a caller, by a fresh enough copy of the directory
//! (docs/design/directory.md).
//!
//! [`keys`] and [`sessions`] look up what the directory knows of a key or a token. This module ensures that the copy is
//! fresh, and notes failures for the audit log.

mod keys;
mod sessions;
pub mod ticket;

use std::time::{Duration, Instant};

use jsonwebtoken::Header;
use model::api_key::{ApiKey, KEY_MARK};
use model::error::CallError;
use model::id::KeyId;
use model::scope::Access;
use raft::directory::state::DirectoryState;
use salvo::http::HeaderName;
use salvo::http::header::AUTHORIZATION;

use crate::audit::Suspect;
use crate::auth::operators::Operator;
use crate::caller::Caller;
use crate::error::http_status;
use crate::failure;
use crate::request_context::RequestContext;
use crate::route::Rules;

/// How long a request waits for a copy of the directory that is fresh enough to judge credentials by.
const REFRESH_PATIENCE: Duration = Duration::from_secs(3);

/// How long an operator's read waits for a fresh copy before it uses an old one. Longer than an election takes.
const LOOK_PATIENCE: Duration = Duration::from_millis(1500);

/// Response header that tells an operator that the answer rests on an old copy of the directory.
pub const DIRECTORY_OLD: HeaderName = HeaderName::from_static("x-directory-old");

/// The longest session token that is parsed, in bytes. Tokens of most issuers have one or two KiB.
const LONGEST_TOKEN: usize = 8 * 1024;

/// The result of looking a key or session up in the directory.
enum Verdict {
    Valid(Caller),
    /// Refused; the suspect holds what is known about whose credential it is.
    Refused(Suspect, CallError),
    Unknown,
}

/// A well-formed credential, not checked yet.
enum Token {
    Key(ApiKey),
    Session(String, Box<Header>),
}

/// Whether a member must have confirmed their email address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Address {
    Confirmed,
    /// For the routes that confirm the address or log out.
    Any,
}

/// Authenticates by API key or session token. A failure is noted for the audit log.
///
/// # Errors
/// One of the `auth_*` codes.
pub async fn caller(ctx: &RequestContext, address: Address) -> Result<Caller, CallError> {
    let caller = judge(ctx, address).await.map_err(|refused| noted(ctx, refused))?;
    if let Some(key) = caller.key() {
        ctx.app.key_use.note(key, ctx.now);
    }
    Ok(caller)
}

/// Notes a failure of the caller for the audit log. Failures of the gateway, such as a 503, are not noted.
fn noted(ctx: &RequestContext, (suspect, error): (Suspect, CallError)) -> CallError {
    if matches!(http_status(error.code), 401 | 403) {
        ctx.note_failure(suspect, error.code);
    }
    error
}

async fn judge(ctx: &RequestContext, address: Address) -> Result<Caller, (Suspect, CallError)> {
    let nobody = |error| (Suspect::Unknown(None), error);
    let token = bearer(ctx).map_err(nobody)?;
    let (verdict, shown) = match &token {
        Token::Key(key) => {
            let verdict = judge_freshly(ctx, |state| keys::judge(state, key, ctx.now)).await;
            (verdict, Some(key.prefix()))
        }
        Token::Session(token, header) => {
            let claimed = Box::pin(sessions::check(ctx, token, header)).await.map_err(nobody)?;
            let judge = |state: &DirectoryState| sessions::judge(state, &claimed, address);
            (judge_freshly(ctx, judge).await, None)
        }
    };
    match verdict {
        Verdict::Valid(caller) => Ok(caller),
        Verdict::Refused(suspect, error) => Err((suspect, error)),
        Verdict::Unknown => {
            let directory = ctx.directory();
            let suspect = shown.map(|prefix| directory.read(|state| keys::suspect(state, prefix)));
            Err((suspect.unwrap_or(Suspect::Unknown(None)), CallError::auth_invalid()))
        }
    }
}

/// Returns the caller of a key that was authenticated before, such as the key behind a ticket.
///
/// # Errors
/// One of the `auth_*` codes, with the suspect that the failure is attributed to.
async fn key_caller(ctx: &RequestContext, id: KeyId) -> Result<Caller, (Suspect, CallError)> {
    let judge = |state: &DirectoryState| {
        let known = state.keys.get(&id).cloned();
        known.map_or(Verdict::Unknown, |key| keys::judge_record(state, key, ctx.now))
    };
    match judge_freshly(ctx, judge).await {
        Verdict::Valid(caller) => Ok(caller),
        Verdict::Refused(suspect, error) => Err((suspect, error)),
        Verdict::Unknown => Err((Suspect::Unknown(None), CallError::auth_invalid())),
    }
}

/// Judges by a fresh enough copy of the directory. A credential that the copy does not know may have been created a
/// moment ago, so it is looked up once more after a refresh.
async fn judge_freshly(ctx: &RequestContext, judge: impl Fn(&DirectoryState) -> Verdict) -> Verdict {
    let directory = ctx.directory();
    if directory.is_fresh() {
        match directory.read(&judge) {
            Verdict::Unknown => {}
            known => return known,
        }
    }
    match directory.refresh(Instant::now() + REFRESH_PATIENCE).await {
        Ok(()) => directory.read(&judge),
        Err(_) => Verdict::Refused(Suspect::Unknown(None), CallError::auth_backend_unavailable()),
    }
}

/// Ensures that the copy of the directory is fresh, for routes that judge members themselves.
///
/// # Errors
/// `auth_backend_unavailable` while the directory has no leader.
pub async fn fresh_directory(ctx: &RequestContext) -> Result<(), CallError> {
    if ctx.directory().is_fresh() { Ok(()) } else { refreshed(ctx).await }
}

/// Refreshes the copy of the directory, so that it has everything that was committed before this call.
async fn refreshed(ctx: &RequestContext) -> Result<(), CallError> {
    let refreshed = ctx.directory().refresh(Instant::now() + REFRESH_PATIENCE).await;
    refreshed.map_err(|_| CallError::auth_backend_unavailable())
}

/// Authenticates by an operator's token. A failure is noted for the audit log.
///
/// # Errors
/// `auth_missing`, `auth_malformed`, `auth_invalid` or `rate_limited`; `insufficient_scope` when the token's role does
/// not allow the route.
pub async fn operator(ctx: &RequestContext, rules: &Rules) -> Result<Operator, CallError> {
    let judged = match bearer_token(ctx) {
        Ok(token) => ctx.app.operators.authenticate(ctx.client.ip, token).await,
        Err(error) => Err(error),
    };
    let operator = judged.inspect_err(|error| ctx.note_failure(Suspect::Unknown(None), error.code))?;
    match (rules.operator_access, operator.access) {
        (Access::Write, Access::Read) => {
            Err(CallError::insufficient_scope(&["write".to_owned()], &["read".to_owned()]))
        }
        _ => Ok(operator),
    }
}

/// Ensures that the directory an operator reads is fresh, or returns `false` when it is not and the route allows that
/// (`rules.old_directory`). A refresh fails while a majority of the directory's voters is down or unreachable from this
/// node.
///
/// # Errors
/// 503 while the directory has no leader, for routes that need one.
pub async fn operators_directory_is_fresh(ctx: &RequestContext, rules: &Rules) -> Result<bool, CallError> {
    let directory = ctx.directory();
    if directory.is_fresh() {
        return Ok(true);
    }
    let patience = if rules.old_directory { LOOK_PATIENCE } else { REFRESH_PATIENCE };
    match directory.refresh(Instant::now() + patience).await {
        Ok(()) => Ok(true),
        Err(_) if rules.old_directory => Ok(false),
        Err(error) => Err(failure::of_update(error)),
    }
}

fn bearer_token(ctx: &RequestContext) -> Result<&str, CallError> {
    bearer_text(authorization(ctx)?).ok_or_else(CallError::auth_malformed)
}

fn authorization(ctx: &RequestContext) -> Result<&str, CallError> {
    let mut values = ctx.http.headers().get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or_else(CallError::auth_missing)?;
    if values.next().is_some() {
        return Err(CallError::auth_malformed());
    }
    value.to_str().map_err(|_| CallError::auth_malformed())
}

/// Returns the token behind the `Bearer` scheme, which is matched regardless of case.
fn bearer_text(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim_matches(' '))
}

fn bearer(ctx: &RequestContext) -> Result<Token, CallError> {
    parse_token(bearer_token(ctx)?).ok_or_else(CallError::auth_malformed)
}

/// A key starts with [`KEY_MARK`]; any other token must have the form of a signed JWT.
fn parse_token(text: &str) -> Option<Token> {
    if text.starts_with(KEY_MARK) {
        return ApiKey::parse(text).map(Token::Key);
    }
    let url_safe = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    let parts: Vec<&str> = text.split('.').collect();
    let well_formed = text.len() <= LONGEST_TOKEN
        && parts.len() == 3
        && parts.iter().all(|part| !part.is_empty() && part.bytes().all(url_safe));
    // A header with an unknown algorithm, such as `none`, does not decode and makes the token malformed.
    let header = well_formed.then(|| jsonwebtoken::decode_header(text).ok()).flatten()?;
    Some(Token::Session(text.to_owned(), Box::new(header)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_key_nor_signed_token_is_malformed() {
        let jwt = |header: &str| {
            use base64::Engine;
            let header = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(header);
            format!("{header}.e30.c2ln")
        };
        let table = [
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uVd".to_owned(), true),
            ("zpk_9fK2mQ7bW1xYt0Zr4LqS8uV.e30.c2ln".to_owned(), false),
            (jwt(r#"{"alg":"HS256","typ":"JWT"}"#), true),
            (jwt(r#"{"alg":"RS256","kid":"a"}"#), true),
            (jwt(r#"{"alg":"none"}"#), false),
            (jwt("{}"), false),
            (jwt("nonsense"), false),
            ("a.b".to_owned(), false),
            ("a.b.c".to_owned(), false),
            ("not-a-key".to_owned(), false),
            (format!("{}.{}.c2ln", jwt("{}"), "x".repeat(9000)), false),
            (String::new(), false),
        ];
        for (text, well_formed) in table {
            assert_eq!(parse_token(&text).is_some(), well_formed, "{text}");
        }
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        assert_eq!(bearer_text("Bearer x"), Some("x"));
        assert_eq!(bearer_text("BEARER  x "), Some("x"));
        for header in ["Basic x", "Bearerx", "x", ""] {
            assert_eq!(bearer_text(header), None, "{header:?}");
        }
    }
}
