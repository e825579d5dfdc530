//! Which kinds of records and messages nodes may use: so that nodes of two releases work together, and a cluster can go
//! back to the older one.
//!
//! A release reads all formats up to [`Format::LATEST`]. A cluster has one, which its operator raises once no node is to
//! go back (`gateway format raise`): until then nobody stores or proposes what an older release would not understand.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version of what nodes store and send. Counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Format(u8);

impl Format {
    /// The format of release 0.1.0, which does not tell formats apart: what bears none is of this one.
    pub const FIRST: Self = Self(1);
    /// Of release 0.2.0: the format itself, in the record of the cluster and in the command that raises it; the
    /// exchange of the master key, in that record and a command of its own.
    pub const SECOND: Self = Self(2);
    /// Of release 0.3.0: quotas of storage, in the records of customers and of media, calls that ask what accounts keep of
    /// messages, and the bytes of an account's URLs; the
    /// life of keys that have ended and of deleted channels; in the record of a join token, whether it was answered again; in the row of a channel, from which
    /// place on its outbox was never written; deletions that end in portions; rotations of the key of session tokens, of the
    /// authority between nodes and of customers' data keys; inbound messages that are told apart by their chat and author as well as by
    /// their id; places in the outbox that lead to the message's row instead of holding it again, and the short commands of a
    /// send; removals of a node that name who is
    /// left; in changes of a channel's status, until when a ban lasts; calls that read out the session of a channel, and store one;
    /// which of a member's sessions makes room for another; what the phone wrote, in the place of what could not be read of it.
    pub const THIRD: Self = Self(3);
    /// The highest that this release understands.
    pub const LATEST: Self = Self::THIRD;

    pub const fn number(self) -> u8 {
        self.0
    }

    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }

    /// Whether this release understands it.
    pub fn is_known(self) -> bool {
        (Self::FIRST..=Self::LATEST).contains(&self)
    }

    /// The release that brought it, where this one knows.
    pub fn release(self) -> Option<&'static str> {
        match self {
            Self::FIRST => Some("0.1.0"),
            Self::SECOND => Some("0.2.0"),
            Self::THIRD => Some("0.3.0"),
            _ => None,
        }
    }

    /// What somebody who runs too old a release has to do.
    pub fn remedy(self) -> String {
        match self.release() {
            Some(release) => format!("start release {release} or a later one"),
            None => "start the release that the other nodes run".to_owned(),
        }
    }
}

impl Default for Format {
    fn default() -> Self {
        Self::FIRST
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Bytes that this release cannot read as those that wrote them meant them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    #[error("is of format {0}, and this release understands formats up to {latest}", latest = Format::LATEST)]
    Newer(u8),
    #[error("is damaged, or from a release that this one does not know: {0}")]
    Unreadable(String),
}

/// How what is proposed begins, whatever else it holds: of a command that is not known, the format can still be told.
#[derive(Deserialize)]
pub struct Head {
    version: Format,
}

impl Foreign {
    /// Judges what was read of something that bears the format that it needs. `head` reads no more than that, and is asked
    /// when the whole could not be read.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn judge<T, E: fmt::Display>(
        whole: Result<T, E>,
        version: impl FnOnce(&T) -> Format,
        head: impl FnOnce() -> Result<Head, E>,
    ) -> Result<T, Self> {
        let newer = |format: Format| (!format.is_known()).then(|| Self::Newer(format.number()));
        match whole {
            Ok(whole) => match newer(version(&whole)) {
                Some(newer) => Err(newer),
                None => Ok(whole),
            },
            Err(error) => {
                let newer = head().ok().and_then(|head| newer(head.version));
                Err(newer.unwrap_or_else(|| Self::Unreadable(error.to_string())))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_up_to_the_latest_has_its_release() {
        for number in 1..=Format::LATEST.number() {
            assert!(Format(number).is_known() && Format(number).release().is_some(), "{number}");
        }
        let newer = Format(Format::LATEST.number() + 1);
        assert!(!newer.is_known() && !Format(0).is_known());
        assert!(newer.remedy().contains("other nodes"), "{}", newer.remedy());
    }
}
