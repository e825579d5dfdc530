//! Handles the library's events. The handler runs within the library's processing, before the acknowledgement is
//! queued: a row that is appended here is durable before the network can receive the acknowledgement.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use model::id::MessageId;
use model::message::UndecryptableReason;
use model::time::Timestamp;
use network::driver::{EndReason, PasskeyStep, Receipt, ReceiptStatus, SessionEvent};
use parking_lot::Mutex;
use wacore::types::events::{
    self as told, DecryptFailMode, Event, EventHandler, UnavailableType, UndecryptableMessage,
};
use wacore::types::presence::ReceiptType;
use wacore_binary::JidExt;
use whatsapp_rust::{Client, NodeFilter};

use super::message::{self, Own};
use super::{best, groups};
use crate::line::Line;
use crate::outbound::Outgoing;
use crate::state::backend::Backend;
use crate::telemetry::{self, Asker};
use crate::verdict;

/// How long the network keeps messages. A message older than this is not sent again.
const NETWORK_KEEPS: Duration = Duration::from_secs(14 * 86_400);

/// How long linking may take for a phone that scanned a QR text at the last moment.
const LINKED_WITHIN: Duration = Duration::from_secs(30);

/// How soon the library would show an account as available after its name has changed.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

pub struct Events {
    pub line: Arc<Line>,
    pub backend: Arc<Backend>,
    pub outgoing: Arc<Outgoing>,
    pub pairing: Pairing,
    pub backlog: Mutex<Option<Backlog>>,
    pub client: Weak<Client>,
}

/// Messages in one receipt, at most. Phones combine a few hundred.
const MOST_RECEIPTED: usize = 1_024;

/// QR texts of a pairing. One of them may be generated again, which counts as the next one.
const QR_TEXTS: u8 = 6;

/// Progress of a pairing.
#[derive(Default)]
pub struct Pairing {
    shown: Mutex<u8>,
}

/// The offline messages that the network announced at the login.
///
/// The library requests them in pieces, and stops after a minute. The rest would come only at the next login, and newer
/// messages behind it.
pub struct Backlog {
    announced: i32,
    since: Instant,
}

/// A little less than the library's minute, which has another start.
const ASKED_FOR: Duration = Duration::from_secs(50);

impl Backlog {
    fn of(announced: i32) -> Self {
        Self { announced, since: Instant::now() }
    }

    /// Whether the library has given up before the last piece; `is_behind` says that the owner is still busy with the
    /// others. If it is not, the announced number was wrong, and another login would bring nothing more.
    fn is_left(&self, came: i32, now: Instant, is_behind: bool) -> bool {
        came < self.announced && now.duration_since(self.since) >= ASKED_FOR && is_behind
    }
}

