//! Reads and changes a channel's projection: its groups, chats, contacts and the like.
//!
//! A read comes from the replicated projection and works in every status. A change is an operation of the network, and
//! is answered once the projection has it. So the handler of a change runs the operation ([`ChannelCall::operate`]),
//! then shows the result ([`ChannelCall::find`]). A read with `?refresh=true` runs an operation first.

use bytes::Bytes;
use model::address::{Address, Suffixes};
use model::error::CallError;
use model::issue::{IssueCode, Violation};
use model::page::{Cursor, DEFAULT_LIMIT, LARGEST_PAGE, ListId};
use model::status::OnSend;
use network::operation::Area;
use raft::record::decode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use shard::call::ChannelStatus;
use shard::call::read::{Filter, Read};
use shard::call::request::{GetStatus, Operate, ReadCounted, ReadMany, ReadOne, ReadPage};
use shard::projection::Entity;

use crate::failure;
use crate::query::Query;
use crate::reply::{List, Outcome, Reply, cut};
use crate::request_context::ChannelCall;

model::cursor! {
    /// The last row of a page.
    RowCursor("projection.1") { id: String }
}

/// The page of a list that a request asks for.
pub struct Page {
    /// The prefix of the ids of the list's rows.
    prefix: String,
    pub limit: usize,
    after: Option<String>,
    list: ListId,
    /// The list has no `limit`, and gets a cursor only when it is too large for one response.
    is_whole: bool,
}

/// Declares the `cursor` of a list without a `limit`.
pub fn read_rest(query: &Query<'_>) {
    Page::rest(query, ListId::only());
}

impl Page {
    /// Reads `limit` and `cursor` from the query.
    pub fn read(query: &Query<'_>, list: ListId) -> Self {
        let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
        Self { limit, is_whole: false, ..Self::rest(query, list) }
    }

    /// Reads only `cursor`, for a list without a `limit`.
    fn rest(query: &Query<'_>, list: ListId) -> Self {
        let after = query.cursor::<RowCursor>(list).map(|cursor| cursor.id);
        Self { prefix: String::new(), limit: usize::MAX, after, list, is_whole: true }
    }

    /// The requested page of a complete set of things, sorted by id.
    pub fn of<T: Serialize>(&self, mut things: Vec<T>, id: impl Fn(&T) -> String) -> List<T> {
        things.sort_by_cached_key(&id);
        things.retain(|thing| self.after.as_ref().is_none_or(|after| id(thing) > *after));
        self.up_to_limit(things, id)
    }

    /// The last row of the previous page, if there was one.
    pub fn after(&self) -> Option<&str> {
        self.after.as_deref()
    }

    /// The page of things that begin with the page's first row.
    pub fn up_to_limit<T: Serialize>(&self, things: Vec<T>, id: impl Fn(&T) -> String) -> List<T> {
        self.cut(things, false, None, id)
    }

    /// Like [`Self::up_to_limit`], but the read may not have returned all things: `more` follow the last one, or the
    /// read stopped behind the id `stopped_at`. So a page may be short, or even empty, and still have a next one.
    fn cut<T: Serialize>(
        &self,
        mut things: Vec<T>,
        more: bool,
        stopped_at: Option<String>,
        id: impl Fn(&T) -> String,
    ) -> List<T> {
        match cut(&mut things, self.limit, more, id).or(stopped_at).map(|id| RowCursor { id }.encode(self.list)) {
            None if self.is_whole => List::whole(things),
            next => List::page(things, next),
        }
    }
}

/// Reads whether the network must be asked first.
pub fn read_refresh(query: &Query<'_>) -> bool {
    query.flag("refresh").unwrap_or(false)
}

impl ChannelCall {
    /// Runs an operation of the network for the channel.
    ///
    /// # Errors
    /// `not_connected`, `channel_unavailable`, refusals by the operation's area before the network is asked (`no_op`,
    /// `not_found`), 422 `other` when the network refuses, and 502 `other` when it does not respond.
    pub async fn operate<A: Area>(&mut self, operation: A) -> Result<A::Answer, CallError> {
        A::answer(self.ask(Operate(operation.into())).await?).ok_or_else(|| failure::unexpected(&"nothing"))
    }

