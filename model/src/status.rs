//! The status machine of a channel: one table, used by code, tests and documentation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

crate::words! {
    /// Status of a channel.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Status {
        Pending = "pending",
        Qr = "qr",
        Connecting = "connecting",
        Reconnecting = "reconnecting",
        Connected = "connected",
        Disconnected = "disconnected",
        LoggedOut = "logged_out",
        StoppedByUser = "stopped_by_user",
        DisabledByAdmin = "disabled_by_admin",
        Error = "error",
        Failed = "failed",
    }
}

impl Status {
    /// Whether only an explicit API call leaves this status.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::LoggedOut | Self::StoppedByUser | Self::DisabledByAdmin | Self::Error | Self::Failed)
    }

    /// Whether the status, unlike that of a login attempt, lasts until an API call or the network changes it.
    pub fn lasts(self) -> bool {
        !matches!(self, Self::Connecting | Self::Reconnecting)
    }

    /// Whether the owner keeps a session, or tries to open one, in this status.
    pub fn runs(self) -> bool {
        matches!(self, Self::Qr | Self::Connecting | Self::Reconnecting | Self::Connected)
    }

    /// How a send is answered in this status.
    pub fn on_send(self) -> OnSend {
        match self {
            Self::Connected => OnSend::Direct,
            Self::Connecting | Self::Reconnecting => OnSend::Queue,
            Self::Pending | Self::Qr | Self::Disconnected => OnSend::NotConnected,
            _ => OnSend::Unavailable,
        }
    }
}

/// How a send is answered; see [`Status::on_send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSend {
    /// Written to the session at once.
    Direct,
    /// 202 `queued`.
    Queue,
    /// 409 `not_connected`.
    NotConnected,
    /// 409 `channel_unavailable`.
    Unavailable,
}

/// An input to the status machine. T1 to T35 number its transitions, as comments elsewhere refer to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Trigger {
    /// `GET .../qr` or `POST .../pair-code` (T2, T30).
    PairingRequested,
    /// `POST .../connect` (T2, T29, T30).
    Connect,
    /// `POST .../restart` (T29, T31, T32).
    Restart,
    /// `POST .../disconnect` (T27).
    Disconnect,
    /// `POST .../logout` (T28).
    Logout,
    /// `POST .../disable` (T33).
    Disable,
    /// `POST .../enable` (T34, T35).
    Enable,
    /// `POST /v1/admin/channels/{id}/import`: the session of a channel of another cluster is about to be stored.
    Imported,
    /// The phone accepted the scan or the code, and the credentials are stored (T4).
    Paired,
    /// All QR codes were used up (T5).
    QrTimeout,
    /// The network refused the pairing (T7).
    PairingRefused,
    /// The network accepted the login (T8, T13).
    LoginOk,
    /// A login attempt failed or took too long (T9, T14).
    AttemptFailed,
    /// A live session was lost (T10).
    TransportLost,
    /// A new leader takes over the channel from an owner that was lost (T11).
    OwnerLost,
    /// A drain or a rebalance transfers the channel to another node (T12).
    PlannedMove,
    /// The retry budget, 24 hours of login attempts, is used up (T15).
    ReconnectBudget,
    /// No node has a free slot (T16).
    NoSlot,
    /// A slot is free again, or the cool-down after a replaced session is over (T17, T23).
    Resume,
    /// The device was unlinked on the phone (T18).
    Unlinked,
    /// The network calls the session invalid (T19).
    SessionInvalidated,
    /// The network banned the number (T20).
    Banned,
    /// The network refused the protocol version, even after the version was refreshed (T21).
    ClientOutdated,
    /// Another connection of the same device replaced this session (T22).
    Replaced,
    /// Another connection replaced the session again within ten minutes (T24).
    ReplacedAgain,
    /// The stored credentials cannot be read or written (T25).
    AuthState,
    /// The channel's task failed five times in ten minutes (T26).
    CrashLoop,
}

/// Details from the network about a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StatusDetails {
    /// Time until which the number is banned.
    pub ban_until: Timestamp,
}

crate::words! {
    /// Reason for the status of a channel.
    #[derive(JsonSchema)]
    Reason {
        Created = "created",
        QrRequested = "qr_requested",
        ConnectRequested = "connect_requested",
        Paired = "paired",
        LoginOk = "login_ok",
        Network = "network",
        WorkerLost = "worker_lost",
        Rebalance = "rebalance",
        QrTimeout = "qr_timeout",
        PairingRefused = "pairing_refused",
        ReconnectBudget = "reconnect_budget",
        NoWorker = "no_worker",
        Logout = "logout",
        SessionInvalidated = "session_invalidated",
        KickedOtherDevice = "kicked_other_device",
        StreamReplacedLoop = "stream_replaced_loop",
        ClientOutdated = "client_outdated",
        AuthState = "auth_state",
        CrashLoop = "crash_loop",
        User = "user",
        Admin = "admin",
        Banned = "banned",
        /// The cluster was restored from a backup, or the session imported from another cluster: a person must decide
        /// whether the session may continue.
        Restored = "restored",
    }
}

