//! Channels: the account's connections to the network (interface 4.1, supplement 4).

mod create;
mod lifecycle;
mod list;
mod pairing;
mod status_history;
mod view;

use model::error::ApiError;
use model::field::{Fields, rule};
use model::issue::Issues;
use raft::directory::command::{Command, Reply as Updated};
use serde_json::{Map, Value};
use shard::call::Work;

pub use lifecycle::parse_reason as parse_disable_reason;
pub use view::ChannelView;

use crate::audit::Target;
use crate::exchange::ChannelCall;
use crate::failure;
use crate::reply::{Outcome, Reply};
use crate::resources::audited_revocations;
use crate::route::Route;

pub fn routes() -> Vec<Route> {
    vec![
        Route::get("/v1/channels").multi_channel().account(list::list),
        Route::post("/v1/channels").multi_channel().plan_blocks().account(create::create),
        Route::get("/v1/channels/{id}").channel(show),
        Route::patch("/v1/channels/{id}").channel(patch),
        Route::delete("/v1/channels/{id}").channel(delete),
        Route::get("/v1/channels/{id}/qr").channel(pairing::qr),
        Route::post("/v1/channels/{id}/pair-code").channel(pairing::pair_code),
        Route::post("/v1/channels/{id}/connect").channel(lifecycle::connect),
        Route::post("/v1/channels/{id}/disconnect").channel(lifecycle::disconnect),
        Route::post("/v1/channels/{id}/restart").channel(lifecycle::restart),
        Route::post("/v1/channels/{id}/logout").channel(lifecycle::logout),
        Route::post("/v1/channels/{id}/disable").channel(lifecycle::disable),
        Route::post("/v1/channels/{id}/enable").channel(lifecycle::enable),
        Route::get("/v1/channels/{id}/status-history").channel(status_history::status_history),
    ]
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let live = call.work_for_live(Work::Look).await?;
    Ok(Reply::ok(&ChannelView::new(&call.channel, Some(&live))))
}

async fn patch(call: &mut ChannelCall) -> Outcome {
    let body = call.object().await?;
    let PatchChannel { name, metadata } = PatchChannel::parse(&body)?;
    let metadata = metadata.map(|map| Value::Object(map).to_string());
    let command = Command::UpdateChannel { customer: call.customer_id(), id: call.channel.id, name, metadata };
    let channel = match call.update(command, Vec::new()).await? {
        Updated::Channel(channel) => channel,
        other => return Err(failure::unexpected_reply(&other)),
    };
    let live = call.work_for_live(Work::Look).await?;
    Ok(Reply::ok(&ChannelView::new(&channel, Some(&live))))
}

/// The body of a patch; metadata replaces what was there.
struct PatchChannel {
    name: Option<String>,
    metadata: Option<Map<String, Value>>,
}

impl PatchChannel {
    fn parse(body: &Map<String, Value>) -> Result<Self, ApiError> {
        let issues = Issues::new();
        let fields = Fields::patch(body, &issues);
        let name = fields.optional("name", rule::text(1..=120));
        let metadata = fields.optional("metadata", rule::metadata);
        issues.finish(|| Some(Self { name, metadata }))
    }
}

/// The directory deletes; the owner then ends the session. Should this node fail in between, the owner finds out by
/// itself when it compares its channels with the directory.
async fn delete(call: &mut ChannelCall) -> Outcome {
    let entry = call.audited("channel.deleted", Target::new("channel", call.channel.id, &call.channel.name));
    let command = Command::DeleteChannel { customer: call.customer_id(), id: call.channel.id };
    let id = call.channel.id;
    let mut audit =
        audited_revocations(call, call.customer_id(), &call.caller.actor(), |key| key.channel_id == Some(id));
    audit.push(entry);
    call.update(command, audit).await?;
    if let Err(error) = call.work(Work::Forget).await {
        tracing::info!(channel = %call.channel.id, %error, "the owner will find the channel deleted by itself");
    }
    Ok(Reply::no_content())
}
