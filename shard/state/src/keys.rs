//! The keys of a shard's state: a prefix byte that names the table, then the fields that the table is ordered by.

use machine::just_after;
use model::address::Address;
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, MediaId, MessageId, RowId, ShardId};
use model::media::Sha256Hex;
use model::time::{Day, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

const HOUR_MILLIS: i64 = 3_600_000;
const HOURS_OF_DAY: u32 = 24;

model::words! {
    /// Direction of a message.
    #[derive(JsonSchema)]
    Direction {
        Inbound = "inbound",
        Outbound = "outbound",
    }
}

/// The kinds of rows of the projection. A number must never change: it is part of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u8)]
pub enum Kind {
    /// Which areas were fetched completely since the pairing.
    Synced = 1,
    Group = 2,
    Community = 10,
    Newsletter = 11,
    /// The account's state of a chat.
    Chat = 20,
    /// When a chat last received a message.
    LastInbound = 21,
    LastOutbound = 22,
    Contact = 23,
    Blocked = 24,
    Presence = 25,
    /// The contacts whose presence the channel subscribed to.
    Watched = 26,
    Profile = 27,
    Privacy = 28,
    Call = 40,
    Story = 41,
    StoryView = 42,
    BusinessAccount = 43,
    Product = 44,
    Collection = 45,
    Order = 46,
    OrderPlace = 47,
    Label = 48,
    /// A label on a chat or a message.
    LabelAssociation = 49,
    /// The customer's settings of the channel; see `crate::settings`.
    Settings = 60,
}

/// An hour of UTC, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Hour(pub u32);

impl Hour {
    /// The hour that contains a time.
    pub fn of(at: Timestamp) -> Self {
        Self(u32::try_from(at.0.div_euclid(HOUR_MILLIS)).unwrap_or(0))
    }

    pub fn start(self) -> Timestamp {
        Timestamp(i64::from(self.0) * HOUR_MILLIS)
    }

    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The first hour of a day.
    pub fn first_of(day: Day) -> Self {
        Self(day.0.saturating_mul(HOURS_OF_DAY))
    }

    pub fn day(self) -> Day {
        Day(self.0 / HOURS_OF_DAY)
    }
}

const CHANNEL: u8 = b'c';
const AUTH: u8 = b'a';
const MESSAGE: u8 = b'm';
const MESSAGE_STATE: u8 = b'n';
const MESSAGE_ID: u8 = b'i';
const OUTBOX: u8 = b'o';
const LID: u8 = b'l';
const STATUS_CHANGE: u8 = b's';
const EVENT: u8 = b'v';
const DELIVERY: u8 = b'd';
const JOB: u8 = b'q';
const MESSAGE_DELIVERY: u8 = b'w';
const RECEIPT: u8 = b'g';
const RELAY: u8 = b'R';
const GATHERED: u8 = b'G';
const RING: u8 = b'E';
const RING_EXTENT: u8 = b'X';
const TICKET: u8 = b'T';
const MEDIA: u8 = b'M';
const BLOB_REF: u8 = b'B';
const MEDIA_DUE: u8 = b'Y';
const MEDIA_PENDING: u8 = b'P';
const ATTEMPT: u8 = b't';
const BEGUN_ATTEMPT: u8 = b'b';
const CUSTOMER_ENDPOINT: u8 = b'e';
const BULK_OPERATION: u8 = b'z';
const USAGE: u8 = b'u';
const RETRYING: u8 = b'r';
const PROJECTED: u8 = b'p';
const LID_OF: u8 = b'L';
const MEDIA_KEPT: u8 = b'K';
const MEDIA_FILES: u8 = b'F';
const NOTICED: u8 = b'N';

/// A half-open range of keys.
pub type Range = (Vec<u8>, Vec<u8>);

fn key(table: u8, parts: &[&[u8]]) -> Vec<u8> {
    let length = 1 + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut key = Vec::with_capacity(length);
    key.push(table);
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

/// All keys that begin with `prefix`.
fn under(prefix: Vec<u8>) -> Range {
    let mut end = prefix.clone();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            break;
        }
    }
    (prefix, end)
}

