//! A fault of a schedule that was done, or could not be.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Lane};
use crate::history::At;

/// A fault that was done, or could not be.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub fault: Fault,
    pub lane: Lane,
    pub from: At,
    pub to: At,
    /// Why it could not be done or undone; the cluster may have been too broken for it.
    pub problem: Option<String>,
    /// What has to be known of it besides.
    #[serde(default)]
    pub note: Option<Note>,
}

/// What there may be to know of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// Nobody came to the place at which a node was to die.
    #[serde(rename = "nothing came to that place")]
    Unreached,
}

impl Done {
    /// Whether it was done and had no effect.
    pub fn is_idle(&self) -> bool {
        self.problem.is_none() && self.note == Some(Note::Unreached)
    }

    /// What is to be said of it besides.
    pub fn more(&self) -> impl Iterator<Item = String> {
        self.problem.clone().into_iter().chain(self.note.map(|note| note.to_string()))
    }
}

impl std::fmt::Display for Done {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:>10} to {:>10}  {}", self.from.to_string(), self.to.to_string(), self.fault)?;
        self.more().try_for_each(|more| write!(f, "; {more}"))
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unreached => "nothing came to that place",
        })
    }
}
