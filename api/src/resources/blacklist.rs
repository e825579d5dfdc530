//! A channel's block list on the network.

use model::blacklist::Blocked;
use model::error::{CallError, ErrorCode as E};
use network::operation::account::BlacklistOperation;
use shard::call::read::Read;

use super::contacts::LOOKED_UP;
use crate::projection::{read_refresh, read_rest};
use crate::reply::{Counted, List, Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PUT, Route};

pub fn routes() -> Vec<Route> {
    let of_contact = &[E::NoOp, E::UndeliverableRecipient];
    // All of these routes call the network.
    let routes = [
        Route::channel(GET, "/v1/channels/{id}/blacklist", list)
            .doc("list_blacklist", "List the contacts that the channel has blocked")
            .query(|query| (read_refresh(query), read_rest(query)))
            .ok::<Counted<Blocked>>(),
        Route::channel(PUT, "/v1/channels/{id}/blacklist/{contact_id}", block)
            .doc("block_contact", "Block a contact")
            .about(LOOKED_UP)
            .ok::<Blocked>()
            .errors(of_contact),
        Route::channel(DELETE, "/v1/channels/{id}/blacklist/{contact_id}", unblock)
            .doc("unblock_contact", "Unblock a contact")
            .no_content()
            .errors(of_contact),
    ];
    routes.map(Route::on_network).into()
}

async fn all(call: &mut ChannelCall) -> Result<Vec<Blocked>, CallError> {
    call.read_many::<Blocked>(Read::Blocked).await
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let (refresh, page) = call.asked(|query| (read_refresh(query), call.rest::<Blocked>(query)))?;
    call.refresh(refresh, BlacklistOperation::List).await?;
    let blocked = all(call).await?;
    let count = blocked.len();
    let List { data, next_cursor } = page.of(blocked, |blocked| blocked.id.to_string());
    Ok(Reply::ok(&Counted { data, count, next_cursor: next_cursor.flatten() }))
}

async fn block(call: &mut ChannelCall) -> Outcome {
    let contact = call.person().await?;
    call.operate(BlacklistOperation::Block { contact: contact.clone() }).await?;
    let mut blocked = all(call).await?;
    // The list uses the best address of a contact; the path may have the other one.
    blocked.retain(|blocked| blocked.id == contact || blocked.lid.as_ref() == Some(&contact));
    let blocked = blocked.pop().ok_or_else(|| CallError::contact_not_found(contact.as_str()))?;
    Ok(Reply::ok(&blocked))
}

async fn unblock(call: &mut ChannelCall) -> Outcome {
    let contact = call.person().await?;
    call.done(BlacklistOperation::Unblock { contact }).await
}
