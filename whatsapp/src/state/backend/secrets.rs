//! Secrets of messages, which decrypt the votes and edits that refer to them.

use async_trait::async_trait;
use hkdf::Hkdf;
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use wacore::store::error::Result;
use wacore::store::traits::{
    MessageSecret, MsgSecretEntry, MsgSecretStore, merge_msg_secret_expiry, merge_msg_secret_message_ts,
};

use super::Backend;
use crate::state::keys;
use crate::state::log::Class;

/// Secrets that are kept.
const MOST: usize = 4_096;

#[derive(Serialize, Deserialize)]
struct Secret {
    secret: MessageSecret,
    expires_at: i64,
    message_ts: i64,
}

/// The secret of a channel's own message. It is the same whoever sends the message, and however often.
pub fn derived(seed: &[u8; 32], message_id: &str) -> MessageSecret {
    let mut secret = MessageSecret::default();
    let hkdf = Hkdf::<Sha256>::new(None, seed);
    hkdf.expand(message_id.as_bytes(), &mut secret).expect("32 bytes are few enough for HKDF-SHA256");
    secret
}

impl Backend {
    /// The secret of a message of this channel.
    pub fn own_secret(&self, message_id: &str) -> Option<MessageSecret> {
        self.own.lock().seed.as_ref().map(|seed| derived(seed, message_id))
    }

    pub(super) fn is_own(&self, sender: &str) -> bool {
        let user = sender.split(['@', ':']).next().unwrap_or_default();
        self.own.lock().users.iter().any(|own| own == user)
    }

    fn secret(&self, chat: &str, sender: &str, id: &str) -> Result<Option<Secret>> {
        match self.own_secret(id).filter(|_| self.is_own(sender)) {
            // A message from another device of the account has its own secret, in a row.
            Some(own) => match self.read(&keys::secret(chat, sender, id))? {
                Some(stored) => Ok(Some(stored)),
                None => Ok(Some(Secret { secret: own, expires_at: 0, message_ts: 0 })),
            },
            None => self.read(&keys::secret(chat, sender, id)),
        }
    }

    /// The rows, ordered by their expiry.
    fn secrets_by_end(&self) -> Result<Vec<(i64, String)>> {
        let mut rows = Vec::new();
        for name in self.log.names(keys::SECRETS) {
            if let Some(row) = self.read::<Secret>(&name)? {
                rows.push((if row.expires_at == 0 { i64::MAX } else { row.expires_at }, name));
            }
        }
        rows.sort();
        Ok(rows)
    }
}

#[async_trait]
impl MsgSecretStore for Backend {
    async fn put_msg_secret(&self, chat: &str, sender: &str, msg_id: &str, secret: &MessageSecret) -> Result<()> {
        let (expires_at, message_ts) = (0, 0);
        let entry = MsgSecretEntry {
            chat: chat.into(),
            sender: sender.into(),
            msg_id: msg_id.into(),
            secret: *secret,
            expires_at,
            message_ts,
        };
        self.put_msg_secrets(vec![entry]).await.map(drop)
    }

    async fn put_msg_secrets(&self, entries: Vec<MsgSecretEntry>) -> Result<usize> {
        let count = entries.len();
        for MsgSecretEntry { chat, sender, msg_id, secret, expires_at, message_ts } in entries {
            if self.is_own(&sender) && self.own_secret(&msg_id) == Some(secret) {
                continue;
            }
            let name = keys::secret(&chat, &sender, &msg_id);
            let row = match self.read::<Secret>(&name)? {
                Some(known) => Secret {
                    secret,
                    expires_at: merge_msg_secret_expiry(known.expires_at, expires_at),
                    message_ts: merge_msg_secret_message_ts(known.message_ts, message_ts),
                },
                None => Secret { secret, expires_at, message_ts },
            };
            self.write(Class::Lazy, name, &row)?;
        }
        Ok(count)
    }

    async fn get_msg_secret(&self, chat: &str, sender: &str, msg_id: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.secret(chat, sender, msg_id)?.map(|found| found.secret.to_vec()))
    }

    async fn get_msg_secret_with_ts(&self, chat: &str, sender: &str, id: &str) -> Result<Option<(Vec<u8>, i64)>> {
        Ok(self.secret(chat, sender, id)?.map(|found| (found.secret.to_vec(), found.message_ts)))
    }

    /// Deletes expired secrets, and those that expire first while there are too many.
    async fn delete_expired_msg_secrets(&self, cutoff_timestamp: i64) -> Result<u32> {
        let rows = self.secrets_by_end()?;
        let surplus = rows.len().saturating_sub(MOST);
        let goes =
            rows.into_iter().enumerate().filter(|(place, (end, _))| *place < surplus || *end <= cutoff_timestamp);
        self.delete_all(Class::Lazy, goes.map(|(_, (_, name))| name).collect())
    }
}
