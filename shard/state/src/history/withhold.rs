//! What is left of a message whose body is not kept (`store_bodies`): who, when, to whom, of which type, and what became of it.

use crate::records::MessageRow;

/// Takes the body out of a row. Once more changes nothing.
pub fn withhold(row: &mut MessageRow) {
    row.content.withhold();
    row.around.link_preview = None;
    if let Some(quoted) = &mut row.around.quoted {
        quoted.text = None;
    }
}

/// Whether a row has no body that could be taken out of it.
pub fn is_withheld(row: &MessageRow) -> bool {
    let mut emptied = row.clone();
    withhold(&mut emptied);
    emptied == *row
}
