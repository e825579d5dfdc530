//! Arguments of the commands for developers of webhook receivers.

use std::path::PathBuf;

use clap::Args;
use model::event::EventName;
use url::Url;
use uuid::Uuid;

use super::operator::{base_url, id};

/// Where the gateway's API is, and the key to ask it with.
#[derive(Args, Clone, Debug, Default)]
pub struct CustomerArgs {
    /// The gateway's API, as in https://gateway.example.com; of several, the first that answers is used
    #[allow(rustdoc::bare_urls, reason = "a text of the command line")]
    #[arg(long, value_name = "URL", env = "GATEWAY_API", value_delimiter = ',', value_parser = base_url, help_heading = "Account")]
    pub api: Vec<String>,
    /// An API key; other users of this machine may see flags, so prefer a file
    #[arg(long, value_name = "KEY", env = "GATEWAY_API_KEY", hide_env_values = true, help_heading = "Account")]
    pub key: Option<String>,
    /// The file that holds an API key
    #[arg(long, value_name = "FILE", env = "GATEWAY_API_KEY_FILE", help_heading = "Account")]
    pub key_file: Option<PathBuf>,
    /// More authorities to trust for the API's certificate, besides the system's
    #[arg(long, value_name = "FILE", env = "GATEWAY_API_CA_FILE", help_heading = "Account")]
    pub ca_file: Option<PathBuf>,
    /// The folder of a gateway dev cluster, which names API and key [default: .gateway-dev, if it exists]
    #[arg(long, value_name = "DIR", help_heading = "Account")]
    pub data: Option<PathBuf>,
}

#[derive(Args, Debug)]
#[command(
    after_help = "The key needs the scope events.read. Forwarded events are signed and have the headers of a webhook, but are \
        sent only once. After an interruption it continues behind the last event, and says so if events were lost.\n\n\
        Examples:\n  \
        gateway listen\n  \
        gateway listen --events message.received --forward-to localhost:3000/hook\n  \
        gateway listen --api https://gateway.example.com --key-file key --json"
)]
pub struct ListenArgs {
    #[command(flatten)]
    pub account: CustomerArgs,
    /// Send each event to this URL as a webhook
    #[arg(long, value_name = "URL", value_parser = receiver)]
    pub forward_to: Option<Url>,
    /// The secret that signs them [default: one is generated and shown]
    #[arg(long, value_name = "SECRET", env = "GATEWAY_SIGNING_SECRET", hide_env_values = true)]
    pub signing_secret: Option<String>,
    /// Only these events
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', value_parser = event)]
    pub events: Vec<EventName>,
    /// Only events of this channel; may be repeated
    #[arg(long, value_name = "ID", value_parser = id)]
    pub channel: Vec<Uuid>,
    /// Print whole events as JSON, one per line, instead of only their names
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(
    after_help = "An endpoint gets it from the gateway, signed with the endpoint's secret, whatever it subscribes to. A URL gets \
        it directly from this machine.\n\n\
        Examples:\n  \
        gateway trigger call.offered --endpoint 0197c0de-5eed-7000-a000-c0ffee000001\n  \
        gateway trigger order.placed --forward-to localhost:3000/hook \\\n      \
        --signing-secret whsec_local-receiver"
)]
pub struct TriggerArgs {
    /// The event, as in message.received
    #[arg(value_name = "EVENT", value_parser = event)]
    pub event: EventName,
    #[command(flatten)]
    pub account: CustomerArgs,
    /// The endpoint that gets it [default: the account's only one]
    #[arg(long, value_name = "ID", value_parser = id, conflicts_with = "forward_to")]
    pub endpoint: Option<Uuid>,
    /// Send it to this URL, without the gateway
    #[arg(long, value_name = "URL", value_parser = receiver)]
    pub forward_to: Option<Url>,
    /// The secret that signs it on its way to a URL [default: one is generated and shown]
    #[arg(long, value_name = "SECRET", env = "GATEWAY_SIGNING_SECRET", hide_env_values = true)]
    pub signing_secret: Option<String>,
}

/// Parses a URL; the scheme defaults to `http`.
fn receiver(text: &str) -> Result<Url, String> {
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&whole).map_err(|error| error.to_string())?;
    match matches!(url.scheme(), "http" | "https") && url.has_host() {
        true => Ok(url),
        false => Err("write it like http://host:port/path".to_owned()),
    }
}

fn event(text: &str) -> Result<EventName, String> {
    EventName::parse(text).ok_or_else(|| format!("the events are: {}", EventName::WORDS.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_may_be_written_without_its_scheme() {
        let read = |text: &str| receiver(text).map(|url| url.to_string());
        assert_eq!(read("localhost:3000/hook"), Ok("http://localhost:3000/hook".to_owned()));
        assert_eq!(read("https://example.com"), Ok("https://example.com/".to_owned()));
        assert!(read("ftp://example.com").is_err() && read("").is_err());
    }

    #[test]
    fn an_event_that_there_is_not_is_answered_with_those_that_there_are() {
        assert_eq!(event("message.received"), Ok(EventName::MessageReceived));
        assert!(event("message").is_err_and(|said| said.contains("message.received, message.sent")));
    }
}