impl EventHandler for Events {
    fn handle_event(&self, event: Arc<Event>) {
        match &*event {
            Event::PairingQrCode(qr) => {
                let sequence = {
                    let mut shown = self.pairing.shown.lock();
                    *shown = (*shown + 1).min(QR_TEXTS);
                    *shown
                };
                self.line.set_pairs(true);
                self.line.pairs_for(qr.timeout + LINKED_WITHIN);
                let expires_at = Timestamp::now().plus(qr.timeout);
                self.line.report(SessionEvent::Qr { raw: qr.code.as_str().into(), expires_at, sequence });
            }
            // While a code for typing on the phone is valid, the library goes on.
            Event::PairingQrCodesExhausted(all) if all.disconnected => self.line.note_last(SessionEvent::QrTimeout),
            Event::PairError(error) => {
                self.line.note_last(SessionEvent::PairingRefused { code: 0, text: error.error.clone() });
                self.stop();
            }
            Event::PairPasskeyRequest(_) => {
                self.line.report(SessionEvent::Passkey(PasskeyStep::Required));
                let text = "the network asks for a passkey, which this release cannot give".to_owned();
                self.line.note_last(SessionEvent::PairingRefused { code: 0, text });
                self.stop();
            }
            Event::QrScannedWithoutMultidevice(_) => {
                tracing::info!("the QR was scanned by a phone that links no devices");
            }
            Event::Connected(_) => {
                if let Err(error) = self.backend.note_bootstrap() {
                    tracing::debug!(%error, "the first sync could not be noted");
                }
            }
            Event::OfflineSyncPreview(preview) => *self.backlog.lock() = Some(Backlog::of(preview.total)),
            Event::OfflineSyncCompleted(done) => {
                self.line.ratchets().live();
                let backlog = self.backlog.lock().take();
                if backlog.is_some_and(|backlog| backlog.is_left(done.count, Instant::now(), self.line.is_behind())) {
                    self.line.cut(EndReason::Transport("what waits at the network takes another log-in".into()));
                }
            }
            Event::SelfPushNameUpdated(_) => self.stay_hidden(),
            Event::ServerAck(ack) if ack.class.as_deref() == Some("message") => self.outgoing.acknowledged(ack),
            Event::Receipt(receipt) => self.receipt(receipt),
            Event::UndecryptableMessage(message) => self.undecryptable(message),
            Event::GroupUpdate(update) => {
                if let Some((id, kind)) = groups::item(update, &self.own()) {
                    self.line.keep(id, message::time(update.timestamp), kind);
                }
            }
            // The hook has committed the other batches; messages that bypass the hook are only seen here.
            Event::Messages(batch) if !batch.hook_committed => {
                let own = self.own();
                for item in batch.iter() {
                    if let Some(kind) = message::kind(&item.message, &item.info, &own, &self.backend) {
                        self.line.keep(None, message::time(item.info.timestamp), kind);
                    }
                }
            }
            Event::Disconnected(gone) => {
                self.line.note_end(EndReason::Transport(gone.reason.to_string()));
            }
            event => {
                if let Some(reason) = verdict::of(event) {
                    tracing::debug!(?reason, "the network ends the session");
                    self.line.note_end(reason);
                    self.stop();
                }
            }
        }
    }
}

impl Events {
    fn own(&self) -> Own {
        self.client.upgrade().map(|client| Own::of(&client)).unwrap_or_default()
    }

    /// Ends the library's run; it still emits its last events.
    fn stop(&self) {
        if let Some(client) = self.client.upgrade() {
            client.signal_shutdown_sync();
        }
    }

    /// Hides an account again that must not be shown: the library shows it as available when its name changes.
    fn stay_hidden(&self) {
        let Some(client) = self.client.upgrade() else { return };
        let shown = client.wait_for_sent_node(NodeFilter::tag("presence").attr("type", "available"));
        let (line, client) = (Arc::clone(&self.line), Weak::clone(&self.client));
        tokio::spawn(async move {
            let is_shown = matches!(tokio::time::timeout(SHOWN_WITHIN, shown).await, Ok(Ok(_)));
            if is_shown
                && line.hides()
                && let Some(client) = client.upgrade()
                && let Err(error) = client.presence().set_unavailable().await
            {
                tracing::debug!(%error, "an account that has another name is shown as available");
            }
        });
    }

