//! A messaging network on loopback that an unmodified client library cannot tell from the real one in what tests need.
//!
//! It speaks the true wire protocol (WebSocket, Noise XX and IK, binary stanzas), routes ciphertext that it cannot read,
//! and holds the *phones* (device 0 of every account), which have real Signal sessions and decrypt what reaches them. It
//! knows no trust in anybody: [`check`] proves from the wire that no message key, prekey or message id is used twice.
//!
//! - [`wire`]: listening, the Noise responder, frames. [`login`]: log-ins and how they end. [`pairing`]: QR pairing.
//! - [`state`]: accounts, devices and their queues, behind one lock that is never held over an await.
//! - [`iq`]: the queries that clients send. [`groups`]: groups. [`route`]: messages, receipts and acknowledgements.
//! - [`phone`]: device 0: sessions, inbox, what it does by itself and when it is told.
//! - [`media`]: files on a port of their own.
//! - [`check`]: what the server proves. [`control`]: the control API over HTTP.
//!
//! # Starting it
//!
//! [`TestNet::start`] takes a [`Config`] of addresses (port 0 takes a free one) and returns once all of them listen;
//! [`TestNet::shutdown`] closes all of it. A client dials `ws://ADDRESS/ws/chat` with any `Origin`. It must be built with
//! wacore's feature `danger-skip-cert-chain-verify`, as no test server can sign the network's certificate chain (this
//! crate turns it on for whoever links it). The headers `X-Gateway-Node` and `X-Gateway-Epoch` (decimal numbers) name the
//! owner of a session in `/logins`, `/sessions` and `/accepted`; a client without them counts as node 0, epoch 0.
//!
//! # The control API
//!
//! That of the simulator, word for word, so that a test can drive either network; its shapes are those of
//! `network::simulator::answers`. Addresses are the real ones: `N@s.whatsapp.net`, `L@lid`. What this network cannot do yet
//! is answered with 501 and `{ "error": "..." }`; 400 and 404 as in the simulator.
//!
//! | Method and path | Remarks |
//! |---|---|
//! | `POST /phones`, `POST /phones/bulk` | registers phones; each gets an identity, prekeys and a LID of its own. Linked devices are told of another `name` |
//! | `GET`, `DELETE /phones/{n}` | `channel_session` of a device says which node and epoch is logged in |
//! | `POST /phones/{n}/link` `{ raw }` or `{ pair_code }` | scans a QR text or types a code. 200 `{ device }` once the companion has *answered the pairing* (`pair-device-sign`), 400 where it did not within 10 s, refused it, or the text is unknown or expired |
//! | `POST /phones/{n}/unlink` `{ device? }` | stream error 401 `device_removed`, later log-ins get 401 |
//! | `POST /phones/{n}/ban` `{ until? }` | 402 with `until`, else 403 |
//! | `POST /phones/{n}/invalidate` | later log-ins get 401 as the keys are forgotten; a live one gets stream error 401 |
//! | `POST /phones/{n}/replace` `{ device? }` | a foreign client takes the device's place: stream error 409 `replaced` to the live session. The foreigner goes at once |
//! | `POST /phones/{n}/messages` | `to` a number or an address, of a group too, `count`, `message_id`; types `text`, `reaction`, `edit`, `delete`, `location`, `contact`, `poll`, `pin`, `unpin`, media of every kind, with `quoted`, `mentions`, `forwarded`, `ephemeral_expiration`; encrypted to every device of both sides. What it may be about is also what another device of the account wrote |
//! | `GET`, `DELETE /phones/{n}/inbox` | what the phone *decrypted*; `media.intact` says whether its media could be downloaded, opened, and was what the message said; own messages of the account's other devices are not in it |
//! | `POST /phones/{n}/open-chat` `{ with }` | read receipts for what it got from there |
//! | `POST /phones/{n}/play` `{ id }`, `/react` `{ id, emoji }` | |
//! | `POST /phones/{n}/disclose` `{ to }` | ends `hide_number` towards `to` |
//! | `/phones/{n}/groups` and below | create, list, show, subject, description, settings, participants, invite, join, join requests, leave, picture (`PUT`, the bytes); no preview |
//! | `GET /pictures/{id}` | a picture, as its URL leads to it |
//! | `GET /sessions`, `/logins`, `/stats`, `/accepted` | as in the simulator |
//! | `GET`, `PUT`, `DELETE /faults` | see below |
//! | `POST /reset`, `GET /healthz` | |
//!
//! Additions of this network:
//!
//! | Method and path | Answer |
//! |---|---|
//! | `GET /crypto` | what the server checked, [`check::Report`]: `{ key_reuse: [text], wire_repeats, undecryptable, undecryptable_rows: [text], retry_receipts, prekeys_given, prekeys_left_min, prekey_conflicts: [text], prekey_unknown, prekey_unknown_rows: [text], wrong_devices, body_conflicts: [text], foreign_acks: [text], session_gaps_max, sender_key_gaps_max, two_live: [text], qr_pairings }`. All lists empty and `undecryptable` 0 = nothing found. A row of `prekey_unknown_rows` says which device did not know which prekey of which message, how many messages of that session it had acknowledged before, and who else used that prekey |
//! | `GET /devices/{n}` | `{ data: [ { id, registration_id, signed_prekey_id, prekeys_left, highest_prekey_id, queue, connected, last_login_at, signal_sessions, shows: { "": presence, CHAT: "composing", … } } ], total }` |
//! | `GET /phones/{n}/receipts?id=` | `{ data: [ { id, from, type, at } ], total }`: receipts that reached the phone |
//! | `POST /phones/{n}/forget-session` `{ with }` | the phone loses its Signal sessions with that number's devices, so that the next message cannot be decrypted and a retry receipt goes out |
//! | `POST /phones/{n}/corrupt` `{ to, count? }` | the next `count` (1) messages of the phone to `to` are damaged on the wire, so that the channel cannot read them and must ask again |
//! | `GET /sources` | `{ chat: { ADDRESS: count }, media: { … } }`: how many connections came from where to these ports |
//! | `DELETE /media?everywhere=` | all uploaded files are gone, as at the network after some weeks; phones can upload theirs again, unless it is `true` |
//! | `POST /media/expire-auth` | what clients come with to the media port is answered 401 until they ask for what they are to come with |
//! | `POST /devices/{n}/{device}/cut` | the device's connection is closed without a word |
//! | `POST /devices/{n}/{device}/spend-prekeys` | all one-time prekeys of the device are given away, and it is told that none is left |
//! | `POST /devices/{n}/{device}/stream-error` `{ code }` | that stream error, then the end |
//! | `POST /devices/{n}/{device}/failure` `{ reason, code?, expire_s? }`, `DELETE ...` | every log-in of the device is refused with `<failure reason>` until it is taken back |
//!
//! `PUT /faults` takes the fields of the simulator that make sense here (`accept_delay_ms`, `accept_jitter_ms`,
//! `drop_before_accept_pct`, `drop_after_accept_pct`, `nack`, `refuse_logins`, `login_delay_ms`, `dedup`,
//! `hold_inbound_acks`, `cut_node`, `qr_time_scale`) and:
//!
//! | Field | Effect |
//! |---|---|
//! | `ik: "accept" \| "reject"` | a resumed log-in is answered with the server's static key, so that the client falls back to XX |
//! | `pairing: "ok" \| "hmac" \| "drop_sign"` | the pairing's HMAC is wrong; or the client's answer is thrown away and its connection cut: the phone shows a failed link and no device is registered |
//! | `usync_empty: [number]` | queries for devices find none for these |
//! | `prekeys_empty: [number]` | bundles of these come without a one-time prekey |
//! | `groups_delay_ms: n` | what is asked of groups is done at once and answered so much later |
//! | `media: { status } \| null` | the media port answers everything with that status |
//! | `offline_primer: bool` | whether the first few waiting stanzas come before the client asks for a batch |

