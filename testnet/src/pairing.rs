//! Pairing: a new client shows a QR text or a code; a phone accepts it and signs the device's identity.

mod code;

use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use buffa::Message as _;
use hmac::{Hmac, KeyInit, Mac};
use network::simulator::answers::{ControlError, LoginEnd};
use network::simulator::faults::RefusePairing;
use sha2::Sha256;
use tokio::sync::oneshot;
use wacore::libsignal::protocol::PublicKey;
use wacore_binary::NodeRef;
use waproto::whatsapp::{
    ADVDeviceIdentity, ADVSignedDeviceIdentity, ADVSignedDeviceIdentityHMAC, ClientPayload, DeviceProps,
};

use self::code::CodeRequest;
pub use self::code::{CodeWrap, wrap};
use crate::account::{Device, SignedKey};
use crate::faults::PairingFault;
use crate::login::Phase;
use crate::number::{Naming, Number};
use crate::stanza::{SERVER, bytes, element, parent, stream_error, text, uint_of};
use crate::state::{ConnectionId, State};

/// Number of QR texts of a client: the first is valid for 60 s, the others for 20 s each.
const TEXTS: u32 = 6;
const FIRST: Duration = Duration::from_secs(60);
const NEXT: Duration = Duration::from_secs(20);

/// Maximum number of linked devices of a phone.
const MAX_DEVICES: usize = 4;

const ACCOUNT_SIGNATURE: [u8; 2] = [6, 0];
const DEVICE_SIGNATURE: [u8; 2] = [6, 1];

pub type LinkOutcome = Result<u32, ControlError>;

/// A client that waits to be paired.
pub struct Registration {
    wire_key: [u8; 32],
    identity: [u8; 32],
    registration_id: u32,
    signed: SignedKey,
    name: String,
    full_history: bool,
    texts: Vec<(String, Instant)>,
    code: Option<CodeRequest>,
    link: Option<Link>,
}

/// A pairing that a phone has accepted; the client has to respond.
struct Link {
    number: Number,
    device: u16,
    key_index: u32,
    /// The identity that the phone has signed, and the key of its signature.
    details: Vec<u8>,
    account_key: [u8; 32],
    outcome: Option<oneshot::Sender<LinkOutcome>>,
}

impl Registration {
    /// Reports a failure to the phone, if it is waiting.
    pub fn refuse(&mut self, why: &str) {
        self.settle(Err(ControlError::Invalid(why.into())));
    }

    fn settle(&mut self, outcome: LinkOutcome) {
        let typed = self.code.as_mut().and_then(CodeRequest::outcome);
        if let Some(waiting) = self.link.as_mut().and_then(|link| link.outcome.take()).or(typed) {
            // The caller may be gone.
            let _ = waiting.send(outcome);
        }
    }
}

