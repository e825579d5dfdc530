//! Arguments of the operator's commands.

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
    /// The operators' port of a node, as in http://10.0.0.1:8081; of several, the first that answers is used
    #[arg(long, value_name = "URL", env = "GATEWAY_OPS", value_delimiter = ',', value_parser = base_url, help_heading = "Cluster")]
    pub ops: Vec<String>,
    /// The operator's token; other users of this machine may see flags, so prefer a file
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
    /// More authorities to trust for the operators' port's certificate, besides the system's
    #[arg(long, value_name = "FILE", env = "GATEWAY_OPS_CA_FILE", help_heading = "Cluster")]
    pub ca_file: Option<PathBuf>,
    /// The configuration of a node on this machine, which names port and token [default: /etc/gateway/gateway.toml]
    #[arg(long, value_name = "FILE", env = "GATEWAY_CONFIG", help_heading = "Cluster")]
    pub config: Option<PathBuf>,
    /// The folder of a gateway dev cluster, which names port and token [default: .gateway-dev, if it exists]
    #[arg(long, value_name = "DIR", help_heading = "Cluster")]
    pub data: Option<PathBuf>,
    /// Print JSON for programs instead of a table
    #[arg(long)]
    pub json: bool,
}

/// What asks a running cluster. Exit codes: 0, 1 when the cluster is degraded or does not answer, 2 for wrong use, and for what the cluster refuses as it stands.
#[derive(Debug, Subcommand)]
pub enum OperatorCommand {
    /// Show the cluster's status
    #[command(after_help = "Examples:\n  \
            gateway status\n  \
            gateway status --json | jq .channels")]
    Status(OperatorArgs),
    /// Check for problems: whether a node can be lost now, disks, clocks, certificates and more
    #[command(
        after_help = "Exits with 0 only when nothing is wrong and any one node can be lost now, so never with fewer \
            than three nodes; for those, use gateway status.\n\n\
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
    /// Show which format the nodes use and understand, and finish an upgrade
    #[command(subcommand)]
    Format(FormatCommand),
    /// List the shards, their leaders and how well their replicas keep up
    #[command(after_help = "Examples:\n  \
            gateway shards\n  \
            gateway shards --json | jq '.data[] | select(.can_lose == 0) | .id'")]
    Shards(OperatorArgs),
    /// Create a token with which one node can join, once
    #[command(after_help = "Whoever has it gets the cluster's keys, so protect it as you would protect those.\n\n\
            Example:\n  \
            gateway token --expires 10m    then, on the new machine, gateway join")]
    Token(TokenArgs),
    /// Move everything a node leads to other nodes, so that it can be stopped without interruption
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
    /// Remove a node, or change its share of the shards
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show where the shards are, and balance them over the nodes
    #[command(subcommand)]
    Layout(LayoutCommand),
    /// Move one shard
    #[command(subcommand)]
    Shard(ShardCommand),
    /// Show, disable or enable a channel, or move it to another cluster
    #[command(subcommand)]
    Channel(ChannelCommand),
    /// Trace a message
    #[command(subcommand)]
    Message(MessageCommand),
    /// Find webhooks that are stuck
    #[command(subcommand)]
    Webhooks(WebhooksCommand),
    /// Create customers, and set their plans and limits
    #[command(subcommand)]
    Customer(CustomerCommand),
    /// Create members of customers
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
    /// Show the audit log
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Exchange the master key, rotate other keys, or show what is encrypted under which key
    #[command(subcommand)]
    Secrets(SecretsCommand),
}

#[derive(Debug, Subcommand)]
pub enum SecretsCommand {
    /// Encrypt everything again under the newest master key of the nodes; once begun, the cluster finishes it by itself
    #[command(
        after_help = "Before: create a key (openssl rand -hex 32), name it in secrets.master_key_file of every node, \
            and the old one in secrets.previous_master_key_file; restart the nodes one after the other.\n\
            After: when nothing is encrypted under the old one, and receivers use their new default secrets, remove \
            secrets.previous_master_key_file and restart again. Backups from before need the old key: keep it with \
            them.\n\n\
            Examples:\n  \
            gateway secrets rewrap\n  \
            gateway secrets rewrap --json | jq .exchange.old_key_may_go"
    )]
    Rewrap {
        /// Return once it has begun; the cluster goes on by itself
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        operator: OperatorArgs,
    },
    /// Replace a key of the cluster with a new one, which it creates itself
    #[command(subcommand)]
    Rotate(RotateCommand),
    /// Show what is encrypted under which master key, if the old one is still needed, and the progress of rotations
    #[command(after_help = "Example:\n  gateway secrets status")]
    Status(OperatorArgs),
}

