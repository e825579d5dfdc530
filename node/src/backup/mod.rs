//! `gateway backup` and `gateway restore`: a running cluster into a folder, and a folder into a new cluster.
//!
//! ```text
//! DIR/group-0000.state    the directory, exported last     manifest.json   written last: without it there is no backup
//! DIR/group-0001.state …  the shards                       media/aa/HASH   the bytes that the shards refer to
//! ```
//!
//! - [`manifest`]: what a backup consists of. [`take`]: making one. [`check`]: whether one is whole.
//! - [`restore`]: the first node of a new cluster out of one.

mod check;
mod manifest;
pub mod restore;
mod take;

use crate::cli::backup::{BackupArgs, BackupCommand};
use crate::operator::Verdict;

/// Takes a backup, or verifies one.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) for what the caller gave; anything else for what did not work.
pub async fn run(args: BackupArgs) -> anyhow::Result<Verdict> {
    match (args.command, args.to) {
        (Some(BackupCommand::Verify { folder, json }), _) => check::run(&folder, json),
        (None, Some(to)) => take::run(&to, &args.operator).await,
        (None, None) => anyhow::bail!("--to is missing"),
    }
}
