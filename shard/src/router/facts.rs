//! Asks nodes what they say of themselves.

use std::time::{Duration, Instant};

use futures::future::join_all;
use model::time::Timestamp;

use super::Router;
use crate::facts::{Heard, NodeReport, Survey};
use crate::nodes::Nodes;

impl Router {
    /// Asks all nodes at once; each has `patience` to answer.
    pub async fn survey(&self, patience: Duration) -> Survey {
        let nodes = self.members();
        let deadline = Instant::now() + patience;
        let answers = nodes.into_iter().map(|node| async move {
            let (asked, started) = (Timestamp::now(), Instant::now());
            let answered = self.report_of(node, deadline).await;
            (node, answered.map(|report| Heard::new(report, asked, started.elapsed())))
        });
        join_all(answers).await.into_iter().collect()
    }

    pub(crate) async fn own_report(&self) -> NodeReport {
        let host = self.host().facts().await;
        NodeReport {
            status: self.own_status(),
            directory_is_fresh: self.directory_is_fresh(),
            master_keys: self.about().master_keys.clone(),
            certificates: (self.about().certificates)(),
            channels: self.channels_by_status(),
            host,
            // Last, so that it is as young as can be when it is heard.
            clock: Timestamp::now(),
        }
    }
}
