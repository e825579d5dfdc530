//! Failpoints: steps at which a test build can be told to fail, and deliberate bugs of the driver to be enabled.
//!
//! Builds of the whole workspace have failpoints, release builds of the binary alone do not: see `fail` in the
//! workspace's `Cargo.toml`. Without them, [`reach`] does nothing, [`has`] is `false`, and the compiler removes both.
//! With them, a failpoint that is not armed costs a lookup in an empty map.
//!
//! Actions are written in the syntax of the crate `fail`: `[p%][n*]task[(argument)][->...]` with the tasks `off`,
//! `sleep(ms)`, `delay(ms)`, `pause` (until it is armed again), `yield`, `panic`, `print` and `return`. At a [`Point`]
//! or a [`DriverPoint`], `return` aborts the process, as `kill -9` does; it enables a [`Bug`], cuts a [`Wire`] and
//! triggers what is [`Due`]. `20*off->1*return` skips the first twenty times. Tasks that wait block their thread, and
//! everything else on it.
//!
//! All names are defined here; the crates above use them.

/// Whether this build has failpoints at all.
pub const COMPILED: bool = fail::has_failpoints();

/// Environment variable with the failpoints to arm at the start: `name=actions;name=actions`.
pub const VARIABLE: &str = "FAILPOINTS";

