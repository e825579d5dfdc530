//! Pairing by a code of eight characters: the client shows it, it is typed on the phone, and both derive the secret
//! with which the phone authenticates the device's identity.

use std::time::{Duration, Instant};

use network::simulator::answers::{ControlError, LoginEnd};
use network::simulator::faults::RefusePairing;
use tokio::sync::oneshot;
use wacore::crypto::hkdf_sha256_into;
use wacore::libsignal::crypto::aes_256_gcm_decrypt;
use wacore::libsignal::protocol::{KeyPair, PublicKey};
use wacore::pair_code::PairCodeUtils;
use wacore_binary::NodeRef;

use super::LinkOutcome;
use crate::login::Phase;
use crate::number::Number;
use crate::stanza::{SERVER, bytes, element, error, jid, key, parent, result, text};
use crate::state::{ConnectionId, State};

/// Lifetime of a code, before scaling by the faults.
const VALID: Duration = Duration::from_secs(160);

/// Length of a wrapped key: salt, IV and key.
const WRAPPED: usize = 80;

/// A client that shows a code.
pub struct CodeRequest {
    number: Number,
    /// The client's ephemeral key, encrypted with the code, which the server never sees.
    wrapped: Vec<u8>,
    reference: Vec<u8>,
    expires: Instant,
    typed: Option<Typed>,
}

/// A code typed on a phone; the client has to respond.
struct Typed {
    ephemeral: KeyPair,
    theirs: [u8; 32],
    outcome: Option<oneshot::Sender<LinkOutcome>>,
}

impl CodeRequest {
    /// Takes the channel that receives the result.
    pub fn outcome(&mut self) -> Option<oneshot::Sender<LinkOutcome>> {
        self.typed.as_mut()?.outcome.take()
    }
}

/// The keys that a phone derives from a code.
pub struct CodeWrap {
    ephemeral: KeyPair,
    /// The client's key; random bytes if the code was wrong.
    theirs: [u8; 32],
    wrapped: Vec<u8>,
}

/// Decrypts a client's key with a code, and encrypts a key of the phone with it. The key derivation is slow on purpose.
///
/// # Errors
/// `theirs` is not a wrapped key.
pub fn wrap(theirs: &[u8], code: &str) -> Result<CodeWrap, ControlError> {
    let code = code.replace('-', "").to_uppercase();
    let opened = PairCodeUtils::decrypt_primary_ephemeral_pub(theirs, &code);
    let theirs = opened.map_err(|error| ControlError::Invalid(error.to_string()))?;
    let ephemeral = KeyPair::generate(&mut rand::rng());
    let ours: [u8; 32] = ephemeral.public_key.public_key_bytes().try_into().expect("a public key has 32 bytes");
    Ok(CodeWrap { wrapped: PairCodeUtils::encrypt_ephemeral_pub(&ours, &code).to_vec(), ephemeral, theirs })
}

impl State {
    pub(super) fn take_code_stanza(&mut self, id: ConnectionId, stanza: &NodeRef<'_>, asked: &NodeRef<'_>) {
        let query = text(stanza, "id").unwrap_or_default();
        match text(asked, "stage").as_deref() {
            Some("companion_hello") => self.show_code(id, &query, asked),
            Some("companion_finish") => self.finish_code(id, &query, asked),
            _ => self.write(id, error(&query, 400, "bad-request")),
        }
    }

    /// Handles a client that shows a code for a number.
    fn show_code(&mut self, id: ConnectionId, query: &str, asked: &NodeRef<'_>) {
        let number = jid(asked, "jid").and_then(|jid| Number::of_jid(&jid));
        let wrapped = asked.get_optional_child("link_code_pairing_wrapped_companion_ephemeral_pub");
        let wrapped = wrapped.and_then(NodeRef::content_bytes).filter(|wrapped| wrapped.len() == WRAPPED);
        let (Some(number), Some(wrapped)) = (number, wrapped) else {
            self.write(id, error(query, 400, "bad-request"));
            return;
        };
        if self.faults.refuse_pairing == Some(RefusePairing::Code) {
            self.write(id, error(query, 400, "bad-request"));
            return;
        }
        let reference = format!("{:032x}", rand::random::<u128>()).into_bytes();
        let expires = Instant::now() + VALID.mul_f64(self.faults.qr_time_scale);
        let request =
            CodeRequest { number, wrapped: wrapped.to_vec(), reference: reference.clone(), expires, typed: None };
        if let Some(registration) = self.registration_mut(id) {
            registration.code = Some(request);
        }
        let shown = parent("link_code_companion_reg", [bytes("link_code_pairing_ref", reference)]);
        self.write(id, result(query).children([shown]).build());
    }