/// Times sort as unsigned integers; none is before 1970.
fn time(at: Timestamp) -> [u8; 8] {
    at.0.max(0).to_be_bytes()
}

/// The `N` bytes of a key at an offset.
fn part<const N: usize>(key: &[u8], at: usize) -> Option<[u8; N]> {
    key.get(at..)?.first_chunk().copied()
}

/// The key of a row.
pub type Key = Vec<u8>;

macro_rules! made {
    (Key, $key:expr) => {
        $key
    };
    (Range, $prefix:expr) => {
        under($prefix)
    };
}

/// Declares keys, and ranges of keys with a common prefix, by their table and the fields that order it.
macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident($($given:ident: $type:ty),*) -> $made:ident = $table:ident[$($part:expr),*];)*) => {$(
        $(#[$doc])*
        pub fn $name($($given: $type),*) -> $made {
            made!($made, key($table, &[$($part),*]))
        }
    )*};
}

keys! {
    channel(id: ChannelId) -> Key = CHANNEL[id.as_bytes()];
    channels() -> Range = CHANNEL[];
    auth(channel: ChannelId, name: &str) -> Key = AUTH[channel.as_bytes(), name.as_bytes()];
    auth_of(channel: ChannelId) -> Range = AUTH[channel.as_bytes()];
    /// Messages of a channel sort by the network's time, then by row.
    message(channel: ChannelId, occurred_at: Timestamp, row: RowId) -> Key
        = MESSAGE[channel.as_bytes(), &time(occurred_at), row.as_bytes()];
    /// The status of a message. It is apart from the message, so that a verdict or a receipt writes only a few bytes.
    message_state(channel: ChannelId, row: RowId) -> Key = MESSAGE_STATE[channel.as_bytes(), row.as_bytes()];
    /// All keys of [`namesake`] for an id. Ids may contain the byte that ends one here: compare the ids of the rows.
    namesakes(channel: ChannelId, id: &MessageId) -> Range = MESSAGE_ID[channel.as_bytes(), b"j", id.as_str().as_bytes(), &[0]];
    /// The outbox of a channel, in the order of acceptance.
    outbox(channel: ChannelId, sequence: u64) -> Key = OUTBOX[channel.as_bytes(), &sequence.to_be_bytes()];
    outbox_of(channel: ChannelId) -> Range = OUTBOX[channel.as_bytes()];
    /// The outboxes of all channels.
    outboxes() -> Range = OUTBOX[];
    lid(channel: ChannelId, lid: &str) -> Key = LID[channel.as_bytes(), lid.as_bytes()];
    /// All LIDs of a channel whose phone address is known.
    lids(channel: ChannelId) -> Range = LID[channel.as_bytes()];
    /// The reverse index from a phone number to its LID.
    lid_of(channel: ChannelId, phone: &str) -> Key = LID_OF[channel.as_bytes(), phone.as_bytes()];
    /// The status changes of a channel, by time and then by version.
    status_change(channel: ChannelId, at: Timestamp, version: u64) -> Key
        = STATUS_CHANGE[channel.as_bytes(), &time(at), &version.to_be_bytes()];
    event(id: &str) -> Key = EVENT[id.as_bytes()];
    /// Deliveries of an endpoint, in the order of creation: their ids begin with the time. So listing them needs no
    /// index, and a send writes none.
    delivery(endpoint: EndpointId, id: DeliveryId) -> Key = DELIVERY[endpoint.as_bytes(), id.as_bytes()];
    /// The attempts of a delivery, in their order.
    attempt(endpoint: EndpointId, delivery: DeliveryId, number: u32) -> Key
        = ATTEMPT[endpoint.as_bytes(), delivery.as_bytes(), &number.to_be_bytes()];
    attempts_of(endpoint: EndpointId, delivery: DeliveryId) -> Range = ATTEMPT[endpoint.as_bytes(), delivery.as_bytes()];
    /// An attempt that takes so long that its beginning was recorded.
    begun_attempt(endpoint: EndpointId, delivery: DeliveryId) -> Key = BEGUN_ATTEMPT[endpoint.as_bytes(), delivery.as_bytes()];
    begun_attempts() -> Range = BEGUN_ATTEMPT[];
    /// The endpoints for which a customer has had deliveries in this shard, including deleted ones.
    customer_endpoint(customer: CustomerId, endpoint: EndpointId) -> Key
        = CUSTOMER_ENDPOINT[customer.as_bytes(), endpoint.as_bytes()];
    endpoints_of(customer: CustomerId) -> Range = CUSTOMER_ENDPOINT[customer.as_bytes()];
    /// The endpoints of all customers for which this shard has had deliveries.
    customer_endpoints() -> Range = CUSTOMER_ENDPOINT[];
    /// A bulk operation on deliveries, done in steps.
    bulk_operation(id: Uuid) -> Key = BULK_OPERATION[id.as_bytes()];
    bulk_operations() -> Range = BULK_OPERATION[];
    /// A delivery that is due, for each endpoint in the order of due times.
    job(endpoint: EndpointId, due: Timestamp, delivery: DeliveryId) -> Key
        = JOB[endpoint.as_bytes(), &time(due), delivery.as_bytes()];
    jobs() -> Range = JOB[];
    jobs_of(endpoint: EndpointId) -> Range = JOB[endpoint.as_bytes()];
    /// Links a stored message to the deliveries that carried it. The value is the delivery's endpoint.
    message_delivery(channel: ChannelId, row: RowId, delivery: DeliveryId) -> Key
        = MESSAGE_DELIVERY[channel.as_bytes(), row.as_bytes(), delivery.as_bytes()];
    message_deliveries(channel: ChannelId, row: RowId) -> Range = MESSAGE_DELIVERY[channel.as_bytes(), row.as_bytes()];
    /// A group member's receipt for a message that was sent to the group.
    receipt(channel: ChannelId, row: RowId, member: &Address) -> Key
        = RECEIPT[channel.as_bytes(), row.as_bytes(), member.as_str().as_bytes()];
    receipts_of(channel: ChannelId, row: RowId) -> Range = RECEIPT[channel.as_bytes(), row.as_bytes()];
    /// Media of a channel, by id and so by time of creation.
    media(channel: ChannelId, id: MediaId) -> Key = MEDIA[channel.as_bytes(), id.as_bytes()];
    /// Media that refers to bytes by their hash: the bytes are kept while there is any reference.
    blob_ref(sha256: &Sha256Hex, channel: ChannelId, id: MediaId) -> Key
        = BLOB_REF[sha256.0.as_bytes(), channel.as_bytes(), id.as_bytes()];
    /// All references to the same bytes.
    blob_refs_to(sha256: &Sha256Hex) -> Range = BLOB_REF[sha256.0.as_bytes()];
    /// Media whose bytes have not arrived yet.
    media_pending(channel: ChannelId, id: MediaId) -> Key = MEDIA_PENDING[channel.as_bytes(), id.as_bytes()];
    media_pending_of(channel: ChannelId) -> Range = MEDIA_PENDING[channel.as_bytes()];
    /// When media is due: its bytes, or its row, have to be deleted.
    media_due(at: Timestamp, channel: ChannelId, id: MediaId) -> Key = MEDIA_DUE[&time(at), channel.as_bytes(), id.as_bytes()];
    /// The latest notices of a channel that made events.
    noticed(channel: ChannelId) -> Key = NOTICED[channel.as_bytes()];
    /// A row of a channel's projection, by kind and id.
    projected(channel: ChannelId, kind: Kind, id: &str) -> Key = PROJECTED[channel.as_bytes(), &[kind as u8], id.as_bytes()];
    /// An event that waits for its customer's coordinator, in the order of the log.
    relay(home: ShardId, place: u64) -> Key = RELAY[&home.to_be_bytes(), &place.to_be_bytes()];
    /// The position up to which a coordinator has fetched the relay of a shard.
    gathered(source: ShardId) -> Key = GATHERED[&source.to_be_bytes()];
    /// An event in the ring of its customer, by number.
    ring(customer: CustomerId, number: u64) -> Key = RING[customer.as_bytes(), &number.to_be_bytes()];
    ring_extent(customer: CustomerId) -> Key = RING_EXTENT[customer.as_bytes()];
    /// The rings of all customers whose coordinator is in this shard.
    ring_extents() -> Range = RING_EXTENT[];
    /// A ticket for one stream, by its digest.
    ticket(customer: CustomerId, digest: &[u8]) -> Key = TICKET[customer.as_bytes(), digest];
    tickets_of(customer: CustomerId) -> Range = TICKET[customer.as_bytes()];
    /// The number of bytes of a customer's stored media.
    media_kept(customer: CustomerId) -> Key = MEDIA_KEPT[customer.as_bytes()];
    /// The number of files of a customer's stored media.
    media_files(customer: CustomerId) -> Key = MEDIA_FILES[customer.as_bytes()];
    /// A customer's usage of a channel in an hour. The time precedes the channel, so that a query reads one range.
    usage(customer: CustomerId, hour: Hour, channel: ChannelId) -> Key
        = USAGE[customer.as_bytes(), &hour.0.to_be_bytes(), channel.as_bytes()];
    /// The hours of all customers.
    usages() -> Range = USAGE[];
    /// All hours of a customer.
    usages_of(customer: CustomerId) -> Range = USAGE[customer.as_bytes()];
    /// The number of a channel's deliveries that wait for another attempt; there is no row for zero.
    retrying(customer: CustomerId, channel: ChannelId) -> Key = RETRYING[customer.as_bytes(), channel.as_bytes()];
    retrying_of(customer: CustomerId) -> Range = RETRYING[customer.as_bytes()];
}

