//! Removes the bodies of messages that are not stored (`store_bodies`), but not their metadata.

use crate::records::MessageRow;

/// Removes the body of a row. Idempotent.
pub fn withhold(row: &mut MessageRow) {
    row.content.withhold();
    row.around.link_preview = None;
    if let Some(quoted) = &mut row.around.quoted {
        quoted.text = None;
    }
}

/// Whether a row has no body that could be removed.
pub fn is_withheld(row: &MessageRow) -> bool {
    let mut emptied = row.clone();
    withhold(&mut emptied);
    emptied == *row
}