/// Why a channel was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DisconnectReason {
    Network,
    Logout,
    SessionInvalidated,
    KickedOtherDevice,
}

/// A permitted transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub to: Status,
    pub reason: Reason,
    /// The reason of the `channel.disconnected` event to send as well. A stop or a disable sends none.
    pub disconnected: Option<DisconnectReason>,
    /// Whether the stored credentials are wiped with the transition.
    pub wipes_credentials: bool,
}

/// Why a trigger is refused in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The channel is in the requested status already: 409 `no_op`.
    NoOp,
    /// 409 `invalid_lifecycle_transition`.
    Invalid,
    /// 409 `channel_unavailable`: only `enable` leaves `disabled_by_admin`.
    Unavailable,
    /// 409 `not_disabled`.
    NotDisabled,
}

/// The transition table of a channel. `credentials` says whether the channel has stored credentials.
pub fn transition(from: Status, trigger: Trigger, credentials: bool) -> Result<Move, Refusal> {
    use Status::*;
    use Trigger as T;

    let to_status = |to: Status, reason: Reason| Move { to, reason, disconnected: None, wipes_credentials: false };
    let loses = |to: Status, reason: Reason, why: DisconnectReason| Move {
        to,
        reason,
        disconnected: Some(why),
        wipes_credentials: to == LoggedOut,
    };
    let live_login = matches!(from, Connected | Connecting | Reconnecting);

    match (trigger, from) {
        // T33 to T35 come first: `disabled_by_admin` refuses every call but `enable`.
        (T::Enable, DisabledByAdmin) if credentials => Ok(to_status(Disconnected, Reason::Admin)),
        (T::Enable, DisabledByAdmin) => Ok(to_status(Pending, Reason::Admin)),
        (T::Enable, _) => Err(Refusal::NotDisabled),
        (T::Disable, DisabledByAdmin) => Err(Refusal::NoOp),
        (T::Disable, _) => Ok(to_status(DisabledByAdmin, Reason::Admin)),
        (T::PairingRequested | T::Connect | T::Restart | T::Disconnect | T::Logout, DisabledByAdmin) => {
            Err(Refusal::Unavailable)
        }

        // T2, T29, T30: start.
        (T::PairingRequested, Pending | LoggedOut) => Ok(to_status(Qr, Reason::QrRequested)),
        (T::PairingRequested, StoppedByUser | Error | Failed) if !credentials => Ok(to_status(Qr, Reason::QrRequested)),
        (T::PairingRequested, _) => Err(Refusal::Invalid),
        (T::Connect, Pending | LoggedOut) => Ok(to_status(Qr, Reason::ConnectRequested)),
        (T::Connect, StoppedByUser | Error | Failed) if !credentials => Ok(to_status(Qr, Reason::ConnectRequested)),
        (T::Connect, Disconnected | StoppedByUser | Error | Failed) => {
            Ok(to_status(Connecting, Reason::ConnectRequested))
        }
        (T::Connect, _) => Err(Refusal::Invalid),

        // T29, T31, T32: restart.
        (T::Restart, Qr) => Ok(to_status(Qr, Reason::User)),
        (T::Restart, StoppedByUser | Error | Failed) if !credentials => Ok(to_status(Qr, Reason::User)),
        (T::Restart, Connecting | Reconnecting | Connected | Disconnected | StoppedByUser | Error | Failed) => {
            Ok(to_status(Connecting, Reason::User))
        }
        (T::Restart, _) => Err(Refusal::Invalid),

        // T27: stop.
        (T::Disconnect, Qr | Connecting | Reconnecting | Connected | Disconnected) => {
            Ok(to_status(StoppedByUser, Reason::User))
        }
        (T::Disconnect, StoppedByUser) => Err(Refusal::NoOp),
        (T::Disconnect, _) => Err(Refusal::Invalid),

        // T28: logout.
        (T::Logout, Connecting | Reconnecting | Connected | Disconnected | StoppedByUser | Error | Failed) => {
            Ok(Move { wipes_credentials: true, ..to_status(LoggedOut, Reason::Logout) })
        }
        (T::Logout, LoggedOut) => Err(Refusal::NoOp),
        (T::Logout, _) => Err(Refusal::Invalid),

        // State that an earlier import left behind is wiped with the transition.
        (T::Imported, Pending | LoggedOut | StoppedByUser | Error | Failed) if !credentials => {
            Ok(Move { wipes_credentials: true, ..to_status(StoppedByUser, Reason::Restored) })
        }
        (T::Imported, DisabledByAdmin) => Err(Refusal::Unavailable),
        (T::Imported, _) => Err(Refusal::Invalid),

        // T4, T5, T7: pairing.
        (T::Paired, Qr) => Ok(to_status(Connecting, Reason::Paired)),
        (T::QrTimeout, Qr) => Ok(to_status(Pending, Reason::QrTimeout)),
        (T::PairingRefused, Qr) => Ok(to_status(Failed, Reason::PairingRefused)),

        // T8 to T17, T23: login and loss.
        (T::LoginOk, Connecting | Reconnecting) => Ok(to_status(Connected, Reason::LoginOk)),
        (T::AttemptFailed, Connecting) => Ok(to_status(Reconnecting, Reason::Network)),
        (T::TransportLost, Connected) => Ok(loses(Reconnecting, Reason::Network, DisconnectReason::Network)),
        (T::OwnerLost, Connected) => Ok(loses(Reconnecting, Reason::WorkerLost, DisconnectReason::Network)),
        (T::PlannedMove, Connected) => Ok(to_status(Connecting, Reason::Rebalance)),
        (T::ReconnectBudget, Reconnecting) => Ok(to_status(Failed, Reason::ReconnectBudget)),
        (T::NoSlot, Reconnecting | Connecting) => Ok(to_status(Disconnected, Reason::NoWorker)),
        (T::Resume, Disconnected) => Ok(to_status(Connecting, Reason::ConnectRequested)),

        // T18 to T22, T24: the network ended the session.
        (T::Unlinked, _) if live_login => Ok(loses(LoggedOut, Reason::Logout, DisconnectReason::Logout)),
        (T::SessionInvalidated, _) if live_login => {
            Ok(loses(LoggedOut, Reason::SessionInvalidated, DisconnectReason::SessionInvalidated))
        }
        (T::Banned, _) if live_login => Ok(loses(Failed, Reason::Banned, DisconnectReason::SessionInvalidated)),
        (T::ClientOutdated, _) if live_login => Ok(to_status(Error, Reason::ClientOutdated)),
        (T::Replaced, Connected) => {
            Ok(loses(Disconnected, Reason::KickedOtherDevice, DisconnectReason::KickedOtherDevice))
        }
        (T::ReplacedAgain, Connected) => {
            Ok(loses(Error, Reason::StreamReplacedLoop, DisconnectReason::KickedOtherDevice))
        }

        // T25, T26: failures inside the gateway.
        (T::AuthState, _) if from.runs() => Ok(to_status(Error, Reason::AuthState)),
        (T::CrashLoop, _) if from.runs() => Ok(to_status(Error, Reason::CrashLoop)),

        _ => Err(Refusal::Invalid),
    }
}