/// The [`auth`] keys whose names begin with `prefix`, after the name `after`.
pub fn auth_under(channel: ChannelId, prefix: &str, after: Option<&str>) -> Range {
    let (first, end) = under(auth(channel, prefix));
    let behind = after.map(|after| just_after(&auth(channel, after)));
    (behind.filter(|behind| *behind > first).unwrap_or(first), end)
}

/// The name in an [`auth`] key.
pub fn name_of_auth(key: &[u8]) -> Option<String> {
    let name = key.get(1 + size_of::<ChannelId>()..)?;
    std::str::from_utf8(name).ok().map(str::to_owned)
}

/// The time and row at the end of a message's key.
pub fn place_of_message(key: &[u8]) -> Option<(Timestamp, RowId)> {
    let (rest, row) = key.split_last_chunk::<16>()?;
    let at = i64::from_be_bytes(*rest.last_chunk()?);
    Some((Timestamp(at), RowId::from_bytes(*row)))
}

/// The messages of a channel in `[since, until)`.
pub fn messages(channel: ChannelId, since: Option<Timestamp>, until: Option<Timestamp>) -> Range {
    let (first, end) = under(key(MESSAGE, &[channel.as_bytes()]));
    let bound = |at: Timestamp| key(MESSAGE, &[channel.as_bytes(), &time(at)]);
    (since.map_or(first, bound), until.map_or(end, bound))
}

