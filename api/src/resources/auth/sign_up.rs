//! Signing up, and confirming the address.

use std::sync::Arc;

use model::customer::{Limits, Plan};
use model::error::{ApiError, ErrorCode};
use model::field::{Body, Fields, rule};
use model::id::{CustomerId, UserId};
use model::issue::Issues;
use model::member::Role;
use model::session_token::EmailToken;
use raft::directory::command::Command;
use raft::directory::records::{AuditActor, CustomerRecord};
use raft::directory::users::{UserCommand, UserRecord};
use salvo::http::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::{Suspect, Target};
use crate::auth::attempts::{self, Attempt};
use crate::auth::session::{self, TokensView};
use crate::exchange::Exchange;
use crate::failure;
use crate::pipeline::{Address, caller, fresh_directory};
use crate::reply::{Outcome, Reply};
use crate::resources::{AccountView, IssuedKey, NewKey};

pub struct SignUp {
    email: String,
    password: String,
    name: String,
}

impl SignUp {
    pub fn parse(body: &Body) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let fields = Fields::new(body, &issues);
        let email = fields.required("email", super::email);
        let password = fields.required("password", super::new_password);
        let name = fields.required("name", rule::text(1..=120));
        issues.finish(|| Some(Self { email: email?, password: password?, name: name? }))
    }
}

/// `{}`
#[derive(Serialize, JsonSchema)]
pub struct Nothing {}

#[derive(Serialize, JsonSchema)]
pub struct SignedUp {
    account: AccountView,
    #[serde(flatten)]
    tokens: TokensView,
    api_key: IssuedKey,
}

pub async fn sign_up(exchange: &mut Exchange) -> Outcome {
    if !exchange.app.auth.config.signup {
        return Err(ApiError::route_not_found());
    }
    let SignUp { email, password, name } = SignUp::parse(&exchange.object().await?)?;
    attempts::count(exchange, &[Attempt::SignUpFrom(exchange.client.ip)]).await?;
    fresh_directory(exchange).await?;
    // Hashing is dear; the directory decides in the end.
    if exchange.cluster().directory().read(|state| state.users.with_email(&email).is_some()) {
        return Err(failure::email_taken());
    }
    let password = exchange.app.auth.passwords.hash(password).await?;

    let id = CustomerId::new();
    let customer = CustomerRecord {
        id,
        name,
        email: Some(email.clone()),
        timezone: "UTC".to_owned(),
        plan: Plan::default(),
        limits: Limits::default(),
        data_key: exchange.cluster().new_data_key(id)?,
        created_at: exchange.now,
        deleted_at: None,
    };
    let mut user = UserRecord {
        id: UserId::new(),
        customer_id: id,
        email,
        password,
        role: Role::Owner,
        email_verified: false,
        verification: None,
        created_at: exchange.now,
        last_login_at: Some(exchange.now),
    };
    let (verification, email_token) = session::expect_verification(&user, exchange.now);
    user.verification = Some(verification);
    let (session, token) = session::open(&user, exchange.now);
    let tokens = TokensView::issue(exchange, &user, &session, &token)?;
    let (key, secret) = NewKey::first_of(id).generate(exchange.now);
    let actor = AuditActor {
        kind: "session".to_owned(),
        id: Some(user.id.to_string()),
        prefix: None,
        email: Some(user.email.clone()),
    };
    let audit = vec![
        exchange.audit_entry(id, "account.created", actor.clone(), Target::new("account", id, customer.name.as_str())),
        exchange.audit_entry(id, "key.issued", actor, Target::new("api_key", key.id, key.name.as_str())),
    ];
    let command = UserCommand::SignUp {
        customer: Box::new(customer.clone()),
        key: Box::new(key.clone()),
        user: user.clone(),
        session,
    };
    exchange.change(Command::Users(command), audit).await?;
    send_token(exchange, &user, &email_token);
    let signed_up = SignedUp {
        account: AccountView::of(exchange, &customer).await?,
        tokens,
        api_key: IssuedKey::new(&key, &secret, exchange.now),
    };
    Ok(Reply::created(&signed_up).uncached())
}

