//! Labels of business accounts: named and coloured tags for chats and messages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::address::Address;
use crate::error::CallError;
use crate::field::{Body, Judged, rule};
use crate::id::MessageId;

/// Maximum number of labels per account.
pub const MOST_LABELS: usize = 20;

/// The network's palette.
const PALETTE: [&str; 20] = [
    "#ff9485", "#64c4ff", "#ffd429", "#dfaef0", "#99b6c1", "#55ccb3", "#ff9dff", "#d3a91d", "#6d7cce", "#d7e752",
    "#00d0e2", "#ffc5c7", "#93ceac", "#f74848", "#00a0f2", "#83e422", "#ffaf04", "#b5ebff", "#9ba6ff", "#9368cf",
];

/// An index into the network's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u8", into = "u8")]
pub struct LabelColor(u8);

impl LabelColor {
    /// All colours, in the order of the palette.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..PALETTE.len() as u8).map(Self)
    }

    /// `#rrggbb`
    pub fn hex(self) -> &'static str {
        PALETTE[usize::from(self.0)]
    }
}

impl TryFrom<u8> for LabelColor {
    type Error = String;

    fn try_from(place: u8) -> Result<Self, String> {
        if usize::from(place) < PALETTE.len() { Ok(Self(place)) } else { Err(format!("{place} is not in the palette")) }
    }
}

impl From<LabelColor> for u8 {
    fn from(color: LabelColor) -> Self {
        color.0
    }
}

/// A label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    pub id: String,
    pub name: String,
    /// Index of the color in the palette, 0 to 19.
    pub color: u8,
    /// The color as `#rrggbb`.
    pub color_hex: String,
    /// Whether the label came with the account.
    pub predefined: bool,
    /// Number of chats with the label.
    pub chat_count: u32,
}

/// A label as the network reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLabel {
    pub id: String,
    pub name: String,
    pub color: LabelColor,
    pub predefined: bool,
}

impl KnownLabel {
    pub fn show(&self, chat_count: usize) -> Label {
        Label {
            id: self.id.clone(),
            name: self.name.clone(),
            color: self.color.into(),
            color_hex: self.color.hex().to_owned(),
            predefined: self.predefined,
            chat_count: u32::try_from(chat_count).unwrap_or(u32::MAX),
        }
    }
}

/// A change to a label: the fields that are set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelChanges {
    pub name: Option<String>,
    pub color: Option<LabelColor>,
}

impl LabelChanges {
    /// Whether the label already has these values.
    pub fn hold_for(&self, label: &KnownLabel) -> bool {
        self.name.as_ref().is_none_or(|name| *name == label.name) && self.color.is_none_or(|color| color == label.color)
    }

    pub fn apply(self, label: &mut KnownLabel) {
        label.name = self.name.unwrap_or_else(|| label.name.clone());
        label.color = self.color.unwrap_or(label.color);
    }
}

/// A labelled chat, or a labelled message in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Labelled {
    pub chat: Address,
    pub message: Option<MessageId>,
}

/// A chat or a message with a label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LabelAssociation {
    pub kind: LabelledKind,
    pub chat_id: Address,
    /// The message; `null` for a chat.
    pub message_id: Option<MessageId>,
}

impl From<Labelled> for LabelAssociation {
    fn from(Labelled { chat, message }: Labelled) -> Self {
        let kind = if message.is_some() { LabelledKind::Message } else { LabelledKind::Chat };
        Self { kind, chat_id: chat, message_id: message }
    }
}

crate::words! {
    #[derive(JsonSchema)]
    LabelledKind {
        Chat = "chat",
        Message = "message",
    }
}

/// Parses `{ "name": 1..100, "color"?: 0..19 }`.
///
/// # Errors
/// `invalid_request` with all violations, as in the functions below.
pub fn read_label(body: &Body) -> Result<(String, Option<LabelColor>), CallError> {
    body.read(|fields| {
        let name = fields.required("name", name);
        let color = fields.optional("color", color);
        Some((name?, color))
    })
}

/// Parses `{ "name"?, "color"? }`.
pub fn read_label_changes(body: &Body) -> Result<LabelChanges, CallError> {
    body.read_patch(|fields| {
        Some(LabelChanges { name: fields.optional("name", name), color: fields.optional("color", color) })
    })
}

/// Parses `{ "label_ids": [string] }`, without duplicates. An empty list removes all labels.
pub fn read_label_ids(body: &Body) -> Result<Vec<String>, CallError> {
    body.read(|fields| {
        let mut ids = fields.required_list_or_empty("label_ids", MOST_LABELS, rule::text(1..=255))?;
        ids.sort();
        ids.dedup();
        Some(ids)
    })
}

fn name(value: &Value) -> Judged<String> {
    rule::text(1..=100)(value)
}

fn color(value: &Value) -> Judged<LabelColor> {
    rule::integer(0..=PALETTE.len() as u64 - 1)(value).map(|place| LabelColor(place as u8))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn body(value: Value) -> Body {
        value.try_into().unwrap()
    }

    #[test]
    fn a_color_is_one_of_twenty() {
        assert_eq!(LabelColor::all().count(), 20);
        let named = |color: u64| read_label(&body(json!({ "name": "Lead", "color": color })));
        assert_eq!(named(1).unwrap().1.unwrap().hex(), "#64c4ff");
        assert_eq!(named(19).unwrap().1.unwrap().hex(), "#9368cf");
        assert!(named(20).is_err());
        assert!(serde_json::from_value::<LabelColor>(json!(20)).is_err());
    }

    #[test]
    fn a_set_of_labels_names_each_once_and_may_be_empty() {
        assert_eq!(read_label_ids(&body(json!({ "label_ids": ["2", "1", "2"] }))).unwrap(), ["1", "2"]);
        assert!(read_label_ids(&body(json!({ "label_ids": [] }))).unwrap().is_empty());
        assert!(read_label_ids(&body(json!({}))).is_err());
    }

    #[test]
    fn a_change_to_what_is_there_changes_nothing() {
        let mut label = KnownLabel { id: "1".into(), name: "Lead".into(), color: LabelColor(3), predefined: true };
        let changes = LabelChanges { name: Some("Lead".into()), color: Some(LabelColor(4)) };
        assert!(!changes.hold_for(&label));
        changes.clone().apply(&mut label);
        assert!(changes.hold_for(&label) && LabelChanges::default().hold_for(&label));
    }
}
