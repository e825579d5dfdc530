//! The driver's metrics, besides those of the client library (`wa_`). Counters and histograms are registered at the
//! start, so that the rate of an event that has not happened yet is 0 and not unknown.

use metrics::{Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use network::driver::EndReason;

/// Results of a login.
const LOGINS: [&str; 11] = [
    LOGGED_IN,
    "transport",
    "replaced",
    "fenced",
    "unlinked",
    "invalidated",
    "banned",
    "client_outdated",
    "auth_state",
    "too_many_logins",
    GIVEN_UP,
];
const LOGGED_IN: &str = "ok";
/// The owner ended the session before the login: the network did not answer for a minute, or the channel was stopped.
const GIVEN_UP: &str = "given_up";

/// Codes by which the network reports that a message of this release is malformed.
const MALFORMED: [u16; 11] = [400, 479, 487, 488, 489, 490, 491, 492, 493, 494, 495];

/// Who asks for a message to be sent again.
#[derive(Clone, Copy, Debug)]
pub enum Asker {
    /// A device that could not decrypt a message of the channel.
    Peer,
    /// The channel, which asks the author, counted once a message; the library counts each request
    /// (`wa_retry_receipt_total`).
    Channel,
}

impl Asker {
    const fn direction(self) -> &'static str {
        match self {
            Self::Peer => "in",
            Self::Channel => "out",
        }
    }
}

/// Describes and registers every metric.
pub fn describe() {
    wacore::telemetry::describe();
    describe_gauge!("gateway_whatsapp_sessions", "Sessions with the real network that live on this node.");
    describe_gauge!(
        "gateway_whatsapp_inbox_rows",
        "What came in and is kept by sessions of this node until its owner has it."
    );
    describe_gauge!(
        "gateway_whatsapp_auth_bytes",
        Unit::Bytes,
        "Stored state of the channels whose sessions live on this node and have stored any."
    );
    describe_counter!(
        "gateway_whatsapp_logins_total",
        "Log-ins to the real network, by what came of them: ok, or why the session ended before."
    );
    describe_counter!(
        "gateway_whatsapp_refused_total",
        "Messages that the real network refused, for now or for good, by its code; 0 is none of its usual ones."
    );
    describe_counter!("gateway_whatsapp_undecryptable_total", "Messages that came in and could not be read at first.");
    describe_counter!(
        "gateway_whatsapp_retry_receipts_total",
        "Messages that were asked for again: by devices that could not read them (in), and of their authors (out)."
    );
    describe_counter!("gateway_whatsapp_log_batches_total", "Batches of sessions' state that were given to the store.");
    describe_counter!(
        "gateway_whatsapp_rows_too_large_total",
        "Rows of sessions' state that were not kept, as no batch can carry them."
    );
    describe_histogram!("gateway_whatsapp_log_batch_bytes", Unit::Bytes, "Names and values of one such batch.");
    describe_histogram!(
        "gateway_whatsapp_barrier_seconds",
        Unit::Seconds,
        "How long bytes to the network waited for the state that they rest on, where they had to."
    );
    describe_histogram!(
        "gateway_whatsapp_session_bytes",
        Unit::Bytes,
        "Memory of one session by the library's estimate, every five minutes."
    );
    for result in LOGINS {
        counter!("gateway_whatsapp_logins_total", "result" => result).increment(0);
    }
    for code in MALFORMED {
        counter!("gateway_whatsapp_refused_total", "code" => code.to_string()).increment(0);
    }
    for asker in [Asker::Peer, Asker::Channel] {
        counter!("gateway_whatsapp_retry_receipts_total", "direction" => asker.direction()).increment(0);
    }
    counter!("gateway_whatsapp_undecryptable_total").increment(0);
    counter!("gateway_whatsapp_log_batches_total").increment(0);
    counter!("gateway_whatsapp_rows_too_large_total").increment(0);
    gauge!("gateway_whatsapp_sessions").set(0.0);
    gauge!("gateway_whatsapp_inbox_rows").set(0.0);
    gauge!("gateway_whatsapp_auth_bytes").set(0.0);
    drop(histogram!("gateway_whatsapp_log_batch_bytes"));
    drop(histogram!("gateway_whatsapp_barrier_seconds"));
    drop(histogram!("gateway_whatsapp_session_bytes"));
}

