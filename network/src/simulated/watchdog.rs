//! Cuts sessions whose fence has passed, and the connection that may still bring a login of such a session.
//!
//! A thread of its own, not a task: a runtime that is busy must not keep a session alive beyond its owner's right.
//! It looks at one deadline for each shard, so that idle sessions cost nothing.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::connection::Connection;
use crate::driver::EndReason;

/// A session outlives its fence by this and the time of one look, well within 25 ms.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Watches the sessions of a connection while it is open.
///
/// # Errors
/// No thread could be started.
pub fn watch(connection: &Arc<Connection>) -> io::Result<()> {
    let connection = Arc::downgrade(connection);
    thread::Builder::new().name("fence-watchdog".into()).spawn(move || keep(&connection)).map(drop)
}

fn keep(connection: &Weak<Connection>) {
    let looked = panic::catch_unwind(AssertUnwindSafe(|| look(connection)));
    if looked.is_err()
        && let Some(connection) = connection.upgrade()
    {
        // Nobody would cut its sessions when their owners' right ends.
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
