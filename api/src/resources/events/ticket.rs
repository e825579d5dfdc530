//! `POST /v1/events/tickets`: issues a ticket that opens one stream in place of a key.

use bytes::Bytes;
use model::stream_ticket::StreamTicket;
use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use shard::stream::{StreamRequest, TICKET_LIFE, Ticket};

use crate::failure;
use crate::pipeline::TicketGrant;
use crate::reply::{Outcome, Reply};
use crate::request_context::AccountCall;

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StreamTicket")]
pub struct TicketView<'a> {
    ticket: &'a str,
    expires_at: Timestamp,
}

pub async fn issue(call: &mut AccountCall) -> Outcome {
    let ticket = StreamTicket::mint(call.customer_id(), rand::random());
    let grant = serde_json::to_vec(&TicketGrant::of(&call.caller));
    let grant = grant.map_err(|error| failure::internal("a ticket's grant could not be written", &error))?;
    let expires_at = call.now.plus(TICKET_LIFE);
    let digest = Bytes::copy_from_slice(&ticket.digest());
    let request = StreamRequest::KeepTicket { digest, ticket: Ticket { grant: grant.into(), expires_at } };
    call.cluster().stream(call.customer_id(), request, &call.context()).await?;
    Ok(Reply::created(&TicketView { ticket: ticket.reveal(), expires_at }).uncached())
}
