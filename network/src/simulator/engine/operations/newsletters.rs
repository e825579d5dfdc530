//! Operations on newsletters, and their notices.

use model::address::Address;
use model::field::Change;
use model::media::{MediaRef, MediaState};
use model::newsletter::{Newsletter as ShownNewsletter, NewsletterMessage, NewsletterRole};

use super::count;
use crate::notice::News;
use crate::operation::newsletters::{NewsletterAnswer, NewsletterOperation, Wanted};
use crate::simulator::engine::newsletters::{Listing, NO_SUCH_NEWSLETTER, Newsletter, NewsletterId, Post};
use crate::simulator::engine::rules::{Allowed, NOT_FOUND, Refusal};
use crate::simulator::engine::{ControlError, Engine};
use crate::simulator::number::Number;

impl Engine {
    pub(super) fn newsletter_operation(&mut self, by: Number, asked: NewsletterOperation) -> Allowed<NewsletterAnswer> {
        match asked {
            NewsletterOperation::List => {
                let own = self.newsletters.of(by).map(|newsletter| self.show_newsletter(by, newsletter));
                Ok(NewsletterAnswer::Newsletters(own.collect()))
            }
            NewsletterOperation::Show { newsletter } => self.newsletter_of(by, self.named_newsletter(&newsletter)?),
            NewsletterOperation::Create { name, description, picture } => {
                let code = self.invite_code();
                let id = self.newsletters.create(self.now, by, &name, description, code)?.id;
                let picture = self.replace_picture(None, picture);
                self.newsletters.get_mut(id)?.picture = picture;
                self.tell_newsletter(by, id);
                self.newsletter_of(by, id)
            }
            NewsletterOperation::Change { newsletter, changes, picture } => {
                let id = self.named_newsletter(&newsletter)?;
                let newsletter = self.newsletters.get_mut(id)?;
                newsletter.change(by, changes)?;
                if let Change::To(picture) = picture {
                    let before = newsletter.picture.take();
                    let picture = self.replace_picture(before, picture);
                    self.newsletters.get_mut(id)?.picture = picture;
                }
                let readers: Vec<Number> = self.newsletters.get_mut(id)?.readers().collect();
                for reader in readers {
                    self.tell_newsletter(reader, id);
                }
                self.newsletter_of(by, id)
            }
            NewsletterOperation::Delete { newsletter } => {
                let id = self.named_newsletter(&newsletter)?;
                self.newsletters.get_mut(id)?.check_owner(by)?;
                for reader in self.newsletters.remove(id).iter().flat_map(Newsletter::readers) {
                    self.tell_newsletter(reader, id);
                }
                Ok(NewsletterAnswer::Done)
            }
            NewsletterOperation::Subscribe { newsletter } => {
                self.change_role(&newsletter, by, |newsletter| newsletter.subscribe(by))
            }
            NewsletterOperation::Unsubscribe { newsletter } => {
                self.change_role(&newsletter, by, |newsletter| newsletter.unsubscribe(by))?;
                Ok(NewsletterAnswer::Done)
            }
            NewsletterOperation::Mute { newsletter, muted } => {
                self.change_role(&newsletter, by, |newsletter| newsletter.mute(by, muted))
            }
            NewsletterOperation::Search { wanted, after, limit } => {
                Ok(NewsletterAnswer::Newsletters(self.search_newsletters(by, &wanted, after.as_deref(), limit)))
            }
            NewsletterOperation::Invited { invite_code } => {
                let invited = self.newsletters.all().find(|newsletter| newsletter.invite_code == invite_code);
                let id = invited.ok_or(Refusal::new(NOT_FOUND, "the invite code leads nowhere"))?.id;
                self.newsletter_of(by, id)
            }
            NewsletterOperation::Messages { newsletter, before, limit } => {
                let newsletter = self.newsletters.get(self.named_newsletter(&newsletter)?).ok_or(NO_SUCH_NEWSLETTER)?;
                Ok(NewsletterAnswer::Messages(newsletter.posts(before).take(limit).map(show_post).collect()))
            }
            NewsletterOperation::React { newsletter, server_id, emoji } => {
                let id = self.named_newsletter(&newsletter)?;
                self.newsletters.get_mut(id)?.react(by, server_id, &emoji)?;
                Ok(NewsletterAnswer::Done)
            }
            NewsletterOperation::InviteAdmin { newsletter, whom } => {
                let (id, whom) = (self.named_newsletter(&newsletter)?, self.registered(&whom)?);
                let invite_expires_at = self.newsletters.get_mut(id)?.invite_admin(self.now, by, whom)?;
                Ok(NewsletterAnswer::Invited { invite_expires_at })
            }
            NewsletterOperation::AcceptAdmin { newsletter } => {
                let now = self.now;
                self.change_role(&newsletter, by, |newsletter| newsletter.accept_admin(now, by))
            }
            NewsletterOperation::RemoveAdmin { newsletter, whom } => {
                let whom = self.registered(&whom)?;
                self.change_role(&newsletter, whom, |newsletter| newsletter.remove_admin(by, whom))?;
                Ok(NewsletterAnswer::Done)
            }
        }
    }

