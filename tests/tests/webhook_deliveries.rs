//! Webhook deliveries: their records, and the rules by which they are attempted.

#![allow(clippy::unwrap_used, reason = "tests")]

mod deliveries;
