//! Asks owners about deliveries: one shard, or all that may hold a customer's.

use std::collections::HashMap;

use futures::future::{BoxFuture, try_join_all};
use model::error::CallError;
use model::id::{ChannelId, CustomerId, DeliveryId, EndpointId, ShardId, Slot};
use model::limit::LimitScope;
use model::time::Timestamp;

use super::{CallContext, Cluster};
use crate::call::deliveries::{DeliveryAsk, DeliveryDone, Redelivered, Tested, Waiting};
use crate::call::{Ask, Done, of_kind};
use crate::coordinator::TESTS;
use crate::deliveries::command::Sweep;
use crate::deliveries::query::{DeliveryPage, DeliveryQuery, Figures};
use crate::deliveries::view::DeliveryDetail;
use crate::webhook::attempt::{AttemptOutcome, AttemptRequest};

impl Cluster {
    /// What waits for each endpoint over all shards.
    ///
    /// # Errors
    /// 503 when one of the shards has no owner in time.
    pub async fn waiting_deliveries(&self, context: &CallContext) -> Result<Vec<Waiting>, CallError> {
        let shards: Vec<ShardId> = self.directory().read(|state| state.placement.keys().copied().collect());
        let mut all: HashMap<EndpointId, Waiting> = HashMap::new();
        for done in self.ask_each(shards, DeliveryAsk::Waiting, context).await? {
            let DeliveryDone::Waiting(part) = done else { continue };
            for waiting in part {
                all.entry(waiting.endpoint).and_modify(|known| known.add(&waiting)).or_insert(waiting);
            }
        }
        Ok(all.into_values().collect())
    }

    /// Whether deliveries bear the headers of Standard Webhooks, too.
    pub fn sends_standard_headers(&self) -> bool {
        self.deliveries.attempter().sends_standard_headers()
    }

    /// A page of a customer's deliveries, deleted channels' too, from all the shards that may hold some.
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
        let pages = self.ask_each(shards, DeliveryAsk::Page { customer, query }, context).await?;
        let page = |done| if let DeliveryDone::Page(page) = done { Some(page) } else { None };
        Ok(DeliveryPage::merge(pages.into_iter().filter_map(page), limit, ascending))
    }

    /// A customer's delivery with all that belongs to it.
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
        let found = self.ask_each(shards, DeliveryAsk::Find { customer, id }, context).await?;
        let detail = |done| if let DeliveryDone::Found(Some(detail)) = done { Some(*detail) } else { None };
        Ok(found.into_iter().find_map(detail))
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
        let ask = Ask::Deliveries(DeliveryAsk::Redeliver { customer, id, again: false });
        let answer = self.ask(Slot::of_channel(channel), ask, context).await?;
        of_kind!(answer, Done::Deliveries(DeliveryDone::Redelivered(redelivered)) => redelivered)
    }

    /// How many of an endpoint's deliveries a sweep would be about.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`].
    pub async fn count_sweep(&self, sweep: Sweep, context: &CallContext) -> Result<u64, CallError> {
        self.matched(DeliveryAsk::CountSweep(sweep.clone()), sweep.customer, context).await
    }

    /// Begins work on many of an endpoint's deliveries and says how many they are.
    ///
    /// # Errors
    /// As [`Cluster::deliveries`]; shards that have answered go on with it all the same.
    pub async fn sweep(&self, sweep: Sweep, context: &CallContext) -> Result<u64, CallError> {
        let customer = sweep.customer;
        self.matched(DeliveryAsk::Sweep(sweep), customer, context).await
    }

    async fn matched(&self, ask: DeliveryAsk, customer: CustomerId, context: &CallContext) -> Result<u64, CallError> {
        let shards = self.context.shards_of_customer(customer);
        let matched = self.ask_each(shards, ask, context).await?;
        Ok(matched.into_iter().map(|done| if let DeliveryDone::Matched(matched) = done { matched } else { 0 }).sum())
    }

    /// How an endpoint's deliveries stand that were made at `since` or later.
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
        let parts = self.ask_each(shards, DeliveryAsk::Figures { customer, endpoint, since }, context).await?;
        let mut figures = Figures::default();
        for part in parts {
            if let DeliveryDone::Figures(part) = part {
                figures.add(&part);
            }
        }
        Ok(figures)
    }

    /// Counts a call of a test route.
    ///
    /// # Errors
    /// `rate_limited`, or 503 while the customer's home has no owner.
    pub async fn take_test(&self, customer: CustomerId, context: &CallContext) -> Result<(), CallError> {
        let ask = Ask::Deliveries(DeliveryAsk::TakeTest { customer });
        let answer = self.ask(Slot::of_customer(customer), ask, context).await?;
        match of_kind!(answer, Done::Deliveries(DeliveryDone::Test(tested)) => tested)? {
            Tested::Counted => Ok(()),
            Tested::TooMany { retry_after } => {
                Err(CallError::rate_limited(LimitScope::Customer, TESTS as u32, retry_after))
            }
        }
    }

    /// Makes a request to a receiver that is no delivery.
    pub fn probe(&self, request: AttemptRequest) -> BoxFuture<'_, AttemptOutcome> {
        Box::pin(self.deliveries.attempter().attempt(request))
    }

    async fn ask_each(
        &self,
        shards: Vec<ShardId>,
        ask: DeliveryAsk,
        context: &CallContext,
    ) -> Result<Vec<DeliveryDone>, CallError> {
        let ask = &ask;
        let asks = shards.into_iter().map(|shard| async move {
            let answer = self.ask_shard(shard, Ask::Deliveries(ask.clone()), context).await?;
            of_kind!(answer, Done::Deliveries(done) => done)
        });
        try_join_all(asks).await
    }
}