/// The key of the pointer to a message, by the network's id. An id may exist in both directions, when two channels of
/// the gateway write to each other.
pub fn message_id(channel: ChannelId, direction: Direction, id: &MessageId) -> Vec<u8> {
    let side = match direction {
        Direction::Inbound => b"i",
        Direction::Outbound => b"o",
    };
    key(MESSAGE_ID, &[channel.as_bytes(), side, id.as_str().as_bytes()])
}

/// The key of the pointer to an inbound message whose id another message had before: by author, and by chat unless that
/// follows from the author.
pub fn namesake(channel: ChannelId, id: &MessageId, chat: Option<&Address>, author: &Address) -> Vec<u8> {
    let mut namesake = namesakes(channel, id).0;
    namesake.extend_from_slice(chat.map_or("", Address::as_str).as_bytes());
    namesake.push(0);
    namesake.extend_from_slice(author.as_str().as_bytes());
    namesake
}

/// All keys of [`namesake`] for an id in a chat that does not follow from the author.
pub fn namesakes_in(channel: ChannelId, id: &MessageId, chat: &Address) -> Range {
    let mut prefix = namesakes(channel, id).0;
    prefix.extend_from_slice(chat.as_str().as_bytes());
    prefix.push(0);
    under(prefix)
}

/// The channel and the position in an [`outbox`] key.
pub fn parse_outbox(key: &[u8]) -> Option<(ChannelId, u64)> {
    Some((ChannelId::from_bytes(part(key, 1)?), u64::from_be_bytes(part(key, 17)?)))
}

