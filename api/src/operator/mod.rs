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

use crate::openapi;
use crate::resources;
use crate::route::{Route, routes_of};

/// All routes of the operator's port.
pub fn routes() -> Vec<Route> {
    let mut routes = resources::health_routes();
    routes.extend(routes_of!(
        customers users channels status nodes shards replicas check figures timeline format trace stuck keys audit tokens layout
        secrets backup tickets metrics openapi
    ));
    routes
}
