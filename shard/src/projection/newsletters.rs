//! Newsletters: rows of those that the channel publishes or reads, kept up to date by notices (supplement 14).

use model::address::Address;
use model::error::ApiError;
use model::field::Change;
use model::newsletter::{Newsletter, NewsletterRole};
use network::operation::Refused;
use network::operation::newsletters::{NewsletterAnswer, NewsletterOperation};

use super::{CONFLICT, Entity, Kind, NOT_FOUND, Rows, Synced};

pub const AREA: &str = "newsletters";

impl Entity for Newsletter {
    const KIND: Kind = Kind::Newsletter;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

pub fn check(operation: &NewsletterOperation, rows: &Rows<'_>) -> Result<(), ApiError> {
    let row = |id: &Address| rows.get::<Newsletter>(id.as_str());
    let known = |id: &Address| row(id).ok_or_else(|| not_found(id));
    let no_op = |message: &str| Err(ApiError::no_op(message));
    match operation {
        NewsletterOperation::Change { newsletter, changes, picture } => {
            let known = known(newsletter)?;
            let picture_stays = match picture {
                Change::Keep => true,
                Change::To(picture) => picture.is_none() && known.picture_url.is_none(),
            };
            if picture_stays && changes.hold_for(&known) {
                return no_op("the newsletter is as it should be already");
            }
            Ok(())
        }
        NewsletterOperation::Subscribe { newsletter } if row(newsletter).is_some() => {
            no_op("the channel is subscribed already")
        }
        NewsletterOperation::Unsubscribe { newsletter } if row(newsletter).is_none() => {
            no_op("the channel is not subscribed")
        }
        NewsletterOperation::Mute { newsletter, muted } if known(newsletter)?.muted == *muted => {
            no_op(if *muted { "the newsletter is muted already" } else { "the newsletter is not muted" })
        }
        NewsletterOperation::Delete { newsletter }
        | NewsletterOperation::React { newsletter, .. }
        | NewsletterOperation::InviteAdmin { newsletter, .. }
        | NewsletterOperation::AcceptAdmin { newsletter }
        | NewsletterOperation::RemoveAdmin { newsletter, .. } => known(newsletter).map(drop),
        NewsletterOperation::List
        | NewsletterOperation::Show { .. }
        | NewsletterOperation::Create { .. }
        | NewsletterOperation::Subscribe { .. }
        | NewsletterOperation::Unsubscribe { .. }
        | NewsletterOperation::Mute { .. }
        | NewsletterOperation::Search { .. }
        | NewsletterOperation::Invited { .. }
        | NewsletterOperation::Messages { .. } => Ok(()),
    }
}

fn not_found(id: &Address) -> ApiError {
    ApiError::not_found("newsletter", id.as_str())
}

pub fn refusal(operation: &NewsletterOperation, refused: &Refused) -> Option<ApiError> {
    match (operation, refused.code) {
        (
            NewsletterOperation::Show { newsletter }
            | NewsletterOperation::Subscribe { newsletter }
            | NewsletterOperation::Messages { newsletter, .. },
            NOT_FOUND,
        ) => Some(not_found(newsletter)),
        (NewsletterOperation::Invited { invite_code }, NOT_FOUND) => {
            Some(ApiError::not_found("newsletter_invite", invite_code))
        }
        (NewsletterOperation::React { server_id, .. }, NOT_FOUND) => {
            Some(ApiError::message_not_found(&server_id.to_string()))
        }
        (NewsletterOperation::Subscribe { .. }, CONFLICT) => Some(ApiError::no_op("the channel is subscribed already")),
        (NewsletterOperation::InviteAdmin { .. }, CONFLICT) => Some(ApiError::no_op("the contact is an admin already")),
        (NewsletterOperation::RemoveAdmin { .. }, CONFLICT) => {
            Some(ApiError::no_op("the contact is neither an admin nor asked to be one"))
        }
        _ => None,
    }
}

pub fn absorb(operation: &NewsletterOperation, answer: &NewsletterAnswer, rows: &mut Rows<'_>) {
    match (operation, answer) {
        (NewsletterOperation::List, NewsletterAnswer::Newsletters(newsletters)) => {
            rows.replace_all(newsletters);
            rows.put(&Synced { area: AREA.to_owned() });
        }
        (NewsletterOperation::Show { newsletter }, NewsletterAnswer::Newsletter(shown)) => {
            let own = (shown.role != NewsletterRole::Guest).then_some(&**shown);
            take(newsletter, own, rows);
        }
        _ => {}
    }
}

/// No event tells of newsletters.
pub fn take(id: &Address, now: Option<&Newsletter>, rows: &mut Rows<'_>) {
    match now {
        Some(newsletter) => rows.put(newsletter),
        None => rows.remove::<Newsletter>(id.as_str()),
    }
}
