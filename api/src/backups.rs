//! Backups that a node takes by itself: what the node does for the operator's routes.

use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

/// Takes backups on a node's behalf.
pub trait Backups: Send + Sync {
    /// Begins one, into a folder or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// Why not, and what to give instead.
    fn begin(&self, to: &str) -> Result<BackupJob, String>;

    /// One that was begun, unless it was long ago.
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
