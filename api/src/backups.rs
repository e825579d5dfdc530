//! The interface through which the operator's routes have the node take backups.

use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// Takes backups of the cluster.
pub trait Backups: Send + Sync {
    /// Starts a backup into a folder, or into `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// Why it cannot start, and what to give instead.
    fn begin(&self, to: &str) -> Result<BackupJob, String>;

    /// Returns a backup that was started, unless it was long ago.
    fn job(&self, id: Uuid) -> Option<BackupJob>;
}

/// A backup taken by a node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BackupJob {
    /// Id of the backup job, also in the log of the node.
    #[schemars(with = "String")]
    pub job_id: Uuid,
    /// Destination of the backup: a folder of the node, or `s3://BUCKET/PREFIX`.
    pub to: String,
    pub state: BackupState,
    /// Start of the backup.
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Why the backup failed; `null` unless it did.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    Running,
    /// The backup is complete, and was read back.
    Done,
    Failed,
}
