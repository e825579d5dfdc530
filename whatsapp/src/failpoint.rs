//! Failpoints of test builds: steps at which the process can crash, bugs that can be put back, and periodic work that
//! can be made due. Other builds contain none. `raft::failpoint` explains them and how to arm them; this crate is below
//! `raft` and cannot use it.

/// Whether this build has failpoints.
pub const COMPILED: bool = cfg!(feature = "failpoints");

/// A step at which the process can crash.
#[derive(Clone, Copy, Debug)]
pub enum Point {
    StateBeforeCommit,
    StateAfterCommit,
    WireBeforeWrite,
    WireAfterWrite,
    BeforeDial,
    LeaseRaised,
    LeaseCommitted,
    MessageWritten,
    PendingStored,
    MessagesBeforeHook,
    MessagesAfterHook,
    PrekeysStored,
    PrekeysUploaded,
    SignedPrekeyStored,
    SignedPrekeyTaken,
    SignedPrekeyPromoted,
    SenderKeyMade,
    SenderKeyCommitted,
    SenderKeySent,
}

/// A bug that a test puts back on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Bug {
    WireBeforeLog,
    SignBeforeCommit,
    RatchetsAfterWire,
}

/// Work that is otherwise due only once in days.
#[derive(Clone, Copy, Debug)]
pub enum Due {
    SignedPrekey,
}

#[cfg(feature = "failpoints")]
impl Point {
    const fn name(self) -> &'static str {
        match self {
            Self::StateBeforeCommit => "whatsapp::before_commit",
            Self::StateAfterCommit => "whatsapp::after_commit",
            Self::WireBeforeWrite => "whatsapp::before_write",
            Self::WireAfterWrite => "whatsapp::after_write",
            Self::BeforeDial => "whatsapp::dial",
            Self::LeaseRaised => "whatsapp::lease_raised",
            Self::LeaseCommitted => "whatsapp::lease_committed",
            Self::MessageWritten => "whatsapp::message_written",
            Self::PendingStored => "whatsapp::pending_stored",
            Self::MessagesBeforeHook => "whatsapp::before_hook",
            Self::MessagesAfterHook => "whatsapp::after_hook",
            Self::PrekeysStored => "whatsapp::prekeys_stored",
            Self::PrekeysUploaded => "whatsapp::prekeys_uploaded",
            Self::SignedPrekeyStored => "whatsapp::signed_prekey_stored",
            Self::SignedPrekeyTaken => "whatsapp::signed_prekey_taken",
            Self::SignedPrekeyPromoted => "whatsapp::signed_prekey_promoted",
            Self::SenderKeyMade => "whatsapp::sender_key_made",
            Self::SenderKeyCommitted => "whatsapp::sender_key_committed",
            Self::SenderKeySent => "whatsapp::sender_key_sent",
        }
    }
}

#[cfg(feature = "failpoints")]
impl Bug {
    const fn name(self) -> &'static str {
        match self {
            Self::WireBeforeLog => "bug::wire_before_log",
            Self::SignBeforeCommit => "bug::sign_before_commit",
            Self::RatchetsAfterWire => "bug::ratchets_after_wire",
        }
    }
}

#[cfg(feature = "failpoints")]
impl Due {
    const fn name(self) -> &'static str {
        match self {
            Self::SignedPrekey => "due::signed_prekey",
        }
    }
}

/// Runs the action that the failpoint is armed with, if any.
#[inline(always)]
pub fn reach(point: Point) {
    // Without failpoints the point is unused.
    let _ = point;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(point.name(), |_| die(point.name()));
}

/// Prints where the process died, so that a test can tell that it was here.
#[cfg(feature = "failpoints")]
fn die(point: &str) -> ! {
    eprintln!("died at {point}");
    std::process::abort()
}

/// Whether a test has put this bug back.
#[inline(always)]
pub fn has(bug: Bug) -> bool {
    let _ = bug;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(bug.name(), |_| true);
    false
}

/// Whether a test has made this work due.
#[inline(always)]
pub fn is_due(due: Due) -> bool {
    let _ = due;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(due.name(), |_| true);
    false
}