    /// Sets what a search matches, as the owner's phone does.
    ///
    /// # Errors
    /// The newsletter does not exist.
    pub fn list_newsletter(&mut self, newsletter: &Address, listing: Listing) -> Result<(), ControlError> {
        let id = self.named_newsletter(newsletter)?;
        self.newsletters.get_mut(id)?.listing = listing;
        Ok(())
    }

    fn search_newsletters(
        &self,
        by: Number,
        wanted: &Wanted,
        after: Option<&str>,
        limit: usize,
    ) -> Vec<ShownNewsletter> {
        let holds =
            |text: &Option<String>, part: &str| text.as_ref().is_some_and(|text| text.to_lowercase().contains(part));
        let same = |wanted: &Option<String>, has: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| has.as_ref().is_some_and(|has| has.eq_ignore_ascii_case(wanted)))
        };
        let part = wanted.text.as_ref().map(|text| text.to_lowercase());
        let fits = |newsletter: &&Newsletter| {
            let Listing { country, category, .. } = &newsletter.listing;
            part.as_ref().is_none_or(|part| {
                newsletter.name.to_lowercase().contains(part) || holds(&newsletter.description, part)
            }) && same(&wanted.country, country)
                && same(&wanted.category, category)
                && !(wanted.unknown && newsletter.role_of(by) != NewsletterRole::Guest)
        };
        let found = self.newsletters.all().filter(fits).map(|newsletter| self.show_newsletter(by, newsletter));
        found.filter(|found| after.is_none_or(|after| found.id.as_str() > after)).take(limit).collect()
    }

    /// Changes the role of `whom`, notifies them, and returns the newsletter as they see it.
    fn change_role(
        &mut self,
        newsletter: &Address,
        whom: Number,
        change: impl FnOnce(&mut Newsletter) -> Allowed<()>,
    ) -> Allowed<NewsletterAnswer> {
        let id = self.named_newsletter(newsletter)?;
        change(self.newsletters.get_mut(id)?)?;
        self.tell_newsletter(whom, id);
        self.newsletter_of(whom, id)
    }

    /// Notifies a subscriber of the newsletter with its current role.
    fn tell_newsletter(&mut self, whom: Number, id: NewsletterId) {
        let newsletter = id.address(&self.suffixes);
        let known = self.newsletters.get(id).map(|newsletter| self.show_newsletter(whom, newsletter));
        let now = known.filter(|known| known.role != NewsletterRole::Guest).map(Box::new);
        self.notify(whom, None, News::Newsletter { newsletter, now });
    }

    fn named_newsletter(&self, address: &Address) -> Allowed<NewsletterId> {
        NewsletterId::of_address(address, &self.suffixes).ok_or(NO_SUCH_NEWSLETTER)
    }

    fn newsletter_of(&self, viewer: Number, id: NewsletterId) -> Allowed<NewsletterAnswer> {
        let newsletter = self.newsletters.get(id).ok_or(NO_SUCH_NEWSLETTER)?;
        Ok(NewsletterAnswer::Newsletter(Box::new(self.show_newsletter(viewer, newsletter))))
    }

    fn show_newsletter(&self, viewer: Number, newsletter: &Newsletter) -> ShownNewsletter {
        let code = &newsletter.invite_code;
        ShownNewsletter {
            id: newsletter.id.address(&self.suffixes),
            name: newsletter.name.clone(),
            description: newsletter.description.clone(),
            invite_code: Some(code.clone()),
            invite_url: Some(format!("https://chat.{}/{code}", self.suffixes.newsletter)),
            picture_url: newsletter.picture.as_ref().map(|picture| self.picture_url(picture)),
            role: newsletter.role_of(viewer),
            muted: newsletter.is_muted_by(viewer),
            verified: newsletter.listing.verified,
            subscriber_count: Some(count(newsletter.subscriber_count())),
            reactions: newsletter.reactions,
            created_at: Some(newsletter.created_at.unix_seconds()),
        }
    }
}

fn show_post(post: &Post) -> NewsletterMessage {
    let content = post.message.body.content();
    NewsletterMessage {
        server_id: post.place,
        message_id: post.message.id.to_string(),
        kind: content.type_name().to_owned(),
        text: post.edited.clone().or_else(|| content.text().map(str::to_owned)),
        // A viewer stores no media, so the reference has no id; the one in the message is its author's.
        media: content.media().map(|media| MediaRef {
            id: None,
            state: MediaState::Skipped,
            ..MediaRef::not_here(media)
        }),
        view_count: Some(count(post.view_count())),
        reactions: post.reactions(),
        timestamp: post.message.at.unix_seconds(),
    }
}
