//! The HTTP side of a node: the public port of the interface, and the operator's port.
//!
//! - [`route`]: what a route declares (scope, charge, plan block, reach) and the table of all of them.
//! - `pipeline`: the one way of every request, from its id to its headers.
//! - `listener`: how connections come in, with PROXY headers and TLS. `server`: the ports.
//! - `caller`: who calls. `auth`: members' way in. `request_context`: what a handler gets to see of a request; `reply`: what it gives back.
//! - `projection`: how routes read what the network told of a channel, and ask it for changes.
//! - `resources`: one module per resource of the interface; `operator`: the operator's routes.
//! - `console`: the pages for browsers, and the way of their calls.
//! - `openapi`: the machine-readable description of both ports, made of what routes declare.
//! - `audit`, `key_use`: what is written beside the answers, in batches. `support`: tickets on their way to whoever answers
//!   them.

mod app;
mod audit;
mod auth;
mod body;
mod caller;
mod config;
mod console;
mod failure;
mod key_use;
mod listener;
mod openapi;
mod operator;
mod pipeline;
mod projection;
mod query;
mod reply;
mod request_context;
mod resources;
mod route;
mod server;
mod support;
mod telemetry;

pub use auth::{AuthConfig, MailConfig, OidcConfig, OperatorToken, OperatorTokens, SmtpConfig, SmtpSecurity};
pub use config::{ApiConfig, ConsolePorts, DefaultLimits, EventStreamConfig};
pub use operator::{BackupJob, BackupState, Backups};
pub use pipeline::CorsOrigins;
pub use server::{Running, ServeError, serve, serve_operator};
pub use support::SupportConfig;
