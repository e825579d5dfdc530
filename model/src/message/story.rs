//! Stories, which a channel shows to an audience for a day.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Content;
use crate::address::Address;

/// How long a story is visible.
pub const LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// Maximum number of recipients in one message to the network; a larger audience gets the story in parts under one id.
pub const PART: usize = 500;

/// A story, or the part of it for one part of its audience.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Story {
    /// The content: text, image, video or audio.
    pub says: Content,
    #[serde(default, skip_serializing_if = "StoryStyle::is_plain")]
    pub style: StoryStyle,
    /// Who may see the story; `None` means the account's privacy settings decide.
    pub recipients: Option<Vec<Address>>,
    /// The number of this part, from 0.
    pub part: u16,
    pub parts: u16,
}

/// How a story looks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoryStyle {
    /// `#RRGGBB`.
    pub background_color: Option<String>,
    pub text_color: Option<String>,
    /// 0 to 9.
    pub font: Option<u8>,
}

impl StoryStyle {
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

impl Story {
    pub fn new(says: Content, style: StoryStyle, recipients: Option<Vec<Address>>) -> Self {
        Self { says, style, recipients, part: 0, parts: 1 }
    }

    /// Splits the story into the parts that are sent to the network.
    pub fn in_parts(self) -> Vec<Self> {
        match &self.recipients {
            Some(recipients) if recipients.len() > PART => {
                let chunks = recipients.chunks(PART);
                let parts = u16::try_from(chunks.len()).unwrap_or(u16::MAX);
                let part = |(part, chunk): (u16, &[Address])| Self {
                    recipients: Some(chunk.to_vec()),
                    part,
                    parts,
                    ..self.clone()
                };
                (0..parts).zip(chunks).map(part).collect()
            }
            _ => vec![self],
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_large_audience_is_told_in_parts_of_five_hundred() {
        let audience = |count: usize| {
            let address = |n| Address::parse(&format!("{}@s.example", 15_550_000_000_u64 + n as u64)).unwrap();
            Some((0..count).map(address).collect::<Vec<_>>())
        };
        for (recipients, expected) in
            [(None, vec![]), (audience(500), vec![500]), (audience(501), vec![500, 1]), (audience(5000), vec![500; 10])]
        {
            let story = Story::new(Content::Text { text: "hi".into() }, StoryStyle::default(), recipients.clone());
            let parts = story.in_parts();
            let sizes: Vec<usize> = parts.iter().filter_map(|part| Some(part.recipients.as_ref()?.len())).collect();
            assert_eq!(sizes, expected);
            assert!(parts.iter().all(|part| usize::from(part.parts) == parts.len()));
            let told: Vec<Address> = parts.into_iter().flat_map(|part| part.recipients.unwrap_or_default()).collect();
            assert_eq!(told, recipients.unwrap_or_default());
        }
    }
}
