//! Webhook deliveries: their records, and the rules by which they are attempted.
//!
//! - `records`: lists, details, redelivering, recovering, purging, figures. `rules`: when and how attempts are made.
//! - `probes`: the test routes. `rig`: what they share.

mod probes;
mod records;
mod rig;
mod rules;
