//! Labels of a business account: rows of the labels, and of the chats and messages that have them.

use std::collections::BTreeSet;

use model::address::Address;
use model::customer::Quota;
use model::error::CallError;
use model::label::{KnownLabel, Label, LabelAssociation, Labelled, LabelledKind};
use serde::{Deserialize, Serialize};
use traffic::notice::LabelNews;
use traffic::operation::Refused;
use traffic::operation::labels::{LabelAnswer, LabelOperation, LabelState};

use super::{
    BusinessAccount, Context, EmittedEvent, Entity, Kind, NOT_FOUND, Rows, Synced, chats, check_business, entity,
    no_op_if,
};
use crate::keys::Direction;

pub const AREA: &str = "labels";

entity!(KnownLabel, Label, |row| row.id.clone());

/// A label on a chat, or on a message in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Association {
    pub label: String,
    pub on: Labelled,
}

impl Association {
    fn new(label: &str, on: &Labelled) -> Self {
        Self { label: label.to_owned(), on: on.clone() }
    }

    /// The prefix of the ids of a label's rows: of all its associations, or of those of one kind.
    pub fn under(label: &str, kind: Option<LabelledKind>) -> String {
        kind.map_or_else(|| format!("{label}/"), |kind| format!("{label}/{}/", kind.as_str()))
    }
}

impl Entity for Association {
    const KIND: Kind = Kind::LabelAssociation;

    fn id(&self) -> String {
        let kind = if self.on.message.is_some() { LabelledKind::Message } else { LabelledKind::Chat };
        let (under, chat) = (Self::under(&self.label, Some(kind)), &self.on.chat);
        match &self.on.message {
            Some(message) => format!("{under}{chat}/{}", message.as_str()),
            None => format!("{under}{chat}"),
        }
    }
}

impl From<Association> for LabelAssociation {
    fn from(association: Association) -> Self {
        association.on.into()
    }
}

pub fn check(operation: &LabelOperation, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    if matches!(operation, LabelOperation::List) || !rows.has::<Synced>(AREA) {
        // The labels are not known yet, so the network decides.
        return Ok(());
    }
    check_business(rows.get(BusinessAccount::ID).as_ref())?;
    let known = |label: &str| rows.find::<KnownLabel>("label", label);
    match operation {
        LabelOperation::List => Ok(()),
        LabelOperation::Create { .. } => {
            let (limit, used) = ((context.allowed)(Quota::Labels), rows.all::<KnownLabel>().len() as u64);
            if used >= limit { Err(CallError::plan_limit(Quota::Labels, limit, used)) } else { Ok(()) }
        }
        LabelOperation::Change { label, changes } => {
            no_op_if(changes.hold_for(&known(label)?), "the label is as it should be already")
        }
        LabelOperation::Delete { label } => known(label).map(drop),
        LabelOperation::Put { label, on } => {
            known(label)?;
            let on = seen(on, context);
            check_there(&on, rows, context)?;
            no_op_if(bears(label, &on, rows), "it has the label already")
        }
        LabelOperation::Take { label, from } => {
            known(label)?;
            no_op_if(!bears(label, &seen(from, context), rows), "it does not have the label")
        }
        LabelOperation::Set { chat, labels } => {
            let chat = Labelled { chat: context.best(chat), message: None };
            check_there(&chat, rows, context)?;
            labels.iter().try_for_each(|label| known(label).map(drop))?;
            let stays = |label: &KnownLabel| bears(&label.id, &chat, rows) == labels.contains(&label.id);
            no_op_if(rows.all::<KnownLabel>().iter().all(stays), "the chat has these labels already")
        }
    }
}

fn bears(label: &str, on: &Labelled, rows: &Rows<'_>) -> bool {
    rows.has::<Association>(&Association::new(label, on).id())
}

/// The labelled chat or message, with the chat's best address.
fn seen(on: &Labelled, context: &Context<'_>) -> Labelled {
    Labelled { chat: context.best(&on.chat), message: on.message.clone() }
}

