//! Channels: the account's connections to the network.

mod create;
mod lifecycle;
mod list;
mod pairing;
mod status_history;
mod view;

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::page::ListId;
use raft::directory::Ended;
use raft::directory::command::{Command, Reply as Updated};
use serde_json::{Map, Value, json};
use shard::call::request::{DeleteChannel, GetStatus};
use shard::records::StatusChange;

pub use lifecycle::parse_reason as parse_disable_reason;
pub use view::ChannelView;

use self::create::CreatedChannel;
use self::list::Filter;
use self::pairing::{PairCodeView, Qr, RawQr, parse_pair_code};
use crate::audit::Target;
use crate::failure::of_kind;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::resources::attempts::{self, Attempt};
use crate::resources::delete_with_keys;
use crate::route::{DELETE, GET, PATCH, POST, Route};

pub fn routes() -> Vec<Route> {
    let lifecycle = |route: Route| {
        route
            .about(
                "Returns the channel at once, or, with `wait` in seconds, once its status is stable; what happens \
                 afterwards arrives as `channel.status`.",
            )
            .query(lifecycle::waits)
            .accepted::<ChannelView>()
            .errors(&[E::InvalidLifecycleTransition, E::NoOp, E::ChannelUnavailable, E::ConcurrentModification])
    };
    vec![
        Route::account(GET, "/v1/channels", list::list)
            .multi_channel()
            .doc("list_channels", "List channels, the newest first")
            .about(
                "`name` is the beginning of a name; `q` is part of a name, or three or more digits of a number. With \
                 `reasons` each row has the reason of its status.",
            )
            .query(|query| Filter::read(query, ListId::only()))
            .list_or_page::<ChannelView>(),
        Route::account(POST, "/v1/channels", create::create)
            .multi_channel()
            .plan_blocks()
            .doc("create_channel", "Create a channel")
            .body(
                create::parse_create,
                json!({ "name": "Sales", "metadata": { "team": "emea" }, "issue_scoped_key": true }),
            )
            .created::<CreatedChannel>()
            .errors(&[E::PlanChannelLimit, E::PlanLimit]),
        Route::channel(GET, "/v1/channels/{id}", show).doc("get_channel", "Get a channel").ok::<ChannelView>(),
        Route::channel(PATCH, "/v1/channels/{id}", patch)
            .doc("update_channel", "Change a channel's name or metadata")
            .about("New metadata replaces all of the old metadata.")
            .body(parse_patch, json!({ "name": "Sales EMEA" }))
            .ok::<ChannelView>(),
        Route::channel(DELETE, "/v1/channels/{id}", delete)
            .doc("delete_channel", "Delete a channel")
            .about("Ends its connection and wipes its credentials.")
            .no_content(),
        Route::channel(GET, "/v1/channels/{id}/qr", pairing::qr)
            .doc("get_channel_qr", "Get the QR code that pairs the channel with a phone")
            .about("Starts the pairing, and waits up to ten seconds for a code.")
            .query(pairing::asked)
            .ok::<Qr>()
            .ok::<RawQr>()
            .content("image/png")
            .errors(&[E::NoQr, E::ChannelUnavailable, E::ConcurrentModification]),
        Route::channel(POST, "/v1/channels/{id}/pair-code", pairing::pair_code)
            .doc("request_pair_code", "Get a code to type on the phone")
            .body(parse_pair_code, json!({ "phone_number": "15551234567" }))
            .ok::<PairCodeView>()
            .errors(&[E::PairCodeUnavailable, E::PairCodeFailed, E::ChannelUnavailable, E::ConcurrentModification]),
        Route::channel(POST, "/v1/channels/{id}/connect", lifecycle::connect)
            .doc("connect_channel", "Connect a channel")
            .also(lifecycle),
        Route::channel(POST, "/v1/channels/{id}/disconnect", lifecycle::disconnect)
            .doc("disconnect_channel", "Stop a channel, and keep its credentials")
            .also(lifecycle),
        Route::channel(POST, "/v1/channels/{id}/restart", lifecycle::restart)
            .doc("restart_channel", "Restart a channel's connection")
            .also(lifecycle),
        Route::channel(POST, "/v1/channels/{id}/logout", lifecycle::logout)
            .doc("logout_channel", "Unlink a channel from its phone")
            .also(lifecycle),
        Route::channel(POST, "/v1/channels/{id}/disable", lifecycle::disable)
            .doc("disable_channel", "Forbid a channel to run")
            .also(lifecycle)
            .optional_body(lifecycle::parse_reason, json!({ "reason": "under review" })),
        Route::channel(POST, "/v1/channels/{id}/enable", lifecycle::enable)
            .doc("enable_channel", "Allow a disabled channel to run")
            .also(lifecycle)
            .errors(&[E::NotDisabled]),
        Route::channel(GET, "/v1/channels/{id}/status-history", status_history::status_history)
            .doc("list_status_history", "List the changes of a channel's status, the newest first")
            .query(|query| status_history::asked(query, ListId::only()))
            .page::<StatusChange>(),
    ]
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let live = call.ask(GetStatus).await?;
    Ok(Reply::ok(&ChannelView::new(&call.channel, Some(&live))))
}

async fn patch(call: &mut ChannelCall) -> Outcome {
    let (name, metadata) = parse_patch(&call.object().await?)?;
    let metadata = metadata.map(|map| Value::Object(map).to_string());
    let command = Command::UpdateChannel { customer: call.customer_id(), id: call.channel.id, name, metadata };
    let channel = of_kind!(call.update(command, Vec::new()).await?, Updated::Channel(channel) => channel)?;
    let live = call.ask(GetStatus).await?;
    Ok(Reply::ok(&ChannelView::new(&channel, Some(&live))))
}

/// The new name, and the metadata that replaces the old.
type Patch = (Option<String>, Option<Map<String, Value>>);

fn parse_patch(body: &Body) -> Result<Patch, CallError> {
    body.read_patch(|fields| {
        let name = fields.optional("name", rule::text(1..=120));
        Some((name, fields.optional("metadata", rule::metadata)))
    })
}

/// Deletes the channel in the directory, then has the owner end the session. If this node fails in between, the owner
/// notices when it compares its channels with the directory.
async fn delete(call: &mut ChannelCall) -> Outcome {
    let entry = call.audited("channel.deleted", Target::new("channel", call.channel.id, &call.channel.name));
    let command = Command::DeleteChannel { customer: call.customer_id(), id: call.channel.id };
    call.settle().await?;
    attempts::count(call, &[Attempt::DeletionBy(call.customer_id())]).await?;
    delete_with_keys(call, command, entry, call.customer_id(), Ended::Channel(call.channel.id)).await?;
    if let Err(error) = call.ask(DeleteChannel).await {
        tracing::info!(channel = %call.channel.id, %error, "the owner will find the channel deleted by itself");
    }
    Ok(Reply::no_content())
}
