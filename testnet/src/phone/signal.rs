//! The Signal endpoint of a phone: its keys and sessions, in memory only.

use std::collections::HashMap;

use async_trait::async_trait;
use futures::FutureExt;
use wacore::libsignal::protocol::error::Result;
use wacore::libsignal::protocol::{
    CiphertextMessage, CiphertextMessageType, DeviceId, Direction, GenericSignedPreKey, IdentityChange, IdentityKey,
    IdentityKeyPair, IdentityKeyStore, KeyPair, PreKeyBundle, PreKeyId, PreKeyRecord, PreKeySignalMessage, PreKeyStore,
    ProtocolAddress, PublicKey, SenderKeyDistributionMessage, SenderKeyName, SenderKeyRecord, SenderKeyStore,
    SessionRecord, SessionStore, SignalMessage, SignalProtocolError, SignedPreKeyId, SignedPreKeyRecord,
    SignedPreKeyStore, Timestamp, UsePQRatchet, create_sender_key_distribution_message, group_decrypt, group_encrypt,
    message_decrypt, message_encrypt, process_prekey_bundle, process_sender_key_distribution_message,
};

use crate::account::{KeyBundle, SignedKey};
use crate::number::DeviceAddress;

/// Maximum number of one-time prekeys of a phone that are given out but unused.
const MAX_PREKEYS: usize = 4_096;

/// Type of a ciphertext on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncType {
    /// Starts a session.
    PreKey,
    Message,
    /// Encrypted for all members of a group.
    SenderKey,
}

impl EncType {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreKey => "pkmsg",
            Self::Message => "msg",
            Self::SenderKey => "skmsg",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "pkmsg" => Some(Self::PreKey),
            "msg" => Some(Self::Message),
            "skmsg" => Some(Self::SenderKey),
            _ => None,
        }
    }
}

pub struct Signal {
    identities: Identities,
    sessions: Sessions,
    prekeys: PreKeys,
    signed: SignedPreKeys,
    sender_keys: SenderKeys,
    next_prekey: u32,
}

/// The in-memory stores never wait, so the library's futures complete immediately.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("stores in memory answer at once")
}

fn address(device: DeviceAddress) -> ProtocolAddress {
    ProtocolAddress::new(&device.number.to_string(), DeviceId::from(u32::from(device.device)))
}

impl Signal {
    pub fn generate() -> Self {
        let pair = IdentityKeyPair::generate(&mut rand::rng());
        let signed_pair = KeyPair::generate(&mut rand::rng());
        let signature = pair
            .private_key()
            .calculate_signature(&signed_pair.public_key.serialize(), &mut rand::rng())
            .expect("a fresh key can sign");
        let record =
            SignedPreKeyRecord::new(SignedPreKeyId::from(1), Timestamp::from_epoch_millis(0), &signed_pair, &signature);
        let registration_id = rand::random::<u16>() as u32 & 0x3FFF | 1;
        Self {
            identities: Identities { pair, registration_id, known: HashMap::new() },
            sessions: Sessions::default(),
            prekeys: PreKeys::default(),
            signed: SignedPreKeys {
                record,
                shown: SignedKey { id: 1, public: raw(&signed_pair.public_key), signature: signature.to_vec() },
            },
            sender_keys: SenderKeys::default(),
            next_prekey: 1,
        }
    }

    pub fn identity(&self) -> [u8; 32] {
        raw(self.identities.pair.public_key())
    }

    /// Signs with the account's identity key.
    pub fn sign(&self, parts: &[&[u8]]) -> Vec<u8> {
        let key = self.identities.pair.private_key();
        key.calculate_signature(&parts.concat(), &mut rand::rng()).expect("a key can sign").to_vec()
    }

    /// The shared secret of the account's identity key and a public key.
    pub fn agree(&self, theirs: &[u8; 32]) -> Option<[u8; 32]> {
        let theirs = PublicKey::from_djb_public_key_bytes(theirs).ok()?;
        self.identities.pair.private_key().calculate_agreement(&theirs).ok()
    }

    pub fn session_count(&self) -> usize {
        self.sessions.0.len()
    }

