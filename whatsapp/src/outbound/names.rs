//! Looks up the LIDs of people before the channel writes to them.
//!
//! The library begins a session under the name that it knows. A session under a number is moved when the LID becomes
//! known, and replaces the session that stands there: if both sides write to each other for the first time at once, the
//! one that the other side began. Its further messages are then unreadable, since their one-time prekey is used up. (In
//! 0.7.0: `migrate_signal_sessions_with_backend`, where the number wins.) So no session is begun with somebody whose
//! LID the network would tell.

use std::collections::HashSet;

use parking_lot::Mutex;
use uuid::Uuid;
use wacore::iq::usync::LidQuerySpec;
use wacore::types::lid_pn::LearningSource;
use wacore_binary::Jid;
use whatsapp_rust::Client;

use super::{Unsent, caught_up};

/// People whose LIDs are requested, and then stored, at a time.
const ASKED_AT_ONCE: usize = 256;

/// People without a LID who are remembered, so that a session asks for each only once.
const MOST_WITHOUT: usize = 4_096;

#[derive(Default)]
pub struct Names {
    without: Mutex<HashSet<Jid>>,
}

impl Names {
    /// Learns the LIDs of people who are known only by their number. For people who were written to before this sends
    /// no request.
    ///
    /// # Errors
    /// The network does not answer, or the log is poisoned. If the network answers without a LID, the channel writes to
    /// the number.
    pub async fn learn(&self, client: &Client, people: &[Jid]) -> Result<(), Unsent> {
        let unknown = self.unknown(client, people).await?;
        if unknown.is_empty() {
            return Ok(());
        }
        // Offline messages may bring some of the LIDs, and none may be stored before all offline messages are in.
        caught_up(client).await?;
        for asked in unknown.chunks(ASKED_AT_ONCE) {
            let query = LidQuerySpec::new(asked.to_vec(), Uuid::new_v4().to_string());
            let told = match client.execute(query).await {
                Ok(told) => told.lid_mappings,
                Err(error) => match Unsent::of(error) {
                    unsent @ (Unsent::Passing(_) | Unsent::ForNow(_)) => return Err(unsent),
                    _ => {
                        tracing::debug!(people = asked.len(), "the network does not tell LIDs");
                        self.remember(asked.to_vec());
                        continue;
                    }
                },
            };
            let is_told = |person: &Jid| told.iter().any(|pair| pair.phone_number == person.user);
            let without: Vec<Jid> = asked.iter().filter(|person| !is_told(person)).cloned().collect();
            let pairs: Vec<(String, String)> =
                told.iter().map(|pair| (pair.lid.to_string(), pair.phone_number.to_string())).collect();
            let learned = client.add_lid_pn_mappings(pairs, LearningSource::Usync).await;
            learned.map_err(|error| Unsent::Passing(error.to_string()))?;
            self.remember(without);
        }
        Ok(())
    }

    async fn unknown(&self, client: &Client, people: &[Jid]) -> Result<Vec<Jid>, Unsent> {
        let mut unknown = Vec::new();
        for person in people {
            let person = person.to_non_ad();
            let has_none = self.without.lock().contains(&person);
            if has_none || !person.is_pn() {
                continue;
            }
            let known = client.get_lid_pn_entry(&person).await;
            if known.map_err(|error| Unsent::Passing(error.to_string()))?.is_none() {
                unknown.push(person);
            }
        }
        Ok(unknown)
    }

    fn remember(&self, people: Vec<Jid>) {
        let mut without = self.without.lock();
        if without.len() + people.len() > MOST_WITHOUT {
            without.clear();
        }
        without.extend(people);
    }
}
