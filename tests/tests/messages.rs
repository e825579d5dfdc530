//! Every kind of message, out and in, as the phones, the webhooks and the history see it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod conversation;
