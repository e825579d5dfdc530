//! Tests of what makes a chat unread, hides it and shows it again, and of the events that follow.

use model::error::ErrorCode;
use model::field::Change;

use super::*;
use crate::keys::Direction;
use crate::machine::tests::row;
use crate::projection::fixture::{Projection, address};
use crate::projection::groups::tests::group;
use crate::records::MessageRow;

const PEER: &str = "15551230000@s.example";
const LID: &str = "25@lid";

fn at(seconds: i64) -> Timestamp {
    Timestamp(seconds * 1000)
}

/// A message arrives in a chat.
fn heard(projection: &mut Projection, chat: &str, seconds: i64) {
    projection.at(at(seconds), |rows, context| rows.put(&LastInbound { chat: address(chat), at: context.at }));
}

/// The names of the changed fields that events report, and the names of other events.
fn told(projection: &mut Projection, chat: &str, news: ChatNews, seconds: i64) -> Vec<String> {
    let told = projection.at(at(seconds), |rows, context| take(&address(chat), &news, rows, context));
    let names = |told: EmittedEvent| match told.payload {
        Payload::ChatUpdated(updated) => updated.changed.iter().map(|field| format!("{field:?}")).collect(),
        Payload::ChatPinned(pinned) => vec![format!("pinned {}", pinned.pinned)],
        Payload::ChatArchived(archived) => vec![format!("archived {}", archived.archived)],
        other => panic!("{other:?}"),
    };
    told.into_iter().flat_map(names).collect()
}

fn shown(projection: &mut Projection, chat: &str) -> Option<Chat> {
    projection.at(at(0), |rows, context| one(&address(chat), rows, context.at))
}

fn refused(projection: &mut Projection, operation: ChatOperation) -> Option<ErrorCode> {
    projection.at(at(1000), |rows, context| check(&operation, rows, context)).map_err(|error| error.code).err()
}

fn changes(changes: ChatChanges) -> ChatNews {
    ChatNews::Changed(changes)
}

#[test]
fn a_chat_is_unread_until_what_came_last_is_read() {
    let mut projection = Projection::new().storing(MessageRow { occurred_at: at(10), ..row("M", Direction::Inbound) });
    let is_unread = |projection: &mut Projection| shown(projection, PEER).is_some_and(|chat| chat.unread);
    heard(&mut projection, PEER, 10);
    assert!(is_unread(&mut projection));
    assert!(told(&mut projection, PEER, ChatNews::Read { upto: at(9) }, 11).is_empty());
    assert!(is_unread(&mut projection));
    assert_eq!(told(&mut projection, PEER, ChatNews::Read { upto: at(10) }, 12), ["Unread"]);
    assert!(told(&mut projection, PEER, ChatNews::Read { upto: at(10) }, 12).is_empty());

    let marks = || changes(ChatChanges { unread: Some(true), ..ChatChanges::default() });
    assert_eq!(told(&mut projection, PEER, marks(), 13), ["Unread"]);
    assert!(told(&mut projection, PEER, marks(), 13).is_empty());
    let read = |id: Option<&str>| ChatOperation::Read {
        chat: address(PEER),
        messages: id.map(|id| MessageId(id.to_owned())).into_iter().collect(),
        participant: None,
    };
    assert_eq!(refused(&mut projection, read(Some("M"))), None, "it is marked");
    assert_eq!(refused(&mut projection, read(Some("N"))), Some(ErrorCode::MessageNotFound));
    assert_eq!(told(&mut projection, PEER, ChatNews::Read { upto: at(10) }, 14), ["Unread"]);
    assert_eq!(refused(&mut projection, read(Some("M"))), Some(ErrorCode::NoOp));
    assert_eq!(refused(&mut projection, read(None)), Some(ErrorCode::NoOp));
    heard(&mut projection, PEER, 20);
    assert_eq!(refused(&mut projection, read(None)), None);
}