/// The local part of the LID in a [`lid`] key.
pub fn lid_at_end(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(17..)?).ok()
}

pub fn status_changes(channel: ChannelId, before: Option<(Timestamp, u64)>) -> Range {
    let (first, end) = under(key(STATUS_CHANGE, &[channel.as_bytes()]));
    (first, before.map_or(end, |(at, version)| status_change(channel, at, version)))
}

/// The time and the version in the key of a status change.
pub fn place_of_change(key: &[u8]) -> Option<(Timestamp, u64)> {
    let (rest, version) = key.split_last_chunk::<8>()?;
    Some((Timestamp(i64::from_be_bytes(*rest.last_chunk()?)), u64::from_be_bytes(*version)))
}

/// The version in the key of a status change.
pub fn version_of_change(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |version| u64::from_be_bytes(*version))
}

/// The deliveries of an endpoint that were created in `[since, until)`.
pub fn deliveries_of(endpoint: EndpointId, since: Option<Timestamp>, until: Option<Timestamp>) -> Range {
    let (first, end) = under(key(DELIVERY, &[endpoint.as_bytes()]));
    let bound = |at: Timestamp| key(DELIVERY, &[endpoint.as_bytes(), DeliveryId::first_at(at).as_bytes()]);
    (since.map_or(first, bound), until.map_or(end, bound))
}

/// The endpoint and the delivery in a [`begun_attempt`] key.
pub fn parse_begun_attempt(key: &[u8]) -> Option<(EndpointId, DeliveryId)> {
    Some((EndpointId::from_bytes(part(key, 1)?), DeliveryId::from_bytes(part(key, 17)?)))
}

/// The customer and the endpoint in a [`customer_endpoint`] key.
pub fn parse_customer_endpoint(key: &[u8]) -> Option<(CustomerId, EndpointId)> {
    Some((CustomerId::from_bytes(part(key, 1)?), endpoint_at_end(key)?))
}

/// The delivery at the end of a key.
pub fn delivery_at_end(key: &[u8]) -> Option<DeliveryId> {
    key.last_chunk().map(|bytes| DeliveryId::from_bytes(*bytes))
}

/// The endpoint at the end of a key.
pub fn endpoint_at_end(key: &[u8]) -> Option<EndpointId> {
    key.last_chunk().map(|bytes| EndpointId::from_bytes(*bytes))
}

/// The value of a job whose delivery is attempted when it is due.
pub const JOB_DUE: &[u8] = b"";

/// The value of a job whose delivery waits for its endpoint to be enabled; its time is when the wait ends.
pub const JOB_PAUSED: &[u8] = b"p";

/// The endpoint, the due time and the delivery in a [`job`] key.
pub fn parse_job(key: &[u8]) -> Option<(EndpointId, Timestamp, DeliveryId)> {
    let due = Timestamp(i64::from_be_bytes(part(key, 17)?));
    Some((EndpointId::from_bytes(part(key, 1)?), due, DeliveryId::from_bytes(part(key, 25)?)))
}

