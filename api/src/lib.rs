//! The HTTP side of a node: the public port of the interface, and the operator's port.
//!
//! Each module uses those below it in this list, and none above:
//!
//! - `server`: opens and closes the ports; `listener`: sets up connections, with PROXY headers and TLS. `background`:
//!   tasks beside the requests; `support`: forwards tickets to the support.
//! - `console`: the pages for browsers and the routes behind them. `operator`: the operator's routes. `resources`: one
//!   module per resource of the interface. `projection`: how routes read a channel's projection, and request changes of
//!   it.
//! - `router`: routes as a tree of paths. `pipeline`: the steps of every request, from its id to its response headers.
//! - `openapi`: the OpenAPI documents of both ports, built from the routes. `route`: what a route declares (scope,
//!   charge, plan block, reach); `doc`: its documentation.
//! - `request_context`: what a handler sees of a request; `reply`: what it returns, `packed`: replies that never
//!   change. `app`: state that all requests of a port share; `status_summary`: the status of the gateway as a whole.
//! - `audit`, `key_use`: records that are written in batches, not with the response; `flush`: when. `auth`:
//!   authentication of members and operators. `caller`: the authenticated caller. `config`: settings from the node;
//!   `backups`: its backups for operators. `client`, `ip_bucket`: client addresses. `body_limiter`: large bodies of an
//!   account. `memory`: memory that clients make a node hold; `unread`: unread rests of their bodies.
//! - `failure`: maps errors of the lower crates to the interface's codes.

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