#![cfg(feature = "server")]

mod account;
pub mod check;
pub mod control;
mod faults;
mod groups;
mod http;
mod iq;
mod ledger;
mod login;
mod media;
mod number;
mod pairing;
mod phone;
mod route;
mod stanza;
mod state;
mod wire;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use network::simulator::faults::check_time_scale;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use self::state::State;

/// Where a test network listens. All of it must be loopback.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Of the control API.
    pub control: SocketAddr,
    /// Where clients dial: `ws://ADDRESS/ws/chat`.
    pub chat: SocketAddr,
    /// Where media is: `http`, though the wire calls it `https`. A client of tests puts that right.
    pub media: SocketAddr,
    /// Multiplies the life of QR texts.
    pub qr_time_scale: f64,
}

impl Config {
    /// Free ports of 127.0.0.1.
    pub fn anywhere() -> Self {
        let anywhere = SocketAddr::from(([127, 0, 0, 1], 0));
        Self { control: anywhere, chat: anywhere, media: anywhere, qr_time_scale: 1.0 }
    }
}

/// A running test network. Clones share it.
#[derive(Clone)]
pub struct TestNet {
    shared: Arc<Shared>,
    control: SocketAddr,
    chat: SocketAddr,
    media: SocketAddr,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    /// Wakes the timer when something became due earlier than it expects.
    earlier: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Shared {
    /// Calls the state. The lock is held for this call alone, never over an await.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let before = state.next_due();
        let result = call(&mut state);
        let due = state.next_due();
        drop(state);
        if due.is_some_and(|due| before.is_none_or(|before| due < before)) {
            self.earlier.notify_one();
        }
        result
    }
}

