//! Stories of the channel and who has seen them. A story is written with the send that posts it, or when the channel's
//! own phone posts one; what is past its day goes when the next one comes.

use model::address::Address;
use model::error::CallError;
use model::id::MessageId;
use model::message::Content;
use model::payload::{Payload, StoryViewed};
use model::story::LIFETIME;
use model::time::Timestamp;
use serde::{Deserialize, Serialize};
use traffic::notice::StoryNews;

use super::{Context, EmittedEvent, Entity, Rows, entity};

/// Views that one post clears away at most; the rest goes with the next.
const CLEARED_AT_ONCE: usize = 1_000;

/// A story that the channel posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedStory {
    pub id: MessageId,
    pub posted_at: Timestamp,
    /// Each viewer counts once.
    pub views: u64,
    /// Its deletion is on its way to the network.
    pub deleting: bool,
}

entity!(PostedStory, Story, |row| row.id.0.clone());

impl PostedStory {
    /// Whether it can still be seen.
    pub fn is_there(&self, now: Timestamp) -> bool {
        !self.deleting && now.since(self.posted_at) < LIFETIME
    }
}

/// Who saw a story, and when first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryView {
    pub story: MessageId,
    pub viewer: Address,
    pub viewed_at: Timestamp,
}

entity!(StoryView, StoryView, |row| format!("{}{}", StoryView::under(&row.story), row.viewer));

impl StoryView {
    /// What the ids of a story's views begin with.
    pub fn under(story: &MessageId) -> String {
        format!("{story}/")
    }
}

/// Whether a story can be deleted, or be asked about.
///
/// # Errors
/// `not_found` after its day, or its deletion.
pub fn find(id: &MessageId, rows: &Rows<'_>, now: Timestamp) -> Result<PostedStory, CallError> {
    let found = rows.get::<PostedStory>(id.as_str()).filter(|story| story.is_there(now));
    found.ok_or_else(|| CallError::not_found("story", id.as_str()))
}

/// A send was taken: a story is there from here on, and one that is being deleted is not.
pub fn sent(id: &MessageId, content: &Content, rows: &mut Rows<'_>, now: Timestamp) {
    match content {
        Content::Story(_) => post(id, rows, now),
        Content::StoryDelete { story } => {
            if let Some(story) = rows.get::<PostedStory>(story.as_str()) {
                rows.put(&PostedStory { deleting: true, ..story });
            }
        }
        _ => {}
    }
}

/// The network's verdict on such a send.
pub fn settled(id: &MessageId, content: &Content, accepted: bool, rows: &mut Rows<'_>) {
    match (content, accepted) {
        (Content::Story(_), false) => forget(id, rows),
        (Content::StoryDelete { story }, true) => forget(story, rows),
        (Content::StoryDelete { story }, false) => {
            if let Some(story) = rows.get::<PostedStory>(story.as_str()) {
                rows.put(&PostedStory { deleting: false, ..story });
            }
        }
        _ => {}
    }
}

pub fn take(id: &MessageId, news: &StoryNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    match (news, rows.get::<PostedStory>(id.as_str())) {
        (StoryNews::Posted, None) => post(id, rows, context.at),
        (StoryNews::Deleted, Some(_)) => forget(id, rows),
        (StoryNews::Viewed { viewer }, Some(story)) => {
            let view = StoryView { story: id.clone(), viewer: context.best(viewer), viewed_at: context.at };
            if rows.has::<StoryView>(&view.id()) {
                return Vec::new();
            }
            rows.put(&view);
            rows.put(&PostedStory { views: story.views + 1, ..story });
            let viewed = Payload::StoryViewed(StoryViewed {
                story_id: id.clone(),
                viewer_phone: (!view.viewer.is_lid()).then(|| view.viewer.clone()),
                viewer: view.viewer,
                viewed_at: context.at.unix_seconds(),
            });
            return vec![EmittedEvent { payload: viewed, chat: None }];
        }
        // Known already; or a story of another life of the channel.
        _ => {}
    }
    Vec::new()
}

fn post(id: &MessageId, rows: &mut Rows<'_>, now: Timestamp) {
    clear_old(rows, now);
    rows.put(&PostedStory { id: id.clone(), posted_at: now, views: 0, deleting: false });
}

fn forget(id: &MessageId, rows: &mut Rows<'_>) {
    for view in rows.under::<StoryView>(&StoryView::under(id), usize::MAX) {
        rows.remove::<StoryView>(&view.id());
    }
    rows.remove::<PostedStory>(id.as_str());
}

/// Drops what cannot be asked about any more, so much at a time.
fn clear_old(rows: &mut Rows<'_>, now: Timestamp) {
    let mut left = CLEARED_AT_ONCE;
    for story in rows.all::<PostedStory>().into_iter().filter(|story| now.since(story.posted_at) >= LIFETIME) {
        let views = rows.under::<StoryView>(&StoryView::under(&story.id), left);
        left -= views.len();
        views.iter().for_each(|view| rows.remove::<StoryView>(&view.id()));
        if left == 0 {
            return;
        }
        rows.remove::<PostedStory>(story.id.as_str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::projection::fixture::{Projection, address};

    fn story(id: &str) -> MessageId {
        MessageId(id.into())
    }

    fn at(hours: i64) -> Timestamp {
        Timestamp(hours * 3_600_000)
    }

    #[test]
    fn a_story_is_viewed_once_by_each_and_gone_after_a_day() {
        let mut projection = Projection::new().knowing("25@lid", "1555@s.example");
        let mut told = |id: &str, news: StoryNews, hours| {
            projection.at(at(hours), |rows, context| take(&story(id), &news, rows, context).len())
        };
        let viewed = |by: &str| StoryNews::Viewed { viewer: address(by) };
        told("A", StoryNews::Posted, 0);
        assert_eq!(told("A", viewed("25@lid"), 1), 1);
        // The same person under the other address.
        assert_eq!(told("A", viewed("1555@s.example"), 2), 0);
        assert_eq!(told("A", viewed("26@lid"), 2), 1);
        assert_eq!(told("B", viewed("26@lid"), 2), 0);
        projection.at(at(24), |rows, context| {
            assert_eq!(find(&story("A"), rows, at(23)).map(|story| story.views).ok(), Some(2));
            assert!(find(&story("A"), rows, at(24)).is_err());
            take(&story("C"), &StoryNews::Posted, rows, context);
            assert!(rows.all::<StoryView>().is_empty());
            assert_eq!(rows.all::<PostedStory>().len(), 1);
        });
    }

    #[test]
    fn a_deletion_that_fails_brings_the_story_back() {
        Projection::new().at(at(0), |rows, _| {
            let deletion = Content::StoryDelete { story: story("A") };
            let there = |rows: &Rows<'_>| find(&story("A"), rows, at(0)).is_ok();
            post(&story("A"), rows, at(0));
            sent(&story("D"), &deletion, rows, at(0));
            assert!(!there(rows));
            settled(&story("D"), &deletion, false, rows);
            assert!(there(rows));
            settled(&story("D"), &deletion, true, rows);
            assert!(rows.all::<PostedStory>().is_empty());
        });
    }
}
