//! The operator's port: customers and their members, channels of all customers, nodes, metrics, support tickets (supplement 28.6 and 31, rows 14 and 15).

mod channels;
mod customers;
mod metrics;
mod nodes;
mod tickets;
mod users;

use crate::openapi;
use crate::resources;
use crate::route::Route;

/// All routes of the operator's port.
pub fn routes() -> Vec<Route> {
    let mut routes = resources::health_routes();
    routes.extend(customers::routes());
    routes.extend(users::routes());
    routes.extend(channels::routes());
    routes.extend(nodes::routes());
    routes.extend(tickets::routes());
    routes.extend(metrics::routes());
    routes.extend(openapi::routes());
    routes
}