impl TestNet {
    /// Starts a test network, which lives until [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// An address that is not loopback or cannot be listened on, or a scale that makes no sense.
    pub async fn start(config: Config) -> io::Result<Self> {
        let refuse = |text: String| io::Error::new(io::ErrorKind::InvalidInput, text);
        for (name, address) in [("control", config.control), ("chat", config.chat), ("media", config.media)] {
            if !address.ip().is_loopback() {
                return Err(refuse(format!("the {name} address {address} is not a loopback address")));
            }
        }
        check_time_scale(config.qr_time_scale).map_err(refuse)?;
        let chat = TcpListener::bind(config.chat).await?;
        let control = TcpListener::bind(config.control).await?;
        let media = TcpListener::bind(config.media).await?;
        let (control_address, chat_address, media_address) =
            (control.local_addr()?, chat.local_addr()?, media.local_addr()?);
        let shared = Arc::new(Shared {
            state: Mutex::new(State::new(config.qr_time_scale, media_address.to_string(), control_address.to_string())),
            earlier: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        shared.tasks.spawn(wire::listen(chat, Arc::clone(&shared)));
        shared.tasks.spawn(http::listen(control, Arc::clone(&shared), None, control::http::answer));
        shared.tasks.spawn(http::listen(media, Arc::clone(&shared), Some(ledger::ClientPort::Media), media::answer));
        shared.tasks.spawn(run_timers(Arc::clone(&shared)));
        Ok(Self { shared, control: control_address, chat: chat_address, media: media_address })
    }

    /// Where the control API is.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// Where clients dial.
    pub fn chat_address(&self) -> SocketAddr {
        self.chat
    }

    /// Where media is.
    pub fn media_address(&self) -> SocketAddr {
        self.media
    }

    /// Closes all connections and ports.
    pub async fn shutdown(&self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

/// Does what is due, when it is due.
async fn run_timers(shared: Arc<Shared>) {
    loop {
        let due = shared.with(|state| {
            state.advance();
            state.next_due()
        });
        let wait = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => {}
            () = shared.earlier.notified() => {}
            () = shared.stop.cancelled() => return,
        }
    }
}
