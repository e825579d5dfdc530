//! Signing of deliveries, and the default secret of customers.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::digest::{derived_key, mac};
use crate::event::EventId;
use crate::id::CustomerId;

/// `v1` signature: HMAC-SHA256 over `<t>.<body>` in lower-case hex, with the secret's text as the key.
pub fn sign(secret: &str, t: i64, body: &[u8]) -> String {
    hex::encode(mac(secret.as_bytes(), &[t.to_string().as_bytes(), b".", body]))
}

/// The value of `X-Gateway-Signature`: one `v1` per secret. There are several secrets only while the operator rotates
/// the master key; a secret that a customer replaces stops being used at once.
pub fn signature_header(secrets: &[&str], t: i64, body: &[u8]) -> String {
    let mut header = format!("t={t}");
    for secret in secrets {
        header.push_str(",v1=");
        header.push_str(&sign(secret, t, body));
    }
    header
}

/// The value of `webhook-signature`, for receivers that use a Standard Webhooks library. The key is the secret's bytes.
pub fn standard_signature(secret: &str, event_id: &EventId, t: i64, body: &[u8]) -> String {
    let (id, t) = (event_id.as_str(), t.to_string());
    format!("v1,{}", STANDARD.encode(mac(secret.as_bytes(), &[id.as_bytes(), b".", t.as_bytes(), b".", body])))
}

/// The secret of a customer who has set none. It is derived, so that nothing is stored, and differs by customer,
/// because customers can read their own.
pub fn default_secret(master_key: &[u8; 32], customer: CustomerId) -> String {
    let secret = derived_key(b"webhook-default-v1", master_key, customer.to_string().as_bytes());
    format!("gwd_{}", URL_SAFE_NO_PAD.encode(secret))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_example_0123456789abcdef";
    const T: i64 = 1_767_225_600;
    const BODY: &str = concat!(
        r#"{"event":"message.status","event_id":"evt_01JGFJJZ008N9Y7K4S5T6V7W8X","api_version":"2026-04","#,
        r#""channel_id":"7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e","occurred_at":"2026-01-01T00:00:00.000Z","#,
        r#""data":{"message_id":"3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234","to":"15550001111@s.example","#,
        r#""status":"delivered","is_group":false,"timestamp":1767225599}}"#,
    );

    #[test]
    fn the_header_is_that_of_the_published_vector() {
        assert_eq!(BODY.len(), 342);
        assert_eq!(
            signature_header(&[SECRET], T, BODY.as_bytes()),
            "t=1767225600,v1=a89da4199da71ca79d99de6a257da4950f90d22d09e96a29f3a7624490e3f6ee"
        );
    }

    #[test]
    fn the_standard_header_is_that_of_the_published_vector() {
        let id: EventId = serde_json::from_str("\"evt_01JGFJJZ008N9Y7K4S5T6V7W8X\"").unwrap();
        assert_eq!(
            standard_signature(SECRET, &id, T, BODY.as_bytes()),
            "v1,sVYSy/6+BndVYgPJ/BjPXxwzXDqfNAfYCBBEFswu9HQ="
        );
    }

    #[test]
    fn two_secrets_give_two_signatures() {
        let header = signature_header(&["first-secret-0123", "second-secret-012"], T, b"{}");
        let parts: Vec<_> = header.split(',').collect();
        assert_eq!(parts.len(), 3);
        assert_eq!(parts[1], format!("v1={}", sign("first-secret-0123", T, b"{}")));
        assert_ne!(parts[1], parts[2]);
    }

    #[test]
    fn default_secrets_differ_by_customer_and_by_master_key() {
        let (one, two) = (CustomerId(uuid::Uuid::from_u128(1)), CustomerId(uuid::Uuid::from_u128(2)));
        let secret = default_secret(&[7; 32], one);
        assert_eq!(secret, default_secret(&[7; 32], one));
        assert!(secret.starts_with("gwd_") && secret.len() == 47);
        assert_ne!(secret, default_secret(&[7; 32], two));
        assert_ne!(secret, default_secret(&[8; 32], one));
    }
}
