//! Collects the reports and the figures of all nodes.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::future::join_all;
use model::format::Format;
use model::id::NodeId;
use model::time::Timestamp;

use super::{Request, Response, Router};
use crate::figures::{Figures, Point, State};
use crate::nodes::Nodes;
use crate::report::{Heard, NodeReport, Survey};

/// Timeout for the figures of nodes.
const FIGURES_PATIENCE: Duration = Duration::from_secs(2);

impl Router {
    /// Collects the reports of all nodes concurrently; each has `patience` to answer.
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

    /// The recorded points of this node.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// The state of this node, for a point.
    pub(crate) fn own_state(&self, since: Instant) -> State {
        let status = self.own_status();
        let sync_p99 = self.host.syncs_after(since).map(|syncs| syncs.p99);
        let (leads, connected) = (status.owns.len() as u64, status.connected);
        State { leads, connected, rss_bytes: status.rss_bytes, sync_p99 }
    }

    /// Collects the figures of all nodes.
    pub(crate) async fn figures_of_all(
        &self,
        since: Timestamp,
        step: u32,
    ) -> BTreeMap<NodeId, Result<Vec<Point>, String>> {
        let deadline = Instant::now() + FIGURES_PATIENCE;
        // A node of the previous release does not know the request.
        let all_know = self.directory.format() >= Format::THIRD;
        let answers = self.members().into_iter().map(|node| async move {
            if node == self.node() {
                return (node, Ok(self.figures.since(since, step)));
            }
            if !all_know {
                return (node, Err("is of an earlier format, which does not say".to_owned()));
            }
            let said = match self.ask_node(node, Request::Figures { since, step }, deadline).await {
                Ok(Response::Figures(points)) => Ok(points),
                Ok(_) => Err("is of another release, which does not say".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            (node, said)
        });
        join_all(answers).await.into_iter().collect()
    }

    pub(crate) async fn own_report(&self) -> NodeReport {
        let host = self.host.report().await;
        NodeReport {
            status: self.own_status(),
            directory_is_fresh: self.directory.is_fresh(),
            master_keys: self.about.master_keys.clone(),
            certificates: (self.about.certificates)(),
            alike: self.about.alike.clone(),
            channels: self.channels_by_status(),
            host,
            // Read last, so that it is as recent as possible when the report arrives.
            clock: Timestamp::now(),
        }
    }
}