#[derive(Debug, Subcommand)]
pub enum RotateCommand {
    /// The customers' data keys, for credentials and webhook secrets; everything is encrypted again with new ones
    #[command(after_help = "The old keys are dropped a day after nothing is encrypted with them \
            (secrets.keep_former_data_keys). The command returns once it has begun, and the cluster goes on by \
            itself.\n\n\
            Example:\n  gateway secrets rotate data-keys && gateway secrets status")]
    DataKeys(OperatorArgs),
    /// The key that signs session tokens; tokens of the previous key stay valid until they expire, within 15 minutes
    #[command(after_help = "Example:\n  gateway secrets rotate session-key")]
    SessionKey(OperatorArgs),
    /// The authority that certifies the nodes; every node has to run until it is over
    #[command(
        after_help = "All nodes first trust the new authority, then create certificates of it, and then stop trusting the \
            old one: certificates that it signed, and its key, are useless from then on. Join tokens that were issued \
            before stop working.\n\n\
            Examples:\n  \
            gateway secrets rotate authority\n  \
            gateway secrets rotate authority --detach --json | jq .authority"
    )]
    Authority {
        /// Return once it has begun; the cluster goes on by itself
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
    /// Let the nodes use the format of their new release; after that, no node can go back to an older release
    #[command(after_help = "Until then, every node can be started with its previous release again.\n\n\
            It says what it will do, and asks first.\n\n\
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
    /// Show which node holds a channel
    #[command(after_help = "Example:\n  gateway channel where 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Where(ChannelArgs),
    /// Stop a channel, and keep its customer from starting it
    #[command(after_help = "Example:\n  gateway channel disable 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11 --reason abuse")]
    Disable {
        #[command(flatten)]
        channel: ChannelArgs,
        /// The reason, for the audit log
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// Allow a disabled channel to run again
    #[command(after_help = "Example:\n  gateway channel enable 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Enable(ChannelArgs),
    /// Write the session of a stopped channel into a file, so that another cluster logs in without a new QR code
    #[command(
        after_help = "Disable the channel first, and leave it disabled or delete it: a session that two clusters use ends on both. \
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
        /// The file that holds the passphrase: 12 to 200 ASCII characters
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
    /// Load the session of such a file into a channel that was never paired, or is logged out
    #[command(after_help = "After that, POST /v1/channels/{id}/connect with the customer's key logs in.\n\n\
            Example:\n  \
            gateway channel import 0198d0e7-51c9-7c1e-9a51-0f6c2b7f3d20 \\\n      \
            --from sales.bundle --passphrase-file passphrase")]
    Import {
        #[command(flatten)]
        channel: ChannelArgs,
        /// The file that gateway channel export wrote
        #[arg(long, value_name = "FILE")]
        from: PathBuf,
        /// The file that holds the passphrase
        #[arg(long, value_name = "FILE")]
        passphrase_file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub enum MessageCommand {
    /// Show what happened to a message: stored, sent, each event, each webhook attempt
    #[command(after_help = "Examples:\n  \
            gateway message trace 3EB0C9A1F4D2E8B7A6C5D4E3F2A1B0C9D8E7F6A5\n  \
            gateway message trace 3EB0C9A1F4D2E8B7A6C5D4E3F2A1B0C9D8E7F6A5 \\\n      \
            --channel 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11")]
    Trace(MessageTraceArgs),
}

#[derive(Debug, Subcommand)]
pub enum WebhooksCommand {
    /// List the endpoints whose deliveries are stuck; exits with 1 if there are any
    #[command(after_help = "Examples:\n  \
            gateway webhooks stuck\n  \
            gateway webhooks stuck --older-than 1h --json | jq '.data[].url'")]
    Stuck(WebhooksStuckArgs),
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Show the last entries of the audit log, and with --follow new ones as they come
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
    /// Only in this channel; otherwise all channels are searched
    #[arg(long, value_name = "CHANNEL", value_parser = id)]
    pub channel: Option<Uuid>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct WebhooksStuckArgs {
    /// List endpoints that have failed, or kept a delivery waiting, for at least this long
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
    /// Show revoked keys, too
    #[arg(long)]
    pub revoked: bool,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Args, Debug)]
pub struct AuditTailArgs {
    /// How many entries to show first
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub lines: usize,
    /// Keep showing new entries
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

/// Parses a duration such as `90s`, `5m` or `1h 30m`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    humantime_serde::re::humantime::parse_duration(text).map_err(|_| "write it like 90s, 5m or 1h 30m".to_owned())
}

/// Parses an id of the gateway.
pub(super) fn id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "an id looks like 0198c6a2-0d3b-7a57-a1f0-5a5e9d7c6b11".to_owned())
}

/// Parses a base URL and removes its trailing slash; the scheme defaults to `http`.
pub fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim();
    let whole = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    match Url::parse(&whole) {
        Ok(url) if matches!(url.scheme(), "http" | "https") && url.has_host() => {
            Ok(whole.trim_end_matches('/').to_owned())
        }
        _ => Err("write it like http://host:port".to_owned()),
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
