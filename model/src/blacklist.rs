//! Contacts that an account has blocked.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::time::Timestamp;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Blocked {
    pub id: Address,
    pub lid: Option<Address>,
    /// Time when the contact was blocked; `null` if unknown.
    pub blocked_at: Option<Timestamp>,
}
