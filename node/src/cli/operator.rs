//! The commands of an operator, as the command line reads them.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use url::Url;
use uuid::Uuid;

use super::customers::{CustomerCommand, KeyCommand, UserCommand};
use super::members::{ConfirmArgs, DrainArgs, LayoutCommand, NodeCommand, NodeRef, ShardCommand, TokenArgs};

/// Where the cluster is, and how to show what it says; every command of an operator takes these.
#[derive(Args, Clone, Debug, Default)]
pub struct OperatorArgs {
    /// The operator's port of a node, as in http://10.0.0.1:8081; of several the first that answers is asked
    #[arg(long, value_name = "URL", env = "GATEWAY_OPS", value_delimiter = ',', value_parser = base_url, help_heading = "Cluster")]
    pub ops: Vec<String>,
    /// The operator's token; other users of the machine may see flags, so rather give a file
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GATEWAY_OPERATOR_TOKEN",
        hide_env_values = true,
        help_heading = "Cluster"
    )]
    pub token: Option<String>,
    /// The file that holds the operator's token
    #[arg(long, value_name = "FILE", env = "GATEWAY_OPERATOR_TOKEN_FILE", help_heading = "Cluster")]
    pub token_file: Option<PathBuf>,
    /// Authorities that may sign the operator's port's certificate, beside the system's
    #[arg(long, value_name = "FILE", env = "GATEWAY_OPS_CA_FILE", help_heading = "Cluster")]
    pub ca_file: Option<PathBuf>,
    /// The configuration of a node of this machine, which knows both [default: /etc/gateway/gateway.toml]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CONFIG", help_heading = "Cluster")]
    pub config: Option<PathBuf>,
    /// The folder of a cluster of gateway dev, which knows both [default: .gateway-dev, when it is there]
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub data: Option<PathBuf>,
    /// JSON for programs, instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What asks a running cluster. Exit codes: 0, 1 when the cluster is degraded or does not answer, 2 for wrong use, and for what the cluster refuses as it stands.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Show how the cluster does
    #[command(after_help = "Examples:\n  \
            gateway status\n  \
            gateway status --json | jq .channels")]
    Status(OperatorArgs),
    /// Check what may go wrong: can a node be lost now, are disks fast and roomy, do clocks agree
    #[command(
        after_help = "Ends with 0 only when nothing is wrong and any one node can be lost now; so never with fewer \
            than three nodes, of which gateway status tells whether they are well.\n\n\
            Examples:\n  \
            gateway check && systemctl restart gateway     only when a node can be lost\n  \
            gateway check --json | jq '.checks[] | select(.level != \"ok\")'"
    )]
    Check(OperatorArgs),
    /// List the nodes of the cluster
    #[command(after_help = "Examples:\n  \
            gateway nodes\n  \
            gateway nodes --ops 10.0.0.1:8081,10.0.0.2:8081 --token-file operator.token\n  \
            gateway nodes --json | jq '.data[] | select(.state != \"ready\")'")]
    Nodes(OperatorArgs),
    /// Look at what the nodes' releases understand of each other, and end an upgrade
    #[command(subcommand)]
    Format(FormatCommand),
    /// List the shards, who leads them and how their replicas keep up
    #[command(after_help = "Examples:\n  \
            gateway shards\n  \
            gateway shards --json | jq '.data[] | select(.can_lose == 0) | .id'")]
    Shards(OperatorArgs),
    /// Make a token that lets one node in, once
    #[command(after_help = "Whoever has it gets the cluster's keys: hand it over as you would those.\n\n\
            Example:\n  \
            gateway token --expires 10m    then, on the new machine, gateway join")]
    Token(TokenArgs),
    /// Move all that a node leads to others, so that it can stop without anybody noticing
    #[command(
        after_help = "Refused when no other node is ready, and, without --force, while another one does not answer or is \
            drained.\n\n\
            Examples:\n  \
            gateway drain 2 --wait && ssh node-2 systemctl restart gateway\n  \
            gateway undrain 2"
    )]
    Drain(DrainArgs),
    /// Let a drained node lead again
    #[command(after_help = "Example:\n  gateway undrain 2")]
    Undrain(NodeRef),
    /// Remove a node, or give it another share
    #[command(subcommand)]
    Node(NodeCommand),
    /// Look at where the shards lie, and move them to where the nodes want them
    #[command(subcommand)]
    Layout(LayoutCommand),
    /// Move one shard
    #[command(subcommand)]
    Shard(ShardCommand),
    /// Look at one channel, say whether it may run, or move it to another cluster
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Look at one message
    #[command(subcommand)]
    Message(MessageCommand),
    /// Look at webhooks
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Make customers, and say what they may have
    #[command(subcommand)]
    Customer(CustomerCommand),
    /// Make members of customers
    #[command(subcommand)]
    User(UserCommand),
    /// Revoke an API key
    #[command(subcommand)]
    Key(KeyCommand),
    /// List the API keys of all customers, and when each was last used
    #[command(after_help = "Examples:\n  \
            gateway keys\n  \
            gateway keys --customer 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 --revoked\n  \
            gateway keys --json | jq '.data[] | select(.last_used_at == null) | .prefix'")]
    Keys(KeysArgs),
    /// Look at the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Exchange the master key and what else secrets hang on, or see what is sealed under which
    #[command(subcommand)]
    Secrets(SecretsCommand),
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Seal everything under the master key that the nodes were given last; the cluster ends it by itself once it has begun
    #[command(
        after_help = "Before: make a key (openssl rand -hex 32), name it in secrets.master_key_file of every node, \
            and the former one in secrets.previous_master_key_file; restart the nodes one after the other.\n\
            After: when nothing is sealed under the former one, and receivers have taken over their new default secrets, \
            leave out secrets.previous_master_key_file and restart again. Backups from before need the former key: keep \
            it with them.\n\n\
            Examples:\n  \
            gateway secrets rewrap\n  \
            gateway secrets rewrap --json | jq .exchange.old_key_may_go"
    )]
    Rewrap {
        /// Return when it has begun; the cluster goes on by itself
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Exchange a key of the cluster for a new one, which it makes itself
    #[command(subcommand)]
    Rotate(RotateCommand),
    /// Show under which master key what is sealed, and whether the former one may go; and how far a rotation is
    #[command(after_help = "Example:\n  gateway secrets status")]
    Status(OperatorArgs),
}

