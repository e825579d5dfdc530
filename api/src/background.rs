//! Runs the background tasks of the two ports.

use std::sync::Arc;

use futures::future::BoxFuture;
use raft::supervise;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::app::App;
use crate::operator::timeline;
use crate::support;

/// Starts one of the tasks.
type Task = fn(Arc<App>, CancellationToken) -> BoxFuture<'static, ()>;

/// The running background tasks, with their names.
pub struct Background {
    stop: CancellationToken,
    tasks: Vec<(&'static str, JoinHandle<()>)>,
}

/// Starts the background tasks of the public port: the audit of failed authentications, the times of keys' last use,
/// and e-mails to members and messages to the support.
pub fn of_public_port(app: &Arc<App>) -> Background {
    let tasks: [(&'static str, Task); 4] = [
        ("the audit of failed authentications", |app, stop| {
            Box::pin(async move { app.failures.run(&app.cluster, stop).await })
        }),
        ("the times of keys' last use", |app, stop| Box::pin(async move { app.key_use.run(&app.cluster, stop).await })),
        ("the mail to members", |app, stop| Box::pin(async move { app.auth.mail.run(stop).await })),
        ("the way to the helpdesk", |app, stop| Box::pin(async move { support::run(&app, stop).await })),
    ];
    start(app, &tasks)
}

/// Starts the background tasks of the operator's port: the audit of failed authentications, and the cluster's timeline.
pub fn of_operators_port(app: &Arc<App>) -> Background {
    let tasks: [(&'static str, Task); 2] = [
        ("the audit of operators' failed authentications", |app, stop| {
            Box::pin(async move { app.failures.run(&app.cluster, stop).await })
        }),
        ("the cluster's timeline", |app, stop| Box::pin(timeline::keep(app, stop))),
    ];
    start(app, &tasks)
}

fn start(app: &Arc<App>, tasks: &[(&'static str, Task)]) -> Background {
    let stop = CancellationToken::new();
    let spawn = |&(name, task): &(&'static str, Task)| {
        let (app, stop) = (app.clone(), stop.clone());
        (name, supervise::spawn(name, move || task(app.clone(), stop.clone())))
    };
    let tasks = tasks.iter().map(spawn).collect();
    Background { stop, tasks }
}

impl Background {
    /// Stops the tasks, after the last request was answered. Each task writes what it still holds.
    pub async fn finish(self) {
        self.stop.cancel();
        for (task, ended) in self.tasks {
            if let Err(error) = ended.await {
                tracing::error!(%error, task, "a background task ended abnormally");
            }
        }
    }
}