    /// The keys that are needed to start a session with this phone, with a new one-time prekey each time.
    pub fn bundle(&mut self, with_prekey: bool) -> KeyBundle {
        let one_time = (with_prekey && self.prekeys.0.len() < MAX_PREKEYS).then(|| {
            let (id, pair) = (self.next_prekey, KeyPair::generate(&mut rand::rng()));
            self.next_prekey += 1;
            self.prekeys.0.insert(id, PreKeyRecord::new(PreKeyId::from(id), &pair));
            (id, raw(&pair.public_key))
        });
        KeyBundle {
            registration_id: self.identities.registration_id,
            identity: self.identity(),
            one_time,
            signed: self.signed.shown.clone(),
            device_identity: None,
        }
    }

    pub fn has_session(&self, peer: DeviceAddress) -> bool {
        self.sessions.0.contains_key(&peer)
    }

    pub fn forget(&mut self, peer: DeviceAddress) {
        self.sessions.0.remove(&peer);
        self.identities.known.remove(&peer);
    }

    pub fn begin(&mut self, peer: DeviceAddress, bundle: &KeyBundle) -> Result<()> {
        let public = |bytes: &[u8; 32]| PublicKey::from_djb_public_key_bytes(bytes);
        let one_time = match &bundle.one_time {
            Some((id, key)) => Some((PreKeyId::from(*id), public(key)?)),
            None => None,
        };
        let bundle = PreKeyBundle::new(
            bundle.registration_id,
            DeviceId::from(u32::from(peer.device)),
            one_time,
            SignedPreKeyId::from(bundle.signed.id),
            public(&bundle.signed.public)?,
            bundle.signed.signature.clone(),
            IdentityKey::new(public(&bundle.identity)?),
        )?;
        let Self { sessions, identities, .. } = self;
        let (mut sessions, mut rng) = (sessions.of(peer), rand::rng());
        let mut identities = identities.of(peer);
        at_once(process_prekey_bundle(
            &address(peer),
            &mut sessions,
            &mut identities,
            &bundle,
            &mut rng,
            UsePQRatchet::No,
        ))?;
        Ok(())
    }

    pub fn encrypt(&mut self, peer: DeviceAddress, plain: &[u8]) -> Result<(EncType, Vec<u8>)> {
        let Self { sessions, identities, .. } = self;
        let (mut sessions, mut identities) = (sessions.of(peer), identities.of(peer));
        let sealed = at_once(message_encrypt(plain, &address(peer), &mut sessions, &mut identities))?;
        let kind = match sealed.message_type() {
            CiphertextMessageType::PreKey => EncType::PreKey,
            _ => EncType::Message,
        };
        Ok((kind, sealed.serialize().to_vec()))
    }

    pub fn decrypt(&mut self, peer: DeviceAddress, kind: EncType, bytes: &[u8]) -> Result<Vec<u8>> {
        let sealed = match kind {
            EncType::PreKey => CiphertextMessage::PreKeySignalMessage(PreKeySignalMessage::try_from(bytes)?),
            EncType::Message => CiphertextMessage::SignalMessage(SignalMessage::try_from(bytes)?),
            EncType::SenderKey => {
                return Err(SignalProtocolError::InvalidArgument("a sender key's message is for a group".into()));
            }
        };
        let Self { sessions, identities, prekeys, signed, .. } = self;
        let (mut sessions, mut identities) = (sessions.of(peer), identities.of(peer));
        let opened = at_once(message_decrypt(
            &sealed,
            &address(peer),
            &mut sessions,
            &mut identities,
            prekeys,
            signed,
            &mut rand::rng(),
            UsePQRatchet::No,
        ))?;
        if let Some(id) = opened.consumed_prekey_id {
            prekeys.0.remove(&u32::from(id));
        }
        Ok(opened.plaintext)
    }

    /// Decrypts a group message from a device.
    pub fn open_group(&mut self, group: &str, from: DeviceAddress, bytes: &[u8]) -> Result<Vec<u8>> {
        at_once(group_decrypt(bytes, &mut self.sender_keys, &sender_key_name(group, from)))
    }

    /// Stores a device's sender key for a group.
    pub fn learn_sender_key(&mut self, group: &str, from: DeviceAddress, distribution: &[u8]) -> Result<()> {
        let distribution = SenderKeyDistributionMessage::try_from(distribution)?;
        let name = sender_key_name(group, from);
        at_once(process_sender_key_distribution_message(&name, &distribution, &mut self.sender_keys))
    }

