//! Forwards the messages of customers' tickets to the support: a helpdesk's URL or an e-mail address.
//!
//! The messages wait in the directory, and its leader forwards them at least once: again after a change of the leader
//! in between. Receivers recognise repeats by the message's id.

use std::time::Duration;

use model::id::CustomerId;
use model::ticket::TicketStatus;
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::support::{Forward, TicketCommand, TicketMessage};
use raft::supervise;
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, redirect};
use serde::Serialize;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::config::SupportConfig;
use crate::resources::tickets::TicketView;

/// How often the leader looks for messages.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// The longest pause after failures; each failure doubles the pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(10 * 60);

/// The most messages that are forwarded per look.
const AT_ONCE: usize = 50;

/// A message is given up after this time. It stays in its ticket.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(3 * 86_400);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for one message as a whole.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);

/// Timeout for recording in the directory which messages were forwarded.
const NOTE_PATIENCE: Duration = Duration::from_secs(10);

/// The JSON that a helpdesk receives.
#[derive(Serialize)]
struct Forwarded<'a> {
    ticket: TicketView,
    customer: CustomerName<'a>,
    request_id: Option<&'a str>,
    message: &'a TicketMessage,
}

#[derive(Serialize)]
struct CustomerName<'a> {
    id: CustomerId,
    name: &'a str,
}

/// The result of forwarding a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Taken,
    /// The message was refused; the next one may be accepted.
    Refused,
    /// The support cannot be reached now.
    Unreachable,
}

/// Forwards messages to the support while this node leads the directory, until `stop`.
pub async fn run(app: &App, stop: CancellationToken) {
    if !app.config.support.hears() {
        return;
    }
    let client = Client::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(SEND_TIMEOUT)
        .redirect(redirect::Policy::none())
        // No proxies of the environment: the configuration names the helpdesk, and would name a proxy, too.
        .no_proxy()
        .build()
        .expect("a client with time-outs alone is always built");
    let mut pause = LOOK_EVERY;
    while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        let all_taken = stop.run_until_cancelled(look(app, &client)).await.unwrap_or(true);
        pause = if all_taken { LOOK_EVERY } else { (pause * 2).min(LONGEST_PAUSE) };
    }
}

/// Forwards the waiting messages. Returns whether nothing failed.
async fn look(app: &App, client: &Client) -> bool {
    let directory = app.cluster.directory().clone();
    if !directory.leads() {
        return true;
    }
    let Ok(waiting) = supervise::on_thread(move || directory.forwards(AT_ONCE)).await else { return false };
    let (mut done, mut all_taken) = (Vec::new(), true);
    for forward in waiting {
        let place = (forward.ticket.id, forward.message.id);
        if Timestamp::now().since(forward.message.created_at) > GIVEN_UP_AFTER {
            tracing::error!(ticket = %place.0, message = %place.1, "the support could not be reached for three days");
            done.push(place);
            continue;
        }
        let sent = bring(app, client, &forward).await;
        let outcome = if sent == Sent::Taken { "taken" } else { "failed" };
        metrics::counter!("gateway_ticket_forwards_total", "outcome" => outcome).increment(1);
        match sent {
            Sent::Taken => done.push(place),
            Sent::Refused => all_taken = false,
            Sent::Unreachable => {
                all_taken = false;
                break;
            }
        }
    }
    if !done.is_empty() {
        let command = Command::Tickets(TicketCommand::Forwarded(done));
        let deadline = (Instant::now() + NOTE_PATIENCE).into_std();
        if let Err(error) = app.cluster.directory().update(command, Vec::new(), deadline).await {
            tracing::warn!(%error, "messages to the support will be sent again: their sending could not be recorded");
        }
    }
    all_taken
}

async fn bring(app: &App, client: &Client, forward: &Forward) -> Sent {
    let id = forward.ticket.customer_id;
    let customer = app.cluster.directory().read(|state| state.customers.get(&id).cloned());
    let name = customer.as_ref().map_or("", |customer| customer.name.as_str());
    match &app.config.support {
        SupportConfig::Nobody => Sent::Taken,
        SupportConfig::Url(url) => {
            let body = Forwarded {
                ticket: TicketView::from(&forward.ticket),
                customer: CustomerName { id, name },
                request_id: forward.ticket.request_id.as_deref(),
                message: &forward.message,
            };
            post(client, url, &body).await
        }
        SupportConfig::Email(address) => {
            let (subject, text) = letter(forward, name);
            if app.auth.mail.deliver(address, subject, text).await { Sent::Taken } else { Sent::Unreachable }
        }
    }
}

async fn post(client: &Client, url: &str, body: &Forwarded<'_>) -> Sent {
    let Ok(body) = serde_json::to_vec(body) else { return Sent::Refused };
    match client.post(url).header(CONTENT_TYPE, "application/json").body(body).send().await {
        Ok(answer) if answer.status().is_success() => Sent::Taken,
        Ok(answer) => {
            let status = answer.status();
            tracing::warn!(%status, "the support's URL refused a message");
            if status.is_client_error() && status.as_u16() != 429 { Sent::Refused } else { Sent::Unreachable }
        }
        Err(error) => {
            // The URL may hold a secret.
            tracing::warn!(error = %error.without_url(), "the support's URL cannot be reached");
            Sent::Unreachable
        }
    }
}

/// The subject and the text of the e-mail for a message.
fn letter(forward: &Forward, customer: &str) -> (String, String) {
    let Forward { ticket, message } = forward;
    let about = |name: &str, value: Option<String>| value.map(|value| format!("{name}: {value}\n")).unwrap_or_default();
    let text = format!(
        "{}\n\n--\nTicket: {} ({})\nCustomer: {customer} ({})\nWritten by: {}\n{}{}",
        message.message,
        ticket.id,
        if ticket.status == TicketStatus::Open { "open" } else { "answered" },
        ticket.customer_id,
        ticket.created_by,
        about("Channel", ticket.channel_id.map(|id| id.to_string())),
        about("Request", ticket.request_id.clone()),
    );
    (format!("[#{}] {}", ticket.number, ticket.subject), text)
}
