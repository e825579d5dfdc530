//! A messaging network on loopback that an unmodified client library cannot distinguish from the real one, as far as
//! tests need it.
//!
//! It speaks the real wire protocol (WebSocket, Noise XX and IK, binary stanzas), routes ciphertext that it cannot
//! read, and includes the *phones* (device 0 of every account), which have real Signal sessions and decrypt what they
//! receive. It trusts no client: [`check`] verifies on the wire that no message key, prekey or message id is used
//! twice.
//!
//! - [`wire`]: listener, Noise responder, frames. [`login`]: logins and how they end. [`pairing`]: pairing by QR or
//!   code.
//! - [`state`]: accounts, devices and their queues, behind one lock that is never held over an await.
//! - [`iq`]: queries of clients. [`groups`]: groups. [`route`]: messages, receipts and acknowledgements.
//! - [`phone`]: device 0: sessions, inbox, and its actions, automatic or by the control API.
//! - [`media`]: files, on their own port.
//! - [`check`]: what the server verifies. [`control`]: the control API over HTTP.
//!
//! # Starting it
//!
//! [`TestNet::start`] takes a [`Config`] of addresses (port 0 means any free port) and returns once all of them listen;
//! [`TestNet::shutdown`] closes all of it. Clients connect to `ws://ADDRESS/ws/chat` with any `Origin`. They must be
//! built with wacore's feature `danger-skip-cert-chain-verify`, as no test server can sign the network's certificate
//! chain (this crate enables it for every binary that links it). The headers `X-Gateway-Node` and `X-Gateway-Epoch`
//! (decimal numbers) name the owner of a session in `/logins`, `/sessions` and `/accepted`; without them, a client
//! counts as node 0, epoch 0.
//!
//! # The control API
//!
//! The same API as the simulator's, so that a test can drive either network; its types are in
//! `network::simulator::answers`. Addresses are the real network's: `N@s.whatsapp.net`, `L@lid`. Unsupported calls are
//! answered with 501 and `{ "error": "..." }`; 400 and 404 are used as in the simulator.
//!
//! | Method and path | Remarks |
//! |---|---|
//! | `POST /phones`, `POST /phones/bulk` | registers phones with keys and LID; linked devices are sent a new `name` |
//! | `GET`, `DELETE /phones/{n}` | a device's `channel_session` names the node and epoch that is logged in |
//! | `POST /phones/{n}/link` `{ raw }` or `{ pair_code }` | scans a QR text or types a code. 200 `{ device }` once the companion has *answered the pairing* (`pair-device-sign`), 400 where it did not within 10 s, refused it, or the text is unknown or expired |
//! | `POST /phones/{n}/unlink` `{ device? }` | stream error 401 `device_removed`; later logins get 401 |
//! | `POST /phones/{n}/ban` `{ until? }` | 402 with `until`, else 403 |
//! | `POST /phones/{n}/invalidate` | forgets the keys: later logins get 401, live sessions stream error 401 |
//! | `POST /phones/{n}/replace` `{ device? }` | a foreign client takes over, and leaves: stream error 409 `replaced` |
//! | `POST /phones/{n}/messages` | `to` a number or an address, of a group too, `count`, `message_id`; types `text`, `reaction`, `edit`, `delete`, `location`, `contact`, `poll`, `pin`, `unpin`, media of every kind, with `quoted`, `mentions`, `forwarded`, `ephemeral_expiration`; encrypted to every device of both sides. What it may be about is also what another device of the account wrote |
//! | `GET`, `DELETE /phones/{n}/inbox` | what the phone *decrypted*; `media.intact` says whether its media could be downloaded, opened, and was what the message said; own messages of the account's other devices are not in it |
//! | `POST /phones/{n}/open-chat` `{ with }` | sends read receipts for the messages of that chat |
//! | `POST /phones/{n}/play` `{ id }`, `/react` `{ id, emoji }` | |
//! | `POST /phones/{n}/disclose` `{ to }` | ends `hide_number` for `to` |
//! | `/phones/{n}/groups` and below | create, list, show, subject, description, settings, participants, invite, join, join requests, leave, picture (`PUT`, the bytes); no preview |
//! | `GET /pictures/{id}` | the picture that a picture URL names |
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
//! | `POST /phones/{n}/corrupt` `{ to, count? }` | damages the next `count` (1) messages to `to`, to force retries |
//! | `GET /sources` | `{ chat: { ADDRESS: count }, media: { … } }`: connections to these ports, by source address |
//! | `DELETE /media?everywhere=` | loses all uploads; phones can upload theirs again, unless it is `true` |
//! | `POST /media/expire-auth` | the media port answers 401 until clients request new credentials |
//! | `POST /devices/{n}/{device}/cut` | closes the device's connection without a stream error |
//! | `POST /devices/{n}/{device}/spend-prekeys` | uses up all one-time prekeys of the device, and notifies it |
//! | `POST /devices/{n}/{device}/stream-error` `{ code }` | sends that stream error, then closes the connection |
//! | `POST /devices/{n}/{device}/failure` `{ reason, code?, expire_s? }`, `DELETE ...` | every log-in of the device is refused with `<failure reason>` until it is taken back |
//!
//! `PUT /faults` takes the fields of the simulator that make sense here (`accept_delay_ms`, `accept_jitter_ms`,
//! `drop_before_accept_pct`, `drop_after_accept_pct`, `nack`, `refuse_logins`, `login_delay_ms`, `dedup`,
//! `hold_inbound_acks`, `cut_node`, `qr_time_scale`) and:
//!
//! | Field | Effect |
//! |---|---|
//! | `ik: "accept" \| "reject"` | `reject` answers resumed logins with the server's static key: the client uses XX |
//! | `pairing: "ok" \| "hmac" \| "drop_sign"` | the pairing's HMAC is wrong; or the client's answer is thrown away and its connection cut: the phone shows a failed link and no device is registered |
//! | `usync_empty: [number]` | device queries for these numbers return none |
//! | `prekeys_empty: [number]` | bundles of these numbers have no one-time prekey |
//! | `groups_delay_ms: n` | group queries are executed at once and answered after this delay |
//! | `media: { status } \| null` | the media port answers every request with this status |
//! | `offline_primer: bool` | the first few queued stanzas are sent before the client requests a batch |

#![cfg_attr(not(feature = "server"), allow(rustdoc::broken_intra_doc_links, reason = "then the crate is empty"))]
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

/// Addresses of a test network. All of them must be loopback addresses.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Listener of the control API.
    pub control: SocketAddr,
    /// Listener for clients: `ws://ADDRESS/ws/chat`.
    pub chat: SocketAddr,
    /// Media port: plain `http`, although the protocol says `https`; test clients replace the scheme.
    pub media: SocketAddr,
    /// Multiplies the lifetime of QR texts.
    pub qr_time_scale: f64,
}

impl Config {
    /// Any free ports on 127.0.0.1.
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
    /// Wakes the timer task when something is due before the time that it waits for.
    earlier: Notify,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Shared {
    /// Runs `call` on the state. The lock is held only for this call, never over an await.
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
    /// Starts a test network, which runs until [`shutdown`](Self::shutdown).
    ///
    /// # Errors
    /// An address is not a loopback address or cannot be bound, or the time scale is invalid.
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

    /// Address of the control API.
    pub fn control_address(&self) -> SocketAddr {
        self.control
    }

    /// Address of the listener for clients.
    pub fn chat_address(&self) -> SocketAddr {
        self.chat
    }

    /// Address of the media port.
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

/// Runs timers when they are due.
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
