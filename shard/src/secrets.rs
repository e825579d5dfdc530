//! Sealing at the owner and at the edge: what is secret is sealed before it is proposed, and opened where it is used.

use model::id::{CustomerId, EndpointId};
use model::seal::{DataKey, Keyring, MasterKey, SealError, WrappedKey};
use model::webhook::default_secret;
use raft::directory::records::{CustomerRecord, SealedKey};
use uuid::Uuid;

/// What the deployment's own key is sealed for.
const DEPLOYMENT: &[u8] = b"deployment-key";

/// What the key of the cluster's authority is sealed for.
const AUTHORITY: &[u8] = b"cluster-authority";

/// What an endpoint's custom signing secret is sealed for.
pub fn secret_purpose(endpoint: EndpointId) -> String {
    format!("webhook-endpoint/{endpoint}")
}

/// What an endpoint's headers of its own are sealed for.
pub fn headers_purpose(endpoint: EndpointId) -> String {
    format!("webhook-headers/{endpoint}")
}

/// The master key, and what is done with it.
pub struct Secrets {
    master: MasterKey,
    keyring: Keyring,
}

impl Secrets {
    pub fn new(master: MasterKey) -> Self {
        Self { keyring: Keyring::of(master.clone()), master }
    }

    /// Seals something of a customer. `purpose` names the kind and the record; opening needs the same.
    ///
    /// # Errors
    /// When the customer's data key does not open with the present master key.
    pub fn seal(&self, customer: &CustomerRecord, purpose: &str, plaintext: &[u8]) -> Result<Vec<u8>, SealError> {
        let key = self.keyring.unwrap(&customer.data_key, customer.id)?;
        Ok(key.seal(plaintext, purpose.as_bytes(), rand::random()))
    }

    /// Opens what [`Secrets::seal`] sealed for the same customer and purpose.
    ///
    /// # Errors
    /// When it was sealed otherwise, or was changed.
    pub fn open(&self, customer: &CustomerRecord, purpose: &str, sealed: &[u8]) -> Result<Vec<u8>, SealError> {
        self.keyring.unwrap(&customer.data_key, customer.id)?.open(sealed, purpose.as_bytes())
    }

    /// A data key for a new customer.
    pub fn new_data_key(&self, customer: CustomerId) -> WrappedKey {
        self.master.wrap(&DataKey::new(rand::random()), customer, rand::random())
    }

    /// The secret that signs a customer's deliveries when the endpoint has none of its own (supplement 20.2).
    pub fn default_webhook_secret(&self, customer: CustomerId) -> String {
        default_secret(self.master.as_bytes(), customer)
    }

    /// A new key for the deployment.
    pub fn new_deployment_key(&self) -> SealedKey {
        let secret: [u8; 32] = rand::random();
        self.seal_for_all(&secret, DEPLOYMENT)
    }

    /// Seals the private key of the cluster's authority, in PEM.
    pub fn seal_authority(&self, key_pem: &str) -> SealedKey {
        self.seal_for_all(key_pem.as_bytes(), AUTHORITY)
    }

    /// Opens what [`Secrets::seal_authority`] sealed.
    ///
    /// # Errors
    /// When it was sealed under another master key.
    pub fn open_authority(&self, key: &SealedKey) -> Result<String, SealError> {
        String::from_utf8(self.open_for_all(key, AUTHORITY)?).map_err(|_| SealError::Damaged)
    }

    /// Seals what is the whole deployment's, and no customer's.
    fn seal_for_all(&self, plaintext: &[u8], purpose: &[u8]) -> SealedKey {
        let key = DataKey::new(rand::random());
        SealedKey {
            wrapped_by: self.master.wrap(&key, CustomerId(Uuid::nil()), rand::random()),
            sealed: key.seal(plaintext, purpose, rand::random()),
        }
    }

    fn open_for_all(&self, key: &SealedKey, purpose: &[u8]) -> Result<Vec<u8>, SealError> {
        self.keyring.unwrap(&key.wrapped_by, CustomerId(Uuid::nil()))?.open(&key.sealed, purpose)
    }

    /// Opens the deployment's key.
    ///
    /// # Errors
    /// When the cluster was formed under another master key.
    pub fn deployment_key(&self, key: &SealedKey) -> Result<Vec<u8>, SealError> {
        self.open_for_all(key, DEPLOYMENT)
    }
}
