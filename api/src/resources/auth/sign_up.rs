//! Sign-up, and confirmation of the address.

use std::sync::Arc;

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::id::{CustomerId, UserId};
use model::member::Role;
use model::session_token::EmailToken;
use raft::directory::UpdateError;
use raft::directory::command::{Command, Rejection};
use raft::directory::users::{PasswordHash, UserCommand, UserRecord};
use salvo::http::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::Serialize;

use super::attempts::{self, Attempt};
use crate::audit::{Suspect, Target};
use crate::auth::LONGEST_EMAIL_TOKEN;
use crate::auth::pending::Pending;
use crate::auth::session::{self, TokensView};
use crate::failure;
use crate::pipeline::{Address, caller, fresh_directory};
use crate::reply::{Outcome, Reply};
use crate::request_context::RequestContext;
use crate::resources::{AccountView, IssuedKey, NewKey, new_customer};

pub struct SignUp {
    email: String,
    password: String,
    name: String,
}

impl SignUp {
    pub fn parse(body: &Body) -> Result<Self, CallError> {
        body.read(|fields| {
            let email = fields.required("email", super::email);
            let password = fields.required("password", super::new_password);
            let name = fields.required("name", rule::text(1..=120));
            Some(Self { email: email?, password: password?, name: name? })
        })
    }
}

/// An empty object.
#[derive(Serialize, JsonSchema)]
pub struct Nothing {}

/// A new account, with the tokens of a session and an API key.
#[derive(Serialize, JsonSchema)]
pub struct SignedUp {
    /// The account.
    account: AccountView,
    #[serde(flatten)]
    tokens: TokensView,
    /// The first key of the account; its secret is shown once.
    api_key: IssuedKey,
}

pub async fn sign_up(ctx: &mut RequestContext) -> Outcome {
    if !ctx.app.auth.config.signup {
        return Err(CallError::route_not_found());
    }
    let asked = SignUp::parse(&ctx.object().await?)?;
    if ctx.app.auth.config.verify_first { wait_for_address(ctx, asked).await } else { at_once(ctx, asked).await }
}

/// Sends an e-mail. Response and work are the same for any address, so that they do not reveal members.
async fn wait_for_address(ctx: &RequestContext, SignUp { email, password, name }: SignUp) -> Outcome {
    let ip = ctx.client.ip;
    attempts::count(ctx, &[Attempt::SignUpFrom(ip), Attempt::MailTo(email.clone())]).await?;
    fresh_directory(ctx).await?;
    let password = ctx.app.auth.passwords.hash(ip, password).await?;
    let keys = ctx.app.auth.keys(ctx.cluster())?;
    if find(ctx, |users| users.with_email(&email).cloned()).is_some() {
        ctx.app.auth.mail.tell_of_sign_up(&ctx.app.config.base_url, &email);
    } else {
        let expires_at = ctx.now.plus(session::VERIFICATION_LIFE);
        let pending = Pending { email, password, name, expires_at };
        send_token(ctx, &pending.email, &keys.pending.seal(&pending, rand::random()));
    }
    Ok(Reply::accepted(&Nothing {}))
}

/// Creates the account and its first key before the address is confirmed.
async fn at_once(ctx: &RequestContext, SignUp { email, password, name }: SignUp) -> Outcome {
    attempts::count(ctx, &[Attempt::SignUpFrom(ctx.client.ip)]).await?;
    fresh_directory(ctx).await?;
    // Checked before the expensive hashing; the directory checks again when it creates the account.
    if find(ctx, |users| users.with_email(&email).cloned()).is_some() {
        return Err(failure::email_taken());
    }
    let password = ctx.app.auth.passwords.hash(ctx.client.ip, password).await?;
    let mut user = owner(ctx, email, password);
    let (verification, email_token) = session::expect_verification(&user, ctx.now);
    user.verification = Some(verification);
    let signed_up = make_account(ctx, name, &user, failure::email_taken).await?;
    send_token(ctx, &user.email, &email_token.reveal());
    Ok(Reply::created(&signed_up).uncached())
}

/// The first member of a new account, whose address is not confirmed yet.
fn owner(ctx: &RequestContext, email: String, password: PasswordHash) -> UserRecord {
    let owner = session::new_member(CustomerId::new(), email, password, Role::Owner, ctx.now);
    UserRecord { last_login_at: Some(ctx.now), ..owner }
}

/// Creates an account with its owner, first key and session. `taken` is the error if the address was taken meanwhile.
async fn make_account(
    ctx: &RequestContext,
    name: String,
    user: &UserRecord,
    taken: impl FnOnce() -> CallError,
) -> Result<SignedUp, CallError> {
    let id = user.customer_id;
    let customer = new_customer(ctx, id, name, Some(user.email.clone()))?;
    let (session, token) = session::open(user, ctx.now);
    let tokens = TokensView::issue(&ctx.app.auth.keys(ctx.cluster())?.access.present, user, &session, &token, ctx.now)?;
    let (key, secret) = NewKey::first_of(id).generate(ctx.now);
    let audit = vec![
        ctx.audit_entry(id, "account.created", user.audit_actor(), Target::new("account", id, customer.name.as_str())),
        ctx.audit_entry(id, "key.issued", user.audit_actor(), Target::new("api_key", key.id, key.name.as_str())),
    ];
    let command = UserCommand::SignUp {
        customer: Box::new(customer.clone()),
        key: Box::new(key.clone()),
        user: user.clone(),
        session,
    };
    let command = Command::Users(command);
    ctx.has_room_for(&command)?;
    ctx.try_update(command, audit).await.map_err(|error| match error {
        UpdateError::Rejected(Rejection::EmailTaken) => taken(),
        error => failure::of_update(error),
    })?;
    let account = AccountView::of(ctx, &customer).await?;
    Ok(SignedUp { account, tokens, api_key: IssuedKey::new(&key, &secret, ctx.now) })
}

