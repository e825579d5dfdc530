//! What the channel shows of itself: that it is there, and that it writes.

use std::time::Duration;

use model::address::Address;
use model::presence::Presence;
use network::operation::{Refused, RefusedKind};
use whatsapp_rust::features;

use super::{Answered, Asked, CONFLICT, Outcome, jid, outcome};

/// How long the library may take until it has shown the account; the owner waits a little longer.
const SHOWN_WITHIN: Duration = Duration::from_secs(18);

impl Asked<'_> {
    pub(super) async fn show(&self, presence: Presence, to: Option<Address>) -> Answered<()> {
        if presence.is_of_account() {
            // Whether it can be shown now or not: the library shows the account by itself, too.
            self.line.set_hides(presence == Presence::Unavailable);
        }
        let chat = || match &to {
            Some(to) => jid(to),
            None => Err(Outcome::Refused(Refused::new(400, "no chat is named"))),
        };
        match presence {
            Presence::Available => self.account().await?.set_available().await.map_err(outcome),
            Presence::Unavailable => self.account().await?.set_unavailable().await.map_err(outcome),
            Presence::Typing => self.client.chatstate().send_composing(&chat()?).await.map_err(outcome),
            Presence::Recording => self.client.chatstate().send_recording(&chat()?).await.map_err(outcome),
            Presence::Paused => self.client.chatstate().send_paused(&chat()?).await.map_err(outcome),
        }
    }

    /// The account's presence, once the library has shown it as available: it does so after each log-in, whatever is wanted. The
    /// network shows nobody who has no name.
    async fn account(&self) -> Answered<features::Presence<'_>> {
        self.client.wait_for_connected(SHOWN_WITHIN).await.map_err(outcome)?;
        if self.client.push_name().is_empty() {
            let refused = Refused::new(CONFLICT, "the account's name is not known yet");
            return Err(Outcome::Refused(refused.of(RefusedKind::Conflict)));
        }
        Ok(self.client.presence())
    }
}
