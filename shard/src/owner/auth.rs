//! The store of a channel's credentials: sealed, committed on a quorum, bound to the owner's epoch.

use std::sync::Arc;

use async_trait::async_trait;
use model::id::{ChannelId, CustomerId};
use network::driver::{AuthError, AuthStore, AuthWrite};
use raft::directory::records::CustomerRecord;
use raft::machine::View;

use super::Owner;
use crate::command::{Command, Reply};
use crate::keys;

pub(super) struct ReplicatedAuth {
    owner: Arc<Owner>,
    channel: ChannelId,
    customer: CustomerId,
}

impl ReplicatedAuth {
    pub fn new(owner: Arc<Owner>, channel: ChannelId, customer: CustomerId) -> Self {
        Self { owner, channel, customer }
    }

    fn customer(&self) -> Result<Arc<CustomerRecord>, AuthError> {
        let customer = self.owner.node.directory.read(|state| state.customers.get(&self.customer).cloned());
        customer.ok_or_else(|| AuthError::Unavailable("the customer is not known here yet".into()))
    }

    fn purpose(&self, key: &str) -> String {
        purpose(self.channel, key)
    }
}

/// What a value is sealed for: its place, so that a value moved elsewhere does not open.
pub(super) fn purpose(channel: ChannelId, key: &str) -> String {
    format!("auth/{channel}/{key}")
}

#[async_trait]
impl AuthStore for ReplicatedAuth {
    async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, AuthError> {
        let Some(sealed) = self.owner.reader.get(&keys::auth(self.channel, key)) else { return Ok(None) };
        let opened = self.owner.node.secrets.open(&*self.customer()?, &self.purpose(key), &sealed);
        opened.map(Some).map_err(|error| AuthError::Unreadable(error.to_string()))
    }

    async fn commit(&self, batch: Vec<AuthWrite>) -> Result<(), AuthError> {
        let customer = self.customer()?;
        let seal = |write: AuthWrite| {
            let sealed = write
                .value
                .map(|value| self.owner.node.secrets.seal(&customer, &self.purpose(&write.key), &value))
                .transpose()
                .map_err(|error| AuthError::Unavailable(error.to_string()))?;
            Ok(AuthWrite { key: write.key, value: sealed })
        };
        let writes = batch.into_iter().map(seal).collect::<Result<Vec<_>, AuthError>>()?;
        let command = Command::Auth { channel: self.channel, customer: self.customer, writes };
        match self.owner.committer.commit_one(command).await {
            Ok(Reply::Done) => Ok(()),
            // A batch is all or nothing: cutting it is the driver's to do, who knows what may stand alone.
            Ok(Reply::TooLarge) => Err(AuthError::Unavailable("the batch is too large for one log entry".into())),
            Ok(_) | Err(_) => Err(AuthError::Fenced),
        }
    }
}