    fn code_of(&self, number: Number) -> Result<(ConnectionId, &CodeRequest), ControlError> {
        let now = Instant::now();
        let shown = self.connections.iter().filter_map(|(id, connection)| match &connection.phase {
            Phase::Registering(registration) => registration.code.as_ref().map(|code| (*id, code)),
            _ => None,
        });
        let shown = shown.filter(|(_, code)| code.number == number).max_by_key(|(_, code)| code.expires);
        let (id, code) = shown.ok_or_else(|| ControlError::Invalid(format!("no device shows a code for {number}")))?;
        if code.expires <= now || code.typed.is_some() {
            return Err(ControlError::Invalid("the code has expired, or was typed before".into()));
        }
        Ok((id, code))
    }

    /// The wrapped key of the client that shows a code for a number.
    ///
    /// # Errors
    /// No client shows one, the code has expired, or there is no such phone.
    pub fn asked_for_code(&self, number: Number) -> Result<Vec<u8>, ControlError> {
        self.account(number)?;
        self.check_room(number)?;
        self.code_of(number).map(|(_, code)| code.wrapped.clone())
    }

    /// Sends the phone's key to the client.
    pub fn answer_code(
        &mut self,
        number: Number,
        wrap: CodeWrap,
        outcome: oneshot::Sender<LinkOutcome>,
    ) -> Result<(), ControlError> {
        let (id, code) = self.code_of(number)?;
        let reference = code.reference.clone();
        let identity = self.account_mut(number)?.phone.signal().identity();
        let CodeWrap { ephemeral, theirs, wrapped } = wrap;
        if let Some(code) = self.registration_mut(id).and_then(|registration| registration.code.as_mut()) {
            code.typed = Some(Typed { ephemeral, theirs, outcome: Some(outcome) });
        }
        let hello = element("link_code_companion_reg")
            .attr("stage", "primary_hello")
            .children([
                bytes("link_code_pairing_wrapped_primary_ephemeral_pub", wrapped),
                bytes("primary_identity_pub", identity),
                bytes("link_code_pairing_ref", reference),
            ])
            .build();
        let notice = element("notification")
            .attr("from", SERVER)
            .attr("id", format!("code-{id}"))
            .attr("type", "link_code_companion_reg")
            .attr("t", self.seconds())
            .children([hello])
            .build();
        self.write(id, notice);
        Ok(())
    }

    /// Handles the client's response, from which the phone derives the secret if the code was right.
    fn finish_code(&mut self, id: ConnectionId, query: &str, asked: &NodeRef<'_>) {
        let bundle = asked.get_optional_child("link_code_pairing_wrapped_key_bundle").and_then(NodeRef::content_bytes);
        let identity = asked.get_optional_child("companion_identity_public").and_then(key);
        let Some(registration) = self.registration_mut(id) else { return };
        let right = identity == Some(registration.identity);
        let request = registration.code.as_mut();
        let typed = request.and_then(|code| code.typed.take().map(|typed| (code.number, typed)));
        let (Some(bundle), true, Some((number, mut typed))) = (bundle, right, typed) else {
            self.write(id, error(query, 400, "bad-request"));
            return;
        };
        self.write(id, result(query).build());
        let Some(outcome) = typed.outcome.take() else { return };
        let Some(secret) = self.shared_secret(number, &typed, bundle) else {
            // The caller may be gone.
            let _ = outcome.send(Err(ControlError::Invalid("the code is wrong".into())));
            self.end(id, None, LoginEnd::Lost);
            return;
        };
        if let Err(refused) = self.vouch(id, number, &secret, outcome) {
            tracing::warn!(%refused, "a phone cannot vouch for a device");
        }
    }

    fn shared_secret(&mut self, number: Number, typed: &Typed, bundle: &[u8]) -> Option<[u8; 32]> {
        let companion = PublicKey::from_djb_public_key_bytes(&typed.theirs).ok()?;
        let shared = typed.ephemeral.private_key.calculate_agreement(&companion).ok()?;
        let (salt, rest) = bundle.split_at_checked(32)?;
        let (vector, sealed) = rest.split_at_checked(12)?;
        let mut sealing_key = [0; 32];
        hkdf_sha256_into(&shared, Some(salt), b"link_code_pairing_key_bundle_encryption_key", &mut sealing_key).ok()?;
        let mut opened = Vec::new();
        aes_256_gcm_decrypt(&sealing_key, vector.try_into().ok()?, b"", sealed, &mut opened).ok()?;
        let (identity, rest) = opened.split_at_checked(32)?;
        let (account, random) = rest.split_at_checked(32)?;
        let signal = self.account_mut(number).ok()?.phone.signal();
        if account != signal.identity() {
            return None;
        }
        let agreed = signal.agree(identity.try_into().ok()?)?;
        let mut secret = [0; 32];
        hkdf_sha256_into(&[shared.as_slice(), &agreed, random].concat(), None, b"adv_secret", &mut secret).ok()?;
        Some(secret)
    }
}