/// The media of a channel that is older than `before`.
pub fn media_of(channel: ChannelId, before: Option<MediaId>) -> Range {
    let (first, end) = under(key(MEDIA, &[channel.as_bytes()]));
    (first, before.map_or(end, |id| media(channel, id)))
}

/// Whether a key is one of [`media`].
pub fn is_media(key: &[u8]) -> bool {
    key.first() == Some(&MEDIA)
}

/// Whether a key is one of [`channel`].
pub fn is_channel(key: &[u8]) -> bool {
    key.first() == Some(&CHANNEL)
}

/// The references to bytes with a higher hash than the given one; all references without one.
pub fn blob_refs_after(sha256: Option<&Sha256Hex>) -> Range {
    let (first, end) = under(vec![BLOB_REF]);
    (sha256.map_or(first, |sha256| blob_refs_to(sha256).1), end)
}

/// The hash, the channel and the media id in a [`blob_ref`] key.
pub fn parse_blob_ref(key: &[u8]) -> Option<(Sha256Hex, ChannelId, MediaId)> {
    let hash = std::str::from_utf8(key.get(1..65)?).ok()?;
    Some((Sha256Hex(hash.to_owned()), ChannelId::from_bytes(part(key, 65)?), MediaId::from_bytes(part(key, 81)?)))
}

/// The id in a [`media_pending`] key.
pub fn parse_media_pending(key: &[u8]) -> Option<MediaId> {
    Some(MediaId::from_bytes(part(key, 17)?))
}

/// The media that is due before a time.
pub fn media_due_before(at: Timestamp) -> Range {
    (vec![MEDIA_DUE], key(MEDIA_DUE, &[&time(at)]))
}

/// The due time, the channel and the media id in a [`media_due`] key.
pub fn parse_media_due(key: &[u8]) -> Option<(Timestamp, ChannelId, MediaId)> {
    let at = Timestamp(i64::from_be_bytes(part(key, 1)?));
    Some((at, ChannelId::from_bytes(part(key, 9)?), MediaId::from_bytes(part(key, 25)?)))
}

/// All rows that are deleted with a channel: everything except its deliveries and their events.
pub fn everything_of(channel: ChannelId) -> [Range; 12] {
    [
        AUTH,
        MESSAGE,
        MESSAGE_STATE,
        MESSAGE_ID,
        OUTBOX,
        LID,
        LID_OF,
        STATUS_CHANGE,
        MESSAGE_DELIVERY,
        RECEIPT,
        PROJECTED,
        NOTICED,
    ]
    .map(|table| under(key(table, &[channel.as_bytes()])))
}

/// The messages of a channel, with all rows of each.
pub fn messages_with_all(channel: ChannelId) -> [Range; 5] {
    [MESSAGE, MESSAGE_STATE, MESSAGE_ID, MESSAGE_DELIVERY, RECEIPT]
        .map(|table| under(key(table, &[channel.as_bytes()])))
}

/// The deliveries of an endpoint, with their attempts.
pub fn deliveries_with_attempts(endpoint: EndpointId) -> [Range; 2] {
    [DELIVERY, ATTEMPT].map(|table| under(key(table, &[endpoint.as_bytes()])))
}

/// The id in a [`projected`] key.
pub fn id_of_projected(key: &[u8]) -> Option<&str> {
    std::str::from_utf8(key.get(2 + size_of::<ChannelId>()..)?).ok()
}

/// The rows of a kind whose ids begin with `prefix`, after an id.
pub fn projected_under(channel: ChannelId, kind: Kind, prefix: &str, after: Option<&str>) -> Range {
    let (first, end) = under(projected(channel, kind, prefix));
    (after.map_or(first, |id| just_after(&projected(channel, kind, id))), end)
}

/// The rows of a kind after an id; all rows without one.
pub fn projected_after(channel: ChannelId, kind: Kind, after: Option<&str>) -> Range {
    projected_under(channel, kind, "", after)
}

