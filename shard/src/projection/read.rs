//! Reading the projection for the API: one row, or a page of a kind, from the owner's replica.

use std::sync::Arc;

use bytes::Bytes;
use model::error::ApiError;
use model::id::ChannelId;
use raft::machine::View;
use serde::{Deserialize, Serialize};

use super::Kind;
use crate::call::Done;
use crate::keys;
use crate::owner::{NotOwner, Owner};

/// How many rows one page looks at, at most, before it answers what it has.
const ROWS_LOOKED_AT: usize = 20_000;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Read {
    Row {
        kind: Kind,
        id: String,
    },
    /// Rows of a kind that pass, in the order of their ids, behind an id.
    Page {
        kind: Kind,
        filter: Filter,
        after: Option<String>,
        limit: usize,
    },
}

/// Which rows of a kind are wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Filter {
    All,
}

impl Filter {
    fn passes(&self, _row: &[u8]) -> bool {
        match self {
            Self::All => true,
        }
    }
}

impl Owner {
    /// Reads rows of a channel's projection.
    pub(crate) async fn read(
        self: &Arc<Self>,
        channel: ChannelId,
        read: Read,
    ) -> Result<Result<Done, ApiError>, NotOwner> {
        let reader = self.reader.clone();
        match read {
            Read::Row { kind, id } => {
                let row = reader.get(&keys::projected(channel, kind, &id));
                Ok(Ok(Done::Row(row.map(Bytes::from))))
            }
            Read::Page { kind, filter, after, limit } => {
                // A page may read many rows from disk; the calls of others must not wait for it.
                let page = tokio::task::spawn_blocking(move || page(&reader, channel, kind, &filter, after, limit));
                Ok(page.await.map(Done::Rows).map_err(|_| ApiError::internal_error()))
            }
        }
    }
}

fn page(
    view: &dyn View,
    channel: ChannelId,
    kind: Kind,
    filter: &Filter,
    after: Option<String>,
    limit: usize,
) -> Vec<Bytes> {
    let (from, to) = keys::projected_after(channel, kind, after.as_deref());
    let rows = view.scan(&from, &to, ROWS_LOOKED_AT).into_iter().map(|(_, row)| row);
    rows.filter(|row| filter.passes(row)).take(limit).map(Bytes::from).collect()
}
