//! What is asked about calls.

use model::address::Address;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallOperation {
    Reject {
        call_id: String,
        /// The caller. Who asks may leave it out for a call that the channel has just heard of.
        from: Option<Address>,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum CallAnswer {
    Done,
}