/// Reads `{ "token" }`.
pub fn parse_token(body: &Body) -> Result<String, ApiError> {
    let issues = Issues::new();
    let text = Fields::new(body, &issues).required("token", rule::text(1..=256));
    issues.finish(|| text)
}

/// Reads `{ "email" }`.
pub fn parse_email(body: &Body) -> Result<String, ApiError> {
    let issues = Issues::new();
    let email = Fields::new(body, &issues).required("email", super::email);
    issues.finish(|| email)
}

/// The token came by mail, so whoever has it reads the member's mail. No session is needed: it may be opened elsewhere.
pub async fn verify(exchange: &mut Exchange) -> Outcome {
    let text = parse_token(&exchange.object().await?)?;
    fresh_directory(exchange).await?;
    let token = EmailToken::parse(&text);
    let user = token.as_ref().and_then(|token| find(exchange, |users| users.user(token.user()).cloned()));
    let (Some(token), Some(user)) = (token, user) else { return Err(unknown_token(exchange)) };
    let expected = user.verification.as_ref().filter(|expected| expected.hash == token.hash());
    match expected {
        None => Err(unknown_token(exchange)),
        Some(expected) if expected.expires_at <= exchange.now => Err(ApiError::auth_expired(expected.expires_at)),
        Some(_) => {
            let verify = UserCommand::Verify { id: user.id, hash: token.hash() };
            exchange.change(Command::Users(verify), Vec::new()).await?;
            Ok(Reply::no_content())
        }
    }
}

fn unknown_token(exchange: &Exchange) -> ApiError {
    exchange.app.failures.note(exchange, Suspect::Unknown(None), ErrorCode::AuthInvalid);
    ApiError::new(ErrorCode::AuthInvalid, "the token is not the one that was sent last; ask for another message")
}

/// Sends another token: to the session's member, or to the address in the body. The answer to an address tells nothing
/// of whether it is known, or confirmed already.
pub async fn resend(exchange: &mut Exchange) -> Outcome {
    let user = if exchange.http.headers().contains_key(AUTHORIZATION) {
        let caller = caller(exchange, Address::Any).await?;
        let session = caller.require_session()?;
        let id: Option<UserId> = session.id.and_then(|_| session.subject.parse().ok());
        let user = find(exchange, |users| users.user(id?).cloned());
        if user.as_ref().is_none_or(|user| user.email_verified) {
            return Err(ApiError::no_op("the address is confirmed already"));
        }
        user
    } else {
        let body = exchange.optional_object().await?;
        if body.is_empty() {
            return Err(ApiError::new(ErrorCode::AuthMissing, "name an email in the body, or send a session's token"));
        }
        let email = parse_email(&body)?;
        attempts::count(exchange, &[Attempt::MailFrom(exchange.client.ip)]).await?;
        fresh_directory(exchange).await?;
        find(exchange, |users| users.with_email(&email).cloned()).filter(|user| !user.email_verified)
    };
    if let Some(user) = user {
        attempts::count(exchange, &[Attempt::MailTo(user.email.clone())]).await?;
        let (verification, token) = session::expect_verification(&user, exchange.now);
        let expect = UserCommand::ExpectVerification { id: user.id, verification };
        exchange.change(Command::Users(expect), Vec::new()).await?;
        send_token(exchange, &user, &token);
    }
    Ok(Reply::accepted(&Nothing {}))
}

fn send_token(exchange: &Exchange, user: &UserRecord, token: &EmailToken) {
    let (auth, base_url) = (&exchange.app.auth, &exchange.app.config.base_url);
    auth.mail.ask_to_verify(&auth.config, base_url, &user.email, token);
}

fn find(
    exchange: &Exchange,
    look: impl FnOnce(&raft::directory::state::Users) -> Option<Arc<UserRecord>>,
) -> Option<Arc<UserRecord>> {
    exchange.cluster().directory().read(|state| look(&state.users))
}
