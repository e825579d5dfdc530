//! What goes on beside the answers of the public port.

use std::sync::Arc;

use raft::supervise;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::support;

/// Starts what goes on beside the answers: failed authentications, times of keys' last use, messages to members and
/// to the support.
pub fn start(app: Arc<App>) -> Background {
    let stop = CancellationToken::new();
    let (for_failures, for_keys, for_mail, for_support) = (app.clone(), app.clone(), app.clone(), app);
    let (stop_failures, stop_keys, stop_mail) = (stop.clone(), stop.clone(), stop.clone());
    let stop_support = stop.clone();
    let failures = supervise::spawn("the audit of failed authentications", move || {
        let (app, stop) = (for_failures.clone(), stop_failures.clone());
        async move { app.failures.run(&app.cluster, stop).await }
    });
    let key_use = supervise::spawn("the times of keys' last use", move || {
        let (app, stop) = (for_keys.clone(), stop_keys.clone());
        async move { app.key_use.run(&app.cluster, stop).await }
    });
    let mail = supervise::spawn("the mail to members", move || {
        let (app, stop) = (for_mail.clone(), stop_mail.clone());
        async move { app.auth.mail.run(stop).await }
    });
    let support = supervise::spawn("the way to the helpdesk", move || {
        let (app, stop) = (for_support.clone(), stop_support.clone());
        async move { support::run(&app, stop).await }
    });
    Background { stop, tasks: [failures, key_use, mail, support] }
}

/// The tasks beside the requests.
pub struct Background {
    stop: CancellationToken,
    tasks: [JoinHandle<()>; 4],
}

impl Background {
    /// Stops the tasks after the last request; each writes what it still holds.
    pub async fn finish(self) {
        self.stop.cancel();
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a background task ended abnormally");
            }
        }
    }
}
