//! Background task of the directory's leader that re-wraps every data key with the cluster's master key, in small
//! steps, drops the session token key that was rotated out once its overlap is over, and rotates the customers' data
//! keys. The remaining work is recorded in the directory, so that the next leader continues where this one stopped.

mod data_keys;

use std::sync::Arc;
use std::time::{Duration, Instant};

use model::id::AuditId;
use model::seal::SealError;
use model::time::Timestamp;
use raft::directory::command::Command;
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget};
use raft::directory::secrets::{FormerSessionKey, Rewrapped, SecretsCommand, SessionKey};
use raft::directory::state::DirectoryState;
use raft::directory::{Directory, UpdateError};
use raft::supervise;
use tokio_util::sync::CancellationToken;

use crate::secrets::Secrets;

/// Pause between two steps: every node applies each of them, and requests must not be slowed down.
const STEP_EVERY: Duration = Duration::from_millis(100);

/// Data keys in one step. With the pause between steps, a million customers take an hour.
const STEP: usize = 32;

/// Timeout of one step; failed steps are retried.
const STEP_PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("a data key cannot be encrypted again: {0}")]
    Seal(#[from] SealError),
    #[error(transparent)]
    Update(#[from] UpdateError),
}

/// Does the outstanding re-wrapping and resealing until cancelled.
pub async fn run(directory: Arc<Directory>, secrets: Arc<Secrets>, stop: CancellationToken) {
    let mut looked = data_keys::Looked::default();
    let mut ticks = supervise::ticks(STEP_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        if directory.group().leadership().borrow().ready_epoch.is_none() {
            continue;
        }
        let now = Timestamp::now();
        let next = directory.read(|state| match next(state, &secrets, now) {
            Ok(None) => data_keys::next(state, &secrets, now, &mut looked),
            next => next,
        });
        match next {
            Ok(None) => {}
            Ok(Some(command)) => {
                if let Err(error) = take(&directory, command).await {
                    tracing::warn!(%error, "data keys could not be encrypted again yet");
                }
            }
            Err(error) => tracing::error!(%error, "data keys cannot be encrypted again"),
        }
    }
}

async fn take(directory: &Directory, command: SecretsCommand) -> Result<(), StepError> {
    let audit = match command {
        SecretsCommand::End => vec![ended("secrets.rewrapped", "master_key", "master key")],
        SecretsCommand::EndDataKeys => vec![ended("secrets.data_keys_rotated", "data_keys", "data keys of customers")],
        _ => Vec::new(),
    };
    directory.update(Command::Secrets(command), audit, Instant::now() + STEP_PATIENCE).await?;
    Ok(())
}

/// The next step; `None` when nothing is left to do.
fn next(state: &DirectoryState, secrets: &Secrets, now: Timestamp) -> Result<Option<SecretsCommand>, StepError> {
    let Some(cluster) = &state.cluster else { return Ok(None) };
    let master = cluster.master();
    if state.sealed_under_others() == 0 {
        let runs = cluster.exchange.is_some_and(|exchange| exchange.ended_at.is_none());
        let overlapped = |key: &SessionKey| key.former != FormerSessionKey::Dropped && now >= key.overlaps_until();
        let drops = cluster.session_key.as_ref().is_some_and(overlapped);
        return Ok(runs.then_some(SecretsCommand::End).or(drops.then_some(SecretsCommand::DropSessionKey)));
    }
    let authority = state.authority.as_ref().filter(|authority| authority.key.wrapped_by.master != master);
    let authority = authority.map(|authority| secrets.rewrap_for_all(&authority.key, master)).transpose()?;
    let customers = state.customers_not_under(master, STEP).into_iter().map(|customer| {
        secrets.rewrap(&customer.data_key, customer.id, master).map(|key| Rewrapped { customer: customer.id, key })
    });
    Ok(Some(SecretsCommand::Rewrap { authority, customers: customers.collect::<Result<_, _>>()? }))
}

/// An entry for the audit log.
fn ended(action: &str, kind: &str, label: &str) -> AuditEntry {
    let (actor, target) = (AuditActor::of_kind("system"), AuditTarget::new(kind, "", label));
    AuditEntry::done(AuditId::new(), action, actor, target, Timestamp::now())
}
