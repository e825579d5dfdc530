//! Calls to token buckets at their coordinators.

use std::time::Instant;

use model::error::CallError;
use model::id::{ChannelId, CustomerId, Slot};
use model::limit::{AttemptRule, BucketLevel, BucketRule};
use uuid::Uuid;

use super::{CallContext, Cluster};
use crate::call::{OwnerRequest, OwnerResponse, of_kind};
use crate::leases::Paid;

impl Cluster {
    /// Takes a token from a customer's bucket, at its coordinator. False if there was none.
    ///
    /// # Errors
    /// 503 when the coordinator does not answer in time.
    pub async fn charge_customer(
        &self,
        customer: CustomerId,
        rule: BucketRule,
        context: &CallContext,
    ) -> Result<(BucketLevel, bool), CallError> {
        let (slot, asked) = (Slot::of_customer(customer), Instant::now());
        let lend = match self.leases.take(customer, rule, asked, || self.is_home(slot)) {
            Paid::Here(level) => return Ok((level, true)),
            Paid::AtHome { lend } => lend,
        };
        let request = OwnerRequest::TakeCustomer { customer, rule, lend };
        let answer = self.ask(slot, request, context).await?;
        let (level, taken, lent) =
            of_kind!(answer, OwnerResponse::Bucket { level, taken, lent } => (level, taken, lent))?;
        self.leases.lent(customer, level, lent, asked);
        Ok((level, taken))
    }

    /// Returns a customer's token. A refund that is lost costs one token.
    pub async fn refund_customer(&self, customer: CustomerId, context: &CallContext) {
        if self.leases.give_back(customer, Instant::now()) {
            return;
        }
        let _ = self.ask(Slot::of_customer(customer), OwnerRequest::RefundCustomer { customer }, context).await;
    }

    /// Counts an attempt over the whole cluster, such as a login with one e-mail address. If it is refused, returns the
    /// seconds until the next one is possible.
    ///
    /// # Errors
    /// As [`Cluster::charge_customer`].
    pub async fn attempt(
        &self,
        subject: Uuid,
        rule: AttemptRule,
        context: &CallContext,
    ) -> Result<Option<u32>, CallError> {
        let request = OwnerRequest::Attempt { subject, rule };
        let answer = self.ask(Slot::of_customer(CustomerId(subject)), request, context).await?;
        of_kind!(answer, OwnerResponse::Attempt { retry_after } => retry_after)
    }

    /// Returns an attempt. A return that is lost costs one attempt.
    pub async fn return_attempt(&self, subject: Uuid, rule: AttemptRule, context: &CallContext) {
        let (slot, request) = (Slot::of_customer(CustomerId(subject)), OwnerRequest::ReturnAttempt { subject, rule });
        let _ = self.ask(slot, request, context).await;
    }

    /// The level of the bucket of a channel, or of the customer, without taking a token.
    ///
    /// # Errors
    /// As [`Cluster::charge_customer`].
    pub async fn peek(
        &self,
        customer: CustomerId,
        channel: Option<ChannelId>,
        rule: BucketRule,
        context: &CallContext,
    ) -> Result<BucketLevel, CallError> {
        let (slot, request) = match channel {
            Some(channel) => (Slot::of_channel(channel), OwnerRequest::PeekChannel { customer, channel, rule }),
            None => (Slot::of_customer(customer), OwnerRequest::PeekCustomer { customer, rule }),
        };
        Ok(self.bucket(slot, request, context).await?.0)
    }

    /// Only takes a token from a channel's bucket. False if there was none.
    ///
    /// # Errors
    /// As [`Cluster::charge_customer`].
    pub async fn take_channel(
        &self,
        customer: CustomerId,
        channel: ChannelId,
        rule: BucketRule,
        context: &CallContext,
    ) -> Result<(BucketLevel, bool), CallError> {
        let request = OwnerRequest::TakeChannel { customer, channel, rule };
        self.bucket(Slot::of_channel(channel), request, context).await
    }

    fn is_home(&self, slot: Slot) -> bool {
        self.shard_of(slot).is_ok_and(|shard| self.owners.get(shard).is_some())
    }

    async fn bucket(
        &self,
        slot: Slot,
        request: OwnerRequest,
        context: &CallContext,
    ) -> Result<(BucketLevel, bool), CallError> {
        of_kind!(self.ask(slot, request, context).await?, OwnerResponse::Bucket { level, taken, .. } => (level, taken))
    }
}
