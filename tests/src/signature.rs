//! The receiver's side of the webhook signature.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// How far `t` may differ from the receiver's clock, in seconds.
const TOLERANCE_SECONDS: u64 = 300;

/// Verifies `X-Gateway-Signature` against the raw body, and returns its `t`.
///
/// # Errors
/// The reason for refusing the request, as a receiver would log it.
pub fn verify(secret: &str, header: &str, body: &[u8], now: u64) -> Result<u64, String> {
    let mut at = None;
    let mut signatures = Vec::new();
    for part in header.split(',') {
        match part.split_once('=') {
            Some(("t", value)) => at = Some(value),
            Some(("v1", value)) => signatures.push(value),
            _ => return Err(format!("a part that is neither t nor v1: {part:?} in {header:?}")),
        }
    }
    let at = at.ok_or("no t")?;
    let seconds: u64 = at.parse().map_err(|_| format!("t is no number: {at:?}"))?;
    if now.abs_diff(seconds) > TOLERANCE_SECONDS {
        return Err(format!("t is {seconds}, now is {now}"));
    }
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).map_err(|error| error.to_string())?;
    mac.update(at.as_bytes());
    mac.update(b".");
    mac.update(body);
    let matches = |text: &&str| {
        let lower_case = !text.bytes().any(|b| b.is_ascii_uppercase());
        lower_case && hex::decode(text).is_ok_and(|bytes| mac.clone().verify_slice(&bytes).is_ok())
    };
    if signatures.iter().any(matches) { Ok(seconds) } else { Err(format!("no v1 of {header:?} matches")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_example_0123456789abcdef";
    const BODY: &str = r#"{"event":"message.status","event_id":"evt_01JGFJJZ008N9Y7K4S5T6V7W8X","api_version":"2026-04","channel_id":"7f2c1a52-7d3e-4a55-9a42-0d6f0b1c2d3e","occurred_at":"2026-01-01T00:00:00.000Z","data":{"message_id":"3EB0A1B2C3D4E5F60718293A4B5C6D7E8F901234","to":"15550001111@s.example","status":"delivered","is_group":false,"timestamp":1767225599}}"#;
    const HEADER: &str = "t=1767225600,v1=a89da4199da71ca79d99de6a257da4950f90d22d09e96a29f3a7624490e3f6ee";
    const NOW: u64 = 1_767_225_600;

    #[test]
    fn the_vector_of_the_interface_verifies() {
        assert_eq!(BODY.len(), 342);
        assert_eq!(verify(SECRET, HEADER, BODY.as_bytes(), NOW), Ok(NOW));
    }

    #[test]
    fn a_changed_body_secret_or_time_does_not_verify() {
        assert!(verify(SECRET, HEADER, BODY.replace("delivered", "read").as_bytes(), NOW).is_err());
        assert!(verify("another", HEADER, BODY.as_bytes(), NOW).is_err());
        assert!(verify(SECRET, &HEADER.replace("t=1767225600", "t=1767225601"), BODY.as_bytes(), NOW).is_err());
        assert!(verify(SECRET, HEADER, BODY.as_bytes(), NOW + 301).is_err());
    }
}
