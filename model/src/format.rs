//! The format: which kinds of records and messages nodes may use, so that nodes of two releases work together and a
//! cluster can go back to the older release.
//!
//! A release reads all formats up to [`Format::LATEST`]. A cluster has one format, which its operator raises once no
//! node will go back (`gateway format raise`). Until then, nothing is stored or proposed that an older release cannot
//! read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of what nodes store and send, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Format(u8);

impl Format {
    /// Format of release 0.1.0, which has no format field: records and commands without one have this format.
    pub const FIRST: Self = Self(1);
    /// Format of release 0.2.0. It adds the format itself, in the cluster's record and in the command that raises it,
    /// and the rotation of the master key, in the same record and a command of its own.
    pub const SECOND: Self = Self(2);
    /// Format of release 0.3.0. It adds:
    ///
    /// - storage quotas, in the records of customers and media; calls that ask what accounts store of messages; the
    ///   size of an account's URLs;
    /// - the retention of expired keys and deleted channels; deletions that proceed in portions;
    /// - in a join token's record, whether it was answered again;
    /// - in a channel's row, the position from which its outbox was never written; outbox positions that refer to a
    ///   message's row instead of repeating it, and the short commands of a send;
    /// - rotation of the session token key, of the authority of the nodes' certificates, and of customers' data keys;
    /// - inbound messages distinguished by chat and author as well as id; what the phone wrote in place of an
    ///   unreadable message;
    /// - removals of a node that name the remaining ones; the end of a ban in status changes;
    /// - calls that export and import a channel's session; which of a member's sessions makes room for another.
    pub const THIRD: Self = Self(3);
    /// The highest format that this release understands.
    pub const LATEST: Self = Self::THIRD;

    pub const fn number(self) -> u8 {
        self.0
    }

    pub fn is_first(&self) -> bool {
        *self == Self::FIRST
    }

    /// Whether this release understands the format.
    pub fn is_known(self) -> bool {
        (Self::FIRST..=Self::LATEST).contains(&self)
    }

    /// The release that introduced the format, if this release knows it.
    pub fn release(self) -> Option<&'static str> {
        match self {
            Self::FIRST => Some("0.1.0"),
            Self::SECOND => Some("0.2.0"),
            Self::THIRD => Some("0.3.0"),
            _ => None,
        }
    }

    /// What to do when the running release is too old for this format.
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

/// Why this release cannot read some bytes as their writer meant them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    #[error("is of format {0}, and this release understands formats up to {latest}", latest = Format::LATEST)]
    Newer(u8),
    #[error("is damaged, or from a release that this one does not know: {0}")]
    Unreadable(String),
}

/// The beginning of every command: yields the format even of a command that this release does not know.
#[derive(Deserialize)]
pub struct Head {
    version: Format,
}

impl Foreign {
    /// Checks something that was parsed against the formats that this release understands. `version` is the format it
    /// needs. `head` parses only that format; it is called if parsing the whole failed.
    ///
    /// # Errors
    /// [`Foreign::Newer`] if the format is not known, [`Foreign::Unreadable`] otherwise.
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
