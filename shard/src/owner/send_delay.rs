//! Delays that a channel's settings put between sends: a pause after each, and typing before a text. Delayed sends wait
//! in the outbox, so they are as durable as any other and keep their order.

use std::time::{Duration, Instant};

use model::address::{Address, AddressKind};
use model::id::MessageId;
use model::message::Content;
use model::presence::Presence;
use network::driver::Outbound;
use network::operation::presence::PresenceOperation;

use super::channel::Channel;

/// Typing time per character, and the minimum and maximum per text.
const TYPING_A_CHARACTER: Duration = Duration::from_millis(40);
const SHORTEST_TYPING: Duration = Duration::from_millis(500);
const LONGEST_TYPING: Duration = Duration::from_secs(5);

#[derive(Default)]
pub struct SendDelay {
    /// End of the pause after the last send.
    pause_until: Option<Instant>,
    /// The text that is being typed, and when that ends.
    typed: Option<(MessageId, Instant)>,
}

impl SendDelay {
    /// When a delayed send may be written.
    pub fn next(&self) -> Option<Instant> {
        let typed = self.typed.as_ref().map(|(_, until)| *until);
        self.pause_until.max(typed).filter(|until| *until > Instant::now())
    }
}

impl Channel {
    /// Whether the settings delay sends at all.
    pub(super) fn is_paced(&self) -> bool {
        let settings = &self.settings.settings;
        settings.simulate_typing || settings.send_delay_ms.is_some()
    }

    /// Whether a message that is written for the first time has to wait. Starts the typing of a text that could go.
    pub(super) async fn holds_back(&mut self, message: &Outbound) -> bool {
        let now = Instant::now();
        let settings = &self.settings.settings;
        if settings.send_delay_ms.is_some() && self.send_delay.pause_until.is_some_and(|until| until > now) {
            return true;
        }
        let Content::Text { text } = &message.content else { return false };
        if !settings.simulate_typing || !self.shows_typing(&message.to) {
            return false;
        }
        if let Some((_, until)) = self.send_delay.typed.as_ref().filter(|(id, _)| *id == message.id) {
            return *until > now;
        }
        let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
        let typing = TYPING_A_CHARACTER.saturating_mul(characters).clamp(SHORTEST_TYPING, LONGEST_TYPING);
        self.send_delay.typed = Some((message.id.clone(), now + typing));
        self.show_presence(Presence::Typing, Some(message.to.clone())).await;
        true
    }

    /// Starts the pause after a message that was written for the first time.
    pub(super) fn paced(&mut self) {
        self.send_delay.typed = None;
        self.send_delay.pause_until = self.settings.settings.send_delay_ms.map(|delay| {
            let pause = rand::random_range(delay.min..=delay.max.max(delay.min));
            Instant::now() + Duration::from_millis(pause.into())
        });
    }

    /// Starts a pause with a new session: this owner may not know when the one before wrote last.
    pub(super) fn pace_anew(&mut self) {
        if self.is_paced() && !self.outbox.is_empty() {
            self.paced();
        }
    }

    fn shows_typing(&self, to: &Address) -> bool {
        let kind = to.kind(&self.owner.node.suffixes);
        matches!(kind, AddressKind::Phone | AddressKind::Lid | AddressKind::Group)
    }

    /// Shows the channel's presence, if it is connected. The answer is ignored: presence is not shown late.
    pub(super) async fn show_presence(&mut self, presence: Presence, to: Option<Address>) {
        self.ask_unheeded(PresenceOperation::Show { presence, to }).await;
    }
}
