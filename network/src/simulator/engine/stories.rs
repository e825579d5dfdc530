//! Stories: audience, viewers and expiry.
//!
//! A device posts a story in parts, each with its own recipients; repeated parts are dropped.

use std::collections::{BTreeSet, HashMap, HashSet};

use model::address::{Address, Suffixes};
use model::story::{LIFETIME, Story};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::rules::{Allowed, FORBIDDEN, NOT_FOUND, Refusal};
use crate::simulator::number::Number;

pub const NO_SUCH_STORY: Refusal = Refusal::new(NOT_FOUND, "no-such-story");
const NOT_FOR_YOU: Refusal = Refusal::new(FORBIDDEN, "not-authorized");

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Posted {
    pub author: Number,
    pub posted_at: Timestamp,
    pub story: Story,
    /// `None` means everyone.
    audience: Option<HashSet<Number>>,
    /// Numbers of the parts that arrived.
    parts: BTreeSet<u16>,
    pub viewers: Vec<(Number, Timestamp)>,
    /// Number of recipients in each part, in the order of arrival, including repeated parts.
    pub batches: Vec<usize>,
    deleted: bool,
}

impl Posted {
    /// Whether all parts have arrived.
    fn is_whole(&self) -> bool {
        self.parts.len() == usize::from(self.story.parts)
    }

    fn can_be_seen(&self, now: Timestamp) -> bool {
        self.is_whole() && !self.deleted && now.since(self.posted_at) < LIFETIME
    }

    pub fn is_for(&self, number: Number) -> bool {
        self.author == number || self.audience.as_ref().is_none_or(|audience| audience.contains(&number))
    }
}

/// What a part changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken {
    pub repeated: bool,
    /// Whether all parts have arrived.
    pub whole: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stories {
    posted: HashMap<String, Posted>,
}

impl Stories {
    /// Adds a part of a story of `author`.
    pub fn take(&mut self, now: Timestamp, author: Number, id: &str, part: Story, suffixes: &Suffixes) -> Taken {
        let named = part.recipients.as_ref().map(Vec::len);
        let known = self.posted.entry(id.to_owned()).or_insert_with(|| Posted {
            author,
            posted_at: now,
            audience: part.recipients.as_ref().map(|_| HashSet::new()),
            story: part.clone(),
            parts: BTreeSet::new(),
            viewers: Vec::new(),
            batches: Vec::new(),
            deleted: false,
        });
        known.batches.extend(named);
        let repeated = !known.parts.insert(part.part);
        if let Some(audience) = &mut known.audience {
            let number = |address: &Address| Number::of_address(address, suffixes);
            audience.extend(part.recipients.iter().flatten().filter_map(number));
        }
        Taken { repeated, whole: known.is_whole() }
    }

    /// Removes a story that was refused.
    pub fn remove(&mut self, author: Number, id: &str) {
        self.posted.retain(|known, posted| known != id || posted.author != author);
    }

    /// Deletes a story of `author`; returns `false` if it was deleted already.
    pub fn delete(&mut self, now: Timestamp, author: Number, id: &str) -> Allowed<bool> {
        let posted = self.posted.get_mut(id).filter(|posted| posted.author == author).ok_or(NO_SUCH_STORY)?;
        if now.since(posted.posted_at) >= LIFETIME {
            return Err(NO_SUCH_STORY);
        }
        Ok(!std::mem::replace(&mut posted.deleted, true))
    }

    /// Records a view of a story. Returns the author on the first view by another subscriber.
    pub fn view(&mut self, now: Timestamp, viewer: Number, id: &str) -> Allowed<Option<Number>> {
        let posted = self.posted.get_mut(id).filter(|posted| posted.can_be_seen(now)).ok_or(NO_SUCH_STORY)?;
        if !posted.is_for(viewer) {
            return Err(NOT_FOR_YOU);
        }
        if viewer == posted.author || posted.viewers.iter().any(|(known, _)| *known == viewer) {
            return Ok(None);
        }
        posted.viewers.push((viewer, now));
        Ok(Some(posted.author))
    }

    /// The stories that a number can see now, oldest first.
    pub fn seen_by(&self, now: Timestamp, number: Number) -> Vec<(&str, &Posted)> {
        let visible = self.posted.iter().filter(|(_, posted)| posted.can_be_seen(now) && posted.is_for(number));
        let mut visible: Vec<_> = visible.map(|(id, posted)| (id.as_str(), posted)).collect();
        visible.sort_by_key(|(id, posted)| (posted.posted_at, *id));
        visible
    }
}