    fn receipt(&self, receipt: &told::Receipt) {
        let status = match receipt.r#type {
            ReceiptType::Delivered | ReceiptType::Inactive => ReceiptStatus::Delivered,
            ReceiptType::Read => ReceiptStatus::Read,
            ReceiptType::Played => ReceiptStatus::Played,
            _ => return,
        };
        let source = &receipt.source;
        if source.is_from_me {
            return;
        }
        let is_group = source.is_group || source.chat.is_group();
        let sender = best(&source.sender, source.sender_alt.as_ref());
        let chat = if is_group { message::address(&source.chat) } else { sender.clone() };
        let Some(chat) = chat else { return };
        for id in receipt.message_ids.iter().take(MOST_RECEIPTED) {
            let message_id = MessageId(id.to_string());
            self.outgoing.accepted(&message_id, message::time(receipt.timestamp));
            let told =
                Receipt { message_id, chat: chat.clone(), participant: sender.clone().filter(|_| is_group), status };
            self.line.keep_receipt(message::time(receipt.timestamp), told, |id| self.outgoing.knows(id));
        }
    }

    fn undecryptable(&self, told: &UndecryptableMessage) {
        telemetry::undecryptable();
        if !told.is_unavailable {
            telemetry::asked_again(Asker::Channel);
        }
        if told.decrypt_fail_mode == DecryptFailMode::Hide {
            return;
        }
        let at = message::time(told.info.timestamp);
        let is_once = told.is_unavailable && told.unavailable_type == UnavailableType::ViewOnce;
        let is_old = at.plus(NETWORK_KEEPS) < Timestamp::now();
        let reason = if is_once || is_old { UndecryptableReason::Expired } else { UndecryptableReason::Waiting };
        if let Some(kind) = message::undecryptable(&told.info, &self.own(), reason) {
            self.line.keep(None, at, kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use network::fence::Fence;
    use tokio::sync::mpsc;

    use super::*;
    use crate::inbound::inbox::tests::Nowhere;
    use crate::state::log::StateLog;

    /// An event handler, and the receiver of the events that it reports.
    fn session() -> (Events, mpsc::Receiver<SessionEvent>) {
        let fence = Fence::new(1, Instant::now() + Duration::from_secs(600));
        let (line, reported) = Line::new(fence, StateLog::new(Arc::new(Nowhere)));
        let (outgoing, _messages) = Outgoing::new(Arc::clone(&line));
        let backend = Arc::new(Backend::new(Arc::clone(line.log()), Box::new(|_| {})));
        let (pairing, backlog, client) = (Pairing::default(), Mutex::default(), Weak::new());
        (Events { line, backend, outgoing, pairing, backlog, client }, reported)
    }

    #[test]
    fn a_qr_text_that_is_made_anew_has_a_number_that_there_is() {
        let (events, mut reported) = session();
        let mut numbers = Vec::new();
        for _ in 0..8 {
            let text = told::PairingQrCode::builder().code(String::new()).timeout(Duration::ZERO).build();
            events.handle_event(Arc::new(Event::PairingQrCode(text)));
            if let Ok(SessionEvent::Qr { sequence, .. }) = reported.try_recv() {
                numbers.push(sequence);
            }
        }
        assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 6, 6]);
    }

    #[tokio::test]
    async fn a_pairing_lasts_while_a_code_holds_though_the_qr_texts_are_used_up() {
        let (events, reported) = session();
        let line = Arc::clone(&events.line);
        let (began, holds) = (Instant::now(), Duration::from_millis(50));
        line.pairs_for(holds);
        line.pairs_for(Duration::ZERO);
        let all_shown = told::PairingQrCodesExhausted::builder().disconnected(false).build();
        events.handle_event(Arc::new(Event::PairingQrCodesExhausted(all_shown)));
        line.pairing_stalls().await;
        assert!(began.elapsed() >= holds);
        line.cut(EndReason::Replaced);
        line.close_events();
        let (owner, mut heard) = mpsc::channel(1);
        line.carry(reported, owner).await;
        assert!(matches!(heard.recv().await.as_deref(), Some(SessionEvent::Ended(EndReason::Replaced))));
    }

    #[test]
    fn a_session_logs_in_anew_for_what_the_library_does_not_ask_for_any_more() {
        let backlog = Backlog::of(1_000);
        let late = backlog.since + Duration::from_secs(60);
        assert!(backlog.is_left(900, late, true));
        assert!(!backlog.is_left(1_000, late, true), "all of it came, slowly");
        assert!(!backlog.is_left(1_020, late, true), "and what was new");
        assert!(!backlog.is_left(900, late, false), "the network counted wrong");
        let soon = backlog.since + Duration::from_secs(1);
        assert!(!backlog.is_left(900, soon, true), "the network said that this is the end");
    }
}