/// Defines an enum of failpoints from one table. The variants' doc comments are also their descriptions.
macro_rules! names {
    ($(#[$about:meta])* $kind:ident { $($(#[doc = $does:literal])+ $variant:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $kind { $($(#[doc = $does])+ $variant,)+ }

        impl $kind {
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// Description of the failpoint.
            pub fn about(self) -> String {
                let lines: &[&str] = match self { $(Self::$variant => &[$($does,)+],)+ };
                lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
            }

            fn each() -> impl Iterator<Item = (&'static str, String)> {
                Self::ALL.iter().map(|each| (each.name(), each.about()))
            }
        }
    };
}

names! {
    /// A step at which the process can be killed or paused.
    Point {
        /// A batch of the log is built, and not yet written. Delays votes and entries of all groups of the node.
        LogBeforeFlush = "log::before_flush",
        /// A batch of the log is synced, and not yet reported.
        LogAfterFlush = "log::after_flush",
        /// Committed entries are applied in memory, and their changes are not yet written.
        StateBeforeWrite = "state::before_write",
        /// The changes of committed entries are written, and no proposer has a response yet.
        StateAfterWrite = "state::after_write",
        /// A snapshot is received completely and synced; the old state is still in place.
        SnapshotReceived = "snapshot::received",
        /// The installation of a snapshot is marked as begun; the old state is still in place.
        SnapshotMarked = "snapshot::marked",
        /// The files of a snapshot are in place, and the mark is not yet removed.
        SnapshotInPlace = "snapshot::in_place",
        /// An entry of a shard is built, and not yet proposed.
        CommitBefore = "commit::before",
        /// An entry of a shard is applied, and its waiters are not yet notified.
        CommitAfter = "commit::after",
        /// The network has accepted a send, and the outcome is not yet proposed.
        OutcomeBeforeCommit = "outcome::before_commit",
        /// The end of a channel is committed, and the sends in its outbox have not ended yet.
        SendsBeforeEnd = "sends::before_end",
        /// An item has arrived from the network, and is not yet proposed.
        InboundBeforeCommit = "inbound::before_commit",
        /// An item is committed, and not yet acknowledged to the network.
        InboundBeforeAcknowledge = "inbound::before_acknowledge",
        /// An item is acknowledged to the network.
        InboundAfterAcknowledge = "inbound::after_acknowledge",
        /// A receiver has responded to an attempt, and the outcome is not yet proposed.
        WebhookAnswered = "webhook::answered",
        /// The outcome of an attempt is committed, and the lane of the delivery is not yet notified.
        WebhookRecorded = "webhook::recorded",
        /// The transfer of a shard's leadership begins; its channels still run.
        TransferBegun = "hand_over::begun",
        /// The channels of a shard are closed, and its leadership is not yet transferred.
        TransferClosed = "hand_over::closed",
        /// A portion of the objects that end with a deleted channel or account has ended.
        DeletionPortion = "deletion::portion",
        /// The task of a leader's core that replicates to a follower sends an append.
        ReplicationAppend = "task::replication",
        /// The task that owns a shard checks whether it may still own it.
        HostingTurn = "task::hosting",
        /// A task beside an ownership checks whether the leadership of the shard is where it should be.
        UpkeepTurn = "task::upkeep",
        /// The task that attempts webhook deliveries begins its next turn.
        DeliveriesTurn = "task::deliveries",
        /// A task beside the shards of a node checks the node's own record in the directory.
        NodeTurn = "task::node",
        /// A node checks which shards it has to host.
        PlacesTurn = "task::places",
    }
}

names! {
    /// A step at which the process can be killed or paused in the driver of the real network. Crate `whatsapp` reaches
    /// these; the simulated network does not.
    DriverPoint {
        /// A part of a session's state is about to be committed, and not yet proposed.
        StateBeforeCommit = "whatsapp::before_commit",
        /// A part of a session's state is committed, and its waiters are not yet notified.
        StateAfterCommit = "whatsapp::after_commit",
        /// The state that outgoing bytes depend on is committed, and none of the bytes are sent.
        WireBeforeWrite = "whatsapp::before_write",
        /// The bytes are sent to the real network, and the client library is not yet notified.
        WireAfterWrite = "whatsapp::after_write",
        /// A session is about to connect to the real network.
        BeforeDial = "whatsapp::dial",
        /// More message keys of a session, or of a group's key, are leased, and the lease is not yet proposed.
        LeaseRaised = "whatsapp::lease_raised",
        /// The raised lease is committed, and no message under it is sent.
        LeaseCommitted = "whatsapp::lease_committed",
        /// A message is sent, and the network has not responded.
        MessageWritten = "whatsapp::message_written",
        /// A received message is stored to be reported again, and its owner has not committed it.
        PendingStored = "whatsapp::pending_stored",
        /// Messages are decrypted, and not yet passed to their owner.
        MessagesBeforeHook = "whatsapp::before_hook",
        /// The owner has committed the messages, and they are not yet acknowledged to the network.
        MessagesAfterHook = "whatsapp::after_hook",
        /// New one-time prekeys are committed, and none of them is offered to the network.
        PrekeysStored = "whatsapp::prekeys_stored",
        /// The network has accepted new one-time prekeys, and the device has not recorded that.
        PrekeysUploaded = "whatsapp::prekeys_uploaded",
        /// The next signed prekey and its predecessor are committed, and the network is not yet told.
        SignedPrekeyStored = "whatsapp::signed_prekey_stored",
        /// The network has accepted the next signed prekey, and the device with it is not yet proposed.
        SignedPrekeyTaken = "whatsapp::signed_prekey_taken",
        /// The device with the next signed prekey is committed.
        SignedPrekeyPromoted = "whatsapp::signed_prekey_promoted",
        /// The channel's sender key of a group is created, and not yet proposed.
        SenderKeyMade = "whatsapp::sender_key_made",
        /// The sender key is committed, and not yet sent to any member.
        SenderKeyCommitted = "whatsapp::sender_key_committed",
        /// A message that carries the sender key to members is sent, and its recipients are not yet recorded.
        SenderKeySent = "whatsapp::sender_key_sent",
    }
}

names! {
    /// A connection that can be cut without the help of the operating system.
    Wire {
        /// Traffic to and from other nodes is dropped. Callers, operators and the network still reach the node, and it
        /// reaches the network.
        Peers = "wire::peers",
        /// Traffic of the directory's log to and from other nodes is dropped. All other traffic continues.
        Directory = "wire::directory",
    }
}

names! {
    /// A deliberate bug, as somebody might introduce it, in the driver of the real network: its tests have to find each
    /// one. Those of the rest of the product are patches (`chaos/mutations`).
    Bug {
        /// Bytes are sent before the state that they depend on is committed: the next owner uses message keys again.
        WireBeforeLog = "bug::wire_before_log",
        /// A pairing is answered before the new identity is committed: the phone is linked to a device without keys.
        SignBeforeCommit = "bug::sign_before_commit",
        /// A message is sent before its ratchet is stored: the peer cannot decrypt messages of the next owner.
        RatchetsAfterWire = "bug::ratchets_after_wire",
    }
}

names! {
    /// Events that otherwise happen once in days.
    Due {
        /// The signed prekey of a loaded device is older than a week: the session exchanges it for another.
        SignedPrekey = "due::signed_prekey",
    }
}

/// Runs the action that the point is armed with.
#[inline(always)]
pub fn reach(point: Point) {
    // Without failpoints, the parameter is not used.
    let _ = point;
    fail::fail_point!(point.name(), |_| std::process::abort());
}

/// Whether the wire is cut now.
#[inline(always)]
pub fn is_cut(wire: Wire) -> bool {
    let _ = wire;
    fail::fail_point!(wire.name(), |_| true);
    false
}

/// Whether the bug is enabled now.
#[inline(always)]
pub fn has(bug: Bug) -> bool {
    let _ = bug;
    fail::fail_point!(bug.name(), |_| true);
    false
}

/// Why a failpoint was not armed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ArmError {
    #[error("this build has no failpoints: use one of the whole workspace")]
    NotCompiled,
    #[error("there is no failpoint {0:?}")]
    Unknown(String),
    #[error(
        "{name}: {reason}; an action is [p%][n*]task[(argument)], with off, sleep(ms), delay(ms), pause, yield, panic, print or return"
    )]
    Action { name: String, reason: String },
    #[error("{0:?} is not of the form name=actions")]
    NotAPair(String),
}

/// A failpoint and its actions.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    pub name: &'static str,
    pub about: String,
    /// `None` if it is not armed.
    pub actions: Option<String>,
}

