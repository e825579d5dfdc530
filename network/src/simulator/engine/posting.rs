//! Posting and viewing of stories, and the notices about them.

use model::id::MessageId;
use model::message::Content;
use model::story::{Story, StoryStyle};
use model::time::Timestamp;
use rand::RngExt;

use super::rules::Allowed;
use super::stories::Posted;
use super::{ControlError, Engine};
use crate::notice::{News, StoryNews};
use crate::simulator::answers::stories::{NewStory, ShownStory};
use crate::simulator::number::Number;

impl Engine {
    /// A device posts a story or a part of one; returns whether the story is complete.
    pub(super) fn post_story(&mut self, author: Number, id: &MessageId, part: Story) -> Allowed<bool> {
        if let Some(media) = part.says.media() {
            self.check_handle(media.handle.as_ref())?;
        }
        let taken = self.stories.take(self.now, author, id.as_str(), part, &self.suffixes);
        if taken.repeated {
            self.stats.duplicates_dropped += 1;
        } else if taken.whole {
            self.stats.accepted += 1;
            self.tell_author(author, id, StoryNews::Posted);
        }
        Ok(taken.whole)
    }

    /// The author deletes a story.
    pub(super) fn delete_story(&mut self, author: Number, id: &MessageId) -> Allowed<()> {
        if self.stories.delete(self.now, author, id.as_str())? {
            self.tell_author(author, id, StoryNews::Deleted);
        }
        Ok(())
    }

    /// A phone posts a story.
    pub fn phone_story(&mut self, now: Timestamp, author: Number, new: &NewStory) -> Result<MessageId, ControlError> {
        self.acting(now, author)?;
        let recipients =
            new.recipients.as_ref().map(|named| named.iter().map(|text| self.parse_address(text)).collect());
        let recipients: Option<Vec<_>> = recipients.transpose()?;
        let id = MessageId::mint(self.rng.random());
        let says = Content::Text { text: new.text.clone() };
        self.post_story(author, &id, Story::new(says, StoryStyle::default(), recipients))?;
        Ok(id)
    }

    pub fn delete_phone_story(&mut self, now: Timestamp, author: Number, id: &str) -> Result<(), ControlError> {
        self.acting(now, author)?;
        Ok(self.delete_story(author, &MessageId(id.to_owned()))?)
    }

    /// A phone views a story. The author is told once, unless the phone gives no read receipts.
    pub fn view_story(&mut self, now: Timestamp, viewer: Number, id: &str) -> Result<(), ControlError> {
        let tells = self.acting(now, viewer)?.read_receipts;
        if let Some(author) = self.stories.view(now, viewer, id)?
            && tells
        {
            let viewer = self.name_of(viewer, author);
            self.tell_author(author, &MessageId(id.to_owned()), StoryNews::Viewed { viewer });
        }
        Ok(())
    }

    /// The stories that a phone can see.
    pub fn phone_stories(&mut self, now: Timestamp, number: Number) -> Result<Vec<ShownStory>, ControlError> {
        self.subscriber(number)?;
        let show = |(id, posted): (&str, &Posted)| ShownStory {
            id: MessageId(id.to_owned()),
            from: self.suffixes.phone_address(&posted.author.to_string()),
            kind: posted.story.says.type_name(),
            text: posted.story.says.text().map(str::to_owned),
            size: posted.story.says.media().and_then(|media| media.size_bytes),
            style: posted.story.style.clone(),
            posted_at: posted.posted_at,
            viewers: posted.viewers.len(),
            batches: posted.batches.clone(),
        };
        Ok(self.stories.seen_by(now, number).into_iter().map(show).collect())
    }

    fn tell_author(&mut self, author: Number, story: &MessageId, news: StoryNews) {
        self.notify(author, None, News::Story { story: story.clone(), news });
    }
}