/// Checks that the chat exists, or the message in it.
fn check_there(on: &Labelled, rows: &Rows<'_>, context: &Context<'_>) -> Result<(), CallError> {
    let is_shown = chats::one(&on.chat, rows, context.at).is_some();
    match &on.message {
        None if is_shown => Ok(()),
        None => Err(CallError::chat_not_found(on.chat.as_str())),
        Some(id) => {
            let is_stored = |direction| (context.stored)(direction, id, &on.chat, None).is_some();
            if is_shown && (is_stored(Direction::Inbound) || is_stored(Direction::Outbound)) {
                Ok(())
            } else {
                Err(CallError::message_not_found(id.as_str()))
            }
        }
    }
}

/// Chats and messages were checked before the network was asked; labels as well, except those of `Set`.
pub fn refusal(operation: &LabelOperation, refused: &Refused) -> Option<CallError> {
    if refused.code != NOT_FOUND {
        return None;
    }
    match operation {
        LabelOperation::Put { on: Labelled { message: Some(id), .. }, .. } => {
            Some(CallError::message_not_found(id.as_str()))
        }
        LabelOperation::Change { label, .. }
        | LabelOperation::Delete { label }
        | LabelOperation::Put { label, .. }
        | LabelOperation::Take { label, .. } => Some(CallError::not_found("label", label)),
        LabelOperation::List | LabelOperation::Create { .. } | LabelOperation::Set { .. } => None,
    }
}

pub fn absorb(operation: &LabelOperation, answer: &LabelAnswer, rows: &mut Rows<'_>, context: &Context<'_>) {
    if let (LabelOperation::List, LabelAnswer::Labels(state)) = (operation, answer) {
        take_over(state, rows, context);
        rows.put(&Synced { area: AREA.to_owned() });
    }
}

/// Replaces all rows by the account's labels, as reported by the network; returns the chats whose labels changed.
fn take_over(state: &LabelState, rows: &mut Rows<'_>, context: &Context<'_>) -> BTreeSet<Address> {
    let borne = state.borne.iter().map(|borne| (seen(&borne.by, context), &borne.labels));
    let now = borne.flat_map(|(on, labels)| labels.iter().map(move |label| Association::new(label, &on)));
    let (before, now): (Vec<Association>, Vec<Association>) = (rows.all(), now.collect());
    rows.replace_all(&state.labels);
    rows.replace_all(&now);
    let ids = |associations: &[Association]| associations.iter().map(Entity::id).collect::<BTreeSet<_>>();
    let (ids_before, ids_now) = (ids(&before), ids(&now));
    let differs = |association: &Association| {
        let id = association.id();
        ids_before.contains(&id) != ids_now.contains(&id)
    };
    before.iter().chain(&now).filter(|association| differs(association)).map(chat_of).collect()
}

fn chat_of(association: &Association) -> Address {
    association.on.chat.clone()
}

pub fn take(news: &LabelNews, rows: &mut Rows<'_>, context: &Context<'_>) -> Vec<EmittedEvent> {
    let moved = match news {
        LabelNews::Label(label) => {
            // A new name or colour of a label does not change any chat.
            rows.put(label);
            BTreeSet::new()
        }
        LabelNews::Gone { label } => {
            rows.remove::<KnownLabel>(label);
            let borne = rows.under::<Association>(&Association::under(label, None), usize::MAX);
            borne.iter().for_each(|association| rows.remove::<Association>(&association.id()));
            borne.iter().map(chat_of).collect()
        }
        LabelNews::Moved { on, put, taken } => {
            let on = seen(on, context);
            let put: Vec<&String> = put.iter().filter(|label| !bears(label, &on, rows)).collect();
            let taken: Vec<&String> = taken.iter().filter(|label| bears(label, &on, rows)).collect();
            put.iter().for_each(|label| rows.put(&Association::new(label, &on)));
            taken.iter().for_each(|label| rows.remove::<Association>(&Association::new(label, &on).id()));
            if put.is_empty() && taken.is_empty() { BTreeSet::new() } else { BTreeSet::from([on.chat]) }
        }
        LabelNews::All(state) => take_over(state, rows, context),
    };
    moved.into_iter().flat_map(|chat| chats::labelled(chat, rows, context)).collect()
}

