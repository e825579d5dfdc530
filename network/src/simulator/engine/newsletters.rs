//! Newsletters: an owner and admins, who publish, and subscribers, who read.
//!
//! Pure state and rules; the requests are in [`super::operations`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use model::address::{Address, Suffixes};
use model::message::Content;
use model::newsletter::{NewsletterChanges, NewsletterRole, ReactionMode};
use model::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::gatherings::gathering;
use super::message::{self, Message};
use super::pictures::PictureId;
use super::rules::{Allowed, BAD_REQUEST, CONFLICT, FORBIDDEN, NOT_FOUND, Refusal, check_length};
use crate::simulator::number::Number;

/// Number of the first newsletter; later ones count up.
const FIRST: u64 = 120_363_500_000_000_001;

/// Position of a newsletter's first message; later ones count up.
const FIRST_PLACE: u64 = 100;

/// Maximum number of messages that a newsletter keeps; the oldest is dropped first.
const MOST_POSTS: usize = 1_000;

/// How long an invite to become an admin is valid.
const INVITE_LIFE: Duration = Duration::from_secs(7 * 24 * 3600);

/// The reactions that `basic` permits.
const BASIC: [&str; 6] = ["👍", "❤️", "😂", "😮", "😢", "🙏"];

gathering! {
    /// A newsletter's number: the local part of its address.
    NewsletterId in newsletter by newsletter_address;
    /// All newsletters.
    Newsletters { newsletters: Newsletter } from FIRST or NO_SUCH_NEWSLETTER
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Newsletter {
    pub id: NewsletterId,
    pub name: String,
    pub description: Option<String>,
    pub picture: Option<PictureId>,
    pub invite_code: String,
    pub reactions: ReactionMode,
    pub created_at: Timestamp,
    pub listing: Listing,
    owner: Number,
    admins: BTreeSet<Number>,
    subscribers: BTreeSet<Number>,
    muted: BTreeSet<Number>,
    /// Contacts invited to become admins, with the end of the invite's validity.
    invited: BTreeMap<Number, Timestamp>,
    posts: VecDeque<Post>,
    next_place: u64,
}

/// What a search matches; the owner's phone sets it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Listing {
    /// ISO 3166 code, two letters.
    pub country: Option<String>,
    pub category: Option<String>,
    #[serde(default)]
    pub verified: bool,
}

/// A published message.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Post {
    pub place: u64,
    #[serde(with = "message::numbered")]
    pub message: Arc<Message>,
    /// The text that replaces the message after an edit.
    pub edited: Option<String>,
    viewers: BTreeSet<Number>,
    reactions: BTreeMap<Number, String>,
}

impl Post {
    pub fn view_count(&self) -> usize {
        self.viewers.len()
    }

    /// Number of times each reaction was given.
    pub fn reactions(&self) -> BTreeMap<String, u32> {
        let mut counts = BTreeMap::new();
        for emoji in self.reactions.values() {
            *counts.entry(emoji.clone()).or_default() += 1;
        }
        counts
    }
}

impl Newsletter {
    pub fn role_of(&self, number: Number) -> NewsletterRole {
        if number == self.owner {
            NewsletterRole::Owner
        } else if self.admins.contains(&number) {
            NewsletterRole::Admin
        } else if self.subscribers.contains(&number) {
            NewsletterRole::Subscriber
        } else {
            NewsletterRole::Guest
        }
    }

    pub fn publishes(&self, number: Number) -> bool {
        self.role_of(number).publishes()
    }

    pub fn is_muted_by(&self, number: Number) -> bool {
        self.muted.contains(&number)
    }

    /// Everyone who is shown what is published: owner, admins and subscribers.
    pub fn readers(&self) -> impl Iterator<Item = Number> {
        let publishers = self.admins.iter().chain([&self.owner]);
        publishers.copied().chain(self.subscribers.difference(&self.admins).copied())
    }

    pub fn subscriber_count(&self) -> usize {
        self.readers().count()
    }

    pub fn subscribe(&mut self, number: Number) -> Allowed<()> {
        if self.role_of(number) != NewsletterRole::Guest {
            return Err(Refusal::new(CONFLICT, "a subscriber already"));
        }
        self.subscribers.insert(number);
        Ok(())
    }

    pub fn unsubscribe(&mut self, number: Number) -> Allowed<()> {
        match self.role_of(number) {
            NewsletterRole::Owner => return Err(Refusal::new(FORBIDDEN, "the owner stays")),
            NewsletterRole::Guest => return Err(NOT_A_SUBSCRIBER),
            NewsletterRole::Admin | NewsletterRole::Subscriber => {}
        }
        self.lose(number);
        Ok(())
    }

