//! Reading the projection for the API: one row, or a page of a kind, from the owner's replica.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use model::address::{Address, AddressKind, Suffixes};
use model::blacklist::Blocked;
use model::business::{Order, Product};
use model::chat::ChatKind;
use model::contact::KnownLidPair;
use model::error::CallError;
use model::id::{ChannelId, CustomerId};
use model::page::LARGEST_PAGE;
use model::time::Timestamp;
use raft::machine::{View, scan_all};
use serde::Serialize;

use super::Owner;
use crate::call::OwnerResponse;
use crate::call::read::{Filter, MOST_PAIRS, Read};
use crate::history;
use crate::keys;
use crate::projection::chats;
use crate::projection::contacts::{self, ContactFilter, ContactRow};
use crate::projection::{Entity, Projected, Rows, labels, presences};
use crate::records::{LidRow, decode, encode};

/// Rows that one page examines before it returns what it has, and where it stopped.
const ROWS_LOOKED_AT: usize = 20_000;

/// Rows that are read from disk at a time.
const CHUNK: usize = 64;

/// Page limit in bytes for releases that take a short page for the last one: a list that ends early is better than an
/// answer that no connection can carry.
const LARGEST_UNKNOWING: usize = 24 * 1024 * 1024;

impl Filter {
    fn passes(&self, row: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::InCollection { collection } => decode::<Product>(row).collection_ids.contains(collection),
            Self::Orders { since, until, statuses } => {
                let order: Order = decode(row);
                let placed = Timestamp::from_unix_seconds(order.placed_at);
                since.is_none_or(|since| placed >= since)
                    && until.is_none_or(|until| placed < until)
                    && (statuses.is_empty() || statuses.contains(&order.status))
            }
        }
    }
}

impl Owner {
    /// Reads rows of a channel's projection.
    pub(crate) async fn read(
        self: &Arc<Self>,
        customer: CustomerId,
        channel: ChannelId,
        read: Read,
        deadline: Instant,
    ) -> Result<OwnerResponse, CallError> {
        if let Read::Row { kind, id } = &read {
            let row = self.reader.get(&keys::projected(channel, *kind, id));
            return Ok(OwnerResponse::Row(row.map(Bytes::from)));
        }
        let (reader, suffixes) = (self.reader.clone(), self.node.suffixes.clone());
        // A page may read many rows from disk; the calls of others must not wait for it.
        let done = self.node.reads.read(Some(customer), deadline, move |patience| {
            Reading { view: patience.over(reader), suffixes, channel }.done(read)
        });
        done.await
    }
}

fn largest(in_bytes: bool) -> usize {
    if in_bytes { LARGEST_PAGE } else { LARGEST_UNKNOWING }
}

fn row(found: Option<impl Serialize>) -> OwnerResponse {
    OwnerResponse::Row(found.map(|found| Bytes::from(encode(&found))))
}

fn encoded(found: &[impl Serialize]) -> Vec<Bytes> {
    found.iter().map(|found| Bytes::from(encode(found))).collect()
}

/// One channel's rows, which are read off the request threads.
struct Reading<V> {
    view: V,
    suffixes: Suffixes,
    channel: ChannelId,
}

impl<V: View> Reading<V> {
    fn done(&self, read: Read) -> OwnerResponse {
        let mut turn = Projected::default();
        let rows = Rows::new(&self.view, self.channel, &mut turn);
        match read {
            Read::Row { kind, id } => {
                OwnerResponse::Row(self.view.get(&keys::projected(self.channel, kind, &id)).map(Bytes::from))
            }
            Read::Page { kind, filter, prefix, after, limit, in_bytes, marked } => {
                let range = keys::projected_under(self.channel, kind, &prefix, after.as_deref());
                let (rows, stopped_at) = self.page(range, &filter, limit, largest(in_bytes));
                if marked { OwnerResponse::Page { rows, stopped_at } } else { OwnerResponse::Rows(rows) }
            }
            Read::Chat(id) => row(chats::one(&self.best(&id), &rows, Timestamp::now())),
            Read::Chats(page) => {
                OwnerResponse::Rows(encoded(&page.read(&rows, |id| self.kind_of(id), Timestamp::now())))
            }
            Read::Contact(id) => row(rows.get::<ContactRow>(self.best(&id).as_str())),
            Read::Contacts { filter, after, limit, in_bytes } => {
                self.contacts(&filter, after.as_deref(), limit, largest(in_bytes))
            }
            Read::CommonGroups(contact) => {
                let best = |address: &Address| self.best(address);
                OwnerResponse::Rows(encoded(&contacts::common_groups(&best(&contact), &rows, best)))
            }
            Read::Blocked => OwnerResponse::Rows(encoded(&rows.all::<Blocked>())),
            Read::Presence(id) => row(presences::now(&self.best(&id), &rows, Timestamp::now())),
            Read::Lids { lid, phone, after } => {
                let mut pairs = self.lids(lid.as_ref(), phone.as_ref());
                let count = pairs.len();
                pairs.retain(|pair| after.as_deref().is_none_or(|after| pair.lid.local() > after));
                pairs.truncate(MOST_PAIRS + 1);
                OwnerResponse::Counted { rows: encoded(&pairs), count }
            }
            Read::Labels { of } => {
                let of = of.map(|chat| self.best(&chat));
                OwnerResponse::Rows(encoded(&labels::shown(of.as_ref(), &rows)))
            }
        }
    }