/// The events that a coordinator has not fetched yet.
pub fn relays_after(home: ShardId, after: u64) -> Range {
    (relay(home, after.saturating_add(1)), under(key(RELAY, &[&home.to_be_bytes()])).1)
}

/// The log position in a [`relay`] key.
pub fn place_of_relay(key: &[u8]) -> Option<u64> {
    key.last_chunk().map(|place| u64::from_be_bytes(*place))
}

/// The number in a [`ring`] key.
pub fn number_in_ring(key: &[u8]) -> u64 {
    key.last_chunk().map_or(0, |number| u64::from_be_bytes(*number))
}

/// The customer in a [`ring_extent`] key.
pub fn customer_of_ring(key: &[u8]) -> Option<CustomerId> {
    Some(CustomerId::from_bytes(part(key, 1)?))
}

/// The digest in a [`ticket`] key.
pub fn digest_of_ticket(key: &[u8]) -> Option<&[u8]> {
    key.get(17..)
}

/// A customer's hours in `[from, to)`.
pub fn usage_of(customer: CustomerId, from: Hour, to: Hour) -> Range {
    let bound = |hour: Hour| key(USAGE, &[customer.as_bytes(), &hour.0.to_be_bytes()]);
    (bound(from), bound(to))
}

/// The customer, the hour and the channel in a [`usage`] key.
pub fn parse_usage(key: &[u8]) -> Option<(CustomerId, Hour, ChannelId)> {
    let hour = Hour(u32::from_be_bytes(part(key, 17)?));
    Some((CustomerId::from_bytes(part(key, 1)?), hour, ChannelId::from_bytes(part(key, 21)?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_job_reads_back_what_was_written() {
        let (endpoint, delivery) = (EndpointId::random(), DeliveryId::random());
        let due = Timestamp(1_767_225_600_118);
        assert_eq!(parse_job(&job(endpoint, due, delivery)), Some((endpoint, due, delivery)));
        assert_eq!(parse_job(b"q"), None);
    }

    #[test]
    fn media_keys_read_back_what_was_written() {
        let (channel, id, at) = (ChannelId::random(), MediaId::new(), Timestamp(1_767_225_600_118));
        assert_eq!(parse_media_due(&media_due(at, channel, id)), Some((at, channel, id)));
        let hash = Sha256Hex("ab".repeat(32));
        let reference = blob_ref(&hash, channel, id);
        assert_eq!(parse_blob_ref(&reference), Some((hash.clone(), channel, id)));
        let (from, to) = blob_refs_to(&hash);
        assert!(from <= reference && reference < to && to == blob_refs_after(Some(&hash)).0);
    }

    #[test]
    fn a_place_in_an_outbox_reads_back_what_was_written() {
        let channel = ChannelId::random();
        let place = outbox(channel, 7 << 16);
        assert_eq!(parse_outbox(&place), Some((channel, 7 << 16)));
        let ((from, to), (first, end)) = (outbox_of(channel), outboxes());
        assert!(first <= from && from <= place && place < to && to <= end);
    }

    #[test]
    fn an_hour_of_use_reads_back_what_was_written() {
        let (customer, hour, channel) = (CustomerId::random(), Hour(490_908), ChannelId::random());
        let row = usage(customer, hour, channel);
        assert_eq!(parse_usage(&row), Some((customer, hour, channel)));
        let (from, to) = usage_of(customer, hour, hour.next());
        assert!(from <= row && row < to);
        assert!(usages_of(customer).0 <= from && to < usages_of(customer).1);
    }

    proptest! {
        #[test]
        fn messages_sort_by_time_within_their_channel(a in 0..i64::MAX, b in 0..i64::MAX) {
            let (channel, row) = (ChannelId::random(), RowId::random());
            let keys = [message(channel, Timestamp(a), row), message(channel, Timestamp(b), row)];
            prop_assert_eq!(a.cmp(&b), keys[0].cmp(&keys[1]));
            let (from, to) = messages(channel, None, None);
            prop_assert!(from <= keys[0] && keys[0] < to);
        }
    }
}
