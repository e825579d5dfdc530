//! Counts the responses of one path by cached metrics: looking them up by labels cost as much as a small handler.

use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use parking_lot::RwLock;

/// The metrics of one path, each registered with its first response, when the node has long installed its recorder.
pub struct PathMetrics {
    path: &'static str,
    seconds: OnceLock<Histogram>,
    /// By method and status. The list stays short, since unknown methods share one label.
    answers: RwLock<Vec<((&'static str, u16), Counter)>>,
}

impl PathMetrics {
    pub fn new(path: &'static str) -> Self {
        Self { path, seconds: OnceLock::new(), answers: RwLock::default() }
    }

    pub fn answered(&self, method: &'static str, status: u16, elapsed: Duration) {
        self.answers_of(method, status).increment(1);
        let seconds = self.seconds.get_or_init(|| histogram!("gateway_http_request_seconds", "path" => self.path));
        seconds.record(elapsed);
    }

    fn answers_of(&self, method: &'static str, status: u16) -> Counter {
        let key = (method, status);
        let known = self.answers.read().iter().find(|(known, _)| *known == key).map(|(_, counter)| counter.clone());
        known.unwrap_or_else(|| {
            let status = status.to_string();
            let counter =
                counter!("gateway_http_requests_total", "method" => method, "path" => self.path, "status" => status);
            self.answers.write().push((key, counter.clone()));
            counter
        })
    }
}
