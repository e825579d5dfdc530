//! How the routes of a channel reach its world on the network: groups, chats, contacts and the like.
//!
//! A read comes from the replicated projection and works in every status; a change is an operation of the network and is
//! answered once the projection has it. So a handler of a change asks ([`ChannelCall::operate`]) and then shows what it
//! finds ([`ChannelCall::find`]), and one of a read with `?refresh=true` asks first.

use bytes::Bytes;
use model::address::Address;
use model::error::ApiError;
use model::issue::{Fault, IssueCode};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use network::operation::{Area, Operation};
use raft::record::decode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shard::call::{Done, Work};
use shard::projection::Entity;
use shard::projection::read::{Filter, Read};

use crate::exchange::ChannelCall;
use crate::failure;
use crate::query::Query;
use crate::reply::List;

/// The last row of a page.
#[derive(Serialize, Deserialize)]
struct RowCursor {
    id: String,
}

impl Cursor for RowCursor {
    const KIND: &'static str = "projection.1";
}

/// Which page of a list is asked for.
pub struct Page {
    pub limit: usize,
    after: Option<String>,
    list: ListId,
}

impl ChannelCall {
    /// Lets the network do something for the channel.
    ///
    /// # Errors
    /// `not_connected`, `channel_unavailable`, what the operation's area refuses before the network is asked (`no_op`,
    /// `not_found`), 422 `other` for the network's refusal and 502 `other` when it does not answer.
    pub async fn operate<A: Area>(&mut self, operation: A) -> Result<A::Answer, ApiError> {
        let operation: Operation = operation.into();
        match self.work(Work::Operate { operation: Box::new(operation), again: false }).await? {
            Done::Operated(answer) => A::answer(*answer).ok_or_else(failure::unexpected_answer),
            _ => Err(failure::unexpected_answer()),
        }
    }

    /// What the projection knows under an id.
    ///
    /// # Errors
    /// As [`ChannelCall::work`].
    pub async fn find<E: Entity>(&mut self, id: &str) -> Result<Option<E>, ApiError> {
        self.read_one(Read::Row { kind: E::KIND, id: id.to_owned() }).await
    }

    /// What a read of one row finds.
    ///
    /// # Errors
    /// As [`ChannelCall::work`].
    pub async fn read_one<T: DeserializeOwned>(&mut self, read: Read) -> Result<Option<T>, ApiError> {
        match self.work(Work::Read(read)).await? {
            Done::Row(row) => Ok(row.map(|row| decode(&row))),
            _ => Err(failure::unexpected_answer()),
        }
    }

    /// What a read of several rows finds.
    ///
    /// # Errors
    /// As [`ChannelCall::work`].
    pub async fn read_many<T: DeserializeOwned>(&mut self, read: Read) -> Result<Vec<T>, ApiError> {
        match self.work(Work::Read(read)).await? {
            Done::Rows(rows) => Ok(rows.iter().map(|row: &Bytes| decode(row)).collect()),
            _ => Err(failure::unexpected_answer()),
        }
    }

    /// As [`Self::read_many`], with how many there are in all.
    ///
    /// # Errors
    /// As [`ChannelCall::work`].
    pub async fn read_counted<T: DeserializeOwned>(&mut self, read: Read) -> Result<(Vec<T>, usize), ApiError> {
        match self.work(Work::Read(read)).await? {
            Done::Counted { rows, count } => Ok((rows.iter().map(|row| decode(row)).collect(), count)),
            _ => Err(failure::unexpected_answer()),
        }
    }

    /// Reads `limit` and `cursor` for a list of a kind.
    pub fn page<E: Entity>(&self, query: &Query<'_>) -> Page {
        let (customer, channel) = (self.customer_id(), self.channel.id);
        let list = ListId::of(&[customer.as_bytes(), channel.as_bytes(), &[E::KIND as u8]]);
        let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
        Page { limit, after: query.cursor::<RowCursor>(list).map(|cursor| cursor.id), list }
    }

    /// One page of the rows that pass, in the order of their ids.
    ///
    /// # Errors
    /// As [`ChannelCall::work`].
    pub async fn page_of<E: Entity>(&mut self, filter: Filter, page: Page) -> Result<List<E>, ApiError> {
        let read = Read::Page { kind: E::KIND, filter, after: page.after, limit: page.limit + 1 };
        let mut rows: Vec<E> = self.read_many(read).await?;
        let more = rows.len() > page.limit;
        rows.truncate(page.limit);
        let last = rows.last().filter(|_| more);
        let next = last.map(|row| RowCursor { id: row.id() }.encode(page.list));
        Ok(List::page(rows, next))
    }

    /// The person that the path names by `{contact_id}`.
    ///
    /// # Errors
    /// `invalid_request` for a number with a leading `+`; `contact_not_found` for what is no address.
    pub fn contact(&self) -> Result<Address, ApiError> {
        let text = self.parameter("contact_id");
        if text.starts_with('+') {
            let fault = Fault::new(IssueCode::Format, "write the number without the leading +");
            return Err(fault.at(&["contact_id"]));
        }
        let suffixes = &self.app.config.suffixes;
        Address::parse_or_digits(text, suffixes).map_err(|_| ApiError::contact_not_found(text))
    }

    /// An address in the path, where bare digits stand for a phone (supplement 1, rules 3 and 4).
    ///
    /// # Errors
    /// `not_found` of the resource: what is no address names nothing.
    pub fn address(&self, parameter: &str, resource: &str) -> Result<Address, ApiError> {
        let text = self.parameter(parameter);
        Address::parse_or_digits(text, &self.app.config.suffixes).map_err(|_| ApiError::not_found(resource, text))
    }
}

/// Refuses addresses that can be no subscriber's.
///
/// # Errors
/// `undeliverable_recipient` for the first.
pub fn check_people(call: &ChannelCall, people: &[Address]) -> Result<(), ApiError> {
    use model::address::{AddressKind, Undeliverable};
    for person in people {
        let refuse = |reason| ApiError::undeliverable_recipient(person.as_str(), reason);
        match person.check_recipient(&call.app.config.suffixes).map_err(refuse)? {
            AddressKind::Phone | AddressKind::Lid => {}
            _ => return Err(refuse(Undeliverable::NotNumeric)),
        }
    }
    Ok(())
}
