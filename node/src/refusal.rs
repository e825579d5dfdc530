//! A start that is refused because of what the operator gave: one line that names it, and exit code 2.

use std::io;

/// What is wrong, where, and what to do about it. Shown as one line, never as a backtrace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{subject}: {problem}; {remedy}")]
pub struct Refusal {
    /// The key, path, address or flag at fault.
    pub subject: String,
    pub problem: String,
    /// What the operator can do, in the imperative.
    pub remedy: String,
}

impl Refusal {
    /// The exit code of a process that refuses to start.
    pub const EXIT_CODE: u8 = 2;

    pub fn new(subject: impl Into<String>, problem: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            subject: one_line(&subject.into()),
            problem: one_line(&problem.into()),
            remedy: one_line(&remedy.into()),
        }
    }
}

/// Messages of libraries may span lines; scripts that read ours rely on one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and its cause; what lies between, such as the layers of an HTTP library, helps nobody.
pub fn in_short(error: &anyhow::Error) -> String {
    let (said, cause) = (error.to_string(), error.root_cause().to_string());
    if said == cause { said } else { format!("{said}: {cause}") }
}

/// Whether a certificate was shown that nothing here vouches for.
pub fn is_distrusted(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.to_string().contains("invalid peer certificate"))
}

/// Whether a disk had no room.
pub fn is_full(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.into_iter().any(|kind| full.contains(&kind))
}
