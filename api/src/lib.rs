//! The HTTP side of a node: the public port of the interface, and the operator's port.
//!
//! Each module uses those below it in this list, and none above:
//!
//! - `server`: the ports; `listener`: how connections come in, with PROXY headers and TLS. `background`: what goes on
//!   beside the answers; `support`: tickets on their way to whoever answers them.
//! - `console`: the pages for browsers, and the way of their calls. `operator`: the operator's routes. `resources`: one
//!   module per resource of the interface. `projection`: how routes read what the network told of a channel, and ask it
//!   for changes.
//! - `router`: routes as a tree of paths. `pipeline`: the one way of every request, from its id to its headers.
//! - `openapi`: the machine-readable description of both ports, made of what routes declare. `route`: what a route
//!   declares (scope, charge, plan block, reach); `doc`: what it says of itself.
//! - `request_context`: what a handler gets to see of a request; `reply`: what it gives back, `packed`: where it stays the same. `app`: what all requests of
//!   a port share; `status_summary`: how the gateway does as a whole.
//! - `audit`, `key_use`: what is written beside the answers, in batches; `flush`: when. `auth`: members' way in. `caller`: who calls.
//!   `config`: what the node says; `backups`: what it does for operators. `client`, `ip_bucket`: addresses.
//!   `body_limiter`: large bodies of an account. `memory`: what clients have a node keep; `unread`: what is left of their
//!   bodies.
//! - `failure`: where failures of the floors below become codes of the interface.

mod app;
mod audit;
mod auth;
mod background;
mod backups;
mod body;
mod body_limiter;
mod caller;
mod client;
mod config;
mod console;
mod doc;
mod error;
mod failure;
mod flush;
mod ip_bucket;
mod key_use;
mod listener;
mod memory;
mod openapi;
pub mod operator;
mod packed;
mod pipeline;
mod projection;
mod query;
mod reply;
mod request_context;
mod resources;
mod route;
mod router;
mod server;
mod status_summary;
mod support;
mod telemetry;
mod unread;

pub use auth::{AuthConfig, MailConfig, OidcConfig, OperatorToken, OperatorTokens, SmtpConfig, SmtpSecurity};
pub use backups::{BackupJob, BackupState, Backups};
pub use config::{ApiConfig, ConsolePorts, CorsOrigins, DefaultLimits, EventStreamConfig, SupportConfig};
pub use reply::List;
pub use server::{Running, ServeError, serve, serve_operator};
