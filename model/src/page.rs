//! Paging: the size of a page, in rows and in bytes, and opaque cursors.

use std::io;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::fnv;
use crate::issue::{IssueCode, Violation};

/// The page size when none is asked for.
pub const DEFAULT_LIMIT: usize = 50;

/// The largest page.
pub const LARGEST_LIMIT: usize = 100;

/// The most bytes of a page, as JSON. A page that ends here, short of its limit, has a next one.
pub const LARGEST_PAGE: usize = 4 * 1024 * 1024;

/// What answers put around rows: links, commas, the cursor.
const AROUND_ROWS: usize = 256 * 1024;

/// What is left of a page while it is filled.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    left: usize,
    is_empty: bool,
}

impl Room {
    /// Of a whole page.
    pub fn of_page() -> Self {
        Self { left: LARGEST_PAGE - AROUND_ROWS, is_empty: true }
    }

    /// Takes the place of a row of so many bytes; `false` when there is none, and the page ends before it. The first row
    /// always has its place: otherwise nobody would get beyond it.
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = self.is_empty || bytes <= self.left;
        if fits {
            self.is_empty = false;
            self.left = self.left.saturating_sub(bytes);
        }
        fits
    }

    /// How many of the first rows have their place.
    pub fn rows<T: Serialize>(mut self, rows: &[T]) -> usize {
        rows.iter().take_while(|row| self.take(json_bytes(row))).count()
    }
}

/// Counts the bytes that are written to it, and keeps none.
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

/// How many bytes a value has as JSON. Nothing is kept of them.
pub fn json_bytes<T: Serialize>(value: &T) -> usize {
    let mut counted = ByteCount::default();
    // What cannot be written is told where it is: here it is as if it had no end.
    if serde_json::to_writer(&mut counted, value).is_ok() { counted.0 } else { usize::MAX }
}

/// The longest cursor, but for one of a list whose rows are named by the longest ids of the network.
pub const LONGEST_CURSOR: usize = 256;

/// The longest one of all: an address and the id of a message in it, of 128 and 255 bytes.
const LONGEST_OF_ALL: usize = 640;

/// A number for one of the lists of a kind: whose rows, of which resource, in which order. Filters may change from page
/// to page. FNV-1a, as every node and release has to come to the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListId(u64);

impl ListId {
    /// `parts` are of a length of their own each, so that no two lists read alike.
    pub fn of(parts: &[&[u8]]) -> Self {
        Self(fnv(parts.iter().copied().flatten().copied()))
    }

    /// The only list of its kind, as the operator's are.
    pub fn only() -> Self {
        Self::of(&[])
    }
}

/// Where a page ended: the key of its last row, so that inserts do not shift the next page.
///
/// Each kind of list has its own type. A cursor names its kind and the list itself, so that one list's cursor is refused
/// by another's.
pub trait Cursor: Serialize + DeserializeOwned {
    /// The kind and the version of its shape, such as `channels.1`. A new shape needs a new version.
    const KIND: &'static str;

    /// Characters of base64url: at most [`LONGEST_CURSOR`] as long as the fields stay small.
    fn encode(&self, list: ListId) -> String {
        let bytes = serde_json::to_vec(&(Self::KIND, list, self)).expect("cursors are plain data, written to memory");
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Reads what [`encode`](Self::encode) wrote for the same list; all else is refused with `format`.
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

/// Declares a cursor: its kind with its version, and the place that it holds.
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
