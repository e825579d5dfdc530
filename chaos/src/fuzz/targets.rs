//! The targets, one function each. Besides the absence of panics, each checks what must hold of any parsed input.

use std::str::from_utf8;

use model::address::{Address, Suffixes};
use model::event::EventId;
use model::field::Body;
use model::format::Format;
use model::id::{ChannelId, CustomerId, MediaId, RowId};
use model::msgpack;
use model::page::{Cursor, LONGEST_CURSOR, ListId};
use model::send::SendRequest;
use model::target::{LONGEST_URL, TargetHost, TargetPolicy, judge_ip, judge_url};
use model::time::Timestamp;
use raft::directory::command::{Command as DirectoryCommand, Proposal};
use raft::directory::state::DirectoryState;
use raft::machine::{Machine, MemoryState, Position};
use serde::{Deserialize, Serialize};
use shard::command::{Batch, Command, NewMessage};
use shard::machine::ShardMachine;
use shard::media::token::TokenKeys;
use uuid::Uuid;

use super::{Target, rows};

/// A moment within the lifetime of the example tokens.
pub(super) const NOW: Timestamp = Timestamp(1_767_225_600_000);

pub const TARGETS: &[Target] = &[
    Target { name: "peer_frames", run: raft::fuzz::peer_frames, examples: raft::fuzz::peer_frame_examples },
    Target { name: "peer_hello", run: raft::fuzz::hello, examples: raft::fuzz::hello_examples },
    Target { name: "log_entries", run: log_entry, examples: log_entry_examples },
    Target { name: "state_rows", run: rows::shard, examples: rows::shard_examples },
    Target { name: "directory_rows", run: rows::directory, examples: rows::directory_examples },
    Target { name: "simulator_frames", run: network::fuzz::frames, examples: network::fuzz::examples },
    Target { name: "addresses", run: address, examples: Vec::new },
    Target { name: "send_bodies", run: send_body, examples: Vec::new },
    Target { name: "media_tokens", run: media_token, examples: media_token_examples },
    Target { name: "cursors", run: cursor, examples: cursor_examples },
    Target { name: "webhook_urls", run: webhook_url, examples: Vec::new },
    Target { name: "last_event_id", run: last_event_id, examples: last_event_id_examples },
    Target { name: "configuration", run: gateway::fuzz::configuration, examples: gateway::fuzz::examples },
];

/// An entry of any group's log; a command in it is applied by both state machines.
fn log_entry(bytes: &[u8]) {
    let Some(command) = raft::fuzz::log_entry(bytes) else { return };
    let at = Position { term: 3, index: 2 };
    let _ = ShardMachine.apply(at, &command, &mut MemoryState::new());
    if let Ok(proposal) = Proposal::read(&command) {
        let mut store = MemoryState::new();
        let _ = DirectoryState::load(&store).apply(proposal, &mut store);
    }
}

fn log_entry_examples() -> Vec<Vec<u8>> {
    let (row, customer) = (rows::message(), CustomerId::from_bytes([2; 16]));
    let channel = row.channel;
    let commands = vec![
        Command::Send { message: NewMessage::of(&row), projected: Vec::new() },
        Command::Sent { customer, channel, message: row.message_id, at: NOW, heard_at: NOW },
        Command::Auth { channel, customer, writes: Vec::new() },
        Command::DeleteChannel { channel, customer },
        Command::DropRing { customer },
    ];
    let batch = Batch { version: Format::LATEST, epoch: 3, node: 1, commands };
    let command = DirectoryCommand::ShardFormed(4);
    let proposal = Proposal { id: Uuid::from_u128(5), ..Proposal::new(command, NOW, Vec::new()) };
    let written = [msgpack::to_vec_named(&batch), msgpack::to_vec_named(&proposal)];
    raft::fuzz::log_entry_examples(&written.map(|bytes| bytes.expect("plain fields are always written")))
}

/// An address in any of its forms.
fn address(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let suffixes = Suffixes::simulated();
    for read in [Address::parse(text), Address::parse_or_digits(text, &suffixes)].into_iter().flatten() {
        assert_eq!(Address::parse(read.as_str()).as_ref(), Ok(&read), "an address reads as it is written");
        assert!(read.as_str().contains(read.local()) && read.as_str().contains(read.domain()));
        let _ = (read.kind(&suffixes), read.check_recipient(&suffixes));
    }
}

/// The body of a send.
fn send_body(bytes: &[u8]) {
    let Ok(body) = Body::parse(bytes) else { return };
    let _ = SendRequest::parse(&body, &Suffixes::simulated());
}

fn token_keys() -> TokenKeys {
    TokenKeys::new(vec![7; 32])
}

/// A media link. Only signed tokens are accepted.
fn media_token(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    if let Ok(token) = token_keys().verify(text, NOW) {
        let signed = token_keys().sign(token.media, token.customer, token.channel, NOW, token.expires_at());
        assert_eq!(text, signed, "a token that nobody signed is let in");
    }
}

