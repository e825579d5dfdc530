//! Quotas of an account, as far as what they count lies in the directory. They are judged where a record comes to be,
//! so that they hold exactly over the whole cluster.
//!
//! Quotas count in a cluster whose format knows them, and not before: an older release applies the same entries without.

use model::customer::Quota;
use model::format::Format;
use model::id::CustomerId;
use model::time::Timestamp;
use model::webhook::MOST_URL_BYTES;

use super::{DirectoryState, Update, ids_of};
use crate::command::Rejection;
use crate::keys;
use crate::records::{CustomerRecord, EndpointRecord};
use crate::support::{TicketBook, TicketRecord, find};
use machine::View;
use machine::record::decode;

impl DirectoryState {
    /// Whether quotas count, and many records end in portions.
    pub(super) fn is_of_third_format(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.format >= Format::THIRD)
    }

    /// How many keys of an account are not revoked.
    pub fn live_keys(&self, customer: CustomerId) -> u64 {
        self.live_keys_of.get(&customer).copied().unwrap_or(0)
    }

    /// How many of them have not expired by then either: those that their quota counts.
    pub fn usable_keys(&self, customer: CustomerId, at: Timestamp) -> u64 {
        let keys = ids_of(&self.keys_of, customer).filter_map(|id| self.keys.get(id));
        keys.filter(|key| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > at)).count() as u64
    }

    /// Refuses one key more, when the quota allows none. Whether any has expired is looked for only then.
    pub(super) fn judge_key(&self, customer: &CustomerRecord, at: Timestamp) -> Result<(), Rejection> {
        let judge = |used| self.judge_quota(customer, Quota::Keys, used);
        judge(self.live_keys(customer.id)).or_else(|_| judge(self.usable_keys(customer.id, at)))
    }

    /// Refuses a URL with which those of the account would be too long together: an event bears all that want it. One that is no
    /// longer than that in whose place it comes is taken: those of an account from before there was the bound become shorter so.
    pub fn judge_urls(
        &self,
        customer: CustomerId,
        before: Option<&EndpointRecord>,
        url: &str,
    ) -> Result<(), Rejection> {
        let endpoints = ids_of(&self.endpoints_of, customer).filter_map(|id| self.endpoints.get(id));
        let all: usize = endpoints.map(|endpoint| endpoint.url.len()).sum();
        let known = before.map_or(0, |endpoint| endpoint.url.len());
        let fits = url.len() <= known || all.saturating_sub(known) + url.len() <= MOST_URL_BYTES;
        if fits { Ok(()) } else { Err(Rejection::UrlsTooLong) }
    }

    pub fn endpoint_count(&self, customer: CustomerId) -> u64 {
        self.endpoints_of.get(&customer).map_or(0, |endpoints| endpoints.len() as u64)
    }

    /// Refuses one more of what is counted, when as many as the quota allows are there.
    pub(super) fn judge_quota(&self, customer: &CustomerRecord, quota: Quota, used: u64) -> Result<(), Rejection> {
        let limit = customer.limits.storage.limit(quota);
        if self.is_of_third_format() && used >= limit { Err(Rejection::Quota { quota, limit, used }) } else { Ok(()) }
    }
}

/// How many tickets of an account wait for an answer, or for its own. The book knows; one of before there were quotas
/// does not, and all of the account's tickets are looked at once.
pub fn open_tickets(view: &(impl View + ?Sized), customer: CustomerId) -> u32 {
    let book: TicketBook = view.get(&keys::ticket_book(customer)).map(|book| decode(&book)).unwrap_or_default();
    book.open.unwrap_or_else(|| {
        let tickets = view.scan_range(keys::tickets_of(customer, None), usize::MAX);
        let open = tickets.iter().filter_map(|(key, _)| find(view, keys::ticket_at_end(key)?));
        open.filter(|ticket| ticket.status.is_open()).count() as u32
    })
}

/// Keeps the count of open tickets as the status of one changes.
pub(super) fn recount_tickets(before: &TicketRecord, after: &TicketRecord, update: &mut Update<'_>) {
    let (was, is) = (before.status.is_open(), after.status.is_open());
    let key = keys::ticket_book(after.customer_id);
    let book: Option<TicketBook> = update.store.get(&key).map(|book| decode(&book));
    let Some(TicketBook { open: Some(open), .. }) = book else { return };
    let open = match (was, is) {
        (false, true) => open + 1,
        (true, false) => open.saturating_sub(1),
        _ => return,
    };
    let book = TicketBook { open: Some(open), ..book.unwrap_or_default() };
    update.put(&key, &book);
}
