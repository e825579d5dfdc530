//! Network addresses, `<local>@<domain>` (bare digits denote a phone), and which of them a send may name in `to`.

use serde::{Deserialize, Serialize};

/// Domain of linked-device addresses (LIDs), the same on every network.
pub const LID_SUFFIX: &str = "lid";

/// Domain of broadcast lists; the list `status` is the one that stories go to. Both are the same on every network.
pub const BROADCAST_SUFFIX: &str = "broadcast";
const STORIES: &str = "status";

/// Longest accepted address, in bytes. Networks have far shorter ones.
pub const LONGEST_ADDRESS: usize = 128;

/// Maximum number of digits in a recipient's phone number.
pub const MAX_DIGITS: usize = 15;

/// The domains of the network (configuration `network.*_suffix`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suffixes {
    pub phone: String,
    pub group: String,
    pub newsletter: String,
}

impl Suffixes {
    /// The domains of the simulated network.
    pub fn simulated() -> Self {
        Self { phone: "s.example".into(), group: "g.example".into(), newsletter: "n.example".into() }
    }

    pub fn phone_address(&self, digits: &str) -> Address {
        Address(format!("{digits}@{}", self.phone))
    }

    pub fn group_address(&self, digits: &str) -> Address {
        Address(format!("{digits}@{}", self.group))
    }

    pub fn newsletter_address(&self, digits: &str) -> Address {
        Address(format!("{digits}@{}", self.newsletter))
    }
}

/// A well-formed address: at least three characters, `<local>@<domain>`, the local part of word characters or hyphens,
/// the domain of word characters, dots or hyphens. Parsed addresses have at most [`LONGEST_ADDRESS`] bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Address(String);

// Written by hand rather than derived, so that each field's description can say whose address it is.
crate::words::schema_of!(Address: {
    "type": "string", "maxLength": LONGEST_ADDRESS, "pattern": "^[A-Za-z0-9_-]+@[A-Za-z0-9_.-]+$",
});

/// The kind of entity that an address identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    Phone,
    Group,
    Lid,
    Newsletter,
    /// The network does not know the domain.
    Unknown,
}

/// The text is not an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnAddress;

impl Address {
    /// Parses `<local>@<domain>`.
    pub fn parse(text: &str) -> Result<Self, NotAnAddress> {
        if text.len() > LONGEST_ADDRESS {
            return Err(NotAnAddress);
        }
        let (local, domain) = text.split_once('@').ok_or(NotAnAddress)?;
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let well_formed = !local.is_empty()
            && !domain.is_empty()
            && local.chars().all(word)
            && domain.chars().all(|c| word(c) || c == '.');
        if well_formed { Ok(Self(text.to_owned())) } else { Err(NotAnAddress) }
    }

    /// Parses an address, or bare digits as a phone address. A leading `+` is refused.
    pub fn parse_or_digits(text: &str, suffixes: &Suffixes) -> Result<Self, NotAnAddress> {
        if text.len() >= 3 && text.bytes().all(|b| b.is_ascii_digit()) {
            let address = suffixes.phone_address(text);
            return if address.is_too_long() { Err(NotAnAddress) } else { Ok(address) };
        }
        Self::parse(text)
    }

    /// Whether the address is longer than [`LONGEST_ADDRESS`]. Addresses from the network are not parsed and may be.
    pub fn is_too_long(&self) -> bool {
        self.0.len() > LONGEST_ADDRESS
    }

    pub fn lid(digits: &str) -> Self {
        Self(format!("{digits}@{LID_SUFFIX}"))
    }

    pub fn local(&self) -> &str {
        self.0.split_once('@').map_or("", |(local, _)| local)
    }

    pub fn domain(&self) -> &str {
        self.0.split_once('@').map_or("", |(_, domain)| domain)
    }

    pub fn kind(&self, suffixes: &Suffixes) -> AddressKind {
        match self.domain() {
            domain if domain == suffixes.phone => AddressKind::Phone,
            domain if domain == suffixes.group => AddressKind::Group,
            domain if domain == suffixes.newsletter => AddressKind::Newsletter,
            LID_SUFFIX => AddressKind::Lid,
            _ => AddressKind::Unknown,
        }
    }