impl State {
    pub fn register_companion(&mut self, id: ConnectionId, payload: &ClientPayload, wire_key: [u8; 32]) {
        let Some(mut registration) = Registration::parse(payload, wire_key) else {
            tracing::warn!("a client's registration lacks keys, or its signed prekey has another's signature");
            self.connections[&id].outlet.cut();
            return;
        };
        let scale = self.faults.qr_time_scale;
        let mut expires = Instant::now();
        for text in 0..TEXTS {
            expires += (if text == 0 { FIRST } else { NEXT }).mul_f64(scale);
            registration.texts.push((format!("2@{}", BASE64_STANDARD.encode(rand::random::<[u8; 32]>())), expires));
        }
        let texts = registration.texts.iter().map(|(text, _)| bytes("ref", text.as_bytes()));
        let query = element("iq")
            .attr("from", SERVER)
            .attr("type", "set")
            .attr("id", format!("pair-{id}"))
            .attr("xmlns", "md")
            .children([parent("pair-device", texts)])
            .build();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.phase = Phase::Registering(Box::new(registration));
            connection.outlet.send(query);
        }
    }

    /// Scans the text of a QR code; `outcome` receives the result.
    pub fn scan(
        &mut self,
        number: Number,
        raw: &str,
        outcome: oneshot::Sender<LinkOutcome>,
    ) -> Result<(), ControlError> {
        let invalid = |text: &str| ControlError::Invalid(text.into());
        self.account(number)?;
        let fields: Vec<&str> = raw.split(',').collect();
        let [reference, wire_key, identity, secret, ..] = fields.as_slice() else {
            return Err(invalid("the text is no QR text: it must have five fields between commas"));
        };
        // Newer clients show a URL that ends with the text.
        let reference = reference.rsplit('#').next().unwrap_or_default();
        let now = Instant::now();
        let found = self.connections.iter().find_map(|(id, connection)| match &connection.phase {
            Phase::Registering(registration) => {
                let text = registration.texts.iter().find(|(text, _)| text == reference)?;
                Some((*id, text.1 > now))
            }
            _ => None,
        });
        let (id, alive) = found.ok_or_else(|| invalid("no device shows this text, or no longer"))?;
        if !alive {
            return Err(invalid("the text has expired"));
        }
        self.check_room(number)?;
        let secret = BASE64_STANDARD.decode(secret).map_err(|_| invalid("the text's secret is not base64"))?;
        let registration = self.registration_mut(id).ok_or_else(|| invalid("the device went away"))?;
        if BASE64_STANDARD.encode(registration.identity) != *identity
            || BASE64_STANDARD.encode(registration.wire_key) != *wire_key
        {
            return Err(invalid("the text's keys are not those that the device registered with"));
        }
        if registration.link.is_some() {
            return Err(invalid("the text was scanned before"));
        }
        self.vouch(id, number, &secret, outcome)
    }

    /// Checks that a phone may have one more device.
    fn check_room(&self, number: Number) -> Result<(), ControlError> {
        let full = self.account(number)?.devices.len() >= MAX_DEVICES;
        if full || self.faults.refuse_pairing == Some(RefusePairing::DeviceLimit) {
            return Err(ControlError::Invalid("the phone has too many devices".into()));
        }
        Ok(())
    }

    /// Signs a device's identity, authenticated with the secret shared by phone and device.
    fn vouch(
        &mut self,
        id: ConnectionId,
        number: Number,
        secret: &[u8],
        outcome: oneshot::Sender<LinkOutcome>,
    ) -> Result<(), ControlError> {
        let gone = || ControlError::Invalid("the device went away".into());
        let identity = self.registration_mut(id).ok_or_else(gone)?.identity;
        let now = self.now();
        let account = self.account_mut(number)?;
        let (device, key_index) = (account.next_device, account.next_key_index);
        // As in the real network, even a failed attempt uses up the device id.
        account.next_device += 1;
        account.next_key_index += 1;
        let signal = account.phone.signal();
        let details = ADVDeviceIdentity {
            raw_id: Some(u32::from(device)),
            timestamp: u64::try_from(now.unix_seconds()).ok(),
            key_index: Some(key_index),
            ..Default::default()
        }
        .encode_to_vec();
        let signed = ADVSignedDeviceIdentity {
            account_signature: Some(signal.sign(&[&ACCOUNT_SIGNATURE, &details, &identity])),
            account_signature_key: Some(signal.identity().to_vec()),
            details: Some(details.clone()),
            device_signature: None,
        }
        .encode_to_vec();
        let account_key = signal.identity();
        let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(secret).expect("HMAC takes a key of any length");
        mac.update(&signed);
        let mut tag = mac.finalize().into_bytes().to_vec();
        if self.faults.pairing == PairingFault::Hmac {
            tag[0] ^= 1;
        }
        let vouched = ADVSignedDeviceIdentityHMAC { details: Some(signed), hmac: Some(tag), ..Default::default() };
        if let Some(registration) = self.registration_mut(id) {
            registration.link = Some(Link { number, device, key_index, details, account_key, outcome: Some(outcome) });
        }
        let at = number.device(device);
        let success = parent(
            "pair-success",
            [
                bytes("device-identity", vouched.encode_to_vec()),
                element("platform").attr("name", "android").build(),
                element("device").attr("jid", at.jid(Naming::Number)).attr("lid", at.jid(Naming::Lid)).build(),
            ],
        );
        let query = element("iq")
            .attr("from", SERVER)
            .attr("type", "set")
            .attr("id", format!("paired-{id}"))
            .attr("xmlns", "md")
            .children([success])
            .build();
        self.write(id, query);
        Ok(())
    }

    fn registration_mut(&mut self, id: ConnectionId) -> Option<&mut Registration> {
        match &mut self.connections.get_mut(&id)?.phase {
            Phase::Registering(registration) => Some(registration),
            _ => None,
        }
    }

    /// Handles stanzas of a client that waits to be paired.
    pub fn take_registering(&mut self, id: ConnectionId, stanza: &NodeRef<'_>) {
        let fault = self.faults.pairing;
        let now = self.now();
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let Phase::Registering(registration) = &mut connection.phase else { return };
        if text(stanza, "type").as_deref() == Some("error") {
            registration.refuse("the device refused the pairing");
            return;
        }
        if let Some(asked) = stanza.get_optional_child("link_code_companion_reg") {
            self.take_code_stanza(id, stanza, asked);
            return;
        }
        let Some(answer) = stanza.get_optional_child("pair-device-sign") else { return };
        if fault == PairingFault::DropSign {
            self.end(id, None, LoginEnd::Lost);
            return;
        }
        let Some(link) = &registration.link else { return };
        let (number, device_id) = (link.number, link.device);
        let Some(device_identity) = registration.verify(link, answer) else {
            registration.refuse("the device's signature is wrong");
            self.end(id, None, LoginEnd::Lost);
            return;
        };
        let device = Device {
            name: registration.name.clone(),
            full_history: registration.full_history,
            linked_at: now,
            key_index: link.key_index,
            wire_key: registration.wire_key,
            identity: registration.identity,
            registration_id: registration.registration_id,
            signed: registration.signed.clone(),
            device_identity,
            prekeys: Default::default(),
            offered: Default::default(),
            queue: Default::default(),
            delivered: Default::default(),
            delivered_set: Default::default(),
            connection: None,
            last_login_at: None,
            highest_epoch: 0,
            failure: None,
            shows: Default::default(),
        };
        connection.outlet.send(stream_error("515"));
        connection.outlet.close();
        let phase = std::mem::replace(&mut connection.phase, Phase::Ended);
        self.check.paired();
        let Ok(account) = self.account_mut(number) else { return };
        account.devices.insert(device_id, device);
        if let Phase::Registering(mut registration) = phase {
            registration.settle(Ok(u32::from(device_id)));
        }
        self.phone_greets(number.device(device_id));
        self.tell_of_devices(number.device(device_id));
    }
}

