//! The responder of the network's handshake: Noise XX for new clients, IK for clients that know the server's key.

use buffa::{Message as _, MessageField};
use serde::{Deserialize, Serialize};
use wacore::libsignal::protocol::KeyPair;
use wacore::noise::{NoiseCipher, NoiseHandshake};
use wacore_binary::consts::{NOISE_PATTERN_IK, NOISE_PATTERN_XX, NOISE_PATTERN_XXFALLBACK, WA_CONN_HEADER};
use waproto::whatsapp::cert_chain::NoiseCertificate;
use waproto::whatsapp::cert_chain::noise_certificate::Details;
use waproto::whatsapp::handshake_message::ServerHello;
use waproto::whatsapp::{CertChain, ClientPayload, HandshakeMessage};

use super::WireError;

/// Validity of the certificates, far beyond any test.
const VALID: (u64, u64) = (1_600_000_000, 4_000_000_000);

/// Handling of a resumed handshake (IK).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resumption {
    #[default]
    Accept,
    /// The client has to start a new handshake, as after a change of the server's key.
    Reject,
}

/// The server's static key, and its certificate chain with empty signatures.
#[derive(Clone)]
pub struct ServerKeys {
    pair: KeyPair,
    chain: Vec<u8>,
}

impl ServerKeys {
    pub fn generate() -> Self {
        let pair = KeyPair::generate(&mut rand::rng());
        let certificate = |serial, issuer, key: &[u8]| {
            let details = Details {
                serial: Some(serial),
                issuer_serial: Some(issuer),
                key: Some(key.to_vec()),
                not_before: Some(VALID.0),
                not_after: Some(VALID.1),
            };
            MessageField::some(NoiseCertificate {
                details: Some(details.encode_to_vec()),
                signature: Some(vec![0; 64]),
            })
        };
        let chain = CertChain {
            leaf: certificate(2, 1, pair.public_key.public_key_bytes()),
            intermediate: certificate(1, 0, &[0xCC; 32]),
        };
        Self { pair, chain: chain.encode_to_vec() }
    }

    fn public(&self) -> &[u8] {
        self.pair.public_key.public_key_bytes()
    }
}

/// A completed handshake.
pub struct Established {
    pub payload: ClientPayload,
    pub client_key: [u8; 32],
    /// Decrypts what the client writes.
    pub reader: NoiseCipher,
    /// Encrypts what the client reads.
    pub writer: NoiseCipher,
}

/// The handshake after the client's hello.
pub enum Responder {
    Resumed(Box<Established>, HandshakeMessage),
    Fresh(Box<Fresh>),
}

/// A handshake that waits for the client's key and payload.
pub struct Fresh {
    noise: NoiseHandshake,
    ephemeral: KeyPair,
    hello: HandshakeMessage,
}

fn failed(error: impl ToString) -> WireError {
    WireError::Noise(error.to_string())
}

fn key(bytes: Option<Vec<u8>>) -> Result<[u8; 32], WireError> {
    let bytes = bytes.ok_or(WireError::Handshake("a key is missing"))?;
    bytes.try_into().map_err(|_| WireError::Handshake("a key has not 32 bytes"))
}

impl Responder {
    pub fn answer(keys: &ServerKeys, frame: &[u8], resumption: Resumption) -> Result<Self, WireError> {
        let message = HandshakeMessage::decode_from_slice(frame).map_err(failed)?;
        let hello = message.client_hello.into_option().ok_or(WireError::Handshake("it begins with no hello"))?;
        let theirs = key(hello.ephemeral)?;
        match (hello.r#static, hello.payload) {
            (Some(client_key), Some(payload)) if resumption == Resumption::Accept => {
                Self::resume(keys, &theirs, &client_key, &payload)
            }
            (Some(_), Some(_)) => Self::begin(keys, &theirs, NOISE_PATTERN_XXFALLBACK),
            _ => Self::begin(keys, &theirs, NOISE_PATTERN_XX),
        }
    }

