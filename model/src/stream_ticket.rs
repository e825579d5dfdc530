//! Tickets that open one event stream, for browsers, whose `EventSource` cannot set headers.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

use crate::id::CustomerId;

const PREFIX: &str = "tkt_";

/// A ticket: the customer, so that any node can find its record, and 192 random bits. Only its digest is stored.
#[derive(Clone, PartialEq, Eq)]
pub struct StreamTicket(String);

impl StreamTicket {
    pub fn mint(customer: CustomerId, random: [u8; 24]) -> Self {
        let bytes = [customer.as_bytes().as_slice(), &random].concat();
        Self(format!("{PREFIX}{}", BASE64_URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// Checks the format only; whether the ticket is valid is decided where it is stored.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text.strip_prefix(PREFIX)?).ok()?;
        (bytes.len() == 40).then(|| Self(text.to_owned()))
    }

    pub fn customer(&self) -> Option<CustomerId> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(self.0.strip_prefix(PREFIX)?).ok()?;
        Some(CustomerId::from_bytes(bytes.get(..16)?.try_into().ok()?))
    }

    /// SHA-256 of the complete ticket. With 192 random bits, no slow hash is needed.
    pub fn digest(&self) -> [u8; 32] {
        Sha256::digest(self.0.as_bytes()).into()
    }

    /// The ticket itself, for the one response that shows it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

crate::words::hidden!(StreamTicket, _this => "StreamTicket(...)");

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_names_its_customer_and_is_read_back() {
        let customer = CustomerId::random();
        let ticket = StreamTicket::mint(customer, [7; 24]);
        assert_eq!(ticket.customer(), Some(customer));
        assert_eq!(StreamTicket::parse(ticket.reveal()).unwrap(), ticket);
        assert_ne!(ticket.digest(), StreamTicket::mint(customer, [8; 24]).digest());
        for text in ["", "tkt_", "tkt_AAAA", "zpk_9fK2mQ7bW1xYt0Zr4LqS8uVd", &ticket.reveal()[4..]] {
            assert_eq!(StreamTicket::parse(text), None, "{text}");
        }
    }
}
