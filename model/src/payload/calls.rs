//! What `call.*` says.

use schemars::JsonSchema;
use serde::Serialize;

use super::Sender;
use crate::address::Address;
use crate::call::CallEnd;

/// Somebody calls the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallOfferedData")]
pub struct CallOffered {
    /// The call, by its id in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    /// Whether it is a video call.
    pub is_video: bool,
    pub is_group: bool,
    pub group_id: Option<Address>,
    /// Offered while the channel was away.
    pub offline: bool,
    /// Unix seconds.
    pub timestamp: i64,
}

/// A call is over for the channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CallTerminatedData")]
pub struct CallTerminated {
    /// The call, by its id in the network.
    pub call_id: String,
    /// The caller.
    #[serde(flatten)]
    pub sender: Sender,
    pub reason: CallEnd,
    /// Whether a call of the API or the settings of the channel rejected it.
    pub rejected_by_gateway: bool,
    /// How long it was spoken, where it took place.
    pub duration_seconds: Option<u32>,
    /// Unix seconds.
    pub timestamp: i64,
    /// For the filter by chats.
    #[serde(skip)]
    pub is_group: bool,
}