#[test]
fn what_was_changed_is_told_field_by_field_and_once() {
    let mut projection = Projection::new();
    // A chat that was unknown becomes known.
    let pinned = || changes(ChatChanges { pinned: Some(true), ..ChatChanges::default() });
    assert_eq!(told(&mut projection, PEER, pinned(), 1), ["pinned true"]);
    assert!(told(&mut projection, PEER, pinned(), 1).is_empty());
    let archived = changes(ChatChanges {
        archived: Some(true),
        muted_until: Change::To(Some(0)),
        ephemeral_expiration: Some(86_400),
        ..ChatChanges::default()
    });
    let expected = ["pinned false", "archived true", "MutedUntil", "EphemeralExpiration"];
    assert_eq!(told(&mut projection, PEER, archived, 2), expected);
    let same = ChatChanges { archived: Some(true), ..ChatChanges::default() };
    let change = |chat: &str, changes| ChatOperation::Change { chat: address(chat), changes };
    assert_eq!(refused(&mut projection, change(PEER, same.clone())), Some(ErrorCode::NoOp));
    assert_eq!(refused(&mut projection, change(LID, same)), Some(ErrorCode::ChatNotFound));
}

#[test]
fn a_deleted_chat_is_back_with_the_next_message_and_without_its_flags() {
    let mut projection = Projection::new();
    heard(&mut projection, PEER, 10);
    told(&mut projection, PEER, changes(ChatChanges { pinned: Some(true), ..ChatChanges::default() }), 11);
    assert_eq!(told(&mut projection, PEER, ChatNews::Cleared { deleted: false }, 12), ["Cleared", "Unread"]);
    let deleted = || ChatNews::Cleared { deleted: true };
    assert_eq!(told(&mut projection, PEER, deleted(), 13), ["pinned false", "Deleted"]);
    assert!(told(&mut projection, PEER, deleted(), 13).is_empty(), "told again");
    assert_eq!(shown(&mut projection, PEER), None);
    let clear = ChatOperation::Clear { chat: address(PEER), delete: false };
    assert_eq!(refused(&mut projection, clear), Some(ErrorCode::ChatNotFound));
    heard(&mut projection, PEER, 14);
    assert!(shown(&mut projection, PEER).is_some_and(|chat| chat.unread && !chat.pinned));
    assert!(told(&mut projection, LID, deleted(), 15).is_empty(), "nothing of it was ever seen here");
}

#[test]
fn the_deleted_chat_of_a_group_keeps_the_groups_time() {
    const GROUP: &str = "120363@g.example";
    let mut projection = Projection::new();
    let group = Group { ephemeral: 86_400, ..group(GROUP, &[]) };
    projection.at(at(9), |rows, _| of_group(&group, rows));
    assert_eq!(told(&mut projection, GROUP, ChatNews::Cleared { deleted: true }, 10), ["Deleted"]);
    heard(&mut projection, GROUP, 11);
    assert_eq!(shown(&mut projection, GROUP).map(|chat| chat.ephemeral_expiration), Some(86_400));
}

#[test]
fn what_was_kept_of_a_chat_under_both_addresses_is_one() {
    let mut projection = Projection::new();
    heard(&mut projection, PEER, 10);
    told(&mut projection, PEER, ChatNews::Read { upto: at(10) }, 11);
    told(&mut projection, LID, changes(ChatChanges { pinned: Some(true), ..ChatChanges::default() }), 12);
    projection.at(at(20), |rows, _| resolved(&address(LID), &address(PEER), rows));
    assert!(shown(&mut projection, PEER).is_some_and(|chat| chat.pinned && !chat.unread));
    assert_eq!(shown(&mut projection, LID), None);
}

