//! Places at which a build for tests can be told to die, and faults that it can be told to have. They are nothing in any other
//! build. Their names, and how they are armed, stand in `raft::failpoint`, which this crate lies below.

/// A place where the process can die.
#[derive(Clone, Copy, Debug)]
pub enum Point {
    StateBeforeCommit,
    StateAfterCommit,
    WireBeforeWrite,
    WireAfterWrite,
    BeforeDial,
    MessagesBeforeHook,
    MessagesAfterHook,
}

/// A fault put back on purpose.
#[derive(Clone, Copy, Debug)]
pub enum Bug {
    WireBeforeLog,
    SignBeforeCommit,
    RatchetsAfterWire,
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
            Self::MessagesBeforeHook => "whatsapp::before_hook",
            Self::MessagesAfterHook => "whatsapp::after_hook",
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

/// Does here what the point was armed with.
#[inline(always)]
pub fn reach(point: Point) {
    // Without failpoints the name is not used.
    let _ = point;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(point.name(), |_| std::process::abort());
}

/// Whether a fault is to show here and now.
#[inline(always)]
pub fn has(bug: Bug) -> bool {
    let _ = bug;
    #[cfg(feature = "failpoints")]
    fail::fail_point!(bug.name(), |_| true);
    false
}
