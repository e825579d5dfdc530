//! A channel's media transfers to and from the network.
//!
//! - [`uploads`]: the bytes of sends, before the messages that refer to them.
//! - [`downloads`]: the bytes of inbound messages; [`held`]: those messages, while they wait for them.

pub mod downloads;
pub mod held;
pub mod uploads;

use std::time::{Duration, Instant};

use self::downloads::{Downloaded, Downloads};
use self::uploads::{UploadEnd, Uploads};
use super::channel::Channel;
use super::committer::LeadershipLost;

/// Timeout of one transfer.
const LONGEST: Duration = Duration::from_secs(600);

/// The transfers of one channel.
#[derive(Default)]
pub struct Transfers {
    pub uploads: Uploads,
    pub downloads: Downloads,
}

/// A transfer that has ended.
pub enum Finished {
    Upload(Box<UploadEnd>),
    Download(Downloaded),
}

impl Transfers {
    /// Waits for the next transfer to end; forever if there is none.
    pub async fn next(&mut self) -> Finished {
        tokio::select! {
            end = self.uploads.next() => Finished::Upload(Box::new(end)),
            end = self.downloads.next() => Finished::Download(end),
        }
    }

    /// When the next transfer is due to be tried again.
    pub fn next_try(&self) -> Option<Instant> {
        [self.uploads.next_try(), self.downloads.next_try()].into_iter().flatten().min()
    }
}

impl Channel {
    /// Continues what waited for a transfer.
    pub async fn transfer_ended(&mut self, finished: Finished) -> Result<(), LeadershipLost> {
        match finished {
            Finished::Upload(end) => self.upload_ended(*end).await,
            Finished::Download(end) => self.download_ended(end).await,
        }
    }
}

/// Delay after this many consecutive failures.
fn backoff(failures: u32) -> Duration {
    Duration::from_secs(1 << failures.saturating_sub(1).min(6)).min(Duration::from_secs(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_transfers_back_off_to_a_minute() {
        let seconds: Vec<u64> = (0..9).map(|failures| backoff(failures).as_secs()).collect();
        assert_eq!(seconds, [1, 1, 2, 4, 8, 16, 32, 60, 60]);
    }
}
