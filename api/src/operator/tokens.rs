//! `POST /v1/admin/tokens`: tokens with which one node can join (`gateway join`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::error::CallError;
use model::field::{Body, rule};
use model::join_token::JoinToken;
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::members::{AuthorityRecord, JoinToken as KeptToken, MemberCommand};
use raft::transport::unauthenticated::authority_hash;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::audit::Target;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{POST, Route};

/// The default lifetime of a token, in seconds.
const LIFE: u64 = 3600;

/// The longest lifetime of a token: a week, in seconds.
const LONGEST_LIFE: u64 = 7 * 24 * 3600;

/// How long to wait for the authority's key from the node that has it, and how often to look for it.
const BROUGHT: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(50);

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(POST, "/v1/admin/tokens", issue)
            .doc("create_join_token", "Create a token with which one node can join, once")
            .about("It gives access to the cluster's master key: protect it like that key.")
            .optional_body(parse_life, json!({ "expires_in_seconds": 600 }))
            .created::<TokenView>(),
    ]
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JoinToken")]
pub struct TokenView {
    /// The join token; it is shown only once.
    pub token: String,
    pub expires_at: Timestamp,
}

fn parse_life(body: &Body) -> Result<Duration, CallError> {
    body.read(|fields| {
        Some(Duration::from_secs(
            fields.optional("expires_in_seconds", rule::integer(10..=LONGEST_LIFE)).unwrap_or(LIFE),
        ))
    })
}

/// The authority's certificate and key. The first node of a cluster brings them a moment after its start.
async fn authority(call: &OperatorCall) -> Result<Arc<AuthorityRecord>, CallError> {
    let deadline = Instant::now() + BROUGHT;
    loop {
        if let Some(authority) = call.directory().read(|state| state.authority.clone()) {
            return Ok(authority);
        }
        if Instant::now() >= deadline {
            return Err(CallError::bad_request(
                "the cluster does not have its authority's key: set peer.ca_key_file on one of its nodes",
            ));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn issue(call: &mut OperatorCall) -> Outcome {
    let body = call.optional_object().await?;
    let expires_at = call.now.plus(parse_life(&body)?);
    let authority = authority(call).await?;
    let hash = authority_hash(&authority.certificate)
        .map_err(|error| failure::internal("the authority's certificate cannot be read", &error))?;
    let token = JoinToken::new(rand::random(), hash);
    let kept = KeptToken { hash: token.hash(), created_at: call.now, expires_at, used_by: None, asked_again: false };
    let entry = call.audited_of_cluster("join_token.created", Target::new("join_token", "", "join token"));
    call.update(Command::Members(MemberCommand::IssueToken(kept)), vec![entry]).await?;
    Ok(Reply::created(&TokenView { token: token.reveal(), expires_at }))
}
