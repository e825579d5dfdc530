//! What of an endpoint is sealed and goes with each request to it: its signing secret and its own headers.

use model::seal::SealError;
use model::webhook::StaticHeaders;
use raft::directory::Directory;
use raft::directory::records::EndpointRecord;

use crate::secrets::{Secrets, headers_purpose, secret_purpose};

/// Opened for one attempt, so that a change acts on the next one.
pub struct Material {
    pub secret: String,
    pub headers: StaticHeaders,
}

/// Why an endpoint's secrets cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum MaterialError {
    #[error("the customer is gone")]
    NoCustomer,
    #[error(transparent)]
    Seal(#[from] SealError),
    #[error("what was sealed is not readable")]
    Unreadable,
}

impl Material {
    /// # Errors
    /// When it was sealed under another master key, or is damaged.
    pub fn open(directory: &Directory, secrets: &Secrets, endpoint: &EndpointRecord) -> Result<Self, MaterialError> {
        if endpoint.secret.is_none() && endpoint.sealed_headers.is_none() {
            let secret = secrets.default_webhook_secret(endpoint.customer_id);
            return Ok(Self { secret, headers: Vec::new() });
        }
        let customer = directory.read(|state| state.customers.get(&endpoint.customer_id).cloned());
        let customer = customer.ok_or(MaterialError::NoCustomer)?;
        let secret = match &endpoint.secret {
            Some(sealed) => {
                let opened = secrets.open(&customer, &secret_purpose(endpoint.id), sealed)?;
                String::from_utf8(opened).map_err(|_| MaterialError::Unreadable)?
            }
            None => secrets.default_webhook_secret(endpoint.customer_id),
        };
        let headers = match &endpoint.sealed_headers {
            Some(sealed) => {
                let opened = secrets.open(&customer, &headers_purpose(endpoint.id), sealed)?;
                serde_json::from_slice(&opened).map_err(|_| MaterialError::Unreadable)?
            }
            None => Vec::new(),
        };
        Ok(Self { secret, headers })
    }
}
