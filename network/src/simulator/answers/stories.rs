//! Stories of phones.

use model::address::Address;
use model::id::MessageId;
use model::story::StoryStyle;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

/// `POST /phones/{n}/stories`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewStory {
    pub text: String,
    /// Phone numbers; all phones if omitted.
    pub recipients: Option<Vec<String>>,
}

/// A story that a phone can see.
#[derive(Clone, Debug, Serialize)]
pub struct ShownStory {
    pub id: MessageId,
    pub from: Address,
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// Text or caption.
    pub text: Option<String>,
    /// Size of its media, in bytes.
    pub size: Option<u64>,
    pub style: StoryStyle,
    pub posted_at: Timestamp,
    pub viewers: usize,
    /// Number of recipients in each part, in the order of arrival, including repeated parts.
    pub batches: Vec<usize>,
}
