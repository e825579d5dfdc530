//! Signing up, and confirming the address.

use std::sync::Arc;

use model::customer::{Limits, Plan};
use model::error::{ApiError, ErrorCode};
use model::field::{Body, Fields, rule};
use model::id::{CustomerId, UserId};
use model::issue::Issues;
use model::member::Role;
use model::session_token::EmailToken;
use raft::directory::UpdateError;
use raft::directory::command::{Command, Rejection};
use raft::directory::records::{AuditActor, CustomerRecord};
use raft::directory::users::{PasswordHash, UserCommand, UserRecord};
use salvo::http::header::AUTHORIZATION;
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::{Suspect, Target};
use crate::auth::LONGEST_EMAIL_TOKEN;
use crate::auth::attempts::{self, Attempt};
use crate::auth::pending::Pending;
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
    let asked = SignUp::parse(&exchange.object().await?)?;
    if exchange.app.auth.config.verify_first {
        wait_for_address(exchange, asked).await
    } else {
        at_once(exchange, asked).await
    }
}

/// Sends a message to the address and answers alike, and after the same work, whoever it is of: an answer that differed
/// would tell strangers who is a member.
async fn wait_for_address(exchange: &Exchange, SignUp { email, password, name }: SignUp) -> Outcome {
    let ip = exchange.client.ip;
    attempts::count(exchange, &[Attempt::SignUpFrom(ip), Attempt::MailTo(email.clone())]).await?;
    fresh_directory(exchange).await?;
    let password = exchange.app.auth.passwords.hash(ip, password).await?;
    let keys = exchange.app.auth.keys(exchange.cluster())?;
    if find(exchange, |users| users.with_email(&email).cloned()).is_some() {
        exchange.app.auth.mail.tell_of_sign_up(&exchange.app.config.base_url, &email);
    } else {
        let expires_at = exchange.now.plus(session::VERIFICATION_LIFE);
        let pending = Pending { email, password, name, expires_at };
        send_token(exchange, &pending.email, &keys.pending.seal(&pending, rand::random()));
    }
    Ok(Reply::accepted(&Nothing {}))
}

/// The account is there before its address is confirmed, and a key with it.
async fn at_once(exchange: &Exchange, SignUp { email, password, name }: SignUp) -> Outcome {
    attempts::count(exchange, &[Attempt::SignUpFrom(exchange.client.ip)]).await?;
    fresh_directory(exchange).await?;
    // Hashing is dear; the directory decides in the end.
    if find(exchange, |users| users.with_email(&email).cloned()).is_some() {
        return Err(failure::email_taken());
    }
    let password = exchange.app.auth.passwords.hash(exchange.client.ip, password).await?;
    let mut user = owner(exchange, email, password);
    let (verification, email_token) = session::expect_verification(&user, exchange.now);
    user.verification = Some(verification);
    let signed_up = make_account(exchange, name, &user).await?.map_err(failure::of_update)?;
    send_token(exchange, &user.email, &email_token.reveal());
    Ok(Reply::created(&signed_up).uncached())
}

/// The first member of a new account, whose address is not confirmed.
fn owner(exchange: &Exchange, email: String, password: PasswordHash) -> UserRecord {
    UserRecord {
        id: UserId::new(),
        customer_id: CustomerId::new(),
        email,
        password,
        role: Role::Owner,
        email_verified: false,
        verification: None,
        created_at: exchange.now,
        last_login_at: Some(exchange.now),
    }
}

/// Makes an account of its owner, with a first key and a session. The directory may refuse it, as when another one took
/// the address meanwhile.
async fn make_account(
    exchange: &Exchange,
    name: String,
    user: &UserRecord,
) -> Result<Result<SignedUp, UpdateError>, ApiError> {
    let id = user.customer_id;
    let customer = CustomerRecord {
        id,
        name,
        email: Some(user.email.clone()),
        timezone: "UTC".to_owned(),
        plan: Plan::default(),
        limits: Limits::default(),
        data_key: exchange.cluster().new_data_key(id)?,
        former_data_key: None,
        created_at: exchange.now,
        deleted_at: None,
    };
    let (session, token) = session::open(user, exchange.now);
    let tokens = TokensView::issue(exchange, user, &session, &token)?;
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
    let command = Command::Users(command);
    exchange.has_room_for(&command)?;
    if let Err(error) = exchange.try_change(command, audit).await {
        return Ok(Err(error));
    }
    Ok(Ok(SignedUp {
        account: AccountView::of(exchange, &customer).await?,
        tokens,
        api_key: IssuedKey::new(&key, &secret, exchange.now),
    }))
}

/// Reads `{ "token" }`.
pub fn parse_token(body: &Body) -> Result<String, ApiError> {
    let issues = Issues::new();
    let text = Fields::new(body, &issues).required("token", rule::text(1..=LONGEST_EMAIL_TOKEN));
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
    if token.is_none()
        && exchange.app.auth.config.signup
        && let Some(pending) = exchange.app.auth.keys(exchange.cluster())?.pending.open(&text)
    {
        return confirm(exchange, pending).await;
    }
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

/// Makes the account that somebody signed up for who reads the mail of the address. A token works once: then the address
/// is a member's.
async fn confirm(exchange: &Exchange, Pending { email, password, name, expires_at }: Pending) -> Outcome {
    if expires_at <= exchange.now {
        return Err(ApiError::auth_expired(expires_at));
    }
    let user = UserRecord { email_verified: true, ..owner(exchange, email, password) };
    match make_account(exchange, name, &user).await? {
        Ok(signed_up) => Ok(Reply::ok(&signed_up).uncached()),
        Err(UpdateError::Rejected(Rejection::EmailTaken)) => Err(unknown_token(exchange)),
        Err(error) => Err(failure::of_update(error)),
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
        let Some(user) = user.filter(|user| !user.email_verified) else {
            return Err(ApiError::no_op("the address is confirmed already"));
        };
        attempts::count(exchange, &[Attempt::MailTo(user.email.clone())]).await?;
        Some(user)
    } else {
        let body = exchange.optional_object().await?;
        if body.is_empty() {
            return Err(ApiError::new(ErrorCode::AuthMissing, "name an email in the body, or send a session's token"));
        }
        let email = parse_email(&body)?;
        // Counted whoever it is of: a refusal would tell who is a member else.
        let attempts = [Attempt::MailFrom(exchange.client.ip), Attempt::MailTo(email.clone())];
        attempts::count(exchange, &attempts).await?;
        fresh_directory(exchange).await?;
        find(exchange, |users| users.with_email(&email).cloned()).filter(|user| !user.email_verified)
    };
    if let Some(user) = user {
        let (verification, token) = session::expect_verification(&user, exchange.now);
        let expect = UserCommand::ExpectVerification { id: user.id, verification };
        exchange.change(Command::Users(expect), Vec::new()).await?;
        send_token(exchange, &user.email, &token.reveal());
    }
    Ok(Reply::accepted(&Nothing {}))
}

fn send_token(exchange: &Exchange, email: &str, token: &str) {
    let (auth, base_url) = (&exchange.app.auth, &exchange.app.config.base_url);
    auth.mail.ask_to_verify(&auth.config, base_url, email, token);
}

fn find(
    exchange: &Exchange,
    look: impl FnOnce(&raft::directory::state::Users) -> Option<Arc<UserRecord>>,
) -> Option<Arc<UserRecord>> {
    exchange.cluster().directory().read(|state| look(&state.users))
}
