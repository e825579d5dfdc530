//! Calls to owners about deliveries: to one shard, or to all that may hold a customer's.

use std::collections::HashMap;

use futures::future::BoxFuture;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, ShardId, Slot};
use model::limit::LimitScope;
use model::time::Timestamp;

use super::{CallContext, Cluster};
use crate::call::deliveries::{DeliveryRequest, DeliveryResponse, Redelivered, Tested, Waiting};
use crate::call::{OwnerRequest, OwnerResponse, of_kind};
use crate::coordinator::TESTS;
use crate::deliveries::command::BulkOperation;
use crate::deliveries::query::{DeliveryPage, DeliveryQuery, Figures};
use crate::deliveries::view::DeliveryDetail;
use crate::webhook::attempt::{AttemptOutcome, AttemptRequest};

impl Cluster {
    /// The waiting deliveries of each endpoint, over all shards.
    ///
    /// # Errors
    /// 503 when one of the shards has no owner in time.
    pub async fn waiting_deliveries(&self, context: &CallContext) -> Result<Vec<Waiting>, CallError> {
        let shards: Vec<ShardId> = self.directory().read(|state| state.placement.keys().copied().collect());
        let mut all: HashMap<EndpointId, Waiting> = HashMap::new();
        for done in self.ask_each(shards, OwnerRequest::Deliveries(DeliveryRequest::Waiting), context).await? {
            let OwnerResponse::Deliveries(DeliveryResponse::Waiting(part)) = done else { continue };
            for waiting in part {
                all.entry(waiting.endpoint).and_modify(|known| known.add(&waiting)).or_insert(waiting);
            }
        }
        Ok(all.into_values().collect())
    }

    /// Whether deliveries also carry the headers of Standard Webhooks.
    pub fn sends_standard_headers(&self) -> bool {
        self.attempter.sends_standard_headers()
    }

    /// A page of a customer's deliveries, including those of deleted channels, from all shards that may hold some.
    ///
    /// # Errors
    /// 503 when one of the shards has no owner in time.
    pub async fn deliveries(
        &self,
        customer: CustomerId,
        query: DeliveryQuery,
        context: &CallContext,
    ) -> Result<DeliveryPage, CallError> {
        let shards = match query.channel {
            Some(channel) => self.by_shard(&[channel]).into_keys().collect(),
            None => self.context.shards_of_customer(customer),
        };
        let (limit, ascending) = (query.limit, query.ascending);
        let pages =
            self.ask_each(shards, OwnerRequest::Deliveries(DeliveryRequest::Page { customer, query }), context).await?;
        let page =
            |done| if let OwnerResponse::Deliveries(DeliveryResponse::Page(page)) = done { Some(page) } else { None };
        Ok(DeliveryPage::merge(pages.into_iter().filter_map(page), limit, ascending))
    }

    /// A customer's delivery with its attempts.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`].
    pub async fn delivery(
        &self,
        customer: CustomerId,
        id: DeliveryId,
        context: &CallContext,
    ) -> Result<Option<DeliveryDetail>, CallError> {
        let shards = self.context.shards_of_customer(customer);
        let found =
            self.ask_each(shards, OwnerRequest::Deliveries(DeliveryRequest::Find { customer, id }), context).await?;
        let detail =
            |done| if let OwnerResponse::Deliveries(DeliveryResponse::Found(detail)) = done { detail } else { None };
        Ok(found.into_iter().find_map(detail).map(|detail| *detail))
    }

    /// Makes a delivery of a channel due now.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`].
    pub async fn redeliver(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        id: DeliveryId,
        context: &CallContext,
    ) -> Result<Redelivered, CallError> {
        let request = OwnerRequest::Deliveries(DeliveryRequest::Redeliver { customer, id, again: false });
        let answer = self.ask(Slot::of_channel(channel), request, context).await?;
        of_kind!(answer, OwnerResponse::Deliveries(DeliveryResponse::Redelivered(redelivered)) => redelivered)
    }

    /// The number of an endpoint's deliveries that a bulk operation would affect.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`].
    pub async fn count_bulk(&self, bulk: BulkOperation, context: &CallContext) -> Result<u64, CallError> {
        self.matched(DeliveryRequest::CountBulk(bulk.clone()), bulk.customer, context).await
    }

    /// Begins a bulk operation on an endpoint's deliveries, and returns how many it affects.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`]; shards that have answered continue with the operation nevertheless.
    pub async fn begin_bulk(&self, bulk: BulkOperation, context: &CallContext) -> Result<u64, CallError> {
        let customer = bulk.customer;
        self.matched(DeliveryRequest::BeginBulk(bulk), customer, context).await
    }

    async fn matched(
        &self,
        request: DeliveryRequest,
        customer: CustomerId,
        context: &CallContext,
    ) -> Result<u64, CallError> {
        let shards = self.context.shards_of_customer(customer);
        let matched = self.ask_each(shards, OwnerRequest::Deliveries(request), context).await?;
        let count =
            |done| if let OwnerResponse::Deliveries(DeliveryResponse::Matched(matched)) = done { matched } else { 0 };
        Ok(matched.into_iter().map(count).sum())
    }

    /// Counts and latencies of an endpoint's deliveries that were created at `since` or later.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`].
    pub async fn delivery_figures(
        &self,
        customer: CustomerId,
        endpoint: EndpointId,
        since: Timestamp,
        context: &CallContext,
    ) -> Result<Figures, CallError> {
        let shards = self.context.shards_of_customer(customer);
        let request = OwnerRequest::Deliveries(DeliveryRequest::Figures { customer, endpoint, since });
        let mut figures = Figures::default();
        for part in self.ask_each(shards, request, context).await? {
            if let OwnerResponse::Deliveries(DeliveryResponse::Figures(part)) = part {
                figures.add(&part);
            }
        }
        Ok(figures)
    }

    /// Counts a call of a test route.
    ///
    /// # Errors
    /// `rate_limited`, or 503 while the customer's coordinator does not answer.
    pub async fn take_test(&self, customer: CustomerId, context: &CallContext) -> Result<(), CallError> {
        let request = OwnerRequest::Deliveries(DeliveryRequest::TakeTest { customer });
        let answer = self.ask(Slot::of_customer(customer), request, context).await?;
        match of_kind!(answer, OwnerResponse::Deliveries(DeliveryResponse::Test(tested)) => tested)? {
            Tested::Counted => Ok(()),
            Tested::TooMany { retry_after } => {
                Err(CallError::rate_limited(LimitScope::Customer, TESTS as u32, retry_after))
            }
        }
    }

    /// Makes a request to a receiver that is not a delivery.
    pub fn probe(&self, request: AttemptRequest) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(self.attempter.attempt(request))
    }
}