/// The statuses in which a trigger is accepted: `details.allowed_from` of `invalid_lifecycle_transition`.
pub fn allowed_from(trigger: Trigger) -> Vec<Status> {
    let permitted =
        |status: &Status| transition(*status, trigger, true).is_ok() || transition(*status, trigger, false).is_ok();
    Status::ALL.into_iter().filter(permitted).collect()
}

/// How `GET .../qr` and `POST .../pair-code` are answered in a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnPairing {
    /// Start a pairing session, then wait for its code.
    Start,
    /// A pairing session is running: return its code.
    Running,
    /// 409 `no_qr` or `pair_code_unavailable`.
    Unavailable,
    /// 409 `channel_unavailable`.
    Disabled,
}

/// How a channel in `status` answers a request to pair; see [`OnPairing`].
pub fn on_pairing(status: Status, credentials: bool) -> OnPairing {
    match status {
        Status::Qr => OnPairing::Running,
        Status::DisabledByAdmin => OnPairing::Disabled,
        _ if transition(status, Trigger::PairingRequested, credentials).is_ok() => OnPairing::Start,
        _ => OnPairing::Unavailable,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// One row per call, one column per status in the order of [`Status::ALL`]: `A` is accepted, `n` no_op, `i`
    /// invalid, `u` unavailable, `d` not disabled.
    #[test]
    fn lifecycle_actions_answer_as_the_table_says() {
        let rows = [
            (Trigger::Connect, "AiiiiAAAuAA"),
            (Trigger::Disconnect, "iAAAAAinuii"),
            (Trigger::Restart, "iAAAAAiAuAA"),
            (Trigger::Logout, "iiAAAAnAuAA"),
            (Trigger::Disable, "AAAAAAAAnAA"),
            (Trigger::Enable, "ddddddddAdd"),
        ];
        for (trigger, row) in rows {
            for (status, expected) in Status::ALL.into_iter().zip(row.chars()) {
                for credentials in [true, false] {
                    let got = match transition(status, trigger, credentials) {
                        Ok(_) => 'A',
                        Err(Refusal::NoOp) => 'n',
                        Err(Refusal::Invalid) => 'i',
                        Err(Refusal::Unavailable) => 'u',
                        Err(Refusal::NotDisabled) => 'd',
                    };
                    assert_eq!(got, expected, "{trigger:?} in {status} with credentials {credentials}");
                }
            }
        }
    }

    #[test]
    fn starting_leads_to_qr_without_credentials_and_to_connecting_with_them() {
        for status in [Status::StoppedByUser, Status::Error, Status::Failed] {
            assert_eq!(transition(status, Trigger::Connect, true).unwrap().to, Status::Connecting);
            assert_eq!(transition(status, Trigger::Connect, false).unwrap().to, Status::Qr);
            assert_eq!(on_pairing(status, false), OnPairing::Start);
            assert_eq!(on_pairing(status, true), OnPairing::Unavailable);
        }
        assert_eq!(on_pairing(Status::Connected, true), OnPairing::Unavailable);
        assert_eq!(on_pairing(Status::DisabledByAdmin, false), OnPairing::Disabled);
    }

    #[test]
    fn a_session_is_imported_into_what_neither_runs_nor_could_log_in_and_waits_for_a_person_there() {
        for status in Status::ALL {
            let rests = !status.runs() && !matches!(status, Status::Disconnected | Status::DisabledByAdmin);
            let imported = transition(status, Trigger::Imported, false);
            assert_eq!(imported.is_ok(), rests, "{status}");
            if let Ok(step) = imported {
                assert_eq!((step.to, step.reason), (Status::StoppedByUser, Reason::Restored));
                assert!(step.wipes_credentials);
            }
            assert!(transition(status, Trigger::Imported, true).is_err(), "{status}");
        }
    }

    const EXPLICIT: [Trigger; 8] = [
        Trigger::PairingRequested,
        Trigger::Connect,
        Trigger::Restart,
        Trigger::Disconnect,
        Trigger::Logout,
        Trigger::Disable,
        Trigger::Enable,
        Trigger::Imported,
    ];

    const BY_ITSELF: [Trigger; 19] = [
        Trigger::Paired,
        Trigger::QrTimeout,
        Trigger::PairingRefused,
        Trigger::LoginOk,
        Trigger::AttemptFailed,
        Trigger::TransportLost,
        Trigger::OwnerLost,
        Trigger::PlannedMove,
        Trigger::ReconnectBudget,
        Trigger::NoSlot,
        Trigger::Resume,
        Trigger::Unlinked,
        Trigger::SessionInvalidated,
        Trigger::Banned,
        Trigger::ClientOutdated,
        Trigger::Replaced,
        Trigger::ReplacedAgain,
        Trigger::AuthState,
        Trigger::CrashLoop,
    ];

    #[test]
    fn nothing_but_an_explicit_call_leaves_a_terminal_status() {
        for status in Status::ALL.into_iter().filter(|status| status.is_terminal()) {
            for trigger in BY_ITSELF {
                for credentials in [true, false] {
                    assert!(transition(status, trigger, credentials).is_err(), "{trigger:?} left {status}");
                }
            }
        }
    }

    #[test]
    fn logged_out_is_reached_by_unlink_invalidation_and_logout_only() {
        for status in Status::ALL {
            for trigger in EXPLICIT.into_iter().chain(BY_ITSELF) {
                if let Ok(to) = transition(status, trigger, true)
                    && to.to == Status::LoggedOut
                {
                    assert!(matches!(trigger, Trigger::Unlinked | Trigger::SessionInvalidated | Trigger::Logout));
                    assert!(to.wipes_credentials);
                }
            }
        }
    }

    #[test]
    fn allowed_from_names_the_statuses_that_accept() {
        assert_eq!(allowed_from(Trigger::Enable), vec![Status::DisabledByAdmin]);
        assert!(!allowed_from(Trigger::Connect).contains(&Status::Connected));
    }
}
