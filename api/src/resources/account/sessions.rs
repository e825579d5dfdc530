//! Lists and ends a member's own logins.

use std::sync::Arc;

use model::error::CallError;
use model::id::{SessionId, UserId};
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::users::{SessionRecord, UserCommand};
use schemars::JsonSchema;
use serde::Serialize;

use crate::audit::Target;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::AccountCall;
use crate::route::{DELETE, GET, Route};

pub fn routes() -> Vec<Route> {
    // All of these routes require a dashboard session.
    let routes = [
        Route::account(GET, "/v1/account/sessions", list)
            .doc("list_sessions", "List one's own sessions")
            .about("Sessions that have not ended, the newest first. A token of another issuer belongs to no session.")
            .list::<Session>(),
        Route::account(DELETE, "/v1/account/sessions", end_all)
            .doc("end_sessions", "End all of one's own sessions, including this one")
            .no_content(),
        Route::account(DELETE, "/v1/account/sessions/{session_id}", end)
            .doc("end_session", "End one of one's own sessions")
            .no_content(),
    ];
    routes.map(Route::session).into()
}

#[derive(Serialize, JsonSchema)]
struct Session {
    id: SessionId,
    /// Whether the request belongs to this session.
    current: bool,
    created_at: Timestamp,
    /// Time when the session's tokens were last refreshed.
    refreshed_at: Timestamp,
    /// Time when the session ends unless its tokens are refreshed before.
    expires_at: Timestamp,
}

async fn list(call: &mut AccountCall) -> Outcome {
    let current = call.caller.require_session()?.id;
    let mut sessions = live(call)?;
    sessions.reverse();
    let views = sessions.iter().map(|session| Session {
        id: session.id,
        current: Some(session.id) == current,
        created_at: session.created_at,
        refreshed_at: session.refreshed_at,
        expires_at: session.expires_at,
    });
    Ok(Reply::ok(&List::whole(views.collect())))
}

async fn end(call: &mut AccountCall) -> Outcome {
    let id: Option<SessionId> = call.id("session_id");
    let found = live(call)?.into_iter().find(|session| Some(session.id) == id);
    let session = found.ok_or_else(|| CallError::not_found("session", call.parameter("session_id")))?;
    revoke(call, &session).await?;
    Ok(Reply::no_content())
}

/// Ends the sessions one by one, the caller's own last, so that a failed request can be repeated.
async fn end_all(call: &mut AccountCall) -> Outcome {
    let current = call.caller.require_session()?.id;
    let mut sessions = live(call)?;
    sessions.sort_by_key(|session| Some(session.id) == current);
    for session in sessions {
        revoke(call, &session).await?;
    }
    Ok(Reply::no_content())
}

/// Ends a session. Once this has returned, no node accepts its tokens.
async fn revoke(call: &AccountCall, session: &SessionRecord) -> Result<(), CallError> {
    let label = call.caller.actor().email.unwrap_or_default();
    let target = Target::new("session", session.id, label);
    let entry = call.login_entry(call.customer_id(), "auth.logout", call.caller.actor(), target);
    call.update(Command::Users(UserCommand::RevokeSession { id: session.id }), vec![entry]).await.map(drop)
}

/// The caller's live logins, oldest first.
fn live(call: &AccountCall) -> Result<Vec<Arc<SessionRecord>>, CallError> {
    let session = call.caller.require_session()?;
    let Some(user) = session.id.and_then(|_| session.subject.parse::<UserId>().ok()) else { return Ok(Vec::new()) };
    let mut sessions = call.directory().read(|state| state.users.sessions_of(user));
    sessions.retain(|session| session.revoked_at.is_none() && session.expires_at > call.now);
    Ok(sessions)
}