    fn lose(&mut self, number: Number) {
        for people in [&mut self.admins, &mut self.subscribers, &mut self.muted] {
            people.remove(&number);
        }
        self.invited.remove(&number);
    }

    pub fn mute(&mut self, number: Number, muted: bool) -> Allowed<()> {
        if self.role_of(number) == NewsletterRole::Guest {
            return Err(NOT_A_SUBSCRIBER);
        }
        if muted {
            self.muted.insert(number);
        } else {
            self.muted.remove(&number);
        }
        Ok(())
    }

    pub fn check_owner(&self, by: Number) -> Allowed<()> {
        if by == self.owner { Ok(()) } else { Err(Refusal::new(FORBIDDEN, "not the owner of the newsletter")) }
    }

    pub fn change(&mut self, by: Number, changes: NewsletterChanges) -> Allowed<()> {
        if !self.publishes(by) {
            return Err(Refusal::new(FORBIDDEN, "not an admin of the newsletter"));
        }
        let NewsletterChanges { name, description, reactions } = changes;
        if let Some(name) = name {
            check_length(&name, 100, BAD_NAME)?;
            self.name = name;
        }
        if let Some(description) = description {
            self.description = Some(description).filter(|text| !text.is_empty());
        }
        self.reactions = reactions.unwrap_or(self.reactions);
        Ok(())
    }

    /// The owner invites a contact to become an admin; returns until when the invite is valid.
    pub fn invite_admin(&mut self, now: Timestamp, by: Number, whom: Number) -> Allowed<Timestamp> {
        self.check_owner(by)?;
        if self.publishes(whom) {
            return Err(Refusal::new(CONFLICT, "an admin already"));
        }
        let until = now.plus(INVITE_LIFE);
        self.invited.insert(whom, until);
        Ok(until)
    }

    /// An invited contact becomes an admin.
    pub fn accept_admin(&mut self, now: Timestamp, by: Number) -> Allowed<()> {
        let until = self.invited.remove(&by);
        until.filter(|until| *until > now).ok_or(Refusal::new(FORBIDDEN, "not asked to be an admin"))?;
        self.subscribers.remove(&by);
        self.admins.insert(by);
        Ok(())
    }

    /// The owner makes an admin a subscriber, or withdraws the invite.
    pub fn remove_admin(&mut self, by: Number, whom: Number) -> Allowed<()> {
        self.check_owner(by)?;
        if self.admins.remove(&whom) {
            self.subscribers.insert(whom);
        } else if self.invited.remove(&whom).is_none() {
            return Err(Refusal::new(CONFLICT, "not an admin of the newsletter"));
        }
        Ok(())
    }

    /// Handles a message that publishes, edits or deletes.
    pub fn publish(&mut self, message: &Arc<Message>) {
        let Some(target) = &message.target else {
            if self.posts.len() >= MOST_POSTS {
                self.posts.pop_front();
            }
            let (place, message) = (self.next_place, Arc::clone(message));
            self.next_place += 1;
            let (viewers, reactions) = Default::default();
            self.posts.push_back(Post { place, message, edited: None, viewers, reactions });
            return;
        };
        match message.body.other() {
            Some(Content::Delete { .. }) => self.posts.retain(|post| !Arc::ptr_eq(&post.message, target)),
            Some(Content::Edit { text, .. }) => {
                if let Some(post) = self.post_of(target) {
                    post.edited = Some(text.clone());
                }
            }
            _ => {}
        }
    }

    fn post_of(&mut self, message: &Arc<Message>) -> Option<&mut Post> {
        self.posts.iter_mut().find(|post| Arc::ptr_eq(&post.message, message))
    }

    /// Counts a view of a published message.
    pub fn view(&mut self, message: &Arc<Message>, by: Number) {
        if let Some(post) = self.post_of(message) {
            post.viewers.insert(by);
        }
    }

    /// Messages from before a position, newest first.
    pub fn posts(&self, before: Option<u64>) -> impl Iterator<Item = &Post> {
        self.posts.iter().rev().filter(move |post| before.is_none_or(|before| post.place < before))
    }

