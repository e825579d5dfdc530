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
    /// Numbers; everybody when left out.
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
    /// How many bytes its media has.
    pub size: Option<u64>,
    pub style: StoryStyle,
    pub posted_at: Timestamp,
    pub viewers: usize,
    /// How many recipients each part named, in the order in which they came; repeats count.
    pub batches: Vec<usize>,
}
