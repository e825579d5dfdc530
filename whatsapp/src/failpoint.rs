//! Places at which a build for tests can be told to die, faults that it can be told to have, and what it can be told to be due. They
//! are nothing in any other build. What they mean, and how they are armed, stands in `raft::failpoint`, which this crate lies below.

/// Whether this build has any.
pub const COMPILED: bool = cfg!(feature = "failpoints");

/// Makes an enum of names out of one table.
macro_rules! names {
    ($(#[$about:meta])* $kind:ident { $($variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug)]
        pub enum $kind { $($variant,)+ }

        #[cfg(feature = "failpoints")]
        impl $kind {
            const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

names! {
    /// A place where the process can die.
    Point {
        StateBeforeCommit = "whatsapp::before_commit",
        StateAfterCommit = "whatsapp::after_commit",
        WireBeforeWrite = "whatsapp::before_write",
        WireAfterWrite = "whatsapp::after_write",
        BeforeDial = "whatsapp::dial",
        LeaseRaised = "whatsapp::lease_raised",
        LeaseCommitted = "whatsapp::lease_committed",
        MessageWritten = "whatsapp::message_written",
        PendingStored = "whatsapp::pending_stored",
        MessagesBeforeHook = "whatsapp::before_hook",
        MessagesAfterHook = "whatsapp::after_hook",
        PrekeysStored = "whatsapp::prekeys_stored",
        PrekeysUploaded = "whatsapp::prekeys_uploaded",
        SignedPrekeyStored = "whatsapp::signed_prekey_stored",
        SignedPrekeyTaken = "whatsapp::signed_prekey_taken",
        SignedPrekeyPromoted = "whatsapp::signed_prekey_promoted",
        SenderKeyMade = "whatsapp::sender_key_made",
        SenderKeyCommitted = "whatsapp::sender_key_committed",
        SenderKeySent = "whatsapp::sender_key_sent",
    }
}

names! {
    /// A fault put back on purpose.
    Bug {
        WireBeforeLog = "bug::wire_before_log",
        SignBeforeCommit = "bug::sign_before_commit",
        RatchetsAfterWire = "bug::ratchets_after_wire",
    }
}

names! {
    /// What comes once in days otherwise.
    Due {
        SignedPrekey = "due::signed_prekey",
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
