//! The channel's own account: its block list, its profile, and its privacy settings.

use model::address::{Address, Undeliverable};
use model::blacklist::Blocked;
use model::error::CallError;
use model::privacy::Privacy;
use model::profile::ChannelProfile;
use traffic::operation::account::{
    BlacklistAnswer, BlacklistOperation, PrivacyAnswer, PrivacyOperation, ProfileAnswer, ProfileOperation,
};
use traffic::operation::{Refused, RefusedKind};

use super::{Context, Rows, Synced, contacts, entity, no_op_if};

pub const BLACKLIST: &str = "blacklist";
pub const PROFILE: &str = "profile";
pub const PRIVACY: &str = "privacy";

/// The id of a row of which a channel has only one.
pub const OWN: &str = "own";

entity!(Blocked, Blocked, |row| row.id.to_string());
entity!(ChannelProfile, Profile, |_row| OWN.to_owned());
entity!(Privacy, Privacy, |_row| OWN.to_owned());

pub fn check_blacklist(asked: &BlacklistOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    let is_blocked = |contact: &Address| rows.has::<Blocked>(context.best(contact).as_str());
    match asked {
        BlacklistOperation::List => Ok(()),
        BlacklistOperation::Block { contact } => no_op_if(is_blocked(contact), "the contact is blocked already"),
        BlacklistOperation::Unblock { contact } => no_op_if(!is_blocked(contact), "the contact is not blocked"),
    }
}

pub fn check_profile(operation: &ProfileOperation, rows: &Rows<'_>) -> Result<(), CallError> {
    // If the profile is not known, the network is asked in any case.
    let Some(profile) = rows.get::<ChannelProfile>(OWN) else { return Ok(()) };
    let same = match operation {
        ProfileOperation::Show | ProfileOperation::SetPicture { picture: Some(_) } => false,
        ProfileOperation::SetName { name } => profile.name.as_ref() == Some(name),
        ProfileOperation::SetAbout { about } => profile.about.unwrap_or_default() == *about,
        ProfileOperation::SetPicture { picture: None } => profile.picture_url.is_none(),
    };
    no_op_if(same, "the profile is so already")
}

pub fn check_privacy(operation: &PrivacyOperation, rows: &Rows<'_>) -> Result<(), CallError> {
    let PrivacyOperation::Change(changes) = operation else { return Ok(()) };
    let same = rows.get::<Privacy>(OWN).is_some_and(|privacy| privacy.with(*changes) == privacy);
    no_op_if(same, "the settings are so already")
}

pub fn blacklist_refusal(operation: &BlacklistOperation, refused: &Refused) -> Option<CallError> {
    match operation {
        BlacklistOperation::Block { contact } | BlacklistOperation::Unblock { contact }
            if refused.kind == RefusedKind::Recipient =>
        {
            Some(CallError::undeliverable_recipient(contact.as_str(), Undeliverable::NotRegistered))
        }
        _ => None,
    }
}

pub fn profile_refusal(operation: &ProfileOperation, refused: &Refused) -> Option<CallError> {
    let removes = matches!(operation, ProfileOperation::SetPicture { picture: None });
    (removes && refused.kind == RefusedKind::Conflict).then(|| CallError::no_op("the profile has no picture"))
}

pub fn absorb_blacklist(answer: &BlacklistAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    let BlacklistAnswer::Blocked(blocked) = answer else { return };
    let blocked: Vec<Blocked> = blocked.iter().map(|blocked| seen(blocked, context)).collect();
    for gone in rows.all::<Blocked>().iter().filter(|known| !blocked.iter().any(|blocked| blocked.id == known.id)) {
        contacts::mirror_blocked(&gone.id, false, rows, context);
    }
    blocked.iter().for_each(|blocked| contacts::mirror_blocked(&blocked.id, true, rows, context));
    rows.replace_all(&blocked);
    rows.put(&Synced { area: BLACKLIST.to_owned() });
}

fn seen(blocked: &Blocked, context: &Context<'_>) -> Blocked {
    Blocked { id: context.best(&blocked.id), ..blocked.clone() }
}

pub fn absorb_profile(answer: &ProfileAnswer, rows: &mut Rows<'_>) {
    if let ProfileAnswer::Profile(profile) = answer {
        rows.put(profile);
        rows.put(&Synced { area: PROFILE.to_owned() });
    }
}

pub fn absorb_privacy(answer: &PrivacyAnswer, rows: &mut Rows<'_>) {
    if let PrivacyAnswer::Privacy(privacy) = answer {
        rows.put(privacy);
        rows.put(&Synced { area: PRIVACY.to_owned() });
    }
}

