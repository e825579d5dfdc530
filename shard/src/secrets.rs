//! Sealing by owners and by the API: secrets are sealed before they are proposed, and opened where they are used.

use std::time::Duration;

use model::id::{CustomerId, EndpointId};
use model::seal::{DataKey, Keyring, MasterKey, MasterKeyId, SealError, WrappedKey};
use model::time::Timestamp;
use model::webhook::default_secret;
use raft::directory::records::{ClusterRecord, CustomerRecord, SealedKey};
use raft::directory::state::DirectoryState;
use uuid::Uuid;

/// The purpose (associated data) of the deployment's own key.
const DEPLOYMENT: &[u8] = b"deployment-key";

/// The purpose of the key of session tokens.
const SESSION_KEY: &[u8] = b"session-key";

/// The purpose of the private key of the cluster's authority.
const AUTHORITY: &[u8] = b"cluster-authority";

/// The purpose of an endpoint's custom signing secret.
pub fn secret_purpose(endpoint: EndpointId) -> String {
    format!("webhook-endpoint/{endpoint}")
}

/// The purpose of an endpoint's custom headers.
pub fn headers_purpose(endpoint: EndpointId) -> String {
    format!("webhook-headers/{endpoint}")
}

/// How long after an exchange of the master key began deliveries are also signed with the former default secret, so
/// that receivers have time to switch to the new one.
pub const OVERLAP: Duration = Duration::from_secs(24 * 3600);

/// How long a former data key is kept by default once nothing is sealed with it: a backup reads shards before the
/// directory, and rows that it has read may be sealed under keys that would otherwise be dropped before it ends.
pub const KEEP_FORMER: Duration = Duration::from_secs(24 * 3600);

/// The result of sealing or opening.
pub type Tried<T> = Result<T, SealError>;

/// The master keys that this node was configured with, and the operations with them.
///
/// New data keys are wrapped with the master key that the directory names ([`ClusterRecord::master`]), whichever of its
/// two keys this node was configured to prefer: until the exchange begins, nodes that have not restarted know only the
/// former one.
pub struct Secrets {
    keyring: Keyring,
    /// How long former data keys are kept once nothing is sealed with them.
    pub keep_former: Duration,
}

impl Secrets {
    pub fn new(keyring: Keyring) -> Self {
        Self { keyring, keep_former: KEEP_FORMER }
    }

    /// Sets how long former data keys are kept.
    pub fn keeping_former(self, keep_former: Duration) -> Self {
        Self { keep_former, ..self }
    }

    /// The master key that the operator wants to be used from now on.
    pub fn wanted(&self) -> MasterKeyId {
        self.keyring.current.id()
    }

    /// All master keys that this node knows, the wanted one first.
    pub fn known(&self) -> Vec<MasterKeyId> {
        self.keyring.keys().map(MasterKey::id).collect()
    }

    /// A master key that something is sealed under and that this node does not know.
    pub fn lacking(&self, state: &DirectoryState) -> Option<MasterKeyId> {
        state.sealed_under().into_keys().find(|master| self.keyring.key(*master).is_err())
    }

    /// Wraps a data key with another master key; the data key itself, and what it seals, stay the same.
    ///
    /// # Errors
    /// When this node lacks one of the two master keys.
    pub fn rewrap(&self, wrapped: &WrappedKey, customer: CustomerId, to: MasterKeyId) -> Tried<WrappedKey> {
        self.keyring.rewrap(wrapped, customer, to, rand::random())
    }

    /// As [`Secrets::rewrap`], for a key of the whole deployment.
    ///
    /// # Errors
    /// As [`Secrets::rewrap`].
    pub fn rewrap_for_all(&self, key: &SealedKey, to: MasterKeyId) -> Tried<WrappedKey> {
        self.rewrap(&key.wrapped_by, CustomerId(Uuid::nil()), to)
    }

