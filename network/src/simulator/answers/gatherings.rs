//! Newsletters in the shapes of the gateway's own routes (supplement 14).

use model::address::Address;
use serde::{Deserialize, Serialize};

pub use crate::simulator::engine::newsletters::Role;

/// `POST /phones/{n}/newsletters`.
#[derive(Clone, Debug, Deserialize)]
pub struct NewNewsletter {
    pub name: String,
    pub description: Option<String>,
}

/// A newsletter as a phone sees it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShownNewsletter {
    pub id: Address,
    pub name: String,
    pub description: Option<String>,
    pub role: Role,
    pub subscriber_count: usize,
    pub created_at: i64,
}