    /// Runs an operation like [`Self::operate`], if the read asks for it ([`read_refresh`]).
    ///
    /// # Errors
    /// As [`ChannelCall::operate`].
    pub async fn refresh<A: Area>(&mut self, is_asked: bool, operation: A) -> Result<(), CallError> {
        if is_asked { self.operate(operation).await.map(drop) } else { Ok(()) }
    }

    /// Checks whether the channel's status allows an operation, before its arguments are checked.
    ///
    /// # Errors
    /// `not_connected`, `channel_unavailable`, and as [`ChannelCall::ask`].
    pub async fn can_operate(&mut self) -> Result<(), CallError> {
        let ChannelStatus { status, reason, .. } = self.ask(GetStatus).await?;
        match status.on_send() {
            OnSend::Direct | OnSend::Queue => Ok(()),
            OnSend::NotConnected => Err(CallError::not_connected(status)),
            OnSend::Unavailable => Err(CallError::channel_unavailable(status, reason)),
        }
    }

    /// Reads the projection's entity with this id.
    ///
    /// # Errors
    /// As [`ChannelCall::ask`].
    pub async fn find<E: Entity>(&mut self, id: &str) -> Result<Option<E>, CallError> {
        self.read_one(Read::Row { kind: E::KIND, id: id.to_owned() }).await
    }

    /// Reads one row.
    ///
    /// # Errors
    /// As [`ChannelCall::ask`].
    pub async fn read_one<T: DeserializeOwned>(&mut self, read: Read) -> Result<Option<T>, CallError> {
        Ok(self.ask(ReadOne(read)).await?.map(|row| decode(&row)))
    }

    /// Reads several rows.
    ///
    /// # Errors
    /// As [`ChannelCall::ask`].
    pub async fn read_many<T: DeserializeOwned>(&mut self, read: Read) -> Result<Vec<T>, CallError> {
        Ok(self.ask(ReadMany(read)).await?.iter().map(|row| decode(row)).collect())
    }

    /// Like [`Self::read_many`], with the total count, and whether the rows fill a page.
    ///
    /// # Errors
    /// As [`ChannelCall::ask`].
    pub async fn read_counted<T: DeserializeOwned>(&mut self, read: Read) -> Result<(Vec<T>, usize, bool), CallError> {
        let (rows, count) = self.ask(ReadCounted(read)).await?;
        Ok((rows.iter().map(|row| decode(row)).collect(), count, is_filled(&rows)))
    }

    /// Reads `limit` and `cursor` for a list of this kind.
    pub fn page<E: Entity>(&self, query: &Query<'_>) -> Page {
        self.page_within::<E>(query, "")
    }

    /// Like [`Self::page`], for a list inside `within`, such as the members of a community or the results of a search.
    pub fn page_within<E: Entity>(&self, query: &Query<'_>, within: &str) -> Page {
        let (customer, channel) = (self.customer_id(), self.channel.id);
        Page::read(query, ListId::of(&[customer.as_bytes(), channel.as_bytes(), &[E::KIND as u8], within.as_bytes()]))
    }

    /// Like [`Self::page`], for the rows whose ids begin with a prefix.
    pub fn page_under<E: Entity>(&self, query: &Query<'_>, prefix: String) -> Page {
        let page = self.page_within::<E>(query, &prefix);
        Page { prefix, ..page }
    }

    /// Reads `cursor` for a list of this kind without a `limit`.
    pub fn rest<E: Entity>(&self, query: &Query<'_>) -> Page {
        let (customer, channel) = (self.customer_id(), self.channel.id);
        Page::rest(query, ListId::of(&[customer.as_bytes(), channel.as_bytes(), &[E::KIND as u8], b"rest"]))
    }

    /// The suffixes of addresses in this network.
    pub fn suffixes(&self) -> &Suffixes {
        &self.app.config.suffixes
    }

    /// Reads one page of the rows that pass the filter, sorted by id.
    ///
    /// # Errors
    /// As [`ChannelCall::ask`].
    pub async fn page_of<E: Entity>(&mut self, filter: Filter, page: Page) -> Result<List<E>, CallError> {
        let (prefix, after) = (page.prefix.clone(), page.after.clone());
        let limit = page.limit.saturating_add(1);
        let read = Read::Page { kind: E::KIND, filter, prefix, after, limit, in_bytes: true, marked: true };
        let (rows, stopped_at) = self.ask(ReadPage(read)).await?;
        let more = is_filled(&rows);
        Ok(page.cut(rows.iter().map(|row| decode(row)).collect(), more, stopped_at, E::id))
    }