/// All associations in a chat, including those of the chat itself.
fn in_chat(chat: &Address, rows: &Rows<'_>) -> Vec<Association> {
    let borne = rows.all::<KnownLabel>().into_iter().flat_map(|label| {
        let own = Association::new(&label.id, &Labelled { chat: chat.clone(), message: None });
        let messages = format!("{}{chat}/", Association::under(&label.id, Some(LabelledKind::Message)));
        rows.get(&own.id()).into_iter().chain(rows.under(&messages, usize::MAX))
    });
    borne.collect()
}

/// Removes the labels of a deleted chat and of its messages; returns whether there were any.
pub fn remove_chat(chat: &Address, rows: &mut Rows<'_>) -> bool {
    let borne = in_chat(chat, rows);
    borne.iter().for_each(|association| rows.remove::<Association>(&association.id()));
    !borne.is_empty()
}

/// Moves the labels of a chat to the phone address after the one behind its LID became known.
pub fn resolved(lid: &Address, phone: &Address, rows: &mut Rows<'_>) {
    for Association { label, on } in in_chat(lid, rows) {
        rows.remove::<Association>(&Association::new(&label, &on).id());
        rows.put(&Association { label, on: Labelled { chat: phone.clone(), message: on.message } });
    }
}

/// All labels as the interface shows them, or those of a chat, in the order of creation.
pub fn shown(of: Option<&Address>, rows: &Rows<'_>) -> Vec<Label> {
    let mut labels = rows.all::<KnownLabel>();
    if let Some(chat) = of {
        let chat = Labelled { chat: chat.clone(), message: None };
        labels.retain(|label| bears(&label.id, &chat, rows));
    }
    // Ids of labels are numbers: shorter ones are smaller.
    labels.sort_by(|a, b| (a.id.len(), &a.id).cmp(&(b.id.len(), &b.id)));
    let chats = |label: &KnownLabel| {
        rows.under::<Association>(&Association::under(&label.id, Some(LabelledKind::Chat)), usize::MAX).len()
    };
    labels.iter().map(|label| label.show(chats(label))).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::business::BusinessProfile;
    use model::chat::ChatChanges;
    use model::error::ErrorCode;
    use model::id::MessageId;
    use model::label::{LabelChanges, LabelColor};
    use model::payload::{ChatField, Payload};
    use model::time::Timestamp;
    use traffic::notice::ChatNews;
    use traffic::operation::labels::Borne;

    use super::*;
    use crate::machine::tests::row;
    use crate::projection::fixture::{Projection, address};

    const CHAT: &str = "15551230000@s.example";
    const GROUP: &str = "120363000000000001@g.example";

    fn label(id: &str) -> KnownLabel {
        let color = LabelColor::all().next().unwrap();
        KnownLabel { id: id.into(), name: format!("Label {id}"), color, predefined: false }
    }

    fn chat(text: &str) -> Labelled {
        Labelled { chat: address(text), message: None }
    }

    fn message(id: &str) -> Labelled {
        Labelled { chat: address(CHAT), message: Some(MessageId(id.into())) }
    }

    /// The chats that events report, and their changed fields.
    fn told(told: Vec<EmittedEvent>) -> Vec<(String, Vec<ChatField>)> {
        let updated = |told: EmittedEvent| match told.payload {
            Payload::ChatUpdated(updated) => (updated.chat.id.to_string(), updated.changed),
            other => panic!("{other:?}"),
        };
        told.into_iter().map(updated).collect()
    }

    fn of_labels(chats: &[&str]) -> Vec<(String, Vec<ChatField>)> {
        chats.iter().map(|chat| ((*chat).to_owned(), vec![ChatField::Labels])).collect()
    }

    /// A business with the labels 1, 2 and 10, and a chat.
    struct Shop(Projection);

    impl Shop {
        fn new() -> Self {
            let stored = row("M", Direction::Inbound);
            let mut projection = Projection::new().knowing("25@lid", CHAT).storing(stored);
            projection.at(Timestamp(0), |rows, context| {
                rows.put(&BusinessAccount { profile: Some(BusinessProfile::empty(address("1@s.example"))) });
                let state = LabelState { labels: ["2", "1", "10"].map(label).into(), borne: Vec::new() };
                absorb(&LabelOperation::List, &LabelAnswer::Labels(state), rows, context);
                let seen = ChatNews::Changed(ChatChanges { archived: Some(true), ..ChatChanges::default() });
                chats::take(&address(CHAT), &seen, rows, context);
            });
            Self(projection)
        }

        fn take(&mut self, news: LabelNews) -> Vec<(String, Vec<ChatField>)> {
            told(self.0.at(Timestamp(1000), |rows, context| take(&news, rows, context)))
        }

        fn moved(&mut self, on: Labelled, put: &[&str], taken: &[&str]) -> Vec<(String, Vec<ChatField>)> {
            let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect();
            self.take(LabelNews::Moved { on, put: ids(put), taken: ids(taken) })
        }

        fn check(&mut self, operation: LabelOperation) -> Option<ErrorCode> {
            self.0
                .at(Timestamp(1000), |rows, context| check(&operation, rows, context))
                .map_err(|error| error.code)
                .err()
        }

        /// The ids of the labels of a chat, and the number of chats that have each.
        fn shown(&mut self, of: Option<&str>) -> Vec<(String, u32)> {
            let of = of.map(address);
            let labels = self.0.at(Timestamp(1000), |rows, _| shown(of.as_ref(), rows));
            labels.into_iter().map(|label| (label.id, label.chat_count)).collect()
        }
    }

    #[test]
    fn a_label_is_told_once_on_each_chat_however_often_the_network_tells_it() {
        let mut shop = Shop::new();
        // The chat may be named by either address.
        assert_eq!(shop.moved(chat("25@lid"), &["2", "10"], &[]), of_labels(&[CHAT]));
        assert!(shop.moved(chat(CHAT), &["2", "10"], &["1"]).is_empty());
        assert_eq!(shop.moved(message("M"), &["2"], &[]), of_labels(&[CHAT]));
        // A chat that was unknown becomes known.
        assert_eq!(shop.moved(chat(GROUP), &["10"], &[]), of_labels(&[GROUP]));
        let expected = [("1", 0), ("2", 1), ("10", 2)].map(|(id, count)| (id.to_owned(), count));
        assert_eq!(shop.shown(None), expected);
        assert_eq!(shop.shown(Some(CHAT)), expected[1..]);

        assert!(shop.take(LabelNews::Label(KnownLabel { name: "Other".into(), ..label("2") })).is_empty());
        assert_eq!(shop.take(LabelNews::Gone { label: "10".into() }), of_labels(&[GROUP, CHAT]));
        assert!(shop.take(LabelNews::Gone { label: "10".into() }).is_empty());
        assert_eq!(shop.moved(chat(CHAT), &[], &["2"]), of_labels(&[CHAT]));
        assert_eq!(shop.shown(Some(CHAT)), []);
    }

    #[test]
    fn a_deleted_chat_takes_its_labels_along() {
        let mut shop = Shop::new();
        shop.moved(chat(CHAT), &["1"], &[]);
        shop.moved(message("M"), &["2"], &[]);
        let cleared = ChatNews::Cleared { deleted: true };
        let delete = |rows: &mut Rows<'_>, context: &Context<'_>| chats::take(&address(CHAT), &cleared, rows, context);
        let events = told(shop.0.at(Timestamp(2000), delete).split_off(1));
        assert_eq!(events, [(CHAT.to_owned(), vec![ChatField::Deleted, ChatField::Labels])]);
        assert!(shop.0.at(Timestamp(2000), |rows, _| rows.all::<Association>()).is_empty());
    }

    #[test]
    fn labels_follow_a_chat_to_its_phone_address() {
        let mut shop = Shop::new();
        let hidden = "26@lid";
        shop.moved(chat(hidden), &["1"], &[]);
        shop.moved(Labelled { message: Some(MessageId("N".into())), ..chat(hidden) }, &["1"], &[]);
        let phone = "15551230006@s.example";
        shop.0.at(Timestamp(2000), |rows, _| resolved(&address(hidden), &address(phone), rows));
        let chats = |on: &Association| on.on.chat.to_string();
        let borne: Vec<String> = shop.0.at(Timestamp(2000), |rows, _| rows.all().iter().map(chats).collect());
        assert_eq!(borne, [phone, phone]);
    }

    #[test]
    fn an_account_that_is_no_business_any_more_has_no_labels() {
        let mut shop = Shop::new();
        let state =
            LabelState { labels: vec![label("1")], borne: vec![Borne { by: chat(CHAT), labels: vec!["1".into()] }] };
        assert_eq!(shop.take(LabelNews::All(state.clone())), of_labels(&[CHAT]));
        assert!(shop.take(LabelNews::All(state)).is_empty());
        assert_eq!(shop.take(LabelNews::All(LabelState::default())), of_labels(&[CHAT]));
        assert!(shop.shown(None).is_empty());
        shop.0.at(Timestamp(0), |rows, _| rows.put(&BusinessAccount { profile: None }));
        assert_eq!(shop.check(LabelOperation::Create { name: "Lead".into(), color: None }), Some(ErrorCode::Other));
    }

    #[test]
    fn one_label_more_than_the_plan_allows_is_refused_before_the_network_is_asked() {
        let mut shop = Shop::new();
        let mut create = |allowed| {
            shop.0.allowed = allowed;
            shop.check(LabelOperation::Create { name: "Lead".into(), color: None })
        };
        assert_eq!((create(4), create(3)), (None, Some(ErrorCode::PlanLimit)));
    }

    #[test]
    fn what_is_not_there_or_done_already_is_refused_before_the_network_is_asked() {
        use ErrorCode::{ChatNotFound, MessageNotFound, NoOp, NotFound};
        let mut shop = Shop::new();
        shop.moved(chat(CHAT), &["1"], &[]);
        shop.moved(message("M"), &["1"], &[]);
        let put = |label: &str, on: Labelled| LabelOperation::Put { label: label.into(), on };
        let taken = |label: &str, from: Labelled| LabelOperation::Take { label: label.into(), from };
        let set = |chat: &str, labels: &[&str]| LabelOperation::Set {
            chat: address(chat),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
        };
        let change = |label: &str, name: &str| LabelOperation::Change {
            label: label.into(),
            changes: LabelChanges { name: Some(name.into()), color: None },
        };
        let table = [
            (LabelOperation::List, None),
            (change("1", "Label 1"), Some(NoOp)),
            (change("1", "Label 2"), None),
            (change("3", "Label 3"), Some(NotFound)),
            (LabelOperation::Delete { label: "3".into() }, Some(NotFound)),
            (put("1", chat("25@lid")), Some(NoOp)),
            (put("2", chat(CHAT)), None),
            (put("3", chat(CHAT)), Some(NotFound)),
            (put("2", chat(GROUP)), Some(ChatNotFound)),
            (put("1", message("M")), Some(NoOp)),
            (put("2", message("M")), None),
            (put("2", message("N")), Some(MessageNotFound)),
            (put("2", Labelled { chat: address(GROUP), ..message("M") }), Some(MessageNotFound)),
            (taken("1", chat(CHAT)), None),
            (taken("2", chat(CHAT)), Some(NoOp)),
            (taken("1", chat(GROUP)), Some(NoOp)),
            (taken("1", message("M")), None),
            (taken("1", message("N")), Some(NoOp)),
            (taken("3", chat(CHAT)), Some(NotFound)),
            (set(CHAT, &["1"]), Some(NoOp)),
            (set(CHAT, &["1", "2"]), None),
            (set(CHAT, &[]), None),
            (set(CHAT, &["1", "3"]), Some(NotFound)),
            (set(GROUP, &["1"]), Some(ChatNotFound)),
        ];
        for (operation, code) in table {
            assert_eq!(shop.check(operation.clone()), code, "{operation:?}");
        }
    }
}
