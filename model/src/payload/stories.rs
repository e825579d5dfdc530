//! What `story.viewed` says.

use schemars::JsonSchema;
use serde::Serialize;

use crate::address::Address;
use crate::id::MessageId;

/// Somebody saw a story of the channel for the first time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StoryViewedData")]
pub struct StoryViewed {
    pub story_id: MessageId,
    /// The phone address when it is known, otherwise the LID.
    pub viewer: Address,
    /// The phone address, where it is known.
    pub viewer_phone: Option<Address>,
    /// Unix seconds.
    pub viewed_at: i64,
}
