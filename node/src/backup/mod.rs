//! `gateway backup` and `gateway restore`: copy a running cluster to a folder or a bucket, and create a new cluster
//! from such a backup.
//!
//! ```text
//! group-0000.state    the directory, exported last     manifest.json   written last: without it there is no backup
//! group-0001.state …  the shards                       media/aa/HASH   the bytes that the shards refer to
//! ```
//!
//! - [`depot`]: storage of a backup. [`manifest`]: the contents of a backup. [`take`]: takes a backup, and reports
//!   [`progress`]. [`check`]: verifies one.
//! - [`jobs`]: backups that a node takes itself. [`restore`]: creates the first node of a new cluster.

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
/// A [`Refusal`](crate::refusal::Refusal) when the arguments are wrong; any other error when the work failed.
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
