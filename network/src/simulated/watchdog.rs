//! Cuts sessions whose fence has expired, and the connection if it may still deliver a login of such a session.
//!
//! It runs on its own thread instead of a task, because a busy runtime must not keep a session alive beyond its owner's
//! right. It checks one deadline per shard, so that idle sessions cost nothing.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use crate::driver::EndReason;

/// A session outlives its fence by at most this interval and one check, well within 25 ms.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Watches the sessions of a connection as long as the connection is open.
///
/// # Errors
/// The thread could not be started.
pub fn watch(connection: &Arc<Connection>) -> io::Result<()> {
    let connection = Arc::downgrade(connection);
    thread::Builder::new().name("fence-watchdog".into()).spawn(move || keep(&connection)).map(drop)
}

fn keep(connection: &Weak<Connection>) {
    let looked = panic::catch_unwind(AssertUnwindSafe(|| look(connection)));
    if looked.is_err()
        && let Some(connection) = connection.upgrade()
    {
        // Without a watchdog, nothing would cut the sessions when their fences expire.
        tracing::error!("the watchdog of sessions panicked: the connection to the network is closed, and opened again");
        connection.close();
    }
}

fn look(connection: &Weak<Connection>) {
    while let Some(connection) = connection.upgrade().filter(|connection| connection.is_open()) {
        for session in connection.overdue() {
            session.cut(EndReason::Fenced);
        }
        if connection.has_lost_logins() {
            connection.give_up();
        }
        drop(connection);
        thread::sleep(LOOK_EVERY);
    }
}