    /// Seals a customer's secret. `purpose` names its kind and record; opening it needs the same purpose.
    ///
    /// # Errors
    /// When this node lacks the master key of the customer's data key.
    pub fn seal(&self, customer: &CustomerRecord, purpose: &str, plaintext: &[u8]) -> Tried<Vec<u8>> {
        let key = self.keyring.unwrap(&customer.data_key, customer.id)?;
        Ok(key.seal(plaintext, purpose.as_bytes(), rand::random()))
    }

    /// Opens what [`Secrets::seal`] sealed for the same customer and purpose, also if the former data key sealed it.
    ///
    /// # Errors
    /// When it was sealed otherwise, or was changed.
    pub fn open(&self, customer: &CustomerRecord, purpose: &str, sealed: &[u8]) -> Tried<Vec<u8>> {
        match (self.open_with(&customer.data_key, customer.id, purpose, sealed), &customer.former_data_key) {
            (Err(SealError::Damaged), Some(former)) => self.open_with(former, customer.id, purpose, sealed),
            (opened, _) => opened,
        }
    }

    fn open_with(&self, key: &WrappedKey, id: CustomerId, purpose: &str, sealed: &[u8]) -> Tried<Vec<u8>> {
        self.keyring.unwrap(key, id)?.open(sealed, purpose.as_bytes())
    }

    /// Seals a secret again with the customer's present data key; `None` when that key has sealed it already.
    ///
    /// # Errors
    /// When neither the present nor the former data key opens it.
    pub fn reseal(&self, customer: &CustomerRecord, purpose: &str, sealed: &[u8]) -> Tried<Option<Vec<u8>>> {
        match self.open_with(&customer.data_key, customer.id, purpose, sealed) {
            Ok(_) => Ok(None),
            Err(_) => self.seal(customer, purpose, &self.open(customer, purpose, sealed)?).map(Some),
        }
    }

    /// As [`Secrets::reseal`], for all that a rotation finds: a secret that neither key opens is lost, so it is logged
    /// and skipped.
    ///
    /// # Errors
    /// When this node cannot tell. The secret must then not be counted as sealed with the present key.
    pub fn reseal_found(&self, customer: &CustomerRecord, purpose: &str, sealed: &[u8]) -> Tried<Option<Vec<u8>>> {
        match self.reseal(customer, purpose, sealed) {
            Err(error @ SealError::Damaged) => {
                tracing::error!(purpose, %error, "a secret cannot be decrypted with either data key");
                Ok(None)
            }
            resealed => resealed,
        }
    }

    /// A data key for a new customer.
    ///
    /// # Errors
    /// When this node lacks the cluster's master key.
    pub fn new_data_key(&self, master: MasterKeyId, customer: CustomerId) -> Tried<WrappedKey> {
        Ok(self.keyring.key(master)?.wrap(&DataKey::new(rand::random()), customer, rand::random()))
    }

    /// The default secrets, which sign a customer's deliveries when the endpoint has none of its own. The first one is
    /// current, and is shown to the customer; a second one signs as well while the operator exchanges the master key,
    /// and for [`OVERLAP`] after the exchange began.
    ///
    /// # Errors
    /// When this node lacks the cluster's master key.
    pub fn default_webhook_secrets(
        &self,
        cluster: &ClusterRecord,
        customer: CustomerId,
        now: Timestamp,
    ) -> Tried<Vec<String>> {
        let present = self.keyring.key(cluster.master())?;
        let overlaps = cluster.exchange.is_none_or(|exchange| {
            // The record of a completed exchange does not cover one that is about to begin; the wanted key shows that.
            let is_next = self.wanted() != cluster.master();
            is_next || now < exchange.began_at.plus(OVERLAP)
        });
        let others = self.keyring.keys().filter(|key| overlaps && key.id() != present.id());
        Ok(std::iter::once(present).chain(others).map(|key| default_secret(key.as_bytes(), customer)).collect())
    }

    /// A new deployment key for a new cluster.
    pub fn new_deployment_key(&self) -> SealedKey {
        let secret: [u8; 32] = rand::random();
        seal_for_all(&self.keyring.current, &secret, DEPLOYMENT)
    }

