//! The sealed settings of an endpoint that each request to it needs: its signing secret and its own headers.

use model::id::CustomerId;
use model::seal::SealError;
use model::time::Timestamp;
use model::webhook::StaticHeaders;
use raft::directory::Directory;
use raft::directory::records::EndpointRecord;

use crate::secrets::{Secrets, headers_purpose, secret_purpose};

/// Opened for each attempt, so that a change takes effect with the next one.
pub struct Material {
    /// One secret, or two while the operator exchanges the master key and the default secret signs.
    pub secrets: Vec<String>,
    pub headers: StaticHeaders,
}

/// Why an endpoint's secrets are not available.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    #[error("the customer no longer exists")]
    NoCustomer,
    #[error("the cluster is not formed yet")]
    NotFormed,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("a secret cannot be decrypted")]
    Unreadable,
}

impl Material {
    /// The default signing secrets at a time, for a URL of no endpoint, or of one without a secret of its own.
    ///
    /// # Errors
    /// When this node lacks the cluster's master key.
    pub fn by_default(
        directory: &Directory,
        secrets: &Secrets,
        customer: CustomerId,
        now: Timestamp,
    ) -> Result<Self, MaterialError> {
        let cluster = directory.read(|state| state.cluster.clone()).ok_or(MaterialError::NotFormed)?;
        Ok(Self { secrets: secrets.default_webhook_secrets(&cluster, customer, now)?, headers: Vec::new() })
    }

    /// The secrets and headers for an attempt that begins at a time.
    ///
    /// # Errors
    /// When a secret was sealed under another master key, or is damaged.
    pub fn open(
        directory: &Directory,
        secrets: &Secrets,
        endpoint: &EndpointRecord,
        now: Timestamp,
    ) -> Result<Self, MaterialError> {
        let by_default = || Self::by_default(directory, secrets, endpoint.customer_id, now);
        if endpoint.secret.is_none() && endpoint.sealed_headers.is_none() {
            return by_default();
        }
        let customer = directory.read(|state| state.customers.get(&endpoint.customer_id).cloned());
        let customer = customer.ok_or(MaterialError::NoCustomer)?;
        let signing = match &endpoint.secret {
            Some(sealed) => {
                let opened = secrets.open(&customer, &secret_purpose(endpoint.id), sealed)?;
                vec![String::from_utf8(opened).map_err(|_| MaterialError::Unreadable)?]
            }
            None => by_default()?.secrets,
        };
        let headers = match &endpoint.sealed_headers {
            Some(sealed) => {
                let opened = secrets.open(&customer, &headers_purpose(endpoint.id), sealed)?;
                serde_json::from_slice(&opened).map_err(|_| MaterialError::Unreadable)?
            }
            None => Vec::new(),
        };
        Ok(Self { secrets: signing, headers })
    }
}
