//! Encoding of values in the store: MessagePack, after a byte for the version of its format.

use serde::Serialize;
use serde::de::DeserializeOwned;
use wacore::store::error::StoreError;

/// Version of the format in this release.
const VERSION: u8 = 1;

pub fn pack(value: &impl Serialize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![VERSION];
    rmp_serde::encode::write_named(&mut bytes, value).map_err(|error| StoreError::Serialization(error.into()))?;
    Ok(bytes)
}

pub fn unpack<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, StoreError> {
    match bytes.split_first() {
        Some((&VERSION, rest)) => rmp_serde::from_slice(rest).map_err(|error| StoreError::Serialization(error.into())),
        Some((version, _)) => Err(StoreError::Validation(format!("a row of shape {version}: start a later release"))),
        None => Err(StoreError::Validation("an empty row".into())),
    }
}
