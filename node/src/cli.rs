//! The command line: its commands, arguments and help texts.

pub mod backup;
pub mod customers;
pub mod joining;
pub mod members;
pub mod operator;
pub mod receiving;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::LazyLock;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use self::backup::{BackupArgs, RestoreArgs};
use self::joining::{InitArgs, JoinArgs};
use self::operator::OperatorCommand;
use self::receiving::{ListenArgs, TriggerArgs};
use crate::config::Driver;

/// Output of `gateway --version`; `-V` prints only the number.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let builds = [
        (cfg!(feature = "whatsapp"), "license: AGPL-3.0-only as a whole (driver whatsapp)"),
        (cfg!(feature = "testnet"), "test network: a build for tests, not for customers"),
        (raft::failpoint::COMPILED, "with failpoints: a build for tests, not for customers"),
    ];
    let said = builds.into_iter().filter(|(is_so, _)| *is_so).map(|(_, line)| line);
    std::iter::once(env!("CARGO_PKG_VERSION")).chain(said).collect::<Vec<_>>().join("\n")
});

#[derive(Debug, Parser)]
#[command(
    name = "gateway",
    version,
    long_version = LONG_VERSION.as_str(),
    about = "A clustered multi-tenant messaging gateway",
    after_help = "Examples:\n  \
        gateway dev                                 three nodes, simulated network\n  \
        gateway dev --demo                          the same, and a demonstration\n  \
        gateway config example > gateway.toml       a configuration to start from\n  \
        gateway config check --config gateway.toml  check it before it runs\n  \
        gateway run --config gateway.toml           one node\n  \
        gateway nodes                               the state of a cluster's nodes\n  \
        gateway listen --forward-to localhost:3000  events, sent on to a receiver\n\n\
        Exit codes: 0 for success; 1 when something failed, or the cluster is degraded; 2 for wrong usage, or when \
        the cluster refuses what was asked; 3 when a node stops because its disk fails."
)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one node of a cluster
    Run(ConfigSource),
    /// Create a cluster of one node
    Init(Box<InitArgs>),
    /// Join this machine to a cluster as a node, with a token from it
    Join(Box<JoinArgs>),
    /// Back up a running cluster into a folder or a bucket
    Backup(Box<BackupArgs>),
    /// Create a new cluster of one node from a backup
    Restore(Box<RestoreArgs>),
    /// Run the network simulator
    Simulator(SimulatorArgs),
    /// Run a network that speaks the real one's protocol, on loopback, for tests
    #[cfg(feature = "testnet")]
    TestNetwork(TestNetworkArgs),
    /// Run a whole cluster on this machine, for development
    Dev(Box<DevArgs>),
    /// Check a configuration, or print an example
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print events as they come, and forward them to a webhook receiver on this machine
    Listen(Box<ListenArgs>),
    /// Send the example of an event to a webhook endpoint
    Trigger(Box<TriggerArgs>),
    #[command(flatten)]
    Operator(OperatorCommand),
    /// Print completions of these commands for a shell
    #[command(after_help = "Examples:\n  \
            gateway completions bash > /etc/bash_completion.d/gateway\n  \
            gateway completions zsh > \"${fpath[1]}/_gateway\"")]
    Completions { shell: Shell },
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Order: the file, then the environment (GATEWAY__API__LISTEN=0.0.0.0:8080), then --set.\n\n\
        Examples:\n  \
        gateway run --config /etc/gateway/gateway.toml\n  \
        gateway run --config gateway.toml --set log.format=json --set node.zone=b")]
pub struct ConfigSource {
    /// The TOML file
    #[arg(long, value_name = "FILE", env = "GATEWAY_CONFIG")]
    pub config: Option<PathBuf>,
    /// Override one key, as in node.zone=b; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print "ok", or the one line that says what is wrong
    #[command(after_help = "Examples:\n  \
            gateway config check --config gateway.toml\n  \
            gateway config check --config gateway.toml --set node.zone=b")]
    Check(ConfigSource),
    /// Print a commented configuration
    #[command(after_help = "Example:\n  gateway config example > gateway.toml")]
    Example,
}

#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        gateway simulator --control 127.0.0.1:8090 --network 127.0.0.1:8091\n  \
        gateway simulator --control 127.0.0.1:8090 --network 127.0.0.1:8091 \\\n      \
        --data /var/lib/gateway-simulator")]
pub struct SimulatorArgs {
    /// The address of its HTTP control API; loopback only
    #[arg(long, value_name = "ADDR")]
    pub control: SocketAddr,
    /// Where nodes connect
    #[arg(long, value_name = "ADDR")]
    pub network: SocketAddr,
    /// The folder that keeps phones, links, groups and messages between runs; its last seconds are lost when it is killed
    /// [default: nothing is kept]
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Multiply how long QR codes are valid
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub qr_time_scale: f64,
}

#[cfg(feature = "testnet")]
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  \
        gateway test-network --control 127.0.0.1:8090 --chat 127.0.0.1:8091 \\\n      \
        --media 127.0.0.1:8093")]
