//! Labels of business accounts, and the chats and messages that have them.
//!
//! Pure state and rules; requests and notices are in [`super::operations`].

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use model::label::{KnownLabel, LabelChanges, LabelColor, MOST_LABELS};
use serde::{Deserialize, Serialize};

use super::message::Chat;
use super::rules::{Allowed, FORBIDDEN, NOT_FOUND, Refusal};

/// The initial labels of every business account, in the first colours of the palette.
const PREDEFINED: [&str; 5] = ["New customer", "New order", "Pending payment", "Paid", "Order complete"];

const NO_SUCH_LABEL: Refusal = Refusal::new(NOT_FOUND, "no-such-label");
const LABEL_LIMIT: Refusal = Refusal::new(FORBIDDEN, "label_limit");

/// A chat, or a message in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bearer {
    pub chat: Chat,
    pub message: Option<Arc<str>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Labels {
    labels: BTreeMap<u32, KnownLabel>,
    /// Number of the last created label; numbers are never reused.
    last: u32,
    /// Label numbers by bearer; entries are never empty.
    borne: HashMap<Bearer, BTreeSet<u32>>,
}

/// Labels that were put on and taken off something.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Moved {
    pub put: Vec<String>,
    pub taken: Vec<String>,
}

impl Default for Labels {
    fn default() -> Self {
        let mut labels = Self { labels: BTreeMap::new(), last: 0, borne: HashMap::new() };
        for (name, color) in PREDEFINED.into_iter().zip(LabelColor::all()) {
            labels.insert(name.to_owned(), color, true);
        }
        labels
    }
}

impl Labels {
    pub fn all(&self) -> impl Iterator<Item = &KnownLabel> {
        self.labels.values()
    }

    /// Everything that has labels, with the ids of its labels.
    pub fn borne(&self) -> impl Iterator<Item = (&Bearer, Vec<String>)> {
        self.borne.iter().map(|(bearer, labels)| (bearer, named(labels)))
    }

    pub fn create(&mut self, name: String, color: Option<LabelColor>) -> Allowed<KnownLabel> {
        if self.labels.len() >= MOST_LABELS {
            return Err(LABEL_LIMIT);
        }
        let free = || LabelColor::all().find(|color| self.labels.values().all(|label| label.color != *color));
        // There are 20 colours and fewer labels, so one is free.
        let color = color.or_else(free).ok_or(LABEL_LIMIT)?;
        Ok(self.insert(name, color, false))
    }

    fn insert(&mut self, name: String, color: LabelColor, predefined: bool) -> KnownLabel {
        self.last += 1;
        let label = KnownLabel { id: self.last.to_string(), name, color, predefined };
        self.labels.insert(self.last, label.clone());
        label
    }

    pub fn change(&mut self, id: &str, changes: LabelChanges) -> Allowed<KnownLabel> {
        let number = self.number(id)?;
        let label = self.labels.get_mut(&number).ok_or(NO_SUCH_LABEL)?;
        changes.apply(label);
        Ok(label.clone())
    }

    pub fn delete(&mut self, id: &str) -> Allowed<()> {
        let number = self.number(id)?;
        self.labels.remove(&number);
        self.borne.retain(|_, labels| {
            labels.remove(&number);
            !labels.is_empty()
        });
        Ok(())
    }

    pub fn put(&mut self, id: &str, on: Bearer) -> Allowed<Moved> {
        let number = self.number(id)?;
        let labels = self.labels_of(&on).chain([number]).collect();
        Ok(self.bear(on, labels))
    }

    pub fn take(&mut self, id: &str, from: Bearer) -> Allowed<Moved> {
        let number = self.number(id)?;
        let labels = self.labels_of(&from).filter(|label| *label != number).collect();
        Ok(self.bear(from, labels))
    }

    pub fn set(&mut self, bearer: Bearer, ids: &[String]) -> Allowed<Moved> {
        let labels = ids.iter().map(|id| self.number(id)).collect::<Result<_, _>>()?;
        Ok(self.bear(bearer, labels))
    }

    /// Removes a deleted chat and its messages.
    pub fn remove_chat(&mut self, chat: Chat) {
        self.borne.retain(|bearer, _| bearer.chat != chat);
    }

    fn bear(&mut self, bearer: Bearer, labels: BTreeSet<u32>) -> Moved {
        let before: BTreeSet<u32> = self.labels_of(&bearer).collect();
        let moved = Moved { put: named(labels.difference(&before)), taken: named(before.difference(&labels)) };
        if labels.is_empty() {
            self.borne.remove(&bearer);
        } else {
            self.borne.insert(bearer, labels);
        }
        moved
    }

    fn labels_of(&self, bearer: &Bearer) -> impl Iterator<Item = u32> + use<> {
        self.borne.get(bearer).cloned().unwrap_or_default().into_iter()
    }

    fn number(&self, id: &str) -> Allowed<u32> {
        id.parse().ok().filter(|number| self.labels.contains_key(number)).ok_or(NO_SUCH_LABEL)
    }
}

fn named<'a>(labels: impl IntoIterator<Item = &'a u32>) -> Vec<String> {
    labels.into_iter().map(u32::to_string).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::simulator::number::Number;

    fn chat(digits: &str) -> Bearer {
        Bearer { chat: Chat::Direct(Number::parse(digits).unwrap()), message: None }
    }

    fn moved(put: &[&str], taken: &[&str]) -> Moved {
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
        Moved { put: ids(put), taken: ids(taken) }
    }

    #[test]
    fn an_account_has_twenty_labels_at_most_each_of_its_own_color_if_none_is_named() {
        let mut labels = Labels::default();
        for _ in labels.all().count()..MOST_LABELS {
            assert!(!labels.create("More".into(), None).unwrap().predefined);
        }
        let colors: BTreeSet<LabelColor> = labels.all().map(|label| label.color).collect();
        assert_eq!(colors.len(), MOST_LABELS);
        assert_eq!(labels.create("Too many".into(), None), Err(LABEL_LIMIT));
        labels.delete("20").unwrap();
        // Numbers are not reused.
        assert_eq!(labels.create("One more".into(), None).unwrap().id, "21");
    }

    #[test]
    fn what_bears_labels_says_what_has_moved() {
        let mut labels = Labels::default();
        let message = Bearer { message: Some("M".into()), ..chat("1111") };
        assert_eq!(labels.put("1", chat("1111")), Ok(moved(&["1"], &[])));
        assert_eq!(labels.put("1", chat("1111")), Ok(Moved::default()));
        assert_eq!(labels.put("99", chat("1111")), Err(NO_SUCH_LABEL));
        assert_eq!(labels.put("1", message), Ok(moved(&["1"], &[])));
        assert_eq!(labels.set(chat("1111"), &["2".into(), "3".into()]), Ok(moved(&["2", "3"], &["1"])));
        assert_eq!(labels.take("2", chat("1111")), Ok(moved(&[], &["2"])));
        assert_eq!(labels.take("2", chat("2222")), Ok(Moved::default()));
        labels.delete("3").unwrap();
        assert_eq!(labels.borne().count(), 1);
        labels.remove_chat(chat("1111").chat);
        assert_eq!(labels.borne().count(), 0);
    }
}