fn media_token_examples() -> Vec<Vec<u8>> {
    let ids = (MediaId::from_bytes([1; 16]), CustomerId::from_bytes([2; 16]), ChannelId::from_bytes([3; 16]));
    let until = |milliseconds| Timestamp(NOW.0 + milliseconds);
    let times = [until(3_600_000), until(-1000)];
    times.map(|until| token_keys().sign(ids.0, ids.1, ids.2, NOW, until).into_bytes()).to_vec()
}

/// Declares cursors. The API's own are private; these have the same fields.
macro_rules! cursors {
    ($($(#[$doc:meta])* $name:ident $kind:literal { $($field:ident: $type:ty),* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct $name {
            $($field: $type,)*
        }

        impl Cursor for $name {
            const KIND: &'static str = $kind;
        }
    )*};
}

cursors! {
    /// The most common form: channels, keys, customers, the audit log.
    Place "fuzz.1" { created_at: Timestamp, id: Uuid }
    /// Media, deliveries, tickets: their ids sort by time.
    Newest "fuzz-newest.1" { before: MediaId }
    /// Contacts and rows of the projection.
    Named "fuzz-named.1" { id: String }
    /// Chats, some of which have no time.
    Chat "fuzz-chats.1" { id: String, at: Option<Timestamp> }
    /// Messages.
    Message "fuzz-messages.1" { at: i64, row: RowId }
    /// Changes of a channel's status.
    Change "fuzz-changes.1" { before: Timestamp, version: u64 }
}

/// The most by which a cursor may grow when it is encoded by this release: names of fields, full timestamps.
const GROWTH: usize = 64;

fn list() -> ListId {
    ListId::of(&[&[1; 16]])
}

/// A cursor that a caller returns.
fn cursor(bytes: &[u8]) {
    fn read<C: Cursor + PartialEq + std::fmt::Debug>(text: &str) -> usize {
        let Ok(place) = C::decode(text, list()) else { return 0 };
        assert!(C::decode(text, ListId::only()).is_err(), "a cursor of another list is let in");
        if text.len() + GROWTH <= LONGEST_CURSOR {
            assert_eq!(C::decode(&place.encode(list()), list()), Ok(place));
        }
        1
    }
    let Ok(text) = from_utf8(bytes) else { return };
    let kinds = read::<Place>(text)
        + read::<Newest>(text)
        + read::<Named>(text)
        + read::<Chat>(text)
        + read::<Message>(text)
        + read::<Change>(text);
    assert!(kinds <= 1, "one cursor is let in by lists of {kinds} kinds");
}

fn cursor_examples() -> Vec<Vec<u8>> {
    let place = Place { created_at: NOW, id: Uuid::from_u128(9) };
    let texts = [
        place.encode(list()),
        place.encode(ListId::only()),
        Newest { before: MediaId::from_bytes([1; 16]) }.encode(list()),
        Named { id: "15551234567@s.example".to_owned() }.encode(list()),
        Chat { id: "15551234567@s.example".to_owned(), at: None }.encode(list()),
        Chat { id: "15551234567@s.example".to_owned(), at: Some(NOW) }.encode(list()),
        Message { at: NOW.0, row: RowId::from_bytes([4; 16]) }.encode(list()),
        Change { before: NOW, version: 7 }.encode(list()),
    ];
    texts.map(String::into_bytes).to_vec()
}

/// The URL of a webhook receiver, as any customer may set it: nothing within the operator's network is accepted.
fn webhook_url(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    let strict = TargetPolicy::strict();
    let Ok(target) = judge_url(text, &strict) else { return };
    assert_eq!(target.url.scheme(), "https");
    match (&target.host, target.url.host()) {
        (TargetHost::Address(ip), Some(host)) => {
            assert_eq!(judge_ip(*ip, &strict), Ok(()));
            assert!(!matches!(host, url::Host::Domain(_)), "an address is judged and a name is called");
        }
        (TargetHost::Name(name), Some(url::Host::Domain(called))) => {
            assert_eq!(name, called, "one name is judged and another one called");
            assert!(name.parse::<std::net::IpAddr>().is_err() && called != "localhost");
        }
        (host, called) => panic!("{host:?} is judged and {called:?} called"),
    }
    // The URL is stored as parsed, and checked again at each attempt. It may have grown by percent-encoding.
    if target.url.as_str().len() <= LONGEST_URL {
        let again = judge_url(target.url.as_str(), &strict);
        assert_eq!(again.map(|again| again.host), Ok(target.host));
    }
}

/// The event after which a stream resumes.
fn last_event_id(bytes: &[u8]) {
    let Ok(text) = from_utf8(bytes) else { return };
    if let Some(id) = EventId::parse(text) {
        assert_eq!(id.as_str(), text, "ids are compared as texts");
    }
}

fn last_event_id_examples() -> Vec<Vec<u8>> {
    vec![EventId::mint(NOW, [5; 10]).as_str().as_bytes().to_vec()]
}
