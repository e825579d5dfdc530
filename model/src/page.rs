//! Paging: page sizes in rows and in bytes, and opaque cursors.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::fnv;
use crate::issue::{IssueCode, Violation};

/// Page size if the caller requests none.
pub const DEFAULT_LIMIT: usize = 50;

/// Largest page, in rows.
pub const LARGEST_LIMIT: usize = 100;

/// Largest page, in bytes of JSON. A page that this bound cuts short of its limit has a next page.
pub const LARGEST_PAGE: usize = 4 * 1024 * 1024;

/// Reserve for what a response contains besides rows: links, commas, the cursor.
const AROUND_ROWS: usize = 256 * 1024;

/// Space left in a page that is being filled.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    left: usize,
    is_empty: bool,
}

impl Room {
    /// The space of a whole page.
    pub fn of_page() -> Self {
        Self { left: LARGEST_PAGE - AROUND_ROWS, is_empty: true }
    }

    /// Reserves space for a row of `bytes`; `false` if it does not fit, so that the page ends before it. The first row
    /// always fits, because otherwise the client could never get past it.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.is_empty || bytes <= self.left;
        if fits {
            self.is_empty = false;
            self.left = self.left.saturating_sub(bytes);
        }
        fits
    }

    /// How many of the rows, from the first on, fit into the page.
    pub fn rows<T: Serialize>(mut self, rows: &[T]) -> usize {
        rows.iter().take_while(|row| self.take(json_bytes(row))).count()
    }
}

/// A writer that only counts the bytes.
#[derive(Debug, Default)]
struct ByteCount(usize);

impl io::Write for ByteCount {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The length of a value in JSON, in bytes, without storing the JSON.
pub fn json_bytes<T: Serialize>(value: &T) -> usize {
    let mut counted = ByteCount::default();
    // A value that cannot be serialized counts as infinitely long; the error is reported where it is written.
    if serde_json::to_writer(&mut counted, value).is_ok() { counted.0 } else { usize::MAX }
}

/// Longest cursor, in characters, except for lists whose rows are identified by the network's longest ids.
pub const LONGEST_CURSOR: usize = 256;

/// Longest cursor of any list: an address of 128 bytes and a message id of 255.
const LONGEST_OF_ALL: usize = 640;

/// Identifies a list within its kind: whose rows, of which resource, in which order. Filters may change from page to
/// page. Hashed with FNV-1a, since all nodes and releases must agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListId(u64);

impl ListId {
    /// Each of the `parts` must have a fixed length, so that different lists cannot hash the same bytes.
    pub fn of(parts: &[&[u8]]) -> Self {
        Self(fnv(parts.iter().copied().flatten().copied()))
    }

    /// The only list of its kind, such as the operator's.
    pub fn only() -> Self {
        Self::of(&[])
    }
}

/// The end of a page: the key of its last row, so that inserts do not shift the next page.
///
/// Each kind of list has its own cursor type. A cursor contains its kind and the id of its list, so that another list
/// refuses it.
pub trait Cursor: Serialize + DeserializeOwned {
    /// The kind and the version of its shape, such as `channels.1`. A new shape requires a new version.
    const KIND: &'static str;

    /// Encodes the cursor as base64url, in at most [`LONGEST_CURSOR`] characters as long as its fields are short.
    fn encode(&self, list: ListId) -> String {
        let bytes = serde_json::to_vec(&(Self::KIND, list, self)).expect("cursors are plain data, written to memory");
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes what [`encode`](Self::encode) wrote for the same list. Anything else is refused with `format`.
    fn decode(text: &str, list: ListId) -> Result<Self, Violation> {
        let read = || {
            if text.len() > LONGEST_OF_ALL {
                return None;
            }
            let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
            let (kind, of, cursor): (String, ListId, Self) = serde_json::from_slice(&bytes).ok()?;
            (kind == Self::KIND && of == list).then_some(cursor)
        };
        read().ok_or_else(|| {
            Violation::new(IssueCode::Format, "must be the next_cursor of the same list in the same order")
        })
    }
}

/// Declares a cursor: its kind with version, and its fields.
#[macro_export]
macro_rules! cursor {
    ($(#[$about:meta])* $name:ident($kind:literal) { $($field:ident: $type:ty),+ }) => {
        $(#[$about])*
        #[derive(serde::Serialize, serde::Deserialize)]
        struct $name { $($field: $type),+ }

        impl $crate::page::Cursor for $name {
            const KIND: &'static str = $kind;
        }
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use proptest::prelude::*;
    use uuid::Uuid;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Rows {
        at: Timestamp,
        row: Uuid,
    }

    impl Cursor for Rows {
        const KIND: &'static str = "rows.1";
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Others {
        at: Timestamp,
        row: Uuid,
    }

    impl Cursor for Others {
        const KIND: &'static str = "others.1";
    }

    #[test]
    fn a_page_ends_before_the_row_that_would_make_it_too_large() {
        let row = |bytes: usize| "x".repeat(bytes - r#""""#.len());
        assert_eq!(json_bytes(&row(1000)), 1000);
        let room = LARGEST_PAGE - AROUND_ROWS;
        let table =
            [(vec![room / 2, room / 2], 2), (vec![room / 2, room / 2 + 1], 1), (vec![room + 1000, 2], 1), (vec![], 0)];
        for (rows, fitting) in table {
            let rows: Vec<String> = rows.into_iter().map(row).collect();
            assert_eq!(Room::of_page().rows(&rows), fitting);
        }
    }

    #[test]
    fn the_cursor_of_another_list_is_refused() {
        let list = ListId::of(&[&[1], &[0]]);
        let cursor = Others { at: Timestamp(5), row: Uuid::nil() }.encode(list);
        assert_eq!(Rows::decode(&cursor, list).unwrap_err().code, IssueCode::Format);
        assert!(Others::decode(&cursor, list).is_ok());
        for other in [ListId::of(&[&[2], &[0]]), ListId::of(&[&[1], &[1]]), ListId::only()] {
            assert_eq!(Others::decode(&cursor, other).unwrap_err().code, IssueCode::Format);
        }
        assert!(Rows::decode(&"A".repeat(257), list).is_err());
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Named {
        id: String,
    }

    impl Cursor for Named {
        const KIND: &'static str = "named.1";
    }

    #[test]
    fn the_longest_ids_of_the_network_name_the_end_of_a_page() {
        let named = Named { id: "x".repeat(128 + 1 + 255) };
        assert_eq!(Named::decode(&named.encode(ListId::only()), ListId::only()), Ok(named));
        let none = Named { id: "x".repeat(1_000) }.encode(ListId::only());
        assert!(Named::decode(&none, ListId::only()).is_err());
    }

    proptest! {
        #[test]
        fn a_cursor_comes_back_as_it_was(millis in 0_i64..4_000_000_000_000, id in any::<u128>()) {
            let cursor = Rows { at: Timestamp(millis), row: Uuid::from_u128(id) };
            let list = ListId::of(&[&id.to_be_bytes()]);
            let text = cursor.encode(list);
            prop_assert!(text.len() <= 256);
            prop_assert!(text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'));
            prop_assert_eq!(Rows::decode(&text, list).unwrap(), cursor);
        }

        #[test]
        fn garbage_is_refused_and_never_panics(text in "\\PC{0,60}") {
            prop_assert!(Rows::decode(&text, ListId::only()).is_err());
        }
    }
}
