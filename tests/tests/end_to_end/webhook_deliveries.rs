//! Webhook deliveries: their records, and the rules of attempts.
//!
//! - `records`: lists, details, redelivery, recovery, purge, figures. `rules`: when and how attempts are made.
//! - `probes`: the test routes. `rig`: shared code.

mod probes;
mod records;
mod rig;
mod rules;
