//! The presence that the channel shows: available, and typing.

use std::time::Duration;

use model::address::Address;
use model::presence::Presence;
use network::operation::{Refused, RefusedKind};
use whatsapp_rust::features;

use super::{Answered, Asked, CONFLICT, Outcome, jid, outcome};

/// How long the library may take to show the account as available after a login; the owner waits a little longer.
const SHOWN_WITHIN: Duration = Duration::from_secs(18);

impl Asked<'_> {
    pub(super) async fn show(&self, presence: Presence, to: Option<Address>) -> Answered<()> {
        if presence.is_of_account() {
            // Noted even if it cannot be shown now: the library also shows the account by itself.
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

    /// The account's presence, once the library has shown it as available, as it does after each login. The network
    /// shows no account without a name.
    async fn account(&self) -> Answered<features::Presence<'_>> {
        self.client.wait_for_connected(SHOWN_WITHIN).await.map_err(outcome)?;
        if self.client.push_name().is_empty() {
            let refused = Refused::new(CONFLICT, "the account's name is not known yet");
            return Err(Outcome::Refused(refused.of(RefusedKind::Conflict)));
        }
        Ok(self.client.presence())
    }
}