    /// Reacts to a published message; an empty emoji removes the reaction.
    pub fn react(&mut self, by: Number, place: u64, emoji: &str) -> Allowed<()> {
        let allowed = match self.reactions {
            ReactionMode::All => true,
            ReactionMode::Basic => BASIC.contains(&emoji),
            ReactionMode::None => false,
        };
        if !emoji.is_empty() && !allowed {
            return Err(Refusal::new(FORBIDDEN, "the newsletter does not take this reaction"));
        }
        let post = self.posts.iter_mut().find(|post| post.place == place);
        let post = post.ok_or(Refusal::new(NOT_FOUND, "there is no such message in the newsletter"))?;
        if emoji.is_empty() {
            post.reactions.remove(&by);
        } else {
            post.reactions.insert(by, emoji.to_owned());
        }
        Ok(())
    }
}

pub const NO_SUCH_NEWSLETTER: Refusal = Refusal::new(NOT_FOUND, "there is no such newsletter");
const BAD_NAME: Refusal = Refusal::new(BAD_REQUEST, "a name has 1 to 100 characters");
const NOT_A_SUBSCRIBER: Refusal = Refusal::new(BAD_REQUEST, "not a subscriber");

impl Newsletters {
    pub fn create(
        &mut self,
        now: Timestamp,
        owner: Number,
        name: &str,
        description: Option<String>,
        invite_code: String,
    ) -> Allowed<&mut Newsletter> {
        check_length(name, 100, BAD_NAME)?;
        let id = self.next_id();
        let newsletter = Newsletter {
            id,
            name: name.to_owned(),
            description: description.filter(|text| !text.is_empty()),
            picture: None,
            invite_code,
            reactions: ReactionMode::All,
            created_at: now,
            listing: Listing::default(),
            owner,
            admins: BTreeSet::new(),
            subscribers: BTreeSet::new(),
            muted: BTreeSet::new(),
            invited: BTreeMap::new(),
            posts: VecDeque::new(),
            next_place: FIRST_PLACE,
        };
        Ok(self.newsletters.entry(id).or_insert(newsletter))
    }

    pub fn get(&self, id: NewsletterId) -> Option<&Newsletter> {
        self.newsletters.get(&id)
    }

    pub fn remove(&mut self, id: NewsletterId) -> Option<Newsletter> {
        self.newsletters.remove(&id)
    }

    /// All newsletters, oldest first.
    pub fn all(&self) -> impl Iterator<Item = &Newsletter> {
        self.newsletters.values()
    }

    /// The newsletters that a number publishes or follows, oldest first.
    pub fn of(&self, number: Number) -> impl Iterator<Item = &Newsletter> {
        self.all().filter(move |newsletter| newsletter.role_of(number) != NewsletterRole::Guest)
    }

    /// Removes a deleted number: deletes its newsletters, and its subscriptions to others.
    pub fn remove_number(&mut self, number: Number) {
        self.newsletters.retain(|_, newsletter| newsletter.owner != number);
        for newsletter in self.newsletters.values_mut() {
            newsletter.lose(number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn people() -> [Number; 3] {
        ["1111", "2222", "3333"].map(|text| Number::parse(text).unwrap())
    }

    #[test]
    fn roles_follow_from_subscribing_and_the_owners_choice() {
        let [owner, reader, guest] = people();
        let mut newsletters = Newsletters::default();
        let id = newsletters.create(Timestamp(0), owner, "News", None, "code".into()).unwrap().id;
        let newsletter = newsletters.get_mut(id).unwrap();
        newsletter.subscribe(reader).unwrap();
        assert_eq!(newsletter.subscribe(owner).unwrap_err().code, CONFLICT);
        assert_eq!(newsletter.readers().collect::<Vec<_>>(), [owner, reader]);
        assert!(newsletter.invite_admin(Timestamp(0), reader, reader).is_err());
        assert!(newsletter.accept_admin(Timestamp(0), reader).is_err());
        let until = newsletter.invite_admin(Timestamp(0), owner, reader).unwrap();
        assert!(newsletter.accept_admin(until, reader).is_err(), "too late");
        newsletter.invite_admin(Timestamp(0), owner, reader).unwrap();
        newsletter.accept_admin(Timestamp(1), reader).unwrap();
        assert!(newsletter.publishes(reader) && !newsletter.publishes(guest));
        assert_eq!(newsletter.subscriber_count(), 2);
        newsletter.remove_admin(owner, reader).unwrap();
        assert_eq!(newsletter.remove_admin(owner, reader).unwrap_err().code, CONFLICT);
        assert_eq!(newsletter.role_of(reader), NewsletterRole::Subscriber);
        newsletter.unsubscribe(reader).unwrap();
        assert!(newsletter.unsubscribe(reader).is_err() && newsletter.unsubscribe(owner).is_err());
        newsletters.remove_number(owner);
        assert_eq!(newsletters.of(owner).count(), 0);
    }
}