    /// A new key for session tokens, sealed with the deployment's data key.
    ///
    /// # Errors
    /// When the cluster was formed under another master key.
    pub fn new_session_key(&self, cluster: &ClusterRecord) -> Tried<Vec<u8>> {
        let key: [u8; 32] = rand::random();
        Ok(self.deployment_data_key(cluster)?.seal(&key, SESSION_KEY, rand::random()))
    }

    /// Opens what [`Secrets::new_session_key`] sealed.
    ///
    /// # Errors
    /// When the cluster was formed under another master key.
    pub fn session_key(&self, cluster: &ClusterRecord, sealed: &[u8]) -> Tried<[u8; 32]> {
        let key = self.deployment_data_key(cluster)?.open(sealed, SESSION_KEY)?;
        key.try_into().map_err(|_| SealError::Damaged)
    }

    fn deployment_data_key(&self, cluster: &ClusterRecord) -> Tried<DataKey> {
        self.keyring.unwrap(&cluster.deployment_key.wrapped_by, CustomerId(Uuid::nil()))
    }

    /// Seals the private key of the cluster's authority, given in PEM.
    ///
    /// # Errors
    /// When this node lacks the cluster's master key.
    pub fn seal_authority(&self, master: MasterKeyId, key_pem: &str) -> Tried<SealedKey> {
        Ok(seal_for_all(self.keyring.key(master)?, key_pem.as_bytes(), AUTHORITY))
    }

    /// Opens what [`Secrets::seal_authority`] sealed.
    ///
    /// # Errors
    /// When it was sealed under another master key.
    pub fn open_authority(&self, key: &SealedKey) -> Tried<String> {
        String::from_utf8(self.open_for_all(key, AUTHORITY)?).map_err(|_| SealError::Damaged)
    }

    fn open_for_all(&self, key: &SealedKey, purpose: &[u8]) -> Tried<Vec<u8>> {
        self.keyring.unwrap(&key.wrapped_by, CustomerId(Uuid::nil()))?.open(&key.sealed, purpose)
    }

    /// Opens the deployment's key.
    ///
    /// # Errors
    /// When the cluster was formed under another master key.
    pub fn deployment_key(&self, key: &SealedKey) -> Tried<Vec<u8>> {
        self.open_for_all(key, DEPLOYMENT)
    }
}