pub fn block(blocked: &Blocked, rows: &mut Rows<'_>, context: &Context<'_>) {
    let blocked = seen(blocked, context);
    contacts::mirror_blocked(&blocked.id, true, rows, context);
    rows.put(&blocked);
}

pub fn unblock(contact: &Address, rows: &mut Rows<'_>, context: &Context<'_>) {
    let id = context.best(contact);
    contacts::mirror_blocked(&id, false, rows, context);
    rows.remove::<Blocked>(id.as_str());
}

/// Moves rows after the phone address behind a LID became known.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    if let Some(blocked) = rows.get::<Blocked>(lid.as_str()) {
        rows.remove::<Blocked>(lid.as_str());
        rows.put(&Blocked { id: phone.clone(), ..blocked });
    }
}

#[cfg(test)]
mod tests {
    use model::contact::Contact;
    use model::time::Timestamp;
    use traffic::notice::{News, Notice};
    use traffic::operation::Answer;

    use super::*;
    use crate::projection::contacts::ContactRow;
    use crate::projection::fixture::{Projection, address};
    use crate::projection::{disclosed, disclosed_by};

    const LID: &str = "25@lid";
    const PHONE: &str = "1555@s.example";

    fn blocked(id: &str) -> Blocked {
        Blocked { id: address(id), lid: None, blocked_at: None }
    }

    fn contact(projection: &mut Projection, id: &str) -> Option<Contact> {
        projection.at(Timestamp(0), |rows, _| rows.get::<ContactRow>(id)).map(|row| row.contact)
    }

    #[test]
    fn contacts_mirror_the_block_list_however_it_comes() {
        let mut projection = Projection::new().knowing(LID, PHONE);
        let is_blocked = |projection: &mut Projection| contact(projection, PHONE).is_some_and(|known| known.is_blocked);
        projection.at(Timestamp(0), |rows, context| block(&blocked(LID), rows, context));
        assert!(is_blocked(&mut projection));
        projection.at(Timestamp(0), |rows, context| unblock(&address(PHONE), rows, context));
        assert!(!is_blocked(&mut projection));
        let list = |of: &[&str]| BlacklistAnswer::Blocked(of.iter().map(|id| blocked(id)).collect());
        projection.at(Timestamp(0), |rows, context| absorb_blacklist(&list(&[LID]), rows, context));
        assert!(is_blocked(&mut projection));
        projection.at(Timestamp(0), |rows, context| absorb_blacklist(&list(&[]), rows, context));
        assert!(!is_blocked(&mut projection));
    }

    #[test]
    fn a_block_discloses_whose_a_lid_is_unless_the_number_is_hidden() {
        let told = |id: &str| {
            let blocked = Blocked { lid: Some(address(LID)), ..blocked(id) };
            let answer = Answer::Blacklist(BlacklistAnswer::Blocked(vec![blocked.clone()]));
            (disclosed_by(&Notice { actor: None, news: News::Blocked(blocked) }), disclosed(&answer))
        };
        let pair = || (address(LID), address(PHONE));
        assert_eq!(told(PHONE), (Some(pair()), vec![pair()]));
        assert_eq!(told(LID), (None, Vec::new()));
    }

    #[test]
    fn who_was_blocked_under_a_lid_is_blocked_under_the_phone_address() {
        let mut projection = Projection::new();
        projection.at(Timestamp(0), |rows, context| {
            contacts::met(&address(PHONE), None, Some("Ann"), rows, context);
            block(&blocked(LID), rows, context);
            crate::projection::resolved(&address(LID), &address(PHONE), rows);
            assert!(rows.has::<Blocked>(PHONE) && !rows.has::<Blocked>(LID));
        });
        assert!(contact(&mut projection, PHONE).is_some_and(|known| known.is_blocked));
    }

    #[test]
    fn what_is_so_already_is_not_asked_of_the_network() {
        let mut projection = Projection::new();
        let name = || ProfileOperation::SetName { name: "Shop".to_owned() };
        projection.at(Timestamp(0), |rows, context| {
            assert!(check_profile(&name(), rows).is_ok(), "not known yet");
            absorb_profile(
                &ProfileAnswer::Profile(ChannelProfile { name: Some("Shop".to_owned()), ..Default::default() }),
                rows,
            );
            assert!(check_profile(&name(), rows).is_err());
            assert!(check_profile(&ProfileOperation::SetAbout { about: String::new() }, rows).is_err());
            assert!(check_profile(&ProfileOperation::SetPicture { picture: None }, rows).is_err());
            let unblock = BlacklistOperation::Unblock { contact: address(PHONE) };
            assert!(check_blacklist(&unblock, rows, context).is_err());
        });
    }
}