    /// Ends with the row that fills the page, or after too many rows; then it returns the id of the last one examined.
    fn page(
        &self,
        range: keys::Range,
        filter: &Filter,
        limit: usize,
        most_bytes: usize,
    ) -> (Vec<Bytes>, Option<String>) {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut upto = Vec::new();
        for (looked_at, (key, row)) in scan_all(&self.view, range, CHUNK).enumerate() {
            if looked_at == ROWS_LOOKED_AT {
                return (found, keys::id_of_projected(&upto).map(str::to_owned));
            }
            upto = key;
            if filter.passes(&row) {
                bytes += row.len();
                found.push(Bytes::from(row));
            }
            if found.len() >= limit || bytes >= most_bytes {
                break;
            }
        }
        (found, None)
    }

    /// Counts all contacts that pass the filter and keeps a page of them in memory, however large the address book is.
    /// The page includes the row that fills it, so that the caller, who counts bytes, knows that there may be more.
    fn contacts(&self, filter: &ContactFilter, after: Option<&str>, limit: usize, most_bytes: usize) -> OwnerResponse {
        let (mut found, mut bytes, mut count) = (Vec::new(), 0, 0);
        for (_, row) in scan_all(&self.view, keys::projected_after(self.channel, ContactRow::KIND, None), CHUNK) {
            let contact = decode::<ContactRow>(&row).contact;
            if !filter.passes(&contact) {
                continue;
            }
            count += 1;
            let is_behind = after.is_none_or(|after| contact.id.as_str() > after);
            if is_behind && found.len() < limit && bytes < most_bytes {
                bytes += row.len();
                found.push(Bytes::from(row));
            }
        }
        OwnerResponse::Counted { rows: found, count }
    }

    fn lid(&self, lid: &Address) -> Option<KnownLidPair> {
        let row: LidRow = decode(&self.view.get(&keys::lid(self.channel, lid.local()))?);
        Some(KnownLidPair { lid: lid.clone(), phone_jid: row.phone, first_seen_at: row.first_seen_at })
    }

    /// The requested pairs. A LID selects at most one, and so does a phone address.
    fn lids(&self, lid: Option<&Address>, phone: Option<&Address>) -> Vec<KnownLidPair> {
        let named = match (lid, phone) {
            (None, None) => {
                let rows = self.view.scan_range(keys::lids(self.channel), usize::MAX);
                let lids = rows.iter().filter_map(|(key, _)| keys::lid_at_end(key).map(Address::lid));
                return lids.filter_map(|lid| self.lid(&lid)).collect();
            }
            (Some(lid), _) => Some(lid.clone()),
            (None, Some(phone)) => self.view.get(&keys::lid_of(self.channel, phone.local())).map(|lid| decode(&lid)),
        };
        let pair = named.and_then(|lid| self.lid(&lid));
        pair.filter(|pair| phone.is_none_or(|phone| pair.phone_jid == *phone)).into_iter().collect()
    }

    /// The phone address of a LID, if it is known; any other address unchanged.
    fn best(&self, address: &Address) -> Address {
        history::best(&self.view, self.channel, address).into_owned()
    }