/// Seals a secret of the whole deployment, which belongs to no customer.
fn seal_for_all(master: &MasterKey, plaintext: &[u8], purpose: &[u8]) -> SealedKey {
    let key = DataKey::new(rand::random());
    SealedKey {
        wrapped_by: master.wrap(&key, CustomerId(Uuid::nil()), rand::random()),
        sealed: key.seal(plaintext, purpose, rand::random()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::format::Format;
    use raft::directory::secrets::MasterExchange;

    use super::*;

    fn cluster(secrets: &Secrets, exchange: Option<MasterExchange>) -> ClusterRecord {
        ClusterRecord {
            cluster_id: Uuid::nil(),
            shard_count: 1,
            slots: ClusterRecord::even_slots(1),
            deployment_key: secrets.new_deployment_key(),
            formed_at: Timestamp(0),
            format: Format::LATEST,
            exchange,
            session_key: None,
            data_keys: None,
        }
    }

    #[test]
    fn what_a_former_data_key_sealed_opens_until_it_is_dropped_and_is_sealed_anew_once() {
        let secrets = Secrets::new(Keyring::of(MasterKey::new([1; 32])));
        let id = CustomerId(Uuid::from_u128(1));
        let key = || secrets.new_data_key(secrets.wanted(), id).unwrap();
        let before = customer(id, key());
        let sealed = secrets.seal(&before, "auth/x", b"session").unwrap();
        let former_data_key = Some(Box::new(before.data_key.clone()));
        let changed = CustomerRecord { data_key: key(), former_data_key, ..before };
        assert_eq!(secrets.open(&changed, "auth/x", &sealed).unwrap(), b"session");
        let anew = secrets.reseal(&changed, "auth/x", &sealed).unwrap().unwrap();
        assert_eq!(secrets.reseal(&changed, "auth/x", &anew), Ok(None));
        assert_eq!(secrets.reseal(&changed, "auth/y", &sealed), Err(SealError::Damaged));
        let dropped = CustomerRecord { former_data_key: None, ..changed };
        assert_eq!(secrets.open(&dropped, "auth/x", &sealed), Err(SealError::Damaged));
        assert_eq!(secrets.open(&dropped, "auth/x", &anew).unwrap(), b"session");
    }

    #[test]
    fn a_node_without_the_master_key_takes_nothing_for_sealed_anew() {
        let secrets = Secrets::new(Keyring::of(MasterKey::new([1; 32])));
        let id = CustomerId(Uuid::from_u128(1));
        let key = || secrets.new_data_key(secrets.wanted(), id).unwrap();
        let before = customer(id, key());
        let sealed = secrets.seal(&before, "auth/x", b"session").unwrap();
        let changed =
            CustomerRecord { former_data_key: Some(Box::new(before.data_key.clone())), data_key: key(), ..before };
        assert!(secrets.reseal_found(&changed, "auth/x", &sealed).unwrap().is_some());
        assert_eq!(
            secrets.reseal_found(&changed, "auth/y", &sealed),
            Ok(None),
            "neither key opens it, here or anywhere"
        );
        let other = Secrets::new(Keyring::of(MasterKey::new([2; 32])));
        assert_eq!(other.reseal_found(&changed, "auth/x", &sealed), Err(SealError::OtherMasterKey));
    }

    fn customer(id: CustomerId, data_key: WrappedKey) -> CustomerRecord {
        CustomerRecord {
            id,
            name: String::new(),
            email: None,
            timezone: String::new(),
            plan: Default::default(),
            limits: Default::default(),
            data_key,
            former_data_key: None,
            created_at: Timestamp(0),
            deleted_at: None,
        }
    }

    #[test]
    fn two_default_secrets_sign_from_the_first_restart_until_a_day_after_the_exchange_began() {
        let (old, new) = (MasterKey::new([1; 32]), MasterKey::new([2; 32]));
        let customer = CustomerId(Uuid::from_u128(1));
        let before = Secrets::new(Keyring::of(old.clone()));
        let both = Secrets::new(Keyring { current: new.clone(), previous: Some(old.clone()) });
        let after = Secrets::new(Keyring::of(new.clone()));
        let [of_old, of_new] = [&old, &new].map(|key| default_secret(key.as_bytes(), customer));
        let exchange = |ended_at| Some(MasterExchange { from: old.id(), began_at: Timestamp(1_000), ended_at });
        let day = i64::try_from(OVERLAP.as_millis()).unwrap();
        let signed = |secrets: &Secrets, cluster: &ClusterRecord, now| {
            secrets.default_webhook_secrets(cluster, customer, Timestamp(now)).unwrap()
        };

        let not_begun = cluster(&before, None);
        assert_eq!(signed(&before, &not_begun, 0), [of_old.as_str()]);
        assert_eq!(signed(&both, &not_begun, 0), [of_old.as_str(), of_new.as_str()]);
        assert!(after.default_webhook_secrets(&not_begun, customer, Timestamp(0)).is_err());

        let begun = cluster(&both, exchange(Some(Timestamp(2_000))));
        assert_eq!(signed(&both, &begun, 1_000 + day - 1), [of_new.as_str(), of_old.as_str()]);
        assert_eq!(signed(&both, &begun, 1_000 + day), [of_new.as_str()]);
        assert_eq!(signed(&after, &begun, 1_000), [of_new.as_str()]);
        assert!(before.default_webhook_secrets(&begun, customer, Timestamp(0)).is_err());

        // The next exchange comes long after the first, and has its own overlap, which has not begun.
        let third = MasterKey::new([3; 32]);
        let again = Secrets::new(Keyring { current: third.clone(), previous: Some(new) });
        assert_eq!(signed(&again, &begun, 10 * day), [of_new, default_secret(third.as_bytes(), customer)]);
    }
}
