//! The operator's port: customers and their members, channels of all customers, support tickets, metrics, how the
//! cluster is, and what is placed on its nodes.
//!
//! `status`, `shards` and `check` rest on a `survey`: every node is asked about itself.

mod audit;
mod backup;
mod channels;
mod check;
mod customers;
pub mod failpoints;
mod figures;
mod format;
mod keys;
mod layout;
mod metrics;
mod nodes;
mod replicas;
mod secrets;
mod shards;
mod status;
mod stuck;
mod survey;
mod tickets;
pub mod timeline;
mod tokens;
mod trace;
mod users;

pub use backup::{BackupJob, BackupState, Backups};

use crate::openapi;
use crate::resources;
use crate::route::Route;

/// All routes of the operator's port.
pub fn routes() -> Vec<Route> {
    let mut routes = resources::health_routes();
    routes.extend(customers::routes());
    routes.extend(users::routes());
    routes.extend(channels::routes());
    routes.extend(status::routes());
    routes.extend(nodes::routes());
    routes.extend(shards::routes());
    routes.extend(replicas::routes());
    routes.extend(check::routes());
    routes.extend(figures::routes());
    routes.extend(timeline::routes());
    routes.extend(format::routes());
    routes.extend(trace::routes());
    routes.extend(stuck::routes());
    routes.extend(keys::routes());
    routes.extend(audit::routes());
    routes.extend(tokens::routes());
    routes.extend(layout::routes());
    routes.extend(secrets::routes());
    routes.extend(backup::routes());
    routes.extend(tickets::routes());
    routes.extend(metrics::routes());
    routes.extend(openapi::routes());
    routes
}
