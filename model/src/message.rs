//! What a message says.

use serde::{Deserialize, Serialize};

/// The content of a message, in either direction. Binary records and the driver carry this; the interface's JSON shapes
/// are made from it at the edge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    Text { text: String },
}

impl Content {
    /// The interface's name of the type (interface 2.2).
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Text { .. } => "text",
        }
    }
}