/// Reads `{ "token" }`.
pub fn parse_token(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("token", rule::text(1..=LONGEST_EMAIL_TOKEN)))
}

/// Reads `{ "email" }`, the address of a member.
pub fn parse_email(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("email", super::known_email))
}

/// Confirms an address. The token was sent by e-mail, so its holder reads the member's mail. No session is needed,
/// since the link may be opened on another device.
pub async fn verify(ctx: &mut RequestContext) -> Outcome {
    let text = parse_token(&ctx.object().await?)?;
    fresh_directory(ctx).await?;
    let token = EmailToken::parse(&text);
    if token.is_none()
        && ctx.app.auth.config.signup
        && let Some(pending) = ctx.app.auth.keys(ctx.cluster())?.pending.open(&text)
    {
        return confirm(ctx, pending).await;
    }
    let user = token.as_ref().and_then(|token| find(ctx, |users| users.user(token.user()).cloned()));
    let (Some(token), Some(user)) = (token, user) else { return Err(unknown_token(ctx)) };
    let expected = user.verification.as_ref().filter(|expected| expected.hash == token.hash());
    match expected {
        None => Err(unknown_token(ctx)),
        Some(expected) if expected.expires_at <= ctx.now => Err(CallError::auth_expired(expected.expires_at)),
        Some(_) => {
            let verify = UserCommand::Verify { id: user.id, hash: token.hash() };
            ctx.update(Command::Users(verify), Vec::new()).await?;
            Ok(Reply::no_content())
        }
    }
}

/// Creates the account of a confirmed sign-up. A token works once, because the address then belongs to a member.
async fn confirm(ctx: &RequestContext, Pending { email, password, name, expires_at }: Pending) -> Outcome {
    if expires_at <= ctx.now {
        return Err(CallError::auth_expired(expires_at));
    }
    let user = UserRecord { email_verified: true, ..owner(ctx, email, password) };
    let signed_up = make_account(ctx, name, &user, || unknown_token(ctx)).await?;
    Ok(Reply::ok(&signed_up).uncached())
}

fn unknown_token(ctx: &RequestContext) -> CallError {
    ctx.note_failure(Suspect::Unknown(None), ErrorCode::AuthInvalid);
    CallError::new(ErrorCode::AuthInvalid, "the token is not the one that was sent last; request another e-mail")
}

/// Sends another token to the session's member, or to the address in the body. The response to an address does not
/// reveal whether it is known or confirmed.
pub async fn resend(ctx: &mut RequestContext) -> Outcome {
    let user = if ctx.http.headers().contains_key(AUTHORIZATION) {
        let caller = caller(ctx, Address::Any).await?;
        let session = caller.require_session()?;
        let id: Option<UserId> = session.id.and_then(|_| session.subject.parse().ok());
        let user = find(ctx, |users| users.user(id?).cloned());
        let Some(user) = user.filter(|user| !user.email_verified) else {
            return Err(CallError::no_op("the address is confirmed already"));
        };
        attempts::count(ctx, &[Attempt::MailTo(user.email.clone())]).await?;
        Some(user)
    } else {
        let body = ctx.optional_object().await?;
        if body.is_empty() {
            return Err(CallError::new(ErrorCode::AuthMissing, "name an email in the body, or send a session's token"));
        }
        let email = parse_email(&body)?;
        // Counted for any address, since a refusal only for members would reveal them.
        let attempts = [Attempt::MailFrom(ctx.client.ip), Attempt::MailTo(email.clone())];
        attempts::count(ctx, &attempts).await?;
        fresh_directory(ctx).await?;
        find(ctx, |users| users.with_email(&email).cloned()).filter(|user| !user.email_verified)
    };
    if let Some(user) = user {
        let (verification, token) = session::expect_verification(&user, ctx.now);
        let expect = UserCommand::ExpectVerification { id: user.id, verification };
        ctx.update(Command::Users(expect), Vec::new()).await?;
        send_token(ctx, &user.email, &token.reveal());
    }
    Ok(Reply::accepted(&Nothing {}))
}

fn send_token(ctx: &RequestContext, email: &str, token: &str) {
    let (auth, base_url) = (&ctx.app.auth, &ctx.app.config.base_url);
    auth.mail.ask_to_verify(&auth.config, base_url, email, token);
}

fn find(
    ctx: &RequestContext,
    look: impl FnOnce(&raft::directory::state::Users) -> Option<Arc<UserRecord>>,
) -> Option<Arc<UserRecord>> {
    ctx.directory().read(|state| look(&state.users))
}
