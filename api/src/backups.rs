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

/// A backup that a node takes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BackupJob {
    /// Names this recovery in logs.
    #[schemars(with = "String")]
    pub job_id: Uuid,
    /// The folder, or `s3://BUCKET/PREFIX`.
    pub to: String,
    pub state: BackupState,
    pub began_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// Why there is none; `null` unless it failed.
    pub problem: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupState {
    Running,
    /// There is one, and it was read back.
    Done,
    Failed,
}
