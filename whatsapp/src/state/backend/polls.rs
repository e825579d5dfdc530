//! Polls, kept to decrypt votes on them: a vote contains hashes of options, encrypted with the poll's secret.

use serde::{Deserialize, Serialize};
use wacore::poll::{PollVoteCiphertext, compute_option_hash, decrypt_poll_vote_with_secret};
use wacore::store::error::Result;
use wacore::store::traits::MessageSecret;

use super::{Backend, now};
use crate::state::keys;
use crate::state::log::{Class, Write};
use crate::state::rows::pack;

/// Polls that are kept; the oldest quarter is deleted when there are more.
const MOST: usize = 512;

/// The largest poll that is kept, in bytes; votes on larger ones are not decrypted. A poll of the API takes half of it.
const LARGEST: usize = 8 * 1024;

/// Polls with the same id that are tried for a vote. Authors choose ids, so they may collide.
const MOST_OF_AN_ID: usize = 4;

/// The author of a poll, under all names that a vote may use.
pub enum Author {
    Own,
    Other(Vec<String>),
}

#[derive(Serialize, Deserialize)]
struct Poll {
    /// When the poll came, in unix seconds.
    at: i64,
    options: Vec<String>,
    /// `None` if it is derived from the id.
    secret: Option<MessageSecret>,
    /// Empty for a poll of the channel's own.
    authors: Vec<String>,
}

impl Backend {
    /// Keeps a poll, unless one with the same author and id is kept already.
    ///
    /// # Errors
    /// The log is poisoned.
    pub fn keep_poll(&self, id: &str, author: Author, options: &[String], secret: Option<MessageSecret>) -> Result<()> {
        let authors = match author {
            Author::Own => Vec::new(),
            Author::Other(names) => names,
        };
        let name = keys::poll(id, authors.first().map_or("own", String::as_str));
        let row = pack(&Poll { at: now(), options: options.to_vec(), secret, authors })?;
        if row.len() > LARGEST || self.log.has(&name) {
            return Ok(());
        }
        self.make_room_for_a_poll()?;
        self.put(Class::Wire, name, row)
    }

    fn make_room_for_a_poll(&self) -> Result<()> {
        let names = self.log.names(keys::POLLS);
        if names.len() < MOST {
            return Ok(());
        }
        let mut rows = Vec::new();
        for name in names {
            rows.push((self.read::<Poll>(&name)?.map_or(0, |poll| poll.at), name));
        }
        rows.sort();
        self.append(Class::Lazy, rows.into_iter().take(MOST / 4).map(|(_, name)| Write::delete(name)))
    }

    /// The options that a vote selects; `None` if no known poll's secret decrypts it. `own` and `voters` are the names
    /// of the channel and of the voter.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn opened_vote(
        &self,
        id: &str,
        vote: PollVoteCiphertext<'_>,
        own: &[String],
        voters: &[String],
    ) -> Result<Option<Vec<String>>> {
        for name in self.log.names(&keys::polls(id)).iter().take(MOST_OF_AN_ID) {
            let Some(poll) = self.read::<Poll>(name)? else { continue };
            let Some(secret) = poll.secret.or_else(|| self.own_secret(id)) else { continue };
            let authors = if poll.authors.is_empty() { own } else { &poll.authors };
            // The vote does not say which of their names author and voter used; wrong pairs fail to decrypt.
            let pairs = authors.iter().flat_map(|author| voters.iter().map(move |voter| (author, voter)));
            let opened = pairs
                .into_iter()
                .find_map(|(author, voter)| decrypt_poll_vote_with_secret(vote, &secret, id, author, voter).ok());
            if let Some(hashes) = opened {
                let is_selected = |option: &&String| hashes.iter().any(|hash| *hash == compute_option_hash(option));
                return Ok(Some(poll.options.iter().filter(is_selected).cloned().collect()));
            }
        }
        Ok(None)
    }
}
