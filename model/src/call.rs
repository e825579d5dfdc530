//! Inbound calls, which the gateway is notified of and can reject.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a call is over for the channel, as `call.terminated` tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum CallEnd {
    /// By the channel: its phone or the gateway.
    Rejected,
    /// Nobody answered.
    Timeout,
    /// On the channel's own phone.
    AcceptedElsewhere,
    /// A call of a group that took place without the channel.
    Ended,
    /// The caller gave up before anybody answered.
    Cancelled,
}
