//! Authenticates one event stream by a ticket in place of a key. A ticket can be used once in the whole cluster.

use bytes::Bytes;
use model::error::CallError;
use model::id::KeyId;
use model::stream_ticket::StreamTicket;
use salvo::http::header::AUTHORIZATION;
use serde::{Deserialize, Serialize};
use shard::stream::{StreamRequest, StreamResponse};

use super::{fresh_directory, key_caller, noted};
use crate::audit::Suspect;
use crate::caller::{Caller, Credential, Session};
use crate::failure;
use crate::request_context::RequestContext;
use crate::route::EVENTS_PATH;

/// The credential that asked for a ticket, and that the ticket acts for.
#[derive(Serialize, Deserialize)]
pub enum Grant {
    Key(KeyId),
    Session(Session),
}

impl Grant {
    pub fn of(caller: &Caller) -> Self {
        match &caller.credential {
            Credential::Key(key) => Self::Key(key.id),
            Credential::Session(session) => Self::Session(session.clone()),
        }
    }
}

/// The ticket of a request that opens a stream without an `Authorization` header.
pub fn shown(ctx: &RequestContext) -> Option<&str> {
    let http = &ctx.http;
    let opens = http.uri().path() == EVENTS_PATH && http.headers().get(AUTHORIZATION).is_none();
    opens.then(|| http.queries().get("ticket").map(String::as_str)).flatten()
}

/// Authenticates by a ticket and uses it up. A failure is noted for the audit log.
///
/// # Errors
/// `auth_malformed`; `auth_invalid` for a ticket that was used, has expired or never existed; the refusal of its key or
/// session, if that is no longer valid; 503 while the account's coordinator has no leader.
pub async fn redeem(ctx: &RequestContext, text: &str) -> Result<Caller, CallError> {
    take(ctx, text).await.map_err(|refused| noted(ctx, refused))
}

async fn take(ctx: &RequestContext, text: &str) -> Result<Caller, (Suspect, CallError)> {
    let nobody = |error: CallError| (Suspect::Unknown(None), error);
    let ticket = StreamTicket::parse(text).ok_or_else(|| nobody(CallError::auth_malformed()))?;
    let customer = ticket.customer().ok_or_else(|| nobody(CallError::auth_malformed()))?;
    // Refreshed before the ticket is used, so that a refusal that can be retried uses no ticket up.
    fresh_directory(ctx).await.map_err(nobody)?;
    let digest = Bytes::copy_from_slice(&ticket.digest());
    let request = StreamRequest::UseTicket { digest };
    let used = ctx.cluster().stream(customer, request, &ctx.context()).await.map_err(nobody)?;
    let StreamResponse::Ticket(Some(ticket)) = used else { return Err(nobody(CallError::auth_invalid())) };
    let grant = serde_json::from_slice(&ticket.grant)
        .map_err(|error| nobody(failure::internal("a ticket's grant could not be read", &error)))?;
    match grant {
        Grant::Key(id) => key_caller(ctx, id).await,
        Grant::Session(session) => {
            fresh_directory(ctx).await.map_err(nobody)?;
            let (subject, email) = (session.subject.clone(), session.email.clone());
            let suspect = Suspect::Member { customer, subject, email };
            let known = ctx.directory().read(|state| state.customers.get(&customer).cloned());
            let Some(known) = known else { return Err((suspect, CallError::auth_invalid())) };
            let (id, expires_at, deleted_at) = (session.id, session.expires_at, known.deleted_at);
            let scopes = session.role.scopes();
            let caller = Caller { credential: Credential::Session(session), customer: known, scopes };
            let (stands, revoked_at) = ctx.directory().read(|state| {
                let session = id.and_then(|id| state.users.session(id));
                (caller.still_stands(state, ctx.now), session.and_then(|session| session.revoked_at))
            });
            match revoked_at.or(deleted_at) {
                _ if stands => Ok(caller),
                Some(ended) => Err((suspect, CallError::auth_revoked(ended))),
                None => Err((suspect, CallError::auth_expired(expires_at))),
            }
        }
    }
}
