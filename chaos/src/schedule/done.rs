//! A fault of a schedule that was executed, or that failed.

use serde::{Deserialize, Serialize};

use super::fault::{Fault, Lane};
use crate::history::At;

/// A fault that was executed, or that failed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub fault: Fault,
    pub lane: Lane,
    pub from: At,
    pub to: At,
    /// Why it could not be begun or ended; the cluster may have been too broken for it.
    pub problem: Option<String>,
    /// A remark about its effect, if any.
    #[serde(default)]
    pub note: Option<Note>,
}

/// A remark about the effect of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    /// No task reached the failpoint at which the node was to die.
    #[serde(rename = "nothing came to that place")]
    Unreached,
}

impl Done {
    /// Whether the fault was executed without effect.
    pub fn is_idle(&self) -> bool {
        self.problem.is_none() && self.note == Some(Note::Unreached)
    }

    /// The problem and the note, for reports.
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
