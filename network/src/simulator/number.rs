//! Subscriber numbers and their linked-device addresses (LIDs).

use std::fmt;

use model::address::{Address, MAX_DIGITS, Suffixes};
use serde::{Deserialize, Serialize};

/// A subscriber's number: 3 to 15 digits without a leading 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Number(u64);

/// Number of possible numbers, and so of LIDs: 15 digits.
const SPACE: u128 = 1_000_000_000_000_000;

/// Coprime to [`SPACE`], so that multiplication gives every number a distinct LID.
const LID_FACTOR: u128 = 618_033_988_749_893;

/// `LID_FACTOR * LID_INVERSE = 1 (mod SPACE)`.
const LID_INVERSE: u128 = inverse(LID_FACTOR, SPACE);

/// Offsets the LIDs, so that those of small numbers do not reveal the number.
const LID_SHIFT: u128 = 271_828_182_845_904;

/// The inverse of `a` modulo `m`, by Euclid's extended algorithm. `a` and `m` must be coprime.
const fn inverse(a: u128, m: u128) -> u128 {
    let (mut old, mut new) = ((a as i128, 1_i128), (m as i128, 0_i128));
    while new.0 != 0 {
        let quotient = old.0 / new.0;
        (old, new) = (new, (old.0 - quotient * new.0, old.1 - quotient * new.1));
    }
    old.1.rem_euclid(m as i128) as u128
}

impl Number {
    pub fn parse(digits: &str) -> Option<Self> {
        let well_formed = (3..=MAX_DIGITS).contains(&digits.len())
            && digits.bytes().all(|byte| byte.is_ascii_digit())
            && !digits.starts_with('0');
        if well_formed { digits.parse().ok().map(Self) } else { None }
    }

    pub fn value(self) -> u64 {
        self.0
    }

    /// The number that is `offset` after this one, if it has at most 15 digits.
    pub fn plus(self, offset: u64) -> Option<Self> {
        self.0.checked_add(offset).filter(|number| u128::from(*number) < SPACE).map(Self)
    }

    /// The number's LID: 15 digits, stable and unique.
    pub fn lid(self) -> Address {
        let lid = (u128::from(self.0) * LID_FACTOR + LID_SHIFT) % SPACE;
        Address::lid(&format!("{lid:015}"))
    }

    /// The number behind the local part of a LID.
    fn of_lid(local: &str) -> Option<Self> {
        if local.len() != MAX_DIGITS || !local.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let lid: u128 = local.parse().ok()?;
        let number = (lid + SPACE - LID_SHIFT) % SPACE * LID_INVERSE % SPACE;
        u64::try_from(number).ok().map(Self)
    }

    /// The subscriber that a phone address or a LID belongs to.
    pub fn of_address(address: &Address, suffixes: &Suffixes) -> Option<Self> {
        if address.is_lid() {
            Self::of_lid(address.local())
        } else if address.domain() == suffixes.phone {
            Self::parse(address.local())
        } else {
            None
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_lid_leads_back_to_its_number_and_to_no_other(number in 100_u64..1_000_000_000_000_000) {
            let number = Number(number);
            let lid = number.lid();
            prop_assert_eq!(lid.local().len(), 15);
            prop_assert_eq!(Number::of_address(&lid, &Suffixes::simulated()), Some(number));
        }

        #[test]
        fn a_number_is_shown_as_it_was_written(digits in "[1-9][0-9]{2,14}") {
            prop_assert_eq!(Number::parse(&digits).unwrap().to_string(), digits);
        }
    }

    #[test]
    fn what_is_no_number_is_refused() {
        for wrong in ["", "12", "0155512345", "1555-123", "+15551234", "1234567890123456", "１２３"] {
            assert_eq!(Number::parse(wrong), None, "{wrong:?}");
        }
        assert_eq!(Number::parse("999999999999999").unwrap().plus(1), None);
    }
}