fn names() -> impl Iterator<Item = (&'static str, String)> {
    Point::each().chain(DriverPoint::each()).chain(Wire::each()).chain(Bug::each()).chain(Due::each())
}

fn known(name: &str) -> Result<&'static str, ArmError> {
    if !COMPILED {
        return Err(ArmError::NotCompiled);
    }
    let mut names = names().map(|(known, _)| known);
    names.find(|known| *known == name).ok_or_else(|| ArmError::Unknown(name.to_owned()))
}

/// All failpoints.
pub fn list() -> Vec<Listed> {
    let armed = fail::list();
    let actions = |name: &str| armed.iter().find(|(armed, _)| armed == name).map(|(_, actions)| actions.clone());
    names().map(|(name, about)| Listed { name, about, actions: actions(name) }).collect()
}

/// Arms a failpoint, replacing its former actions.
///
/// # Errors
/// [`ArmError`]: the name or the actions are wrong, or this build has no failpoints; nothing is changed then.
pub fn arm(name: &str, actions: &str) -> Result<(), ArmError> {
    let name = known(name)?;
    fail::cfg(name, actions).map_err(|reason| ArmError::Action { name: name.to_owned(), reason })
}

/// Disarms a failpoint; paused threads continue.
///
/// # Errors
/// When there is no such failpoint.
pub fn disarm(name: &str) -> Result<(), ArmError> {
    known(name).map(fail::remove)
}

/// Arms the failpoints of [`VARIABLE`] in order; returns their number.
///
/// # Errors
/// At the first pair that is wrong; the pairs before it stay armed.
pub fn arm_all(pairs: &str) -> Result<usize, ArmError> {
    let pairs = pairs.split(';').map(str::trim).filter(|pair| !pair.is_empty());
    pairs.clone().try_for_each(|pair| {
        let (name, actions) = pair.split_once('=').ok_or_else(|| ArmError::NotAPair(pair.to_owned()))?;
        arm(name.trim(), actions.trim())
    })?;
    Ok(pairs.count())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// All source files of the workspace but this one, as one text.
    fn sources(folder: &Path, found: &mut String) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if path.extension().is_some_and(|end| end == "rs") && !path.ends_with(file!()) {
                found.push_str(&fs::read_to_string(path).unwrap());
            }
        }
    }

    #[test]
    fn every_failpoint_is_used_and_bears_a_name_of_its_own() {
        let mut text = String::new();
        // The checkout that is tested, not the one in which this was compiled: they may share a target folder.
        let checkout = Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("..");
        for folder in ["model", "network", "whatsapp", "raft", "shard", "api", "node"] {
            sources(&checkout.join(folder).join("src"), &mut text);
        }
        let points = Point::ALL.iter().map(|point| format!("reach(Point::{point:?})"));
        let of_driver = DriverPoint::ALL.iter().map(|point| format!("reach(Point::{point:?})"));
        let bugs = Bug::ALL.iter().map(|bug| format!("has(Bug::{bug:?})"));
        let wires = Wire::ALL.iter().map(|wire| format!("is_cut(Wire::{wire:?})"));
        let due = Due::ALL.iter().map(|due| format!("is_due(Due::{due:?})"));
        for place in points.chain(of_driver).chain(wires).chain(bugs).chain(due) {
            assert!(text.contains(&place), "{place} stands nowhere");
        }
        let listed = list();
        let all: BTreeSet<&str> = listed.iter().map(|listed| listed.name).collect();
        let counts = [Point::ALL.len(), DriverPoint::ALL.len(), Wire::ALL.len(), Bug::ALL.len(), Due::ALL.len()];
        assert_eq!(all.len(), counts.iter().sum::<usize>());
        for point in DriverPoint::ALL {
            let named = format!("Self::{point:?} => \"{}\"", point.name());
            assert!(text.contains(&named), "the driver has another name: {named}");
        }
        assert!(Bug::ALL.iter().all(|bug| bug.name().starts_with("bug::") && bug.about().ends_with('.')));
    }

    #[test]
    fn what_is_armed_is_listed_and_what_cannot_be_is_refused() {
        if !COMPILED {
            assert_eq!(arm(Point::WebhookRecorded.name(), "return"), Err(ArmError::NotCompiled));
            return;
        }
        // A failpoint that this crate never reaches, because failpoints are global to the process.
        let point = Point::WebhookRecorded;
        let actions = || list().into_iter().find(|listed| listed.name == point.name()).unwrap().actions;
        assert_eq!(arm_all(" webhook::recorded = 10%sleep(1) ;; "), Ok(1));
        assert_eq!(actions().as_deref(), Some("10%sleep(1)"));
        disarm(point.name()).unwrap();
        assert_eq!(actions(), None);
        assert_eq!(arm("webhook::forgotten", "return"), Err(ArmError::Unknown("webhook::forgotten".into())));
        assert!(matches!(arm(point.name(), "explode"), Err(ArmError::Action { .. })));
        assert_eq!(arm_all("return"), Err(ArmError::NotAPair("return".into())));
        assert_eq!(actions(), None);
        assert!(!has(Bug::WireBeforeLog));
    }
}