    fn kind_of(&self, chat: &Address) -> Option<ChatKind> {
        match chat.kind(&self.suffixes) {
            AddressKind::Phone | AddressKind::Lid => Some(ChatKind::Direct),
            AddressKind::Group => Some(ChatKind::Group),
            AddressKind::Newsletter => Some(ChatKind::Newsletter),
            AddressKind::Unknown => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::business::OrderStatus;
    use model::id::MessageId;
    use raft::machine::{MemoryState, State};

    use super::*;
    use crate::projection::Kind;

    /// When the newest order was placed, in Unix seconds.
    const NEWEST: i64 = 1_767_225_600;

    /// Orders at intervals of a second; `accepted` holds the numbers of the accepted ones.
    fn orders(count: usize, accepted: &[usize]) -> Reading<MemoryState> {
        let suffixes = Suffixes::simulated();
        let mut reading = Reading { view: MemoryState::new(), suffixes, channel: ChannelId::random() };
        let mut order = Order {
            id: "order".to_owned(),
            token: None,
            from: reading.suffixes.phone_address("15551230000"),
            from_phone: None,
            status: OrderStatus::Placed,
            note: None,
            currency: "EUR".to_owned(),
            subtotal_amount: 1,
            tax_amount: None,
            total_amount: 1,
            items: Vec::new(),
            message_id: MessageId("M".to_owned()),
            placed_at: 0,
        };
        for number in 0..count {
            // The newest come first.
            order.placed_at = NEWEST - i64::try_from(number).unwrap();
            order.status = if accepted.contains(&number) { OrderStatus::Accepted } else { OrderStatus::Placed };
            reading.view.put(&keys::projected(reading.channel, Kind::Order, &Entity::id(&order)), &encode(&order));
        }
        reading
    }

    /// The numbers of the orders on a page, and where the page stopped.
    fn accepted(reading: &Reading<MemoryState>, after: Option<String>, marked: bool) -> (Vec<i64>, Option<String>) {
        let filter = Filter::Orders { since: None, until: None, statuses: vec![OrderStatus::Accepted] };
        let prefix = String::new();
        let read = Read::Page { kind: Kind::Order, filter, prefix, after, limit: 10, in_bytes: true, marked };
        let (rows, stopped_at) = match reading.done(read) {
            OwnerResponse::Page { rows, stopped_at } => (rows, stopped_at),
            OwnerResponse::Rows(rows) => (rows, None),
            _ => panic!("no page"),
        };
        (rows.iter().map(|row| NEWEST - decode::<Order>(row).placed_at).collect(), stopped_at)
    }

    #[test]
    fn more_pairs_than_one_answer_holds_go_on_behind_its_last() {
        let mut reading = orders(0, &[]);
        let lid = |number: usize| format!("{number:06}");
        for number in 0..MOST_PAIRS + 2 {
            let row = LidRow { phone: reading.suffixes.phone_address(&lid(number)), first_seen_at: Timestamp(0) };
            reading.view.put(&keys::lid(reading.channel, &lid(number)), &encode(&row));
        }
        let read = |after: Option<String>| match reading.done(Read::Lids { lid: None, phone: None, after }) {
            OwnerResponse::Counted { rows, count } => {
                let pairs: Vec<KnownLidPair> = rows.iter().map(|row| decode(row)).collect();
                (pairs.first().map(|pair| pair.lid.local().to_owned()), pairs.len(), count)
            }
            _ => panic!("no pairs"),
        };
        assert_eq!(read(None), (Some(lid(0)), MOST_PAIRS + 1, MOST_PAIRS + 2));
        assert_eq!(read(Some(lid(MOST_PAIRS - 1))), (Some(lid(MOST_PAIRS)), 2, MOST_PAIRS + 2));
        assert_eq!(read(Some(lid(MOST_PAIRS + 1))), (None, 0, MOST_PAIRS + 2));
    }

    #[test]
    fn a_page_that_looked_at_too_many_rows_says_where_the_next_one_goes_on() {
        let last = ROWS_LOOKED_AT - 1;
        let whole = orders(ROWS_LOOKED_AT, &[3, last]);
        assert_eq!(accepted(&whole, None, true), (vec![3, last as i64], None));
        let longer = orders(ROWS_LOOKED_AT + 1, &[3, ROWS_LOOKED_AT]);
        let (found, stopped_at) = accepted(&longer, None, true);
        assert_eq!((found, stopped_at.is_some()), (vec![3], true));
        assert_eq!(accepted(&longer, stopped_at, true), (vec![ROWS_LOOKED_AT as i64], None));
    }

    #[test]
    fn a_page_without_a_match_that_gave_up_is_empty_and_has_a_next_one() {
        let reading = orders(ROWS_LOOKED_AT + 1, &[]);
        let (found, stopped_at) = accepted(&reading, None, true);
        assert_eq!((found, stopped_at.is_some()), (Vec::new(), true));
        assert_eq!(accepted(&reading, stopped_at, true), (Vec::new(), None));
        assert_eq!(
            accepted(&reading, None, false),
            (Vec::new(), None),
            "who does not ask for the mark gets rows alone"
        );
    }
}
