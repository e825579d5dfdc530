//! How state machines store their records: a version byte, then named fields, so that a later release can add some.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The format of stored records.
const VERSION: u8 = 1;

pub fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    rmp_serde::encode::write_named(&mut bytes, record).expect("a record of plain fields is always written");
    bytes
}

/// Reads what [`encode`] wrote.
///
/// # Panics
/// When it cannot be read. The bytes come from a checksummed store that the state machines of this cluster filled, so
/// that this is damage or a newer release's format, and running on would spread it. The host stops the group.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> T {
    match bytes.split_first() {
        Some((&VERSION, record)) => {
            rmp_serde::from_slice(record).unwrap_or_else(|error| panic!("a stored record cannot be read: {error}"))
        }
        _ => panic!("a stored record has a format that this release does not know"),
    }
}