#[test]
fn a_sync_takes_the_accounts_flags_and_says_what_is_unread() {
    let mut projection = Projection::new();
    heard(&mut projection, LID, 50);
    let synced = |id: &str, unread, last: Option<i64>| SyncedChat {
        id: address(id),
        flags: ChatFlags { archived: true, ..ChatFlags::default() },
        last_message_at: last.map(at),
        unread,
    };
    let chats = ChatAnswer::Chats(vec![synced(PEER, true, Some(40)), synced(LID, false, Some(50))]);
    projection.at(at(60), |rows, context| absorb(&ChatOperation::List, &chats, rows, context));
    let shown = [PEER, LID].map(|id| shown(&mut projection, id).map(|chat| (chat.unread, chat.archived)));
    assert_eq!(shown, [Some((true, true)), Some((false, true))]);
}

#[test]
fn a_mute_that_is_over_is_none() {
    let mut projection = Projection::new();
    let mute = |until| ChatChanges { muted_until: Change::To(until), ..ChatChanges::default() };
    assert_eq!(told(&mut projection, PEER, changes(mute(Some(1000))), 1), ["MutedUntil"]);
    let mut muted_at = |seconds| {
        let chat = projection.at(at(seconds), |rows, context| one(&address(PEER), rows, context.at));
        chat.and_then(|chat| chat.muted_until)
    };
    assert_eq!((muted_at(999), muted_at(1000)), (Some(1000), None));
    let end = ChatOperation::Change { chat: address(PEER), changes: mute(None) };
    assert_eq!(refused(&mut projection, end), Some(ErrorCode::NoOp));
    assert!(told(&mut projection, PEER, changes(mute(None)), 1001).is_empty());
    assert_eq!(told(&mut projection, PEER, changes(mute(Some(0))), 1002), ["MutedUntil"]);
}

#[test]
fn a_list_goes_from_the_latest_to_those_in_which_nothing_was_said() {
    let mut projection = Projection::new();
    for (chat, seconds) in [("1@s.example", 10), ("2@s.example", 30), ("3@g.example", 20)] {
        heard(&mut projection, chat, seconds);
    }
    let muted = |until| changes(ChatChanges { muted_until: Change::To(Some(until)), ..ChatChanges::default() });
    told(&mut projection, "4@s.example", muted(0), 1);
    told(&mut projection, "3@g.example", muted(1), 1);
    let mut page = |filter: ChatFilter, sort, after: Option<ChatPlace>, limit| {
        let page = ChatPage { filter, sort, after, limit };
        let kind_of = |id: &Address| Some(if id.domain() == "g.example" { ChatKind::Group } else { ChatKind::Direct });
        projection.at(at(0), |rows, _| page.read(rows, kind_of, Timestamp(10_000)))
    };
    let ids = |chats: &[ListedChat]| chats.iter().map(|listed| listed.chat.id.local().to_owned()).collect::<Vec<_>>();
    let first = page(ChatFilter::default(), ChatSort::LastMessageAt, None, 2);
    assert_eq!(ids(&first), ["2", "3"]);
    let last = &first[1];
    let after = ChatPlace { id: last.chat.id.to_string(), at: last.at };
    assert_eq!(ids(&page(ChatFilter::default(), ChatSort::LastMessageAt, Some(after), 9)), ["1", "4"]);
    assert_eq!(ids(&page(ChatFilter::default(), ChatSort::Id, None, 9)), ["1", "2", "3", "4"]);
    let groups = ChatFilter { kind: Some(ChatKind::Group), ..ChatFilter::default() };
    assert_eq!(ids(&page(groups, ChatSort::Id, None, 9)), ["3"]);
    // A mute that has expired no longer counts.
    let muted = ChatFilter { muted: Some(true), ..ChatFilter::default() };
    assert_eq!(ids(&page(muted, ChatSort::Id, None, 9)), ["4"]);
    let unread = ChatFilter { unread: Some(false), ..ChatFilter::default() };
    assert_eq!(ids(&page(unread, ChatSort::Id, None, 9)), ["4"]);
}
