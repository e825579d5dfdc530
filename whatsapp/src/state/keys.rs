//! Names of a channel's rows. A part that others choose cannot extend beyond its place in a name.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The row that the gateway's state machine watches: a channel that has it can log in.
pub const DEVICE: &str = "credentials";

/// Row of the 32-byte seed from which the secrets of the channel's own messages are derived.
pub const SEED: &str = "w/seed";

/// Row that exists once the account's state has been synced for the first time.
pub const BOOTSTRAP: &str = "w/bootstrap";

/// Row of the highest id that a one-time prekey ever had.
pub const HIGHEST_PREKEY: &str = "pm";

pub const LATEST_SYNC_KEY: &str = "ak!";

/// Row of the generation of all groups' sender keys.
pub const ALL_GROUPS: &str = "gd!";

pub const SESSIONS: &str = "s/";
pub const IDENTITIES: &str = "i/";
pub const PREKEYS: &str = "p/";
pub const PREKEY_ROWS: &str = "pr/";
pub const SIGNED_PREKEYS: &str = "sp/";
pub const SENDER_KEYS: &str = "k/";
pub const GROUP_DEVICES: &str = "gd/";
pub const LIDS: &str = "l/";
pub const PHONES: &str = "ln/";
pub const DEVICES: &str = "d/";
pub const GROUPS: &str = "g/";
pub const BASE_KEYS: &str = "bk/";
pub const TOKENS: &str = "t/";
pub const SENT: &str = "m/";
pub const SECRETS: &str = "b/";
pub const PENDING: &str = "q/";
pub const MACS: &str = "am/";
pub const INBOX: &str = "x/";
pub const JOURNAL: &str = "o/";
pub const POLLS: &str = "v/";

/// One-time prekeys that share a row. Each first message of a peer uses one up, and its row is rewritten.
const PREKEYS_A_ROW: u32 = 16;

/// The longest part that is used as it is, in bytes.
const LONGEST_PART: usize = 160;

/// A part of a name. A part that is empty or long, or has a slash or percent sign in it, is replaced by its hash.
pub fn part(text: &str) -> Cow<'_, str> {
    let is_plain = text.len() <= LONGEST_PART && !text.is_empty() && !text.contains(['/', '%']);
    if is_plain {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("%{}", URL_SAFE_NO_PAD.encode(Sha256::digest(text))))
}

pub fn bytes(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn name(prefix: &str, parts: &[&str]) -> String {
    let parts: Vec<_> = parts.iter().map(|text| part(text)).collect();
    format!("{prefix}{}", parts.join("/"))
}

pub fn session(address: &str) -> String {
    name(SESSIONS, &[address])
}

pub fn identity(address: &str) -> String {
    name(IDENTITIES, &[address])
}

/// The row of a single prekey, which older releases wrote before [`prekeys`].
pub fn prekey(id: u32) -> String {
    format!("{PREKEYS}{id:08x}")
}

/// The row of a prekey and its neighbours.
pub fn prekeys(id: u32) -> String {
    format!("{PREKEY_ROWS}{:08x}", id / PREKEYS_A_ROW)
}

pub fn signed_prekey(id: u32) -> String {
    format!("{SIGNED_PREKEYS}{id:08x}")
}

/// The hexadecimal number at the end of a name.
pub fn number_of(name: &str) -> Option<u64> {
    u64::from_str_radix(name.rsplit('/').next()?, 16).ok()
}

pub fn sender_key(address: &str) -> String {
    name(SENDER_KEYS, &[address])
}

pub fn sync_key(id: &[u8]) -> String {
    format!("ak/{}", bytes(id))
}

pub fn collection(of: &str) -> String {
    name("av/", &[of])
}

/// Prefix of a collection's MACs, of all generations.
pub fn all_macs(of: &str) -> String {
    format!("{MACS}{}/", part(of))
}

/// Prefix of a collection's MACs of one generation; those of older generations are invalid.
pub fn macs(of: &str, generation: u32) -> String {
    format!("{}{generation:08x}/", all_macs(of))
}

pub fn group_generation(group: &str) -> String {
    name(GROUP_DEVICES, &[group])
}

/// Whether this is the name of a group's generation: the group is its only part, unlike in rows of devices.
pub fn is_group_generation(name: &str) -> bool {
    name.strip_prefix(GROUP_DEVICES).is_some_and(|rest| !rest.contains('/'))
}

/// The row of a group's device: a group's devices are spread over sixteen rows by their hash.
pub fn group_devices(group: &str, device: &str) -> String {
    let bucket = Sha256::digest(device)[0] & 0xf;
    format!("{GROUP_DEVICES}{}/{bucket:x}", part(group))
}

pub fn lid(user: &str) -> String {
    name(LIDS, &[user])
}

pub fn phone(user: &str) -> String {
    name(PHONES, &[user])
}

pub fn base_key(address: &str, message: &str) -> String {
    name(BASE_KEYS, &[address, message])
}

pub fn devices(user: &str) -> String {
    name(DEVICES, &[user])
}

pub fn group(jid: &str) -> String {
    name(GROUPS, &[jid])
}

pub fn token(jid: &str) -> String {
    name(TOKENS, &[jid])
}

pub fn sent(chat: &str, id: &str) -> String {
    name(SENT, &[chat, id])
}

pub fn secret(chat: &str, sender: &str, id: &str) -> String {
    name(SECRETS, &[chat, sender, id])
}

/// Prefix of the polls with an id, of all authors.
pub fn polls(id: &str) -> String {
    format!("{POLLS}{}/", part(id))
}

pub fn poll(id: &str, author: &str) -> String {
    name(POLLS, &[id, author])
}

pub fn pending(chat: &str, sender: &str, id: &str) -> String {
    name(PENDING, &[chat, sender, id])
}

/// A further piece of a message that takes several rows; the first piece has the message's own name.
pub fn pending_piece(name: &str, piece: usize) -> String {
    format!("{name}/{piece:x}")
}

pub fn inbox(number: u64) -> String {
    format!("{INBOX}{number:016x}")
}

pub fn journal(id: uuid::Uuid) -> String {
    format!("{JOURNAL}{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_that_a_stranger_chooses_leaves_its_place() {
        assert_ne!(pending("a", "b/c", "d"), pending("a", "b", "c/d"));
        assert_ne!(pending("a", "", "d"), pending("a", "d", ""));
        assert_ne!(part("%abc"), "%abc");
        let long = "x".repeat(LONGEST_PART);
        assert_eq!(part(&long), long);
        assert_eq!(part(&format!("{long}x")).len(), 44);
        assert_eq!(number_of(&prekey(0xabc)), Some(0xabc));
    }
}
