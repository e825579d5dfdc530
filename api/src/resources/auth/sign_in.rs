//! Login, refresh and logout.

use std::sync::Arc;

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::session_token::RefreshToken;
use raft::directory::UpdateError;
use raft::directory::command::{Command, Rejection, Reply as Updated};
use raft::directory::users::{PasswordHash, SessionRecord, UserCommand, UserRecord};
use subtle::ConstantTimeEq;

use super::attempts::{self, Attempt};
use crate::audit::{Suspect, Target};
use crate::auth::session::{self, TokensView};
use crate::failure::{self, of_kind};
use crate::pipeline::{Address, caller, fresh_directory};
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;

/// The longest text that is checked as a password at a login, in characters. No password is longer.
pub const LONGEST_PASSWORD: usize = 1024;

/// The longest text that is checked as a refresh token: an access token is refused as a wrong token, not as too long.
const LONGEST_TOKEN: usize = 8 * 1024;

/// Parses a member's e-mail address and password.
pub fn parse_login(body: &Body) -> Result<(String, String), CallError> {
    body.read(|fields| {
        let email = fields.required("email", super::known_email);
        email.zip(fields.required("password", rule::text(1..=LONGEST_PASSWORD)))
    })
}

/// Logs a member in. A wrong password and an unknown address get the same response, after the same work.
///
/// Wrong passwords are counted by client address and member, so that failures from one address do not lock the member
/// out from others. Successful logins are counted by member alone.
pub async fn login(ctx: &mut RequestContext) -> Outcome {
    Ok(Reply::ok(&log_in(ctx).await?).uncached())
}

/// The member with this address, unless the account was deleted.
pub fn with_email(ctx: &RequestContext, email: &str) -> Option<Arc<UserRecord>> {
    ctx.directory().read(|state| {
        let user = state.users.with_email(email)?;
        let customer = state.customers.get(&user.customer_id)?;
        customer.deleted_at.is_none().then(|| user.clone())
    })
}

/// Whether a password matches the hash. If it could not be checked, the counted attempts are given back.
pub async fn is_password(
    ctx: &RequestContext,
    counted: &[Attempt],
    password: String,
    hash: Option<PasswordHash>,
) -> Result<bool, CallError> {
    let same = ctx.app.auth.passwords.verify(ctx.client.ip, password, hash).await;
    if same.is_err() {
        attempts::give_back(ctx, counted).await;
    }
    same
}

/// Logs a member in, for the route and for the console.
///
/// # Errors
/// Those of the route.
pub async fn log_in(ctx: &mut RequestContext) -> Result<TokensView, CallError> {
    let (email, password) = parse_login(&ctx.object().await?)?;
    let ip = ctx.client.ip;
    let failures = [Attempt::LoginFrom(ip), Attempt::LoginFromAs(ip, email.clone())];
    attempts::count(ctx, &failures).await?;
    fresh_directory(ctx).await?;
    let known = with_email(ctx, &email);
    let same = is_password(ctx, &failures, password, known.as_ref().map(|user| user.password.clone())).await?;
    let Some(user) = known.as_ref().filter(|_| same) else {
        let suspect = known.map_or(Suspect::Unknown(None), |user| suspect(&user));
        ctx.note_failure(suspect, ErrorCode::AuthInvalid);
        return Err(CallError::new(ErrorCode::AuthInvalid, "the e-mail address or the password is wrong"));
    };
    let [from, from_as] = failures;
    attempts::give_back(ctx, &[from]).await;
    // A member who logs in too often also uses up the failed attempts, so that the password hashing stops, too.
    attempts::count(ctx, &[Attempt::Login(email)]).await?;
    attempts::give_back(ctx, &[from_as]).await;

    let (session, token) = session::open(user, ctx.now);
    let tokens = TokensView::issue(&ctx.app.auth.keys(ctx.cluster())?.access.present, user, &session, &token, ctx.now)?;
    let entry = ctx.login_entry(user.customer_id, "auth.login", user.audit_actor(), target(&session, user));
    ctx.update(Command::Users(UserCommand::OpenSession(session)), vec![entry]).await?;
    Ok(tokens)
}

/// Reads `{ "refresh_token" }`.
pub fn parse_refresh(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("refresh_token", rule::text(1..=LONGEST_TOKEN)))
}

/// Exchanges a refresh token for the next one. When a token is used twice, it is in two hands, and nobody can tell
/// which are the right ones; so its session ends.
pub async fn refresh(ctx: &mut RequestContext) -> Outcome {
    let text = parse_refresh(&ctx.object().await?)?;
    Ok(Reply::ok(&exchange_token(ctx, &text).await?).uncached())
}

