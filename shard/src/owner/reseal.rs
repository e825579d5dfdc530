//! Reseals values that former data keys have sealed in the owner's shard, and tells the directory when none is left:
//! the keys may then be dropped, and anything that only they open is lost. So a shard is reported only after a full
//! scan that found none, and began long after the last value could be written under a former key.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use model::id::{ChannelId, CustomerId};
use model::seal::{SealError, TOLD_BY};
use model::time::Timestamp;
use raft::directory::command::Command as DirectoryCommand;
use raft::directory::secrets::SecretsCommand;
use raft::machine::{View, just_after};
use raft::supervise;

use super::Owner;
use super::committer::LeadershipLost;
use crate::command::{Command, Resealed};
use crate::keys;
use crate::records::{ChannelRow, decode};
use crate::settings::{SettingsRow, proxy_purpose};

/// How often the directory is checked for a rotation.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// How long a value sealed with a former key may be in flight: longer than any call or batch of credentials.
const UNDER_WAY: Duration = Duration::from_secs(30);

/// Channels, and credentials of one channel, that are read at a time.
const CHANNELS: usize = 64;
const CREDENTIALS: usize = 64;

/// Pause after a step.
const PAUSE: Duration = Duration::from_millis(50);

/// Timeout of the report to the directory.
const PATIENCE: Duration = Duration::from_secs(10);

/// Reseals the owner's shard during rotations of data keys, as long as the ownership lasts.
pub async fn run(owner: Arc<Owner>) {
    let mut quiet_since: Option<(Timestamp, Instant)> = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let wanted = owner.node.directory.read(|state| {
            let rotation = state.running_data_keys().filter(|rotation| rotation.wants(owner.shard));
            rotation.map(|rotation| rotation.began_at)
        });
        let Some(began_at) = wanted else {
            quiet_since = None;
            continue;
        };
        // When this node learned that every customer has another key, or last resealed something.
        let since = match quiet_since {
            Some((of, since)) if of == began_at => since,
            _ => {
                quiet_since = Some((began_at, Instant::now()));
                continue;
            }
        };
        if since.elapsed() < UNDER_WAY {
            continue;
        }
        match reseal_all(&owner).await {
            Ok(0) => {
                let done = SecretsCommand::ShardResealed { shard: owner.shard, began_at };
                let deadline = Instant::now() + PATIENCE;
                let told = owner.node.directory.update(DirectoryCommand::Secrets(done), Vec::new(), deadline).await;
                if let Err(error) = told {
                    tracing::warn!(shard = owner.shard, %error, "the progress of a rotation could not be recorded yet");
                }
            }
            Ok(resealed) => {
                tracing::info!(
                    shard = owner.shard,
                    resealed,
                    "what was encrypted with former data keys is encrypted with new ones"
                );
                quiet_since = Some((began_at, Instant::now()));
            }
            Err(Halt::LeadershipLost(LeadershipLost)) => return owner.lost.cancel(),
            Err(Halt::Seal(error)) => {
                tracing::error!(shard = owner.shard, %error, "the use of data keys cannot be determined here");
                quiet_since = Some((began_at, Instant::now()));
            }
        }
    }
}

/// Why a scan ended early. The shard is not done then.
#[derive(Debug, thiserror::Error)]
enum Halt {
    #[error(transparent)]
    LeadershipLost(#[from] LeadershipLost),
    #[error(transparent)]
    Seal(#[from] SealError),
}

/// Scans all channels; returns how many values were sealed with former keys.
async fn reseal_all(owner: &Arc<Owner>) -> Result<usize, Halt> {
    let mut resealed = 0;
    let (mut next, end) = keys::channels();
    loop {
        let (reader, from, to) = (owner.reader.clone(), next.clone(), end.clone());
        let rows = look(move || reader.scan(&from, &to, CHANNELS)).await?;
        let Some((last, _)) = rows.last() else { return Ok(resealed) };
        next = just_after(last);
        for (_, row) in &rows {
            let row: ChannelRow = decode(row);
            resealed += reseal_channel(owner, row.id, row.customer).await?;
        }
    }
}

async fn reseal_channel(owner: &Arc<Owner>, channel: ChannelId, customer: CustomerId) -> Result<usize, Halt> {
    let mut resealed = 0;
    let (mut next, end) = keys::auth_of(channel);
    let mut with_proxy = true;
    loop {
        let (looking, from, to) = (owner.clone(), next.clone(), end.clone());
        let (auth, proxy, last) = look(move || former(&looking, channel, customer, &from, &to, with_proxy)).await??;
        with_proxy = false;
        let found = auth.len() + usize::from(proxy.is_some());
        if found > 0 {
            resealed += found;
            let mut commands = vec![Command::Reseal { channel, auth: Vec::new(), proxy }];
            // One credential per command, since it may be nearly as large as a command.
            commands.extend(auth.into_iter().map(|each| Command::Reseal { channel, auth: vec![each], proxy: None }));
            for command in commands {
                owner.committer.commit_deferred(vec![command]).await?.await.map_err(|_| LeadershipLost)?;
            }
            tokio::time::sleep(PAUSE).await;
        }
        let Some(last) = last else { return Ok(resealed) };
        next = just_after(&last);
    }
}

/// The credentials of a part, and the proxy, that a former key had sealed, now resealed; and the last key read.
type Former = (Vec<Resealed>, Option<Resealed>, Option<Vec<u8>>);

fn former(
    owner: &Owner,
    channel: ChannelId,
    customer: CustomerId,
    from: &[u8],
    to: &[u8],
    with_proxy: bool,
) -> Result<Former, SealError> {
    let record = owner.node.customer(customer);
    // An account that came later has only one key; nothing of a deleted account can be opened.
    let Some(record) = record.filter(|record| record.former_data_key.is_some()) else {
        return Ok((Vec::new(), None, None));
    };
    let anew = |name: String, purpose: &str, was: &[u8]| {
        let sealed = owner.node.secrets.reseal_found(&record, purpose, was)?;
        let was = Bytes::copy_from_slice(&was[..TOLD_BY.min(was.len())]);
        Ok(sealed.map(|sealed| Resealed { name, was, sealed: Bytes::from(sealed) }))
    };
    let rows = owner.reader.scan(from, to, CREDENTIALS);
    let named = rows.iter().filter_map(|(key, sealed)| Some((keys::name_of_auth(key)?, sealed)));
    let auth = named.filter_map(|(name, sealed)| {
        let purpose = super::auth::purpose(channel, &name);
        anew(name, &purpose, sealed).transpose()
    });
    let auth = auth.collect::<Result<_, _>>()?;
    let proxy = with_proxy.then(|| SettingsRow::of(&owner.reader, channel).proxy).flatten();
    let proxy = match proxy {
        Some(sealed) => anew(String::new(), &proxy_purpose(channel), &sealed)?,
        None => None,
    };
    Ok((auth, proxy, rows.last().map(|(key, _)| key.clone())))
}

/// Reads on a thread where this blocks nobody.
async fn look<T: Send + 'static>(looking: impl FnOnce() -> T + Send + 'static) -> Result<T, LeadershipLost> {
    supervise::joined(supervise::on_thread(looking)).await.ok_or(LeadershipLost)
}
