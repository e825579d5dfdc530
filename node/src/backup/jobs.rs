//! Backups that a node takes on request of an operator: the same as `gateway backup` against its own port. A job ends
//! with its node; what it has written by then has no manifest, and is not a backup.

use std::collections::VecDeque;
use std::sync::Arc;

use api::{BackupJob, BackupState, Backups};
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::supervise;
use uuid::Uuid;

use super::depot::{Depot, by_config};
use super::take;
use crate::cli::backup::Location;
use crate::config::Media;
use crate::operator::client::Operator;

/// Number of jobs that are remembered; the oldest is dropped.
const MOST: usize = 100;

/// The backup jobs of a node.
pub struct Jobs {
    operator: Operator,
    media: Media,
    jobs: Arc<Mutex<VecDeque<BackupJob>>>,
}

impl Jobs {
    /// `operator` is the client of this node's own operators' port.
    pub fn new(operator: Operator, media: Media) -> Self {
        Self { operator, media, jobs: Arc::default() }
    }
}

impl Backups for Jobs {
    fn begin(&self, to: &str) -> Result<BackupJob, String> {
        let location: Location = to.parse()?;
        if let Location::Folder(folder) = &location
            && !folder.is_absolute()
        {
            return Err("a folder of the node is named from its root".to_owned());
        }
        let depot = Depot::at(&location, |bucket, prefix| by_config(bucket, prefix, &self.media));
        let depot = depot.map_err(|refusal| refusal.to_string())?;
        let job = BackupJob {
            job_id: Uuid::now_v7(),
            to: location.to_string(),
            state: BackupState::Running,
            began_at: Timestamp::now(),
            ended_at: None,
            problem: None,
        };
        {
            let mut jobs = self.jobs.lock();
            if let Some(other) = jobs.iter().find(|job| job.state == BackupState::Running) {
                return Err(format!("job {} of this node is under way", other.job_id));
            }
            if jobs.len() == MOST {
                jobs.pop_front();
            }
            jobs.push_back(job.clone());
        }
        let (operator, jobs, id) = (self.operator.clone(), self.jobs.clone(), job.job_id);
        tokio::spawn(async move {
            let taken = supervise::noticed("a backup", take::take(operator, depot, false)).await;
            let taken = taken.unwrap_or_else(|| Err(anyhow::anyhow!("it panicked; the node's log says where")));
            let problem = taken.err().map(|error| format!("{error:#}"));
            match &problem {
                None => tracing::info!(job = %id, "a backup is taken"),
                Some(problem) => tracing::error!(job = %id, problem, "a backup was not taken"),
            }
            if let Some(job) = jobs.lock().iter_mut().find(|job| job.job_id == id) {
                job.state = if problem.is_none() { BackupState::Done } else { BackupState::Failed };
                (job.ended_at, job.problem) = (Some(Timestamp::now()), problem);
            }
        });
        Ok(job)
    }

    fn job(&self, id: Uuid) -> Option<BackupJob> {
        self.jobs.lock().iter().find(|job| job.job_id == id).cloned()
    }
}