/// Exchanges a refresh token for new tokens, for the route and for the console.
///
/// # Errors
/// Those of the route.
pub async fn exchange_token(ctx: &RequestContext, text: &str) -> Result<TokensView, CallError> {
    fresh_directory(ctx).await?;
    let refused = |ctx: &RequestContext, suspect: Suspect, error: CallError| {
        ctx.note_failure(suspect, error.code);
        Err(error)
    };
    let found = RefreshToken::parse(text).and_then(|token| Some((find(ctx, &token)?, token)));
    let Some(((session, user), token)) = found else {
        return refused(ctx, Suspect::Unknown(None), CallError::auth_invalid());
    };
    if let Some(revoked_at) = session.revoked_at {
        return refused(ctx, suspect(&user), CallError::auth_revoked(revoked_at));
    }
    if session.expires_at <= ctx.now {
        return refused(ctx, suspect(&user), CallError::auth_expired(session.expires_at));
    }
    attempts::count(ctx, &[Attempt::RefreshOf(session.id)]).await?;
    let next = token.next(rand::random());
    let expires_at = session::refreshed_until(&session, ctx.now);
    let rotate = UserCommand::RotateSession { id: session.id, from: token.hash(), to: next.hash(), expires_at };
    let rotated = if bool::from(session.token.ct_eq(&token.hash())) {
        ctx.try_update(Command::Users(rotate), Vec::new()).await
    } else {
        Err(UpdateError::Rejected(Rejection::SessionMoved))
    };
    match rotated {
        Ok(_) => TokensView::issue(&ctx.app.auth.keys(ctx.cluster())?.access.present, &user, &session, &next, ctx.now),
        Err(UpdateError::Rejected(Rejection::SessionMoved)) => {
            let entry =
                ctx.login_entry(user.customer_id, "auth.token_reused", user.audit_actor(), target(&session, &user));
            let revoke = Command::Users(UserCommand::RevokeSession { id: session.id });
            let ended = of_kind!(ctx.update(revoke, vec![entry]).await?, Updated::Session(session) => session)?;
            refused(ctx, suspect(&user), CallError::auth_revoked(ended.revoked_at.unwrap_or(ctx.now)))
        }
        Err(error) => Err(failure::of_update(error)),
    }
}

/// Ends the session of a refresh token, even if the token is not the newest. An unknown token does nothing.
///
/// # Errors
/// 503 while no leader answers.
pub async fn end_session(ctx: &RequestContext, text: &str) -> Result<(), CallError> {
    fresh_directory(ctx).await?;
    let found = RefreshToken::parse(text).and_then(|token| find(ctx, &token));
    let Some((session, user)) = found.filter(|(session, _)| session.revoked_at.is_none()) else { return Ok(()) };
    let entry = ctx.login_entry(user.customer_id, "auth.logout", user.audit_actor(), target(&session, &user));
    let revoke = Command::Users(UserCommand::RevokeSession { id: session.id });
    ctx.update(revoke, vec![entry]).await.map(drop)
}

/// The session that a refresh token belongs to, even if the token was exchanged already.
fn find(ctx: &RequestContext, token: &RefreshToken) -> Option<(Arc<SessionRecord>, Arc<UserRecord>)> {
    ctx.directory().read(|state| {
        let session = state.users.session(token.session())?;
        let same_family = bool::from(session.family.ct_eq(&token.family_hash()));
        let user = state.users.user(session.user_id)?;
        same_family.then(|| (session.clone(), user.clone()))
    })
}

/// Ends the session. Once this has returned, no node accepts its tokens.
pub async fn logout(ctx: &mut RequestContext) -> Outcome {
    let caller = caller(ctx, Address::Any).await?;
    let Some(id) = caller.require_session()?.id else {
        return Err(CallError::bad_request("this session is of another issuer; log out there"));
    };
    let target = Target::new("session", id, caller.actor().email.unwrap_or_default());
    let entry = ctx.login_entry(caller.customer.id, "auth.logout", caller.actor(), target);
    ctx.update(Command::Users(UserCommand::RevokeSession { id }), vec![entry]).await?;
    Ok(Reply::no_content())
}

pub fn suspect(user: &UserRecord) -> Suspect {
    Suspect::Member { customer: user.customer_id, subject: user.id.to_string(), email: user.email.clone() }
}

fn target(session: &SessionRecord, user: &UserRecord) -> Target {
    Target::new("session", session.id, user.email.as_str())
}
