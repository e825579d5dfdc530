//! Phone numbers, their LIDs, and the addresses of devices on the wire.

use std::fmt;

use model::address::Address;
use serde::{Deserialize, Serialize};
use wacore_binary::{Jid, Server};

/// Count of numbers and LIDs with at most fifteen digits.
const SPACE: u64 = 1_000_000_000_000_000;

const PHONE_DOMAIN: &str = "s.whatsapp.net";

/// A phone number: three to fifteen digits, the first not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Number(u64);

impl TryFrom<String> for Number {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::of_text(&text).ok_or_else(|| format!("{text:?} is no number"))
    }
}

impl From<Number> for String {
    fn from(number: Number) -> Self {
        number.to_string()
    }
}

impl Number {
    pub fn parse(digits: &str) -> Option<Self> {
        let well_formed = (3..=15).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0');
        if well_formed { digits.parse().ok().map(Self) } else { None }
    }

    /// The number `offset` after this one, unless it has more than fifteen digits.
    pub fn plus(self, offset: u64) -> Option<Self> {
        self.0.checked_add(offset).filter(|number| *number < SPACE).map(Self)
    }

    /// The number's LID: fifteen digits, constant and unique.
    fn lid_digits(self) -> String {
        format!("{:015}", SPACE - 1 - self.0)
    }

    fn of_lid(digits: &str) -> Option<Self> {
        if digits.len() != 15 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = SPACE - 1 - digits.parse::<u64>().ok()?;
        Self::parse(&number.to_string())
    }

    /// The number that an address of the wire names, directly or by its LID.
    pub fn of_jid(jid: &Jid) -> Option<Self> {
        match jid.server {
            Server::Pn => Self::parse(&jid.user),
            Server::Lid => Self::of_lid(&jid.user),
            _ => None,
        }
    }

    /// Parses a number, a phone address or a LID, as the control API accepts them.
    pub fn of_text(text: &str) -> Option<Self> {
        match text.split_once('@') {
            None => Self::parse(text.strip_prefix('+').unwrap_or(text)),
            Some((local, PHONE_DOMAIN)) => Self::parse(local),
            Some((local, "lid")) => Self::of_lid(local),
            Some(_) => None,
        }
    }

    pub fn pn(self) -> Jid {
        Jid::pn(self.to_string())
    }

    pub fn lid(self) -> Jid {
        Jid::lid(self.lid_digits())
    }

    /// The address in the form of the control API.
    pub fn address(self) -> Address {
        address(&self.pn())
    }

    pub fn lid_address(self) -> Address {
        Address::lid(&self.lid_digits())
    }

    pub fn device(self, device: u16) -> DeviceAddress {
        DeviceAddress { number: self, device }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Converts an address of the wire to the form of the control API.
pub fn address(jid: &Jid) -> Address {
    let text = jid.to_non_ad().to_string();
    Address::parse(&text).unwrap_or_else(|_| Address::lid(&jid.user))
}

/// One device of an account; 0 is the phone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceAddress {
    pub number: Number,
    pub device: u16,
}

/// Whether an address of the wire is a phone number or a LID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    Number,
    Lid,
}

impl Naming {
    pub fn of(jid: &Jid) -> Self {
        if jid.server == Server::Lid { Self::Lid } else { Self::Number }
    }
}

impl DeviceAddress {
    pub fn of_jid(jid: &Jid) -> Option<Self> {
        Number::of_jid(jid).map(|number| number.device(jid.device))
    }

    pub fn is_phone(self) -> bool {
        self.device == 0
    }

    pub fn jid(self, naming: Naming) -> Jid {
        let user = match naming {
            Naming::Number => self.number.pn(),
            Naming::Lid => self.number.lid(),
        };
        user.with_device(self.device)
    }
}

impl fmt::Display for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.device)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_lid_leads_back_to_its_number() {
        for digits in ["100", "15551110000", "999999999999999"] {
            let number = Number::parse(digits).unwrap();
            assert_eq!(Number::of_jid(&number.lid()), Some(number));
            assert_eq!(Number::of_text(number.lid_address().as_str()), Some(number));
            assert_eq!(Number::of_text(digits), Some(number));
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for wrong in ["", "12", "0155512345", "1555-123", "1234567890123456", "123@g.us", "999999999999999@lid"] {
            assert_eq!(Number::of_text(wrong), None, "{wrong:?}");
        }
    }
}