    /// The address that the stories of an account are sent to.
    pub fn stories() -> Self {
        Self(format!("{STORIES}@{BROADCAST_SUFFIX}"))
    }

    /// Whether this is the address of stories.
    pub fn is_stories(&self) -> bool {
        self.is_broadcast() && self.local() == STORIES
    }

    /// Whether this is a broadcast list, stories included.
    pub fn is_broadcast(&self) -> bool {
        self.domain() == BROADCAST_SUFFIX
    }

    pub fn is_lid(&self) -> bool {
        self.domain() == LID_SUFFIX
    }

    /// Checks what the address alone shows. Whether a LID or a number is known to the network is checked elsewhere.
    pub fn check_recipient(&self, suffixes: &Suffixes) -> Result<AddressKind, Undeliverable> {
        let kind = self.kind(suffixes);
        let local = self.local();
        match kind {
            AddressKind::Unknown => Err(Undeliverable::UnknownSuffix),
            AddressKind::Phone | AddressKind::Lid if !local.bytes().all(|b| b.is_ascii_digit()) => {
                Err(Undeliverable::NotNumeric)
            }
            AddressKind::Phone if local.len() > MAX_DIGITS => Err(Undeliverable::TooLong),
            _ => Ok(kind),
        }
    }
}

crate::words::texts!(Address);

crate::words! {
    /// The reasons of `undeliverable_recipient`.
    Undeliverable {
        UnknownLid = "unknown_lid",
        TooLong = "too_long",
        NotNumeric = "not_numeric",
        UnknownSuffix = "unknown_suffix",
        NotRegistered = "not_registered",
        Blacklisted = "blacklisted",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn recipients_are_judged_by_suffix_length_and_digits() {
        let suffixes = Suffixes::simulated();
        let judge = |text: &str| Address::parse_or_digits(text, &suffixes).map(|a| a.check_recipient(&suffixes));
        assert_eq!(judge("15551234567"), Ok(Ok(AddressKind::Phone)));
        assert_eq!(judge("15551234567@s.example"), Ok(Ok(AddressKind::Phone)));
        assert_eq!(judge("120363025246125486@g.example"), Ok(Ok(AddressKind::Group)));
        assert_eq!(judge("251556368777322@lid"), Ok(Ok(AddressKind::Lid)));
        assert_eq!(judge("120363025246125486@n.example"), Ok(Ok(AddressKind::Newsletter)));
        assert_eq!(judge("1234567890123456"), Ok(Err(Undeliverable::TooLong)));
        assert_eq!(judge("anna@s.example"), Ok(Err(Undeliverable::NotNumeric)));
        assert_eq!(judge("15551234567@c.us"), Ok(Err(Undeliverable::UnknownSuffix)));
        for wrong in ["", "12", "+15551234567", "anna", "@s.example", "1@", "1 2@s.example", "1@s@x", "1@s.exämple"] {
            assert_eq!(judge(wrong), Err(NotAnAddress), "{wrong:?}");
        }
    }

    #[test]
    fn an_address_has_at_most_128_bytes_with_its_suffix() {
        let suffixes = Suffixes::simulated();
        let whole = |bytes: usize| format!("{}@s.example", "1".repeat(bytes - "@s.example".len()));
        assert!(Address::parse(&whole(128)).is_ok());
        assert_eq!(Address::parse(&whole(129)), Err(NotAnAddress));
        let digits = |bytes: usize| Address::parse_or_digits(&"1".repeat(bytes - "@s.example".len()), &suffixes);
        assert_eq!(digits(128).map(|address| address.as_str().len()), Ok(128));
        assert_eq!(digits(129), Err(NotAnAddress));
    }

    proptest! {
        #[test]
        fn a_parsed_address_is_shown_as_it_was_written(text in "[A-Za-z0-9_-]{1,20}@[A-Za-z0-9_.-]{1,20}") {
            let address = Address::parse(&text).unwrap();
            prop_assert_eq!(address.as_str(), &text);
            let rebuilt = format!("{}@{}", address.local(), address.domain());
            prop_assert_eq!(rebuilt, text);
        }

        #[test]
        fn parsing_never_panics(text in ".{0,40}") {
            let _ = Address::parse_or_digits(&text, &Suffixes::simulated());
        }
    }
}
