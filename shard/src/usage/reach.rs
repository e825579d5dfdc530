//! Asks the owners of all shards that may hold a part of what a customer has used.

use std::collections::BTreeMap;

use futures::future::try_join_all;
use model::error::ApiError;
use model::id::{ChannelId, CustomerId, ShardId};
use model::time::Day;

use super::{AccountFigures, Counts, DayUsage, Hour, UsageAsk, UsageDone};
use crate::call::{Answer, Ask, Done};
use crate::cluster::{CallContext, Cluster};

impl Cluster {
    /// What a customer used on the days of `[from, to)`, deleted channels included: by day, or by day and channel.
    /// Days without use are left out. `None` when that makes more than `most` rows.
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
    ) -> Result<Option<Vec<DayUsage>>, ApiError> {
        let asks = self.shards_of_customer(customer).into_iter().map(|shard| async move {
            let ask = UsageAsk::Days { customer, from, to, by_channel, most };
            self.ask_usage(shard, ask, context).await
        });
        let mut days: BTreeMap<(Day, Option<ChannelId>), Counts> = BTreeMap::new();
        for part in try_join_all(asks).await? {
            let UsageDone::Days(part) = part else { return Ok(None) };
            part.iter().for_each(|row| days.entry((row.day, row.channel)).or_default().add(&row.counts));
        }
        let all = days.into_iter().map(|((day, channel), counts)| DayUsage { day, channel, counts });
        let all: Vec<DayUsage> = all.collect();
        Ok((all.len() <= most).then_some(all))
    }

    /// What a customer used from an hour on, and what of it waits now: of one channel, or of all. `live` are its
    /// channels, or the one.
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
    ) -> Result<AccountFigures, ApiError> {
        let mut channels = self.by_shard(live);
        let shards = match only {
            Some(_) => channels.keys().copied().collect(),
            None => self.shards_of_customer(customer),
        };
        let asks = shards.into_iter().map(|shard| {
            let channels = channels.remove(&shard).unwrap_or_default();
            self.ask_usage(shard, UsageAsk::Figures { customer, since, only, channels }, context)
        });
        let mut figures = AccountFigures::default();
        for part in try_join_all(asks).await? {
            if let UsageDone::Figures(part) = part {
                figures.add(&part);
            }
        }
        Ok(figures)
    }

    async fn ask_usage(&self, shard: ShardId, ask: UsageAsk, context: &CallContext) -> Result<UsageDone, ApiError> {
        match self.ask_shard(shard, Ask::Usage(ask), context.deadline, context).await? {
            Answer::Result { result: Ok(Done::Usage(done)), .. } => Ok(done),
            Answer::Result { result: Err(error), .. } => Err(error),
            _ => Err(ApiError::internal_error()),
        }
    }
}
