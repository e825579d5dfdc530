//! Arguments of `gateway init` and `gateway join`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use shard::layout::REPLICAS;

use crate::config::HostPort;

/// Where a new node lives, and how it is reached.
#[derive(Args, Clone, Debug)]
pub struct NodeArgs {
    /// The folder for its configuration, certificates and keys
    #[arg(long, value_name = "DIR", default_value = "/etc/gateway")]
    pub dir: PathBuf,
    /// The folder for its data
    #[arg(long, value_name = "DIR", default_value = "/var/lib/gateway")]
    pub data_dir: PathBuf,
    /// The address at which the other nodes reach it
    #[arg(long, value_name = "HOST:PORT")]
    pub advertise: HostPort,
    /// Where it listens for the other nodes
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8082")]
    pub peer_listen: SocketAddr,
    /// Where it listens for customers
    #[arg(long, value_name = "ADDR", default_value = "0.0.0.0:8080")]
    pub api_listen: SocketAddr,
    /// Where it listens for operators
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8081")]
    pub ops_listen: SocketAddr,
    /// Replicas are spread over zones; every node of a cluster that has zones names its own [default: default]
    #[arg(long)]
    pub zone: Option<String>,
    /// Its share of the shards, relative to the other nodes
    #[arg(long, default_value_t = 1)]
    pub weight: u32,
    /// The most sessions that it holds
    #[arg(long, default_value_t = 50_000)]
    pub max_channels: u32,
}

impl NodeArgs {
    /// The zone of a node without `--zone`.
    pub const ZONE: &str = "default";

    pub fn zone(&self) -> String {
        self.zone.clone().unwrap_or_else(|| Self::ZONE.to_owned())
    }
}

/// What a new cluster is told of the world, whether it begins empty or out of a backup.
#[derive(Args, Clone, Debug)]
pub struct NewClusterArgs {
    /// The URL at which customers reach the cluster
    #[arg(long, value_name = "URL")]
    pub base_url: String,
    /// The simulator's network port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8091")]
    pub network: HostPort,
    /// Use timing for nodes in different data centres
    #[arg(long)]
    pub wan: bool,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Example:\n  \
        gateway init --advertise node-1.lan:8082 --network simulator.lan:8091 \\\n      \
        --base-url https://gateway.example.com\n  \
        gateway run --config /etc/gateway/gateway.toml")]
pub struct InitArgs {
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub cluster: NewClusterArgs,
    /// How many nodes the cluster will have; the default number of shards follows from it and this machine's cores
    #[arg(long, default_value_t = REPLICAS)]
    pub nodes: usize,
    /// The number of shards, which cannot be changed later
    #[arg(long)]
    pub shards: Option<u16>,
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "If it fails half-way, run it again with the same token: once, within ten minutes.\n\nExamples:\n  \
        gateway join --token-file token --via node-1.lan:8082 \\\n      \
        --advertise node-2.lan:8082\n  \
        ssh node-1.lan gateway token | gateway join --token - \\\n      \
        --via node-1.lan:8082 --advertise node-2.lan:8082\n  \
        gateway run --config /etc/gateway/gateway.toml"
)]
pub struct JoinArgs {
    /// The token that `gateway token` printed on a node of the cluster. Other users of this machine may see flags, so
    /// prefer a file, or `-` for standard input
    #[arg(long, env = "GATEWAY_JOIN_TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// The file that holds the token; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The peer port of any node of the cluster
    #[arg(long, value_name = "HOST:PORT")]
    pub via: HostPort,
    #[command(flatten)]
    pub node: NodeArgs,
}
