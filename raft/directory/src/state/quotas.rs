//! Account quotas for what the directory stores. They are checked where a record is created, so that they hold exactly
//! in the whole cluster.
//!
//! Quotas apply once the cluster's format includes them: an older release applies the same entries without quotas.

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
    /// Whether quotas apply, and many records end in portions.
    pub(super) fn is_of_third_format(&self) -> bool {
        self.cluster.as_ref().is_some_and(|cluster| cluster.format >= Format::THIRD)
    }

    /// Number of an account's keys that are not revoked.
    pub fn live_keys(&self, customer: CustomerId) -> u64 {
        self.live_keys_of.get(&customer).copied().unwrap_or(0)
    }

    /// Number of these that have not expired by `at` either: the quota counts these.
    pub fn usable_keys(&self, customer: CustomerId, at: Timestamp) -> u64 {
        let keys = ids_of(&self.keys_of, customer).filter_map(|id| self.keys.get(id));
        keys.filter(|key| key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > at)).count() as u64
    }

    /// Rejects a further key if the quota allows none. Expired keys are searched for only in that case.
    pub(super) fn judge_key(&self, customer: &CustomerRecord, at: Timestamp) -> Result<(), Rejection> {
        let judge = |used| self.judge_quota(customer, Quota::Keys, used);
        judge(self.live_keys(customer.id)).or_else(|_| judge(self.usable_keys(customer.id, at)))
    }

    /// Rejects a URL that would make the account's URLs too long in total: an event names all endpoints that want it. A
    /// URL no longer than the one it replaces is accepted, so that accounts from before the limit can shrink.
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

    /// Rejects a further record if the quota is used up.
    pub(super) fn judge_quota(&self, customer: &CustomerRecord, quota: Quota, used: u64) -> Result<(), Rejection> {
        let limit = customer.limits.storage.limit(quota);
        if self.is_of_third_format() && used >= limit { Err(Rejection::Quota { quota, limit, used }) } else { Ok(()) }
    }
}

/// Number of an account's open tickets, from its ticket book. A book from before quotas does not count them: then all
/// of the account's tickets are read once.
pub fn open_tickets(view: &(impl View + ?Sized), customer: CustomerId) -> u32 {
    let book: TicketBook = view.get(&keys::ticket_book(customer)).map(|book| decode(&book)).unwrap_or_default();
    book.open.unwrap_or_else(|| {
        let tickets = view.scan_range(keys::tickets_of(customer, None), usize::MAX);
        let open = tickets.iter().filter_map(|(key, _)| find(view, keys::ticket_at_end(key)?));
        open.filter(|ticket| ticket.status.is_open()).count() as u32
    })
}

/// Updates the count of open tickets when a ticket's status changes.
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
