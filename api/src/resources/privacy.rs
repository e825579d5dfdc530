//! Privacy settings of the channel's account: what it shows to whom.

use model::chat::EPHEMERAL;
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::privacy::{Audience, Callers, OnlineAudience, Privacy, PrivacyChanges, ReadReceipts};
use network::operation::account::PrivacyOperation;
use serde_json::json;
use shard::projection::account::OWN;

use super::chats::ephemeral;
use crate::projection::read_refresh;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{GET, PATCH, Route};

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/settings/privacy", show)
            .doc("get_privacy", "Get the channel's privacy settings")
            .query(read_refresh)
            .ok::<Privacy>()
            .on_network(),
        Route::channel(PATCH, "/v1/channels/{id}/settings/privacy", patch)
            .doc("update_privacy", "Change the channel's privacy settings")
            .body(parse_changes, json!({ "last_seen": "contacts", "default_ephemeral": EPHEMERAL[1] }))
            .ok::<Privacy>()
            .on_network()
            .errors(&[E::NoOp]),
    ]
}

fn parse_changes(body: &Body) -> Result<PrivacyChanges, CallError> {
    let audience = || rule::one_of(Audience::WORDS, Audience::parse);
    body.read_patch(|fields| {
        Some(PrivacyChanges {
            last_seen: fields.optional("last_seen", audience()),
            online: fields.optional("online", rule::one_of(OnlineAudience::WORDS, OnlineAudience::parse)),
            profile_photo: fields.optional("profile_photo", audience()),
            about: fields.optional("about", audience()),
            read_receipts: fields.optional("read_receipts", rule::one_of(ReadReceipts::WORDS, ReadReceipts::parse)),
            group_add: fields.optional("group_add", audience()),
            call_add: fields.optional("call_add", rule::one_of(Callers::WORDS, Callers::parse)),
            default_ephemeral: fields.optional("default_ephemeral", ephemeral),
        })
    })
}

async fn found(call: &mut ChannelCall) -> Outcome {
    Ok(Reply::ok(&call.find::<Privacy>(OWN).await?.unwrap_or_default()))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    call.refresh(call.asked(read_refresh)?, PrivacyOperation::Show).await?;
    found(call).await
}

async fn patch(call: &mut ChannelCall) -> Outcome {
    let changes = parse_changes(&call.object().await?)?;
    call.operate(PrivacyOperation::Change(changes)).await?;
    found(call).await
}