    /// This phone's sender key for a group, as distributed to members.
    pub fn distribution(&mut self, group: &str, me: DeviceAddress) -> Result<Vec<u8>> {
        let name = sender_key_name(group, me);
        let mut rng = rand::rng();
        let made = at_once(create_sender_key_distribution_message(&name, &mut self.sender_keys, &mut rng))?;
        Ok(made.serialized().to_vec())
    }

    pub fn seal_group(&mut self, group: &str, me: DeviceAddress, plain: &[u8]) -> Result<Vec<u8>> {
        let name = sender_key_name(group, me);
        let sealed = at_once(group_encrypt(&mut self.sender_keys, &name, plain, &mut rand::rng()))?;
        Ok(sealed.serialized().to_vec())
    }

    /// Drops a sender key: the next group message uses a new one, which former members do not know.
    pub fn forget_sender_key(&mut self, group: &str, of: DeviceAddress) {
        self.sender_keys.0.remove(sender_key_name(group, of).cache_key());
    }
}

fn sender_key_name(group: &str, device: DeviceAddress) -> SenderKeyName {
    SenderKeyName::from_parts(group, &device.to_string())
}

fn raw(key: &PublicKey) -> [u8; 32] {
    key.public_key_bytes().try_into().expect("a public key has 32 bytes")
}

#[derive(Default)]
struct Sessions(HashMap<DeviceAddress, SessionRecord>);

impl Sessions {
    fn of(&mut self, peer: DeviceAddress) -> PeerSession<'_> {
        PeerSession { sessions: self, peer }
    }
}

/// A session store for one peer: the library identifies peers by strings, and each call here concerns a known one.
struct PeerSession<'a> {
    sessions: &'a mut Sessions,
    peer: DeviceAddress,
}

#[async_trait]
impl SessionStore for PeerSession<'_> {
    async fn load_session(&self, _: &ProtocolAddress) -> Result<Option<SessionRecord>> {
        Ok(self.sessions.0.get(&self.peer).cloned())
    }

    async fn has_session(&self, _: &ProtocolAddress) -> Result<bool> {
        Ok(self.sessions.0.contains_key(&self.peer))
    }

    async fn store_session(&mut self, _: &ProtocolAddress, record: SessionRecord) -> Result<()> {
        self.sessions.0.insert(self.peer, record);
        Ok(())
    }
}

struct Identities {
    pair: IdentityKeyPair,
    registration_id: u32,
    known: HashMap<DeviceAddress, IdentityKey>,
}

impl Identities {
    fn of(&mut self, peer: DeviceAddress) -> PeerIdentity<'_> {
        PeerIdentity { identities: self, peer }
    }
}

struct PeerIdentity<'a> {
    identities: &'a mut Identities,
    peer: DeviceAddress,
}

/// A phone trusts every identity key: a device that was linked again has a new one.
#[async_trait]
impl IdentityKeyStore for PeerIdentity<'_> {
    async fn get_identity_key_pair(&self) -> Result<IdentityKeyPair> {
        Ok(self.identities.pair.clone())
    }

    async fn get_local_registration_id(&self) -> Result<u32> {
        Ok(self.identities.registration_id)
    }

    async fn save_identity(&mut self, _: &ProtocolAddress, identity: &IdentityKey) -> Result<IdentityChange> {
        let before = self.identities.known.insert(self.peer, *identity);
        match before {
            Some(before) if before != *identity => Ok(IdentityChange::ReplacedExisting),
            _ => Ok(IdentityChange::NewOrUnchanged),
        }
    }

    async fn is_trusted_identity(&self, _: &ProtocolAddress, _: &IdentityKey, _: Direction) -> Result<bool> {
        Ok(true)
    }

    async fn get_identity(&self, _: &ProtocolAddress) -> Result<Option<IdentityKey>> {
        Ok(self.identities.known.get(&self.peer).copied())
    }
}

#[derive(Default)]
struct PreKeys(HashMap<u32, PreKeyRecord>);

