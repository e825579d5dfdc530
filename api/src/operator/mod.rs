//! The operator's port: customers and their members, channels of all customers, support tickets, metrics, the state of
//! the cluster, and the placement on its nodes.
//!
//! The view that a route returns is public and in the same file, for the commands of `node` that show it.
//!
//! `status`, `shards` and `check` use a `survey`, which asks every node for a report.

pub mod audit;
pub mod backup;
mod bundles;
pub mod channels;
pub mod check;
pub mod customers;
pub mod failpoints;
mod figures;
pub mod format;
pub mod keys;
pub mod layout;
mod metrics;
pub mod nodes;
mod replicas;
pub mod secrets;
pub mod shards;
pub mod status;
pub mod stuck;
mod survey;
mod tickets;
pub mod timeline;
pub mod tokens;
pub mod trace;
pub mod users;

use serde::Serialize;

use crate::openapi;
use crate::resources;
use crate::route::{Route, routes_of};

/// All routes of the operator's port.
pub fn routes() -> Vec<Route> {
    let mut routes = resources::probes();
    routes.extend(routes_of!(
        customers users channels bundles status nodes shards replicas check figures timeline format trace stuck keys audit tokens layout
        secrets backup tickets metrics openapi
    ));
    routes
}

/// The word by which the interface shows a value.
pub fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => "unknown".to_owned(),
    }
}
