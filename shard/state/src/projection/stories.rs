//! Stories of the channel and their views. A story's row is written with the send that posts it, or when the channel's
//! own phone posts one; expired ones are deleted when the next one is posted.

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

/// The most views that one post or deletion deletes, to fit into a command; the rest is deleted with the next post.
const CLEARED_AT_ONCE: usize = 1_000;

/// The most stories that one post examines: a channel may have tens of thousands in a day.
const LOOKED_AT: usize = 100;

/// A story that the channel posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedStory {
    pub id: MessageId,
    pub posted_at: Timestamp,
    /// Each viewer counts once.
    pub views: u64,
    /// Whether a deletion has been sent to the network, but not confirmed.
    pub deleting: bool,
}

entity!(PostedStory, Story, |row| row.id.0.clone());

impl PostedStory {
    /// Whether the story can still be seen.
    pub fn is_there(&self, now: Timestamp) -> bool {
        !self.deleting && now.since(self.posted_at) < LIFETIME
    }
}

/// The first view of a story by a viewer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoryView {
    pub story: MessageId,
    pub viewer: Address,
    pub viewed_at: Timestamp,
}

entity!(StoryView, StoryView, |row| format!("{}{}", StoryView::under(&row.story), row.viewer));

impl StoryView {
    /// The prefix of the ids of a story's views.
    pub fn under(story: &MessageId) -> String {
        format!("{story}/")
    }
}

/// A story that can be deleted or queried.
///
/// # Errors
/// `not_found` once it has expired or is deleted.
pub fn find(id: &MessageId, rows: &Rows<'_>, now: Timestamp) -> Result<PostedStory, CallError> {
    let found = rows.get::<PostedStory>(id.as_str()).filter(|story| story.is_there(now));
    found.ok_or_else(|| CallError::not_found("story", id.as_str()))
}

/// A send was accepted: a posted story exists from now on, and one that is being deleted does not.
pub fn sent(id: &MessageId, content: &Content, rows: &mut Rows<'_>, now: Timestamp) {
    match content {
        Content::Story(_) => post(id, rows, now),
        Content::StoryDelete { story } => mark(story, true, rows),
        _ => {}
    }
}

/// Applies the network's verdict on such a send.
pub fn settled(id: &MessageId, content: &Content, accepted: bool, rows: &mut Rows<'_>) {
    match (content, accepted) {
        (Content::Story(_), false) => delete(id, rows),
        (Content::StoryDelete { story }, true) => delete(story, rows),
        (Content::StoryDelete { story }, false) => mark(story, false, rows),
        _ => {}
    }
}

pub fn take(id: &MessageId, news: &StoryNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    match (news, rows.get::<PostedStory>(id.as_str())) {
        (StoryNews::Posted, None) => post(id, rows, context.at),
        (StoryNews::Deleted, Some(_)) => delete(id, rows),
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
        // A repeat, or a story that is not stored here.
        _ => {}
    }
    Vec::new()
}

fn post(id: &MessageId, rows: &mut Rows<'_>, now: Timestamp) {
    clear_old(id, rows, now);
    rows.put(&PostedStory { id: id.clone(), posted_at: now, views: 0, deleting: false });
}

/// Views that one deletion leaves are deleted after the story has expired, like those of others.
fn delete(id: &MessageId, rows: &mut Rows<'_>) {
    let mut views = rows.under::<StoryView>(&StoryView::under(id), CLEARED_AT_ONCE);
    // Uncommitted views of the same batch come in addition to the stored ones.
    views.truncate(CLEARED_AT_ONCE);
    views.iter().for_each(|view| rows.remove::<StoryView>(&view.id()));
    if views.len() < CLEARED_AT_ONCE {
        rows.remove::<PostedStory>(id.as_str());
    } else {
        mark(id, true, rows);
    }
}

fn mark(id: &MessageId, deleting: bool, rows: &mut Rows<'_>) {
    if let Some(story) = rows.get::<PostedStory>(id.as_str()) {
        rows.put(&PostedStory { deleting, ..story });
    }
}

/// Deletes a bounded number of expired rows, of those stories whose ids are next to the id of the new one. Ids are
/// random, so every story gets its turn.
fn clear_old(new: &MessageId, rows: &mut Rows<'_>, now: Timestamp) {
    let mut near = rows.behind::<PostedStory>(new.as_str(), LOOKED_AT);
    near.extend(rows.under::<PostedStory>("", LOOKED_AT));
    near.truncate(LOOKED_AT);
    let mut left = CLEARED_AT_ONCE;
    for story in near.into_iter().filter(|story| now.since(story.posted_at) >= LIFETIME) {
        let mut views = rows.under::<StoryView>(&StoryView::under(&story.id), left);
        views.truncate(left);
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
        // The same person under the other address is not counted again.
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
    fn a_post_looks_at_so_many_stories_and_all_that_are_over_go_in_the_end() {
        let mut projection = Projection::new();
        let mut posted = |id: &str, hours| {
            projection.at(at(hours), |rows, context| take(&story(id), &StoryNews::Posted, rows, context));
            projection.at(at(hours), |rows, _| rows.all::<PostedStory>().len())
        };
        for n in 0..=LOOKED_AT {
            assert_eq!(posted(&format!("{n:04}"), 0), n + 1);
        }
        // No ids follow the last one, so the first stories are examined, which are one more than the bound.
        assert_eq!(posted("9999", 24), 2);
        assert_eq!(posted("0050", 24), 2);
    }

    #[test]
    fn a_deleted_story_is_gone_at_once_and_the_views_of_very_many_go_in_portions() {
        for (viewers, left) in [(CLEARED_AT_ONCE - 1, 0), (CLEARED_AT_ONCE + 1, 1)] {
            let mut projection = Projection::new();
            projection.at(at(0), |rows, _| {
                post(&story("A"), rows, at(0));
                for n in 0..viewers {
                    let viewer = address(&format!("{n}@s.example"));
                    rows.put(&StoryView { story: story("A"), viewer, viewed_at: at(0) });
                }
            });
            let deletion = Content::StoryDelete { story: story("A") };
            projection.at(at(0), |rows, _| settled(&story("D"), &deletion, true, rows));
            projection.at(at(24), |rows, _| {
                assert!(find(&story("A"), rows, at(0)).is_err());
                assert_eq!(rows.all::<StoryView>().len(), left, "{viewers}");
                post(&story("B"), rows, at(24));
                assert_eq!((rows.all::<StoryView>().len(), rows.all::<PostedStory>().len()), (0, 1));
            });
        }
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
