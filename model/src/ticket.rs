//! Support tickets: their enums, and the bodies that create and answer them.

use schemars::JsonSchema;
use serde_json::Value;

use crate::error::CallError;
use crate::field::{Body, Judged, rule};
use crate::id::ChannelId;

/// Maximum number of tickets that an account may open per day (UTC).
pub const TICKETS_PER_DAY: u32 = 10;

/// Maximum number of messages in a ticket.
pub const MESSAGES_PER_TICKET: u32 = 200;

crate::words! {
    /// What a ticket is about.
    #[derive(JsonSchema)]
    Category {
        Connection = "connection",
        Delivery = "delivery",
        Webhooks = "webhooks",
        Billing = "billing",
        Other = "other",
    }

    #[derive(JsonSchema)]
    Priority {
        Low = "low",
        Normal = "normal",
        Urgent = "urgent",
    }

    /// Status of a ticket: `open` waits for the support, `waiting` for the customer; `closed` accepts no more messages.
    #[derive(JsonSchema)]
    TicketStatus {
        /// The support is to answer.
        Open = "open",
        /// The customer is to answer.
        Waiting = "waiting",
        /// Solved, unless the customer writes again.
        Solved = "solved",
        /// Closed for good; no message is accepted any more.
        Closed = "closed",
    }

    /// Who wrote a message of a ticket.
    #[derive(JsonSchema)]
    Author {
        Customer = "customer",
        Support = "support",
    }
}

impl TicketStatus {
    /// Whether support or the customer still has to respond.
    pub fn is_open(self) -> bool {
        matches!(self, Self::Open | Self::Waiting)
    }
}

fn message(value: &Value) -> Judged<String> {
    rule::text(1..=5000)(value)
}

/// The body that creates a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewTicket {
    pub subject: String,
    pub message: String,
    pub category: Category,
    pub priority: Priority,
    pub channel_id: Option<ChannelId>,
    /// The id of the request that failed.
    pub request_id: Option<String>,
}

impl NewTicket {
    pub fn parse(body: &Body) -> Result<Self, CallError> {
        body.read(|fields| {
            let subject = fields.required("subject", rule::text(1..=160));
            let message = fields.required("message", message);
            let category = fields.optional("category", rule::one_of(Category::WORDS, Category::parse));
            let priority = fields.optional("priority", rule::one_of(Priority::WORDS, Priority::parse));
            let channel_id = fields.optional("channel_id", rule::uuid);
            let request_id = fields.optional("request_id", rule::text(1..=64));
            Some(Self {
                subject: subject?,
                message: message?,
                category: category.unwrap_or(Category::Other),
                priority: priority.unwrap_or(Priority::Normal),
                channel_id,
                request_id,
            })
        })
    }
}

/// Parses `{ "message" }`, another message in a ticket.
pub fn parse_message(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("message", message))
}

/// Parses `{ "message", "status"? }`, an answer from support and the resulting status.
pub fn parse_answer(body: &Body) -> Result<(String, TicketStatus), CallError> {
    body.read(|fields| {
        let message = fields.required("message", message);
        let status = fields.optional("status", status);
        Some((message?, status.unwrap_or(TicketStatus::Waiting)))
    })
}

/// Parses `{ "status" }`.
pub fn parse_status(body: &Body) -> Result<TicketStatus, CallError> {
    body.read_patch(|fields| fields.required("status", status))
}

fn status(value: &Value) -> Judged<TicketStatus> {
    rule::one_of(TicketStatus::WORDS, TicketStatus::parse)(value)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(body: Value) -> Result<NewTicket, CallError> {
        NewTicket::parse(&body.try_into().unwrap())
    }

    #[test]
    fn a_ticket_needs_a_subject_and_a_message_and_has_a_place_for_more() {
        let ticket = parse(json!({ "subject": "Help", "message": "It does not work" })).unwrap();
        assert_eq!((ticket.category, ticket.priority), (Category::Other, Priority::Normal));
        let id = ChannelId::random();
        let body = json!({
            "subject": "s", "message": "m", "category": "webhooks", "priority": "urgent",
            "channel_id": id.to_string(), "request_id": "req_1",
        });
        let ticket = parse(body).unwrap();
        assert_eq!((ticket.category, ticket.priority), (Category::Webhooks, Priority::Urgent));
        assert_eq!((ticket.channel_id, ticket.request_id.as_deref()), (Some(id), Some("req_1")));
    }

    #[test]
    fn wrong_bodies_name_their_fields() {
        let table = [
            (json!({ "message": "m" }), "subject", "required"),
            (json!({ "subject": "s".repeat(161), "message": "m" }), "subject", "too_long"),
            (json!({ "subject": "s", "message": "m".repeat(5001) }), "message", "too_long"),
            (json!({ "subject": "s", "message": "m", "category": "x" }), "category", "enum"),
            (json!({ "subject": "s", "message": "m", "priority": 1 }), "priority", "type"),
            (json!({ "subject": "s", "message": "m", "channel_id": "7" }), "channel_id", "format"),
        ];
        for (body, path, code) in table {
            let details = parse(body).unwrap_err().details.unwrap();
            assert_eq!((&details[0]["path"], &details[0]["code"]), (&json!([path]), &json!(code)));
        }
    }

    #[test]
    fn every_word_is_written_as_it_is_read() {
        for word in TicketStatus::WORDS {
            assert_eq!(serde_json::to_value(TicketStatus::parse(word).unwrap()).unwrap(), json!(word));
        }
        for word in Category::WORDS {
            assert_eq!(serde_json::to_value(Category::parse(word).unwrap()).unwrap(), json!(word));
        }
        for word in Priority::WORDS {
            assert_eq!(serde_json::to_value(Priority::parse(word).unwrap()).unwrap(), json!(word));
        }
        assert_eq!(serde_json::to_value(Author::Customer).unwrap(), Author::WORDS[0]);
        assert_eq!(Author::parse("support"), Some(Author::Support));
    }
}
