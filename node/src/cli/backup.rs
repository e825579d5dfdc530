//! The words of `gateway backup` and `gateway restore`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::joining::{NewClusterArgs, NodeArgs};
use super::operator::OperatorArgs;

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The cluster runs on meanwhile. What is secret stays sealed: keep the master key apart from the backup.\n\n\
        Examples:\n  \
        gateway backup --to /backup/2026-11-21\n  \
        gateway backup verify /backup/2026-11-21"
)]
pub struct BackupArgs {
    #[command(subcommand)]
    pub command: Option<BackupCommand>,
    /// An empty folder, which is made if it is not there
    #[arg(long, value_name = "DIR", required = true)]
    pub to: Option<PathBuf>,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Read a backup through and say whether it is whole
    #[command(after_help = "Example:\n  gateway backup verify /backup/2026-11-21")]
    Verify {
        folder: PathBuf,
        /// JSON for programs, instead of lines
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Makes a new cluster of one node; let others in with `gateway join`. No channel starts by itself: each \
        waits for a `connect`, which says that the old cluster does not hold its session any more.\n\n\
        Example:\n  \
        gateway restore --from /backup/2026-11-21 --master-key-file master.key --advertise node-1.lan:8082 \\\n      \
        --base-url https://gateway.example.com --network simulator.lan:8091\n  \
        gateway run --config /etc/gateway/gateway.toml"
)]
pub struct RestoreArgs {
    /// What `gateway backup` made
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The master key of the cluster that the backup is of
    #[arg(long, value_name = "FILE")]
    pub master_key_file: PathBuf,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub cluster: NewClusterArgs,
}
