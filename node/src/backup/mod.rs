//! `gateway backup` and `gateway restore`: a running cluster into a folder or a bucket, and from there into a new
//! cluster.
//!
//! ```text
//! group-0000.state    the directory, exported last     manifest.json   written last: without it there is no backup
//! group-0001.state …  the shards                       media/aa/HASH   the bytes that the shards refer to
//! ```
//!
//! - [`depot`]: where a backup lies. [`manifest`]: what a backup consists of. [`take`]: making one, with [`progress`] in words. [`check`]: whether one is whole.
//! - [`jobs`]: those that a node takes by itself. [`restore`]: the first node of a new cluster out of one.

mod check;
mod depot;
pub mod jobs;
mod manifest;
mod progress;
pub mod restore;
mod take;

use self::depot::Depot;
use crate::cli::backup::{BackupArgs, BackupCommand};
use crate::operator::Verdict;

/// Takes a backup, or verifies one.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) for what the caller gave; anything else for what did not work.
pub async fn run(args: BackupArgs) -> anyhow::Result<Verdict> {
    match (args.command, args.to) {
        (Some(BackupCommand::Verify { place, bucket, json }), _) => {
            let depot = Depot::at(&place, |name, prefix| depot::by_flags(name, prefix, &bucket))?;
            tokio::task::spawn_blocking(move || check::run(&depot, json)).await?
        }
        (None, Some(to)) => {
            let depot = Depot::at(&to, |name, prefix| depot::by_flags(name, prefix, &args.bucket))?;
            take::run(depot, &to, &args.operator).await
        }
        (None, None) => anyhow::bail!("--to is missing"),
    }
}