#[derive(Debug, Subcommand)]
pub enum RotateCommand {
    /// The customers' data keys, which seal credentials and secrets of webhooks; all of that is sealed anew
    #[command(
        after_help = "The former keys are dropped a day after nothing is sealed with them (secrets.keep_former_data_keys); the \
            command returns when it has begun, and the cluster goes on by itself.\n\n\
            Example:\n  gateway secrets rotate data-keys && gateway secrets status"
    )]
    DataKeys(OperatorArgs),
    /// The key that signs session tokens; those of the key before are good until they expire, within 15 minutes
    #[command(after_help = "Example:\n  gateway secrets rotate session-key")]
    SessionKey(OperatorArgs),
    /// The authority by which nodes know each other; every node has to be there until it is over
    #[command(
        after_help = "All nodes come to trust the new authority, make themselves certificates of it, and then trust the \
            former no more: a certificate that it signed opens nothing then, nor does its key. Join tokens that were \
            issued before let nobody in any more.\n\n\
            Examples:\n  \
            gateway secrets rotate authority\n  \
            gateway secrets rotate authority --detach --json | jq .authority"
    )]
    Authority {
        /// Return when it has begun; the cluster goes on by itself
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum FormatCommand {
    /// Show the cluster's format, and what each node understands
    #[command(after_help = "Example:\n  gateway format show")]
    Show(OperatorArgs),
    /// Let the nodes use what their release has brought; no node can go back to an older one after that
    #[command(after_help = "Until then every node may be started with its former release again.\n\n\
            It says what it will do, and asks.\n\n\
            Examples:\n  gateway format raise\n  gateway format raise --yes     in a script")]
    Raise {
        #[command(flatten)]
        confirm: ConfirmArgs,
        #[command(flatten)]
        operator: OperatorArgs,
    },
}

#[derive(Debug, Subcommand)]
pub enum ChannelCommand {
    /// Say which node holds a channel
    #[command(after_help = "Example:\n  gateway channel where 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Where(ChannelArgs),
    /// Forbid a channel to run, whatever its customer does
    #[command(after_help = "Example:\n  gateway channel disable 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 --reason abuse")]
    Disable {
        #[command(flatten)]
        channel: ChannelArgs,
        /// For the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Allow a disabled channel to run again
    #[command(after_help = "Example:\n  gateway channel enable 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Enable(ChannelArgs),
    /// Write the session of a stopped channel into a file, with which another cluster logs in without a new QR
    #[command(
        after_help = "Disable the channel before, and leave it so, or delete it: a session that two clusters use ends on both. \
            Whoever has the file and the passphrase can log in as the channel.\n\n\
            Example:\n  \
            openssl rand -hex 24 > passphrase\n  \
            gateway channel disable 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 --reason moves\n  \
            gateway channel export 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 \\\n      \
            --to sales.bundle --passphrase-file passphrase"
    )]
    Export {
        #[command(flatten)]
        channel: ChannelArgs,
        /// The file to write
        #[arg(long, value_name = "FILE")]
        to: PathBuf,
        /// The file that holds the passphrase: 12 to 200 characters of ASCII
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
    /// Give a channel that was never paired, or is logged out, the session of such a file
    #[command(after_help = "Then POST /v1/channels/{id}/connect, by the customer's key, logs in.\n\n\
            Example:\n  \
            gateway channel import 0198d0e7-51c9-7c1e-9a51-0f6c2b7f3d20 \\\n      \
            --from sales.bundle --passphrase-file passphrase")]
    Import {
        #[command(flatten)]
        channel: ChannelArgs,
        /// The file that export wrote
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The file that holds the passphrase
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum MessageCommand {
    /// Show what became of a message: stored, sent, each event, each attempt at a webhook
    #[command(after_help = "Examples:\n  \
            gateway message trace 3EB0C9A1F4D2E8B7A6C5D4E3F2A1B0C9D8E7F6A5\n  \
            gateway message trace 3EB0C9A1F4D2E8B7A6C5D4E3F2A1B0C9D8E7F6A5 \\\n      \
            --channel 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Trace(MessageTraceArgs),
}

#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// List the endpoints whose deliveries do not get through; exit code 1 when there are any
    #[command(after_help = "Examples:\n  \
            gateway webhooks stuck\n  \
            gateway webhooks stuck --older-than 1h --json | jq '.data[].url'")]
    Stuck(WebhooksStuckArgs),
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the last entries of the audit log, and with --follow those that come
    #[command(after_help = "Examples:\n  \
            gateway audit tail --lines 50\n  \
            gateway audit tail --follow --action auth.failed\n  \
            gateway audit tail --follow --json")]
    Tail(AuditTailArgs),
}

#[derive(Args, Debug)]
pub struct MessageTraceArgs {
    /// The message, by its id in the network
    pub id: String,
    /// Only in this channel; otherwise all channels are asked
    #[arg(long, value_name = "CHANNEL", value_parser = id)]
    pub channel: Option<Uuid>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct WebhooksStuckArgs {
    /// What has waited for less is on its way
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration)]
    pub older_than: Duration,
    /// Only of this customer
    #[arg(long, value_name = "CUSTOMER", value_parser = id)]
    pub customer: Option<Uuid>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct KeysArgs {
    /// Only of this customer
    #[arg(long, value_name = "CUSTOMER", value_parser = id)]
    pub customer: Option<Uuid>,
    /// Revoked ones, too
    #[arg(long)]
    pub revoked: bool,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct AuditTailArgs {
    /// How many entries to begin with
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub lines: usize,
    /// Go on showing what comes
    #[arg(long, short)]
    pub follow: bool,
    /// Only of this customer
    #[arg(long, value_name = "CUSTOMER", value_parser = id)]
    pub customer: Option<Uuid>,
    /// Only this action, as in key.revoked
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Only by this actor: a kind, an id, a key's prefix or a member's address
    #[arg(long, value_name = "ACTOR")]
    pub actor: Option<String>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct ChannelArgs {
    /// The channel
    #[arg(value_parser = id)]
    pub id: Uuid,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

/// `90s`, `5m`, `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text).map_err(|_| "write it as in 90s, 5m or 1h 30m".to_owned())
}

/// An id, as the gateway gives them.
pub(super) fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "an id is written as in 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11".to_owned())
}

/// A base URL without a trailing slash; the scheme may be left out.
pub fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match Url::parse(&whole) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            Ok(whole.trim_end_matches('/').to_owned())
        }
        _ => Err("write it as http://host:port".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_id_or_no_time_is_answered_with_one_that_is() {
        assert!(id("0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11").is_ok());
        assert!(id("sales").is_err_and(|said| said.contains("0198c6a2-")));
        assert_eq!(duration("1h 30m"), Ok(Duration::from_secs(5400)));
        assert!(duration("soon").is_err_and(|said| said.contains("1h 30m")));
    }

    #[test]
    fn the_scheme_of_a_base_url_may_be_left_out() {
        let table = [
            ("http://10.0.0.1:8081/", Some("http://10.0.0.1:8081")),
            ("https://ops.example.com", Some("https://ops.example.com")),
            ("node-1:8081", Some("http://node-1:8081")),
            ("ftp://node-1", None),
            ("", None),
            ("http://", None),
        ];
        for (text, expected) in table {
            assert_eq!(base_url(text).ok().as_deref(), expected, "{text}");
        }
    }
}
