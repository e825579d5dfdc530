//! The resources of the interface, one module each: the routes, the bodies' shapes, the handlers.

mod account;
mod api_keys;
mod auth;
mod blacklist;
mod business;
mod calls;
mod channels;
mod chats;
mod communities;
mod contacts;
mod event_types;
mod events;
mod groups;
mod health;
mod labels;
mod limits;
mod media;
mod messages;
mod metrics;
mod newsletters;
mod presences;
mod privacy;
mod profile;
mod settings;
mod stories;
mod stubs;
pub mod tickets;
mod webhook_deliveries;
mod webhook_endpoints;
mod webhook_probe;

pub use account::{AccountView, audit_log};
pub use api_keys::{ApiKeyView, IssuedKey, NewKey, delete_with_keys};
pub use auth::{email, end_session, exchange_token, log_in, new_password};
pub use channels::{ChannelView, parse_disable_reason};

#[cfg(test)]
pub use api_keys::tests::{test_caller, test_key};

use crate::openapi;
use crate::route::Route;

/// All routes of the public port.
pub fn routes() -> Vec<Route> {
    let mut routes = Vec::new();
    routes.extend(channels::routes());
    routes.extend(messages::routes());
    routes.extend(media::routes());
    routes.extend(groups::routes());
    routes.extend(calls::routes());
    routes.extend(business::routes());
    routes.extend(stories::routes());
    routes.extend(settings::routes());
    routes.extend(contacts::routes());
    routes.extend(chats::routes());
    routes.extend(labels::routes());
    routes.extend(communities::routes());
    routes.extend(newsletters::routes());
    routes.extend(blacklist::routes());
    routes.extend(presences::routes());
    routes.extend(profile::routes());
    routes.extend(privacy::routes());
    routes.extend(webhook_endpoints::routes());
    routes.extend(webhook_probe::routes());
    routes.extend(webhook_deliveries::routes());
    routes.extend(event_types::routes());
    routes.extend(api_keys::routes());
    routes.extend(events::routes());
    routes.extend(limits::routes());
    routes.extend(metrics::routes());
    routes.extend(account::routes());
    routes.extend(auth::routes());
    routes.extend(tickets::routes());
    routes.extend(stubs::routes());
    routes.extend(health::routes());
    routes.extend(openapi::routes());
    routes
}

/// The routes that both ports have.
pub fn health_routes() -> Vec<Route> {
    health::probes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a plan that ran out blocks: sends, stories, presence updates, new channels.
    const BLOCKED: [(&str, &str); 4] = [
        ("POST", "/v1/channels"),
        ("POST", "/v1/channels/{id}/messages"),
        ("POST", "/v1/channels/{id}/stories"),
        ("POST", "/v1/channels/{id}/presences"),
    ];

    #[test]
    fn a_plan_that_ran_out_blocks_what_the_interface_names_and_nothing_else() {
        for route in routes() {
            let is_named = BLOCKED.contains(&(route.method.as_str(), route.path));
            assert_eq!(route.rules.plan_blocks, is_named, "{} {}", route.method, route.path);
        }
    }
}
