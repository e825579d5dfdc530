//! Operations on an account: block list, profile and privacy.

use model::blacklist::Blocked;
use model::privacy::{Audience, Privacy, ReadReceipts};
use model::profile::ChannelProfile;
use model::time::Timestamp;

use crate::notice::News;
use crate::operation::account::{
    BlacklistAnswer, BlacklistOperation, PrivacyAnswer, PrivacyOperation, ProfileAnswer, ProfileOperation,
};
use crate::simulator::engine::Engine;
use crate::simulator::engine::pictures::NO_PICTURE;
use crate::simulator::engine::rules::{Allowed, BAD_RECIPIENT, BAD_REQUEST, Refusal, check_length};
use crate::simulator::engine::subscriber::Subscriber;
use crate::simulator::number::Number;

const NOT_REGISTERED: Refusal = Refusal::new(BAD_RECIPIENT, "the number is not registered");
const BAD_NAME: Refusal = Refusal::new(BAD_REQUEST, "a name has 1 to 64 characters");

impl Engine {
    pub(super) fn blacklist_operation(&mut self, by: Number, asked: BlacklistOperation) -> Allowed<BlacklistAnswer> {
        match asked {
            BlacklistOperation::List => {
                let blocked = self.own(by)?.account.blocked.iter();
                let shown = blocked.map(|(number, at)| self.show_blocked(by, *number, Some(*at)));
                return Ok(BlacklistAnswer::Blocked(shown.collect()));
            }
            BlacklistOperation::Block { contact } => {
                let number = self.registered(&contact).map_err(|_| NOT_REGISTERED)?;
                let now = self.now;
                self.own_mut(by)?.account.blocked.entry(number).or_insert(now);
                let blocked = self.show_blocked(by, number, Some(now));
                self.notify(by, Some(by), News::Blocked(blocked));
            }
            BlacklistOperation::Unblock { contact } => {
                let number = self.registered(&contact).map_err(|_| NOT_REGISTERED)?;
                self.own_mut(by)?.account.blocked.remove(&number);
                let contact = self.name_of(number, by);
                self.notify(by, Some(by), News::Unblocked { contact });
            }
        }
        Ok(BlacklistAnswer::Done)
    }

    fn show_blocked(&self, viewer: Number, number: Number, blocked_at: Option<Timestamp>) -> Blocked {
        Blocked { id: self.name_of(number, viewer), lid: Some(number.lid()), blocked_at }
    }

    pub(super) fn profile_operation(&mut self, by: Number, operation: ProfileOperation) -> Allowed<ProfileAnswer> {
        match operation {
            ProfileOperation::Show => return self.profile_of(by).map(ProfileAnswer::Profile),
            ProfileOperation::SetName { name } => {
                check_length(&name, 64, BAD_NAME)?;
                self.own_mut(by)?.name = Some(name.as_str().into());
            }
            ProfileOperation::SetAbout { about } => {
                self.own_mut(by)?.account.about = Some(about).filter(|about| !about.is_empty());
            }
            ProfileOperation::SetPicture { picture } => {
                let before = self.own_mut(by)?.account.picture.take();
                if before.is_none() && picture.is_none() {
                    return Err(NO_PICTURE);
                }
                let picture = self.replace_picture(before, picture);
                self.own_mut(by)?.account.picture = picture;
            }
        }
        let profile = self.profile_of(by)?;
        self.notify(by, Some(by), News::Profile(profile));
        Ok(ProfileAnswer::Done)
    }

    fn profile_of(&self, number: Number) -> Allowed<ChannelProfile> {
        let subscriber = self.own(number)?;
        Ok(ChannelProfile {
            name: subscriber.name.as_deref().map(str::to_owned),
            about: subscriber.account.about.clone(),
            picture_url: subscriber.account.picture.as_ref().map(|id| self.picture_url(id)),
        })
    }

    pub(super) fn privacy_operation(&mut self, by: Number, operation: PrivacyOperation) -> Allowed<PrivacyAnswer> {
        match operation {
            PrivacyOperation::Show => self.own(by).map(|own| PrivacyAnswer::Privacy(own.privacy())),
            PrivacyOperation::Change(changes) => {
                let own = self.own_mut(by)?;
                let privacy = own.privacy().with(changes);
                own.read_receipts = privacy.read_receipts == ReadReceipts::All;
                own.account.privacy = privacy;
                self.notify(by, Some(by), News::Privacy(privacy));
                Ok(PrivacyAnswer::Done)
            }
        }
    }

    /// Whether `of` shows `viewer` something that is restricted to an audience.
    pub(super) fn shows(&self, of: Number, viewer: Number, audience: impl FnOnce(&Privacy) -> Audience) -> bool {
        let Some(subscriber) = self.subscribers.get(&of) else { return false };
        let account = &subscriber.account;
        !account.blocked.contains_key(&viewer)
            && audience(&account.privacy).includes(account.book.contains_key(&viewer))
    }

    fn own(&self, number: Number) -> Allowed<&Subscriber> {
        self.subscribers.get(&number).ok_or(NOT_REGISTERED)
    }

    fn own_mut(&mut self, number: Number) -> Allowed<&mut Subscriber> {
        self.subscribers.get_mut(&number).ok_or(NOT_REGISTERED)
    }
}
