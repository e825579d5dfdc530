//! What goes on beside the answers of the public port.

use std::sync::Arc;

use futures::future::BoxFuture;
use raft::supervise;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::support;

/// One of the tasks, as it is begun.
type Task = fn(Arc<App>, CancellationToken) -> BoxFuture<'static, ()>;

/// The tasks beside the requests.
pub struct Background {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

/// Starts what goes on beside the answers: failed authentications, times of keys' last use, messages to members and
/// to the support.
pub fn start(app: &Arc<App>) -> Background {
    let tasks: [(&'static str, Task); 4] = [
        ("the audit of failed authentications", |app, stop| {
            Box::pin(async move { app.failures.run(&app.cluster, stop).await })
        }),
        ("the times of keys' last use", |app, stop| Box::pin(async move { app.key_use.run(&app.cluster, stop).await })),
        ("the mail to members", |app, stop| Box::pin(async move { app.auth.mail.run(stop).await })),
        ("the way to the helpdesk", |app, stop| Box::pin(async move { support::run(&app, stop).await })),
    ];
    let stop = CancellationToken::new();
    let spawn = |(name, task): (&'static str, Task)| {
        let (app, stop) = (app.clone(), stop.clone());
        supervise::spawn(name, move || task(app.clone(), stop.clone()))
    };
    let tasks = tasks.map(spawn).into();
    Background { stop, tasks }
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
