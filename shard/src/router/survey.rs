//! Asks nodes what they say of themselves.

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

/// How long nodes may take to say what they have counted.
const FIGURES_PATIENCE: Duration = Duration::from_secs(2);

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

    /// The points of this node.
    pub(crate) fn figures(&self) -> &Figures {
        &self.figures
    }

    /// How this node is, for a point.
    pub(crate) fn own_state(&self, since: Instant) -> State {
        let status = self.own_status();
        let sync_p99 = self.host.syncs_after(since).map(|syncs| syncs.p99);
        let (leads, connected) = (status.owns.len() as u64, status.connected);
        State { leads, connected, rss_bytes: status.rss_bytes, sync_p99 }
    }

    /// Asks all nodes what they have counted.
    pub(crate) async fn figures_of_all(
        &self,
        since: Timestamp,
        step: u32,
    ) -> BTreeMap<NodeId, Result<Vec<Point>, String>> {
        let deadline = Instant::now() + FIGURES_PATIENCE;
        // A node of the release before does not know the question.
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
            // Last, so that it is as young as can be when it is heard.
            clock: Timestamp::now(),
        }
    }
}