pub struct TestNetworkArgs {
    /// The address of its HTTP control API; all its ports are loopback only
    #[arg(long, value_name = "ADDR")]
    pub control: SocketAddr,
    /// Where nodes connect
    #[arg(long, value_name = "ADDR")]
    pub chat: SocketAddr,
    /// Where media is
    #[arg(long, value_name = "ADDR")]
    pub media: SocketAddr,
    /// Multiply how long QR codes are valid
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub qr_time_scale: f64,
}

#[derive(Args, Debug)]
#[command(
    after_help = "Ports: API at base+i, operator at base+100+i, peers at base+200+i, simulator at base+90 and base+91 (with --network whatsapp a test network, and at base+93 its media).\n\n\
        Examples:\n  \
        gateway dev                 until Ctrl-C\n  \
        gateway dev --detach        in the background; DIR/dev.json says where\n  \
        gateway dev stop 2 --kill   kill -9 node 2\n  \
        gateway dev start 2 --wait  and back\n  \
        gateway dev down            stop everything"
)]
pub struct DevArgs {
    #[command(subcommand)]
    pub command: Option<DevCommand>,
    /// The folder of the cluster
    #[arg(long, value_name = "DIR", default_value = ".gateway-dev", global = true)]
    pub data: PathBuf,
    #[command(flatten)]
    pub up: UpArgs,
}

/// What `gateway dev` without a subcommand takes.
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// How many nodes, 1 to 9 [default: 3, or what the folder holds]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub nodes: Option<u8>,
    /// The port from which the others are counted [default: 8000, or what the folder holds]
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..=65_000))]
    pub base_port: Option<u16>,
    /// The network that channels use [default: simulated, or what the folder holds]. whatsapp is the real network's
    /// protocol on this machine, only in builds for tests
    #[arg(long, value_name = "NETWORK")]
    pub network: Option<Driver>,
    /// Delete the folder's previous cluster first
    #[arg(long)]
    pub fresh: bool,
    /// Return when the cluster is ready and leave it running
    #[arg(long)]
    pub detach: bool,
    /// Production rules for webhooks: https only, and no loopback or private addresses
    #[arg(long)]
    pub strict: bool,
    /// Where customers reach the cluster [default: node 1's API]
    #[arg(long, value_name = "URL")]
    pub base_url: Option<String>,
    /// Show the main job: pair, send, receive a signed webhook
    #[arg(long, conflicts_with = "strict")]
    pub demo: bool,
    /// In the demo, let you scan the code yourself
    #[arg(long, requires = "demo")]
    pub no_scan: bool,
    /// Multiply how long QR codes are valid
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = positive)]
    pub qr_time_scale: f64,
    /// Set a key in every node's configuration, overriding all else, as in --set webhooks.allow_http=false; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    #[command(flatten)]
    pub limits: LimitArgs,
}

/// Token buckets other than the production ones, so that a load test is not throttled by its own account.
#[derive(Args, Clone, Debug, Default)]
pub struct LimitArgs {
    /// Requests that one client address may make at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub ip_burst: Option<u32>,
    /// Requests per second of one client address
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub ip_refill: Option<u32>,
    /// Requests that one customer may make at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub customer_burst: Option<u32>,
    /// Requests per second of one customer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub customer_refill: Option<u32>,
    /// Requests that may be made at once on one channel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub channel_burst: Option<u32>,
    /// Requests per second on one channel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    pub channel_refill: Option<u32>,
}

#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Start one node; returns when it answers /healthz
    #[command(after_help = "Example:\n  gateway dev start 2 --wait")]
    Start {
        node: u64,
        /// Return when it answers /readyz
        #[arg(long)]
        wait: bool,
    },
    /// Stop one node with SIGTERM and wait until it has ended
    #[command(after_help = "Example:\n  gateway dev stop 2 --kill && gateway dev start 2 --wait")]
    Stop {
        node: u64,
        /// Use SIGKILL instead
        #[arg(long)]
        kill: bool,
    },
    /// Stop every node and the simulator
    #[command(after_help = "Example:\n  gateway dev down")]
    Down,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err("give a number above 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_shows_an_example_or_lists_its_own() {
        let mut command = Cli::command();
        command.build();
        fn judge(command: &clap::Command, path: &str) {
            for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
                let path = format!("{path} {}", inner.get_name());
                let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(
                    help.contains("Example") || inner.has_subcommands(),
                    "gateway{path} has no example in its --help"
                );
                // Prose is wrapped; a wrapped command could not be copied as a whole.
                let wide = help.lines().find(|line| line.starts_with("  ") && line.len() > 80);
                assert_eq!(wide, None, "gateway{path} shows more than 80 columns");
                judge(inner, &path);
            }
        }
        let whole = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(whole.lines().all(|line| !line.starts_with("  ") || line.len() <= 80), "{whole}");
        judge(&command, "");
    }

    #[test]
    fn the_data_folder_may_be_named_before_or_after_the_subcommand() {
        for line in [["gateway", "dev", "--data", "x", "down"], ["gateway", "dev", "down", "--data", "x"]] {
            let Ok(Cli { command: Command::Dev(dev) }) = Cli::try_parse_from(line) else { panic!("{line:?}") };
            assert_eq!(dev.data, PathBuf::from("x"));
        }
    }
}