impl Registration {
    fn parse(payload: &ClientPayload, wire_key: [u8; 32]) -> Option<Self> {
        let data = payload.device_pairing_data.as_option()?;
        let identity: [u8; 32] = data.e_ident.clone()?.as_slice().try_into().ok()?;
        let signed = SignedKey {
            id: uint_of(data.e_skey_id.as_deref()?)?,
            public: data.e_skey_val.as_deref()?.try_into().ok()?,
            signature: data.e_skey_sig.clone()?.to_vec(),
        };
        if !signed_by(&identity, &signed) {
            return None;
        }
        let props = data.device_props.as_deref().and_then(|props| DeviceProps::decode_from_slice(props).ok());
        let props = props.unwrap_or_default();
        Some(Self {
            wire_key,
            identity,
            registration_id: uint_of(data.e_regid.as_deref()?)?,
            signed,
            name: props.os.clone().unwrap_or_default(),
            full_history: props.require_full_sync.unwrap_or(false),
            texts: Vec::new(),
            code: None,
            link: None,
        })
    }

    /// The complete device identity in a client's response, if its signature is valid.
    fn verify(&self, link: &Link, answer: &NodeRef<'_>) -> Option<Vec<u8>> {
        let signed = answer.get_optional_child("device-identity")?.content_bytes()?;
        let mut signed = ADVSignedDeviceIdentity::decode_from_slice(signed).ok()?;
        let identity = PublicKey::from_djb_public_key_bytes(&self.identity).ok()?;
        let parts: [&[u8]; 4] = [&DEVICE_SIGNATURE, &link.details, &self.identity, &link.account_key];
        let right = signed.details.as_deref() == Some(link.details.as_slice())
            && identity.verify_signature(&parts.concat(), signed.device_signature.as_deref()?);
        // Clients may omit the key, since the network knows it.
        signed.account_signature_key = Some(link.account_key.to_vec());
        right.then(|| signed.encode_to_vec())
    }
}

/// Whether a prekey is signed by an identity.
pub fn signed_by(identity: &[u8; 32], signed: &SignedKey) -> bool {
    let identity = PublicKey::from_djb_public_key_bytes(identity);
    let prekey = PublicKey::from_djb_public_key_bytes(&signed.public);
    match (identity, prekey) {
        (Ok(identity), Ok(prekey)) => identity.verify_signature(&prekey.serialize(), &signed.signature),
        _ => false,
    }
}
