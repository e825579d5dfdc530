//! The resources of the interface, one module each: routes, shapes of bodies, and handlers.

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

pub use account::{AccountView, audit_log, new_customer};
pub use api_keys::{ApiKeyView, IssuedKey, NewKey, delete_with_keys};
use auth::{Link, attempts};
pub use auth::{email, end_session, exchange_token, log_in, new_password};
pub use channels::{ChannelView, parse_disable_reason};
pub use health::probes;

#[cfg(test)]
pub use api_keys::tests::{test_caller, test_key};

use crate::openapi;
use crate::route::{Route, routes_of};

/// All routes of the public port.
pub fn routes() -> Vec<Route> {
    routes_of!(
        channels messages media groups calls business stories settings contacts chats labels communities newsletters
        blacklist presences profile privacy webhook_endpoints webhook_probe webhook_deliveries event_types api_keys
        events limits metrics account auth tickets stubs health openapi
    )
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The routes that an expired plan blocks: sends, stories, presence updates, new channels.
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