#[async_trait]
impl PreKeyStore for PreKeys {
    async fn get_pre_key(&self, id: PreKeyId) -> Result<PreKeyRecord> {
        self.0.get(&u32::from(id)).cloned().ok_or(SignalProtocolError::InvalidPreKeyId)
    }

    async fn save_pre_key(&mut self, id: PreKeyId, record: &PreKeyRecord) -> Result<()> {
        self.0.insert(u32::from(id), record.clone());
        Ok(())
    }

    async fn remove_pre_key(&mut self, id: PreKeyId) -> Result<()> {
        self.0.remove(&u32::from(id));
        Ok(())
    }
}

struct SignedPreKeys {
    record: SignedPreKeyRecord,
    shown: SignedKey,
}

#[async_trait]
impl SignedPreKeyStore for SignedPreKeys {
    async fn get_signed_pre_key(&self, id: SignedPreKeyId) -> Result<SignedPreKeyRecord> {
        if u32::from(id) == self.shown.id {
            Ok(self.record.clone())
        } else {
            Err(SignalProtocolError::InvalidSignedPreKeyId)
        }
    }

    async fn save_signed_pre_key(&mut self, _: SignedPreKeyId, record: &SignedPreKeyRecord) -> Result<()> {
        self.record = record.clone();
        Ok(())
    }
}

#[derive(Default)]
struct SenderKeys(HashMap<String, SenderKeyRecord>);

#[async_trait]
impl SenderKeyStore for SenderKeys {
    async fn store_sender_key(&mut self, name: &SenderKeyName, record: SenderKeyRecord) -> Result<()> {
        self.0.insert(name.cache_key().to_owned(), record);
        Ok(())
    }

    async fn load_sender_key(&self, name: &SenderKeyName) -> Result<Option<SenderKeyRecord>> {
        Ok(self.0.get(name.cache_key()).cloned())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::number::Number;

    fn pair() -> (Signal, Signal, DeviceAddress, DeviceAddress) {
        let device = |digits: &str| Number::parse(digits).unwrap().device(0);
        (Signal::generate(), Signal::generate(), device("1111"), device("2222"))
    }

    #[test]
    fn two_phones_that_have_met_read_each_other() {
        let (mut anna, mut bert, at_anna, at_bert) = pair();
        anna.begin(at_bert, &bert.bundle(true)).unwrap();
        let (kind, sealed) = anna.encrypt(at_bert, b"hello").unwrap();
        assert_eq!(kind, EncType::PreKey);
        assert_eq!(bert.decrypt(at_anna, kind, &sealed).unwrap(), b"hello");
        let (kind, sealed) = bert.encrypt(at_anna, b"yes?").unwrap();
        assert_eq!(kind, EncType::Message);
        assert_eq!(anna.decrypt(at_bert, kind, &sealed).unwrap(), b"yes?");
        assert!(anna.decrypt(at_bert, kind, &sealed).is_err(), "a message key serves once");
    }

    #[test]
    fn a_sender_key_that_was_told_opens_what_comes_after() {
        let (mut anna, mut bert, at_anna, _) = pair();
        let told = anna.distribution("1@g.us", at_anna).unwrap();
        let sealed = anna.seal_group("1@g.us", at_anna, b"to all").unwrap();
        assert!(bert.open_group("1@g.us", at_anna, &sealed).is_err());
        bert.learn_sender_key("1@g.us", at_anna, &told).unwrap();
        assert_eq!(bert.open_group("1@g.us", at_anna, &sealed).unwrap(), b"to all");
    }

    #[test]
    fn a_phone_that_lost_its_sessions_cannot_read_on() {
        let (mut anna, mut bert, at_anna, at_bert) = pair();
        anna.begin(at_bert, &bert.bundle(true)).unwrap();
        let (kind, sealed) = anna.encrypt(at_bert, b"hello").unwrap();
        bert.decrypt(at_anna, kind, &sealed).unwrap();
        let (_, answer) = bert.encrypt(at_anna, b"yes?").unwrap();
        anna.decrypt(at_bert, EncType::Message, &answer).unwrap();
        bert.forget(at_anna);
        let (kind, sealed) = anna.encrypt(at_bert, b"are you there?").unwrap();
        assert_eq!(kind, EncType::Message);
        assert!(bert.decrypt(at_anna, kind, &sealed).is_err());
    }
}
