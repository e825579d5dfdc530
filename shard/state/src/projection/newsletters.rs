//! Newsletters: rows of those that the channel publishes or reads, updated by notices.

use model::address::Address;
use model::error::CallError;
use model::field::Change;
use model::newsletter::{Newsletter, NewsletterRole};
use traffic::operation::newsletters::{NewsletterAnswer, NewsletterOperation};
use traffic::operation::{Refused, RefusedKind};

use super::{NOT_FOUND, Rows, Synced, entity, no_op_if};

pub const AREA: &str = "newsletters";

entity!(Newsletter, Newsletter, |row| row.id.to_string());

pub fn check(operation: &NewsletterOperation, rows: &Rows<'_>) -> Result<(), CallError> {
    let is_known = |id: &Address| rows.has::<Newsletter>(id.as_str());
    let known = |id: &Address| rows.find::<Newsletter>("newsletter", id.as_str());
    match operation {
        NewsletterOperation::Change { newsletter, changes, picture } => {
            let known = known(newsletter)?;
            let picture_stays = match picture {
                Change::Keep => true,
                Change::To(picture) => picture.is_none() && known.picture_url.is_none(),
            };
            no_op_if(picture_stays && changes.hold_for(&known), "the newsletter is as it should be already")
        }
        NewsletterOperation::Subscribe { newsletter } => {
            no_op_if(is_known(newsletter), "the channel is subscribed already")
        }
        NewsletterOperation::Unsubscribe { newsletter } => {
            no_op_if(!is_known(newsletter), "the channel is not subscribed")
        }
        NewsletterOperation::Mute { newsletter, muted } => {
            let message = if *muted { "the newsletter is muted already" } else { "the newsletter is not muted" };
            no_op_if(known(newsletter)?.muted == *muted, message)
        }
        NewsletterOperation::Delete { newsletter }
        | NewsletterOperation::React { newsletter, .. }
        | NewsletterOperation::InviteAdmin { newsletter, .. }
        | NewsletterOperation::AcceptAdmin { newsletter }
        | NewsletterOperation::RemoveAdmin { newsletter, .. } => known(newsletter).map(drop),
        _ => Ok(()),
    }
}

pub fn refusal(operation: &NewsletterOperation, refused: &Refused) -> Option<CallError> {
    let conflict = refused.kind == RefusedKind::Conflict;
    match (operation, refused.code) {
        (
            NewsletterOperation::Show { newsletter }
            | NewsletterOperation::Subscribe { newsletter }
            | NewsletterOperation::Messages { newsletter, .. },
            NOT_FOUND,
        ) => Some(CallError::not_found("newsletter", newsletter.as_str())),
        (NewsletterOperation::Invited { invite_code }, NOT_FOUND) => {
            Some(CallError::not_found("newsletter_invite", invite_code))
        }
        (NewsletterOperation::React { server_id, .. }, NOT_FOUND) => {
            Some(CallError::message_not_found(&server_id.to_string()))
        }
        (NewsletterOperation::Subscribe { .. }, _) if conflict => {
            Some(CallError::no_op("the channel is subscribed already"))
        }
        (NewsletterOperation::InviteAdmin { .. }, _) if conflict => {
            Some(CallError::no_op("the contact is an admin already"))
        }
        (NewsletterOperation::RemoveAdmin { .. }, _) if conflict => {
            Some(CallError::no_op("the contact is neither an admin nor asked to be one"))
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

/// There are no events for newsletters.
pub fn take(id: &Address, now: Option<&Newsletter>, rows: &mut Rows<'_>) {
    match now {
        Some(newsletter) => rows.put(newsletter),
        None => rows.remove::<Newsletter>(id.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use model::error::ErrorCode;
    use model::newsletter::{NewsletterChanges, ReactionMode};
    use model::time::Timestamp;

    use super::*;
    use crate::projection::fixture::{Projection, address};

    const KNOWN: &str = "1@n.example";
    const OTHER: &str = "2@n.example";

    fn newsletter(id: &str, role: NewsletterRole) -> Newsletter {
        Newsletter {
            id: address(id),
            name: "News".to_owned(),
            description: None,
            invite_code: None,
            invite_url: None,
            picture_url: None,
            role,
            muted: false,
            verified: false,
            subscriber_count: None,
            reactions: ReactionMode::All,
            created_at: None,
        }
    }

    #[test]
    fn what_is_not_there_or_so_already_is_not_asked_of_the_network() {
        use ErrorCode::{NoOp, NotFound};
        let change = |id: &str, name: &str, picture| NewsletterOperation::Change {
            newsletter: address(id),
            changes: NewsletterChanges { name: Some(name.to_owned()), ..NewsletterChanges::default() },
            picture,
        };
        let mute = |id: &str, muted| NewsletterOperation::Mute { newsletter: address(id), muted };
        let subscribe = |id: &str| NewsletterOperation::Subscribe { newsletter: address(id) };
        let unsubscribe = |id: &str| NewsletterOperation::Unsubscribe { newsletter: address(id) };
        let table = [
            (change(KNOWN, "Other", Change::Keep), None),
            (change(KNOWN, "News", Change::Keep), Some(NoOp)),
            (change(KNOWN, "News", Change::To(None)), Some(NoOp)),
            (change(OTHER, "News", Change::Keep), Some(NotFound)),
            (mute(KNOWN, true), None),
            (mute(KNOWN, false), Some(NoOp)),
            (mute(OTHER, false), Some(NotFound)),
            (subscribe(KNOWN), Some(NoOp)),
            (subscribe(OTHER), None),
            (unsubscribe(KNOWN), None),
            (unsubscribe(OTHER), Some(NoOp)),
            (NewsletterOperation::Delete { newsletter: address(OTHER) }, Some(NotFound)),
        ];
        Projection::new().at(Timestamp(0), |rows, _| {
            take(&address(KNOWN), Some(&newsletter(KNOWN, NewsletterRole::Owner)), rows);
            for (operation, code) in table {
                let refused = check(&operation, rows).map_err(|error| error.code).err();
                assert_eq!(refused, code, "{operation:?}");
            }
        });
    }

    #[test]
    fn one_that_the_channel_is_a_guest_of_is_shown_and_not_kept() {
        Projection::new().at(Timestamp(0), |rows, _| {
            let show = NewsletterOperation::Show { newsletter: address(KNOWN) };
            let mut shown = |role| {
                absorb(&show, &NewsletterAnswer::Newsletter(Box::new(newsletter(KNOWN, role))), rows);
                rows.has::<Newsletter>(KNOWN)
            };
            assert!(shown(NewsletterRole::Subscriber));
            assert!(!shown(NewsletterRole::Guest));
        });
    }
}
