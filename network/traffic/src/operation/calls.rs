//! Operations on calls.

use model::address::Address;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallOperation {
    Reject {
        call_id: String,
        /// The caller. May be omitted for a call that the channel has just been offered.
        from: Option<Address>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallAnswer {
    Done,
}
