//! Encoding of the records of state machines: a version byte, then named fields, so that later releases can add fields.

use model::format::Foreign;
use model::msgpack;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Version of the encoding. Which records exist, with which fields, depends on the cluster's format.
const VERSION: u8 = 1;

/// Capacity in bytes that fits most records. They are copied into the state at once, so excess is freed soon.
const USUAL: usize = 192;

pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL);
    bytes.push(VERSION);
    msgpack::append_named(&mut bytes, record).expect("a record of plain fields is always written");
    bytes
}

/// Decodes a record of any origin, such as a backup.
///
/// # Errors
/// [`Foreign`] when it has another encoding, or is damaged.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Foreign> {
    match bytes.split_first() {
        Some((&VERSION, record)) => msgpack::from_slice(record).map_err(|error| Foreign::Unreadable(error.to_string())),
        Some((&version, _)) if version > VERSION => Err(Foreign::Newer(version)),
        _ => Err(Foreign::Unreadable("it bears no version".to_owned())),
    }
}

/// Decodes a record from the store of a running node.
///
/// # Panics
/// When it cannot be decoded. The bytes come from a checksummed store that this cluster's state machines have written,
/// and a node does not run with a format that it does not know; so this is damage, which would spread if the node
/// continued. The host stops the group.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    read(bytes).unwrap_or_else(|error| panic!("a stored record {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_a_newer_kind_and_a_damaged_one_are_told_apart_and_neither_is_guessed() {
        let mut bytes = encode(&("one", 2));
        assert_eq!(read::<(String, u8)>(&bytes), Ok(("one".to_owned(), 2)));
        assert!(matches!(read::<(String, u8)>(&bytes[..3]), Err(Foreign::Unreadable(_))));
        assert!(matches!(read::<(String, u8)>(&[]), Err(Foreign::Unreadable(_))));
        bytes[0] = VERSION + 1;
        assert_eq!(read::<(String, u8)>(&bytes), Err(Foreign::Newer(VERSION + 1)));
    }
}
