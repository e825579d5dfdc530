//! A ticket in the place of a key, for one event stream: one use over the whole cluster.

use bytes::Bytes;
use model::error::{CallError, ErrorCode};
use model::id::{KeyId, SessionId};
use model::member::Role;
use model::stream_ticket::StreamTicket;
use model::time::Timestamp;
use salvo::http::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use shard::stream::{StreamAsk, StreamDone};

use super::key_caller;
use crate::audit::Suspect;
use crate::caller::{Caller, Credential, Session};
use crate::failure;
use crate::request_context::RequestContext;
use crate::route::EVENTS_PATH;

/// Whom a ticket acts for: whoever asked for it.
#[derive(Serialize, Deserialize)]
pub enum Grant {
    Key(KeyId),
    Session { id: Option<SessionId>, subject: String, email: String, role: Role, expires_at: Timestamp },
}

impl Grant {
    pub fn of(caller: &Caller) -> Self {
        match &caller.credential {
            Credential::Key(key) => Self::Key(key.id),
            Credential::Session(session) => Self::Session {
                id: session.id,
                subject: session.subject.clone(),
                email: session.email.clone(),
                role: session.role,
                expires_at: session.expires_at,
            },
        }
    }
}

/// The ticket of a request that opens a stream and shows no key.
pub fn shown(ctx: &RequestContext) -> Option<&str> {
    let http = &ctx.http;
    let opens = http.uri().path() == EVENTS_PATH && http.headers().get(AUTHORIZATION).is_none();
    opens.then(|| http.queries().get("ticket").map(String::as_str)).flatten()
}

/// Authenticates by a ticket, which is used up by it.
///
/// # Errors
/// `auth_malformed`; `auth_invalid` for a ticket that was used, is too old, or never was; what its key or session is
/// refused with by now; 503 while its home has no leader.
pub async fn redeem(ctx: &RequestContext, text: &str) -> Result<Caller, CallError> {
    let redeemed = take(ctx, text).await;
    if let Err(error) = &redeemed
        && matches!(error.code, ErrorCode::AuthMalformed | ErrorCode::AuthInvalid)
    {
        ctx.note_failure(Suspect::Unknown(None), error.code);
    }
    redeemed
}

async fn take(ctx: &RequestContext, text: &str) -> Result<Caller, CallError> {
    let ticket = StreamTicket::parse(text).ok_or_else(CallError::auth_malformed)?;
    let customer = ticket.customer().ok_or_else(CallError::auth_malformed)?;
    let digest = Bytes::copy_from_slice(&ticket.digest());
    let ask = StreamAsk::UseTicket { digest };
    let StreamDone::Ticket(Some(ticket)) = ctx.cluster().stream(customer, ask, &ctx.context()).await? else {
        return Err(CallError::auth_invalid());
    };
    let grant = serde_json::from_slice(&ticket.grant)
        .map_err(|error| failure::internal("a ticket's grant could not be read", &error))?;
    match grant {
        Grant::Key(id) => key_caller(ctx, id).await,
        Grant::Session { id, subject, email, role, expires_at } => {
            let known = ctx.directory().read(|state| state.customers.get(&customer).cloned());
            let caller = Caller {
                credential: Credential::Session(Session { id, subject, email, role, expires_at }),
                customer: known.ok_or_else(CallError::auth_invalid)?,
                scopes: role.scopes(),
            };
            let stands = ctx.directory().read(|state| caller.still_stands(state, ctx.now));
            if stands { Ok(caller) } else { Err(CallError::auth_expired(expires_at)) }
        }
    }
}