    /// Runs an operation like [`Self::operate`], and answers 204.
    ///
    /// # Errors
    /// As [`ChannelCall::operate`].
    pub async fn done<A: Area>(&mut self, operation: A) -> Outcome {
        self.operate(operation).await?;
        Ok(Reply::no_content())
    }

    /// The person that `{contact_id}` in the path names.
    ///
    /// # Errors
    /// `invalid_request` for a number with a leading `+`; `contact_not_found` for text that is no address.
    pub fn contact(&self) -> Result<Address, CallError> {
        let text = self.parameter("contact_id");
        if text.starts_with('+') {
            let violation = Violation::new(IssueCode::Format, "write the number without the leading +");
            return Err(violation.at(&["contact_id"]));
        }
        let suffixes = &self.app.config.suffixes;
        Address::parse_or_digits(text, suffixes).map_err(|_| CallError::contact_not_found(text))
    }

    /// Like [`Self::contact`], for operations that only apply to people.
    ///
    /// # Errors
    /// As [`Self::contact`] and [`check_people`].
    pub async fn person(&mut self) -> Result<Address, CallError> {
        let contact = self.contact()?;
        check_people(self, std::slice::from_ref(&contact)).await?;
        Ok(contact)
    }

    /// An address in the path; bare digits are a phone number.
    ///
    /// # Errors
    /// `not_found` of the resource for text that is no address.
    pub fn address(&self, parameter: &str, resource: &str) -> Result<Address, CallError> {
        let text = self.parameter(parameter);
        Address::parse_or_digits(text, &self.app.config.suffixes).map_err(|_| CallError::not_found(resource, text))
    }
}

/// Whether rows are as many bytes as an owner returns at once.
fn is_filled(rows: &[Bytes]) -> bool {
    rows.iter().map(Bytes::len).sum::<usize>() >= LARGEST_PAGE
}

/// Refuses addresses that cannot be a subscriber's, after checking the channel's status.
///
/// # Errors
/// As [`ChannelCall::can_operate`], and `undeliverable_recipient` for the first such address.
pub async fn check_people(call: &mut ChannelCall, people: &[Address]) -> Result<(), CallError> {
    use model::address::{AddressKind, Undeliverable};
    call.can_operate().await?;
    for person in people {
        let refuse = |reason| CallError::undeliverable_recipient(person.as_str(), reason);
        match person.check_recipient(&call.app.config.suffixes).map_err(refuse)? {
            AddressKind::Phone | AddressKind::Lid => {}
            _ => return Err(refuse(Undeliverable::NotNumeric)),
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn page(limit: usize, is_whole: bool) -> Page {
        Page { prefix: String::new(), limit, after: None, list: ListId::only(), is_whole }
    }

    /// The number of rows in a response, and the id behind which the next page begins.
    fn cut(page: &Page, rows: &[&str], stopped_at: Option<&str>) -> (usize, Option<String>) {
        let rows: Vec<String> = rows.iter().map(|row| (*row).to_owned()).collect();
        let List { data, next_cursor } = page.cut(rows, false, stopped_at.map(str::to_owned), String::clone);
        let next = next_cursor.flatten().map(|next| RowCursor::decode(&next, ListId::only()).unwrap().id);
        (data.len(), next)
    }

    #[test]
    fn a_page_goes_on_behind_its_last_row_or_where_its_owner_stopped_looking() {
        let next = |id: &str| Some(id.to_owned());
        for is_whole in [false, true] {
            let page = page(2, is_whole);
            assert_eq!(cut(&page, &["a", "b"], None), (2, None));
            assert_eq!(cut(&page, &["a", "b", "c"], None), (2, next("b")));
            assert_eq!(cut(&page, &["a", "b"], Some("f")), (2, next("f")));
            assert_eq!(cut(&page, &[], Some("f")), (0, next("f")), "what passes may stand behind it");
        }
    }
}
