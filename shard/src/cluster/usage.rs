//! Calls to the owners of all shards that may hold a part of a customer's usage.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use model::customer::Quota;
use model::error::CallError;
use model::id::{ChannelId, CustomerId, ShardId};
use model::time::Day;

use super::{CallContext, Cluster};
use crate::call::usage::{AccountFigures, DayUsage, UsageRequest, UsageResponse};
use crate::call::{OwnerRequest, OwnerResponse, of_kind};
use crate::media::command::MediaRoom;
use crate::usage::{Counts, Hour};

impl Cluster {
    /// A customer's usage on the days of `[from, to)`, including deleted channels: by day, or by day and channel. Days
    /// without usage are omitted. `None` when there are more than `most` rows.
    ///
    /// # Errors
    /// 503 when one of the shards has no owner in time.
    pub async fn usage(
        &self,
        customer: CustomerId,
        (from, to): (Day, Day),
        by_channel: bool,
        most: usize,
        context: &CallContext,
    ) -> Result<Option<Vec<DayUsage>>, CallError> {
        let request = OwnerRequest::Usage(UsageRequest::Days { customer, from, to, by_channel, most });
        let mut days: BTreeMap<(Day, Option<ChannelId>), Counts> = BTreeMap::new();
        for part in self.ask_each(self.context.shards_of_customer(customer), request, context).await? {
            let OwnerResponse::Usage(UsageResponse::Days(part)) = part else { return Ok(None) };
            part.iter().for_each(|row| days.entry((row.day, row.channel)).or_default().add(&row.counts));
        }
        Ok(DayUsage::at_most(most, days))
    }

    /// A customer's usage in the hours of `[from, to)`, including deleted channels. Hours without usage are omitted.
    ///
    /// # Errors
    /// As [`Cluster::usage`].
    pub async fn usage_by_hour(
        &self,
        customer: CustomerId,
        (from, to): (Hour, Hour),
        context: &CallContext,
    ) -> Result<BTreeMap<Hour, Counts>, CallError> {
        let request = OwnerRequest::Usage(UsageRequest::Hours { customer, from, to });
        let mut hours: BTreeMap<Hour, Counts> = BTreeMap::new();
        for part in self.ask_each(self.context.shards_of_customer(customer), request, context).await? {
            let OwnerResponse::Usage(UsageResponse::Hours(part)) = part else {
                return Err(CallError::internal_error());
            };
            part.iter().for_each(|(hour, counts)| hours.entry(*hour).or_default().add(counts));
        }
        Ok(hours)
    }

    /// A customer's usage from an hour on, and its presently waiting sends and deliveries: of one channel, or of all.
    /// `live` are the customer's channels, or that one.
    ///
    /// # Errors
    /// As [`Cluster::usage`].
    pub async fn account_figures(
        &self,
        customer: CustomerId,
        since: Hour,
        only: Option<ChannelId>,
        live: &[ChannelId],
        context: &CallContext,
    ) -> Result<AccountFigures, CallError> {
        let mut channels = self.by_shard(live);
        let shards = match only {
            Some(_) => channels.keys().copied().collect(),
            None => self.context.shards_of_customer(customer),
        };
        let asks = shards.into_iter().map(|shard| {
            let channels = channels.remove(&shard).unwrap_or_default();
            let request = OwnerRequest::Usage(UsageRequest::Figures { customer, since, only, channels });
            async move {
                let answer = self.ask_shard(shard, request, context).await?;
                of_kind!(answer, OwnerResponse::Usage(UsageResponse::Figures(figures)) => figures)
            }
        });
        let mut figures = AccountFigures::default();
        try_join_all(asks).await?.iter().for_each(|part| figures.add(part));
        Ok(figures)
    }

    /// The bytes of media that an account stores, by shard; without the shards that do not answer in time.
    pub async fn media_kept(&self, customer: CustomerId, context: &CallContext) -> BTreeMap<ShardId, u64> {
        self.context.media_kept(customer, &context.request_id, context.deadline).await
    }

    /// The approximate bytes of messages and deliveries that an account stores, in the shards that answer in time.
    pub async fn message_bytes(&self, customer: CustomerId, context: &CallContext) -> u64 {
        let shards = self.context.shards_of_customer(customer);
        let told = self.context.message_bytes(shards, Some(customer), &context.request_id, context.deadline).await;
        told.iter().flat_map(|(_, told)| told).map(|(_, bytes)| bytes).sum()
    }

    /// Checks that an account's quota has space for media: for `size` bytes, or for any at all. Returns the quota with
    /// the bytes that shards other than the channel's hold, so that the channel's shard can make the final decision:
    /// concurrent uploads into channels of one shard never exceed the quota together, and those into several shards
    /// only by what arrives at the same moment.
    ///
    /// # Errors
    /// `plan_limit`.
    pub async fn media_room(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        size: Option<u64>,
        context: &CallContext,
    ) -> Result<Option<MediaRoom>, CallError> {
        let Some((room, own)) = self.media_left(customer, channel, context).await else { return Ok(None) };
        let used = room.elsewhere + own;
        if used.saturating_add(size.unwrap_or(1)) > room.limit {
            return Err(CallError::plan_limit(Quota::MediaBytes, room.limit, used));
        }
        Ok(Some(room))
    }

    /// The account's media quota with the bytes in other shards, and the bytes in the channel's shard; `None` while the
    /// cluster's format has no quotas.
    pub async fn media_left(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        context: &CallContext,
    ) -> Option<(MediaRoom, u64)> {
        if !self.media().counts() {
            return None;
        }
        let kept = self.media_kept(customer, context).await;
        let used: u64 = kept.values().sum();
        let here = self.by_shard(&[channel]).into_keys().next();
        let own = here.and_then(|shard| kept.get(&shard)).copied().unwrap_or(0);
        let limit = self.context.allowed(customer, Quota::MediaBytes);
        Some((MediaRoom { limit, elsewhere: used - own }, own))
    }
}