    /// The server's hello.
    pub fn hello(&self) -> &HandshakeMessage {
        match self {
            Self::Resumed(_, hello) => hello,
            Self::Fresh(fresh) => &fresh.hello,
        }
    }

    fn resume(keys: &ServerKeys, theirs: &[u8], client_key: &[u8], payload: &[u8]) -> Result<Self, WireError> {
        let ours = keys.pair.private_key.serialize();
        let mut noise = NoiseHandshake::new(NOISE_PATTERN_IK, &WA_CONN_HEADER).map_err(failed)?;
        noise.authenticate(keys.public());
        noise.authenticate(theirs);
        noise.mix_shared_secret(ours, theirs).map_err(failed)?;
        let client_key = noise.decrypt(client_key).map_err(failed)?;
        noise.mix_shared_secret(ours, &client_key).map_err(failed)?;
        let payload = noise.decrypt(payload).map_err(failed)?;
        let ephemeral = KeyPair::generate(&mut rand::rng());
        noise.authenticate(ephemeral.public_key.public_key_bytes());
        noise.mix_shared_secret(ephemeral.private_key.serialize(), theirs).map_err(failed)?;
        noise.mix_shared_secret(ephemeral.private_key.serialize(), &client_key).map_err(failed)?;
        let chain = noise.encrypt(&keys.chain).map_err(failed)?;
        let hello = server_hello(&ephemeral, None, chain);
        let established = Established::of(noise, key(Some(client_key))?, &payload)?;
        Ok(Self::Resumed(Box::new(established), hello))
    }

    fn begin(keys: &ServerKeys, theirs: &[u8], pattern: &str) -> Result<Self, WireError> {
        let mut noise = NoiseHandshake::new(pattern, &WA_CONN_HEADER).map_err(failed)?;
        noise.authenticate(theirs);
        let ephemeral = KeyPair::generate(&mut rand::rng());
        noise.authenticate(ephemeral.public_key.public_key_bytes());
        noise.mix_shared_secret(ephemeral.private_key.serialize(), theirs).map_err(failed)?;
        let ours = noise.encrypt(keys.public()).map_err(failed)?;
        noise.mix_shared_secret(keys.pair.private_key.serialize(), theirs).map_err(failed)?;
        let chain = noise.encrypt(&keys.chain).map_err(failed)?;
        let hello = server_hello(&ephemeral, Some(ours), chain);
        Ok(Self::Fresh(Box::new(Fresh { noise, ephemeral, hello })))
    }
}

impl Fresh {
    pub fn finish(mut self, frame: &[u8]) -> Result<Established, WireError> {
        let message = HandshakeMessage::decode_from_slice(frame).map_err(failed)?;
        let finish = message.client_finish.into_option().ok_or(WireError::Handshake("it ends with no finish"))?;
        let sealed = finish.r#static.ok_or(WireError::Handshake("the client's key is missing"))?;
        let client_key = self.noise.decrypt(&sealed).map_err(failed)?;
        self.noise.mix_shared_secret(self.ephemeral.private_key.serialize(), &client_key).map_err(failed)?;
        let payload = finish.payload.ok_or(WireError::Handshake("the client's payload is missing"))?;
        let payload = self.noise.decrypt(&payload).map_err(failed)?;
        Established::of(self.noise, key(Some(client_key))?, &payload)
    }
}

impl Established {
    fn of(noise: NoiseHandshake, client_key: [u8; 32], payload: &[u8]) -> Result<Self, WireError> {
        let payload = ClientPayload::decode_from_slice(payload).map_err(failed)?;
        // `finish` returns the ciphers in the initiator's order.
        let (reader, writer) = noise.finish().map_err(failed)?;
        Ok(Self { payload, client_key, reader, writer })
    }
}

fn server_hello(ephemeral: &KeyPair, key: Option<Vec<u8>>, payload: Vec<u8>) -> HandshakeMessage {
    let hello = ServerHello {
        ephemeral: Some(ephemeral.public_key.public_key_bytes().to_vec()),
        r#static: key,
        payload: Some(payload),
        ..Default::default()
    };
    HandshakeMessage { server_hello: MessageField::some(hello), ..Default::default() }
}