pub fn logged_in() {
    counter!("gateway_whatsapp_logins_total", "result" => LOGGED_IN).increment(1);
}

/// Counts a session that ended before its login. `None` means that its owner ended it.
pub fn not_logged_in(reason: Option<&EndReason>) {
    counter!("gateway_whatsapp_logins_total", "result" => result(reason)).increment(1);
}

const fn result(reason: Option<&EndReason>) -> &'static str {
    match reason {
        Some(EndReason::Transport(_)) => "transport",
        Some(EndReason::Replaced) => "replaced",
        Some(EndReason::Fenced) => "fenced",
        Some(EndReason::Unlinked) => "unlinked",
        Some(EndReason::Invalidated) => "invalidated",
        Some(EndReason::Banned { .. }) => "banned",
        Some(EndReason::ClientOutdated) => "client_outdated",
        Some(EndReason::AuthState(_)) => "auth_state",
        Some(EndReason::TooManyLogins) => "too_many_logins",
        None => GIVEN_UP,
    }
}

/// Counts a message that the network refused. Codes outside of 400 to 599 share the label 0.
pub fn refused(code: &str) {
    let label = code.parse::<u16>().ok().filter(|code| (400..600).contains(code)).unwrap_or_default();
    counter!("gateway_whatsapp_refused_total", "code" => label.to_string()).increment(1);
}

pub fn undecryptable() {
    counter!("gateway_whatsapp_undecryptable_total").increment(1);
}

pub fn asked_again(asker: Asker) {
    counter!("gateway_whatsapp_retry_receipts_total", "direction" => asker.direction()).increment(1);
}

/// Counts a session in the gauge while it lives.
pub struct Living(());

impl Living {
    pub fn begin() -> Self {
        gauge!("gateway_whatsapp_sessions").increment(1.0);
        Self(())
    }
}

impl Drop for Living {
    fn drop(&mut self) {
        gauge!("gateway_whatsapp_sessions").decrement(1.0);
    }
}

/// Inbox rows of one session, in the gauge. They count while the session lives, since only it can remove them.
#[derive(Default)]
pub struct InboxRows(u32);

impl InboxRows {
    pub fn came(&mut self) {
        self.0 += 1;
        gauge!("gateway_whatsapp_inbox_rows").increment(1.0);
    }

    pub fn went(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            self.0 = left;
            gauge!("gateway_whatsapp_inbox_rows").decrement(1.0);
        }
    }
}

impl Drop for InboxRows {
    fn drop(&mut self) {
        gauge!("gateway_whatsapp_inbox_rows").decrement(f64::from(self.0));
    }
}

/// Bytes of one session's stored state, in the gauge. They are counted while the session lives.
#[derive(Default)]
pub struct StateBytes(u64);

impl StateBytes {
    pub fn set(&mut self, bytes: u64) {
        gauge!("gateway_whatsapp_auth_bytes").increment(bytes as f64 - self.0 as f64);
        self.0 = bytes;
    }
}

impl Drop for StateBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_of_a_log_in_is_there_from_the_start() {
        let reasons = [
            EndReason::Transport(String::new()),
            EndReason::Replaced,
            EndReason::Fenced,
            EndReason::Unlinked,
            EndReason::Invalidated,
            EndReason::Banned { until: None },
            EndReason::ClientOutdated,
            EndReason::AuthState(String::new()),
            EndReason::TooManyLogins,
        ];
        let mut ends: Vec<&str> = reasons.iter().map(|reason| result(Some(reason))).collect();
        ends.insert(0, LOGGED_IN);
        ends.push(result(None));
        assert_eq!(ends, LOGINS);
    }
}
