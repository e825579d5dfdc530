//! An operator's mistake that prevents the start: one line that names it, and exit code 2.

use std::fmt::Display;
use std::io;

/// What is wrong, where, and how to fix it. Shown as one line, never as a backtrace.
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

    pub fn new(subject: impl Display, problem: impl Display, remedy: impl Display) -> Self {
        Self { subject: one_line(subject), problem: one_line(problem), remedy: one_line(remedy) }
    }
}

/// Returns a [`Refusal`] of these parts unless `holds`.
///
/// # Errors
/// The refusal.
pub fn ensure(holds: bool, subject: impl Display, problem: impl Display, remedy: impl Display) -> Result<(), Refusal> {
    if holds { Ok(()) } else { Err(Refusal::new(subject, problem, remedy)) }
}

/// Messages of libraries may span several lines; scripts rely on one line per refusal.
fn one_line(text: impl Display) -> String {
    text.to_string().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// An error and its root cause, without the layers between them, such as those of an HTTP library.
pub fn in_short(error: &anyhow::Error) -> String {
    let (said, cause) = (error.to_string(), error.root_cause().to_string());
    if said == cause { said } else { format!("{said}: {cause}") }
}

/// What to do about a certificate that the client does not trust; `None` for any other error.
pub fn distrust(error: &anyhow::Error) -> Option<&'static str> {
    const REMEDIES: [(&str, &str); 4] = [
        (
            "CaUsedAsEndEntity",
            "it is an authority's own, which no port may show: have it sign another one, or make one that is none's (openssl \
             req -x509 with -addext basicConstraints=critical,CA:FALSE)",
        ),
        (
            "ApplicationVerificationFailure",
            "it is not the one in ops.tls.cert_file of that configuration: the node's log says why, or name the port with --ops \
             and its authority with --ca-file",
        ),
        ("certificate expired", "renew it, and check that the clocks are right"),
        ("not valid for name", "use a name that is in the certificate"),
    ];
    let said = error.chain().map(|cause| cause.to_string()).find(|said| said.contains("invalid peer certificate"))?;
    let remedy = REMEDIES.iter().find(|(problem, _)| said.contains(*problem)).map(|(_, remedy)| *remedy);
    remedy.or(Some("give the authority that signed it with --ca-file"))
}

/// Whether the error was caused by a full disk or an exceeded quota.
pub fn is_full(error: &anyhow::Error) -> bool {
    let kinds = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).map(io::Error::kind);
    let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    kinds.into_iter().any(|kind| full.contains(&kind))
}
