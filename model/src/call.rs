//! Inbound calls, which the gateway is notified of and can reject.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why the call has ended for the channel; `ended` is a group call that took place without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CallEnd {
    /// Rejected by the channel: its phone or the gateway.
    Rejected,
    /// Nobody answered.
    Timeout,
    /// Accepted on the channel's own phone.
    AcceptedElsewhere,
    /// A group call that took place without the channel.
    Ended,
    /// The caller gave up before anybody answered.
    Cancelled,
}
