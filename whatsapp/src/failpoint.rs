//! Places at which a build for tests can be told to die, faults that it can be told to have, and what it can be told to be due. They
//! are nothing in any other build. What they mean, and how they are armed, stands in `raft::failpoint`, which this crate lies below.

/// Whether this build has any.
pub const COMPILED: bool = cfg!(feature = "failpoints");

/// A place where the process can die.
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

/// A fault put back on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Bug {
    WireBeforeLog,
    SignBeforeCommit,
    RatchetsAfterWire,
}

/// What comes once in days otherwise.
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

/// Does here what the point was armed with.
#[inline(always)]
pub fn reach(point: Point) {
    // Without failpoints the name is not used.
    let _ = point;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(point.name(), |_| die(point.name()));
}

/// The process's log says where it died, so that a test knows that it was not elsewhere.
#[cfg(feature = "failpoints")]
fn die(point: &str) -> ! {
    eprintln!("died at {point}");
    std::process::abort()
}

/// Whether a fault is to show here and now.
#[inline(always)]
pub fn has(bug: Bug) -> bool {
    let _ = bug;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(bug.name(), |_| true);
    false
}

/// Whether something is due here and now that is not otherwise.
#[inline(always)]
pub fn is_due(due: Due) -> bool {
    let _ = due;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(due.name(), |_| true);
    false
}
