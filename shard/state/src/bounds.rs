//! Brings what the network sends down to what a row of the history may be: a message has to go into one log entry together with
//! its event, or it could never be acknowledged.

use model::message::Content;

use crate::records::{MessageRow, encode};

/// Bytes of a row at most: a text of 65,536 characters of four bytes fits. An event says it once more, in JSON, and names up to
/// fifty long addresses of endpoints.
const LARGEST_ROW: usize = 288 << 10;

/// Bytes of contact cards at most, as of those that are sent; JSON may take several times as many.
const LARGEST_CONTACTS: usize = 128 << 10;

/// Bytes of a text that was too long, and of what stands around it.
const CUT_TEXT: usize = 128 << 10;
const CUT_ASIDE: usize = 1 << 10;
const CUT_MENTIONS: usize = 1024;

/// Cuts a row that is too large; true when something of it is gone.
pub fn cut(row: &mut MessageRow) -> bool {
    let mut is_cut = false;
    if let Content::Contact { contacts } = &mut row.content {
        let mut room = LARGEST_CONTACTS;
        let fit = contacts.iter().take_while(|card| {
            let bytes = card.name.len() + card.vcard.len() + card.phones.iter().map(String::len).sum::<usize>();
            let fits = bytes <= room;
            room = room.saturating_sub(bytes);
            fits
        });
        let fit = fit.count();
        is_cut = fit < contacts.len();
        contacts.truncate(fit);
    }
    if encode(row).len() <= LARGEST_ROW {
        return is_cut;
    }
    let shorten = |text: &mut String, most: usize| text.truncate(text.floor_char_boundary(most));
    row.push_name.iter_mut().for_each(|name| shorten(name, CUT_ASIDE));
    row.around.link_preview = None;
    row.around.mentions.truncate(CUT_MENTIONS);
    row.around.quoted.iter_mut().filter_map(|quoted| quoted.text.as_mut()).for_each(|text| shorten(text, CUT_ASIDE));
    match &mut row.content {
        Content::Text { text } | Content::Edit { text, .. } => shorten(text, CUT_TEXT),
        Content::Image { caption, .. } | Content::Video { caption, .. } | Content::Document { caption, .. } => {
            caption.iter_mut().for_each(|caption| shorten(caption, CUT_TEXT));
        }
        _ => {}
    }
    if encode(row).len() > LARGEST_ROW {
        leave_out(row);
    }
    true
}

/// Leaves nothing of a message but that it came, and of which type it was.
pub fn leave_out(row: &mut MessageRow) {
    row.content = Content::Unknown { raw_type: row.content.type_name().to_owned() };
    row.around = Default::default();
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::message::{ContactCard, Quoted};

    use super::*;
    use crate::keys::Direction;
    use crate::machine::tests::row;

    fn with(content: Content) -> MessageRow {
        MessageRow { content, ..row("A", Direction::Inbound) }
    }

    fn cards(count: usize, bytes: usize) -> Content {
        let card = ContactCard { name: String::new(), vcard: "v".repeat(bytes), phones: Vec::new() };
        Content::Contact { contacts: vec![card; count] }
    }

    #[test]
    fn what_fits_stays_as_it_came() {
        for content in [
            Content::Text { text: "t".repeat(200 << 10) },
            cards(64, 2 << 10),
            Content::Poll { name: "p".into(), options: vec!["o".repeat(1 << 10); 12], selectable_count: 1 },
        ] {
            let mut row = with(content.clone());
            assert!(!cut(&mut row));
            assert_eq!(row.content, content);
        }
    }

    #[test]
    fn what_is_too_large_is_cut_or_told_by_its_type_alone() {
        let mut text = with(Content::Text { text: "ä".repeat(2 << 20) });
        text.around.quoted = Some(Quoted {
            message_id: text.message_id.clone(),
            from: text.from.clone(),
            text: Some("q".repeat(1 << 20)),
        });
        let mut contacts = with(cards(65, 2 << 10));
        let poll = Content::Poll { name: "p".into(), options: vec!["o".repeat(1 << 20)], selectable_count: 1 };
        let mut poll = with(poll);
        for row in [&mut text, &mut contacts, &mut poll] {
            assert!(cut(row));
            assert!(encode(row).len() <= LARGEST_ROW, "{}", encode(row).len());
        }
        assert!(matches!(&text.content, Content::Text { text } if text.len() == CUT_TEXT));
        assert!(matches!(&contacts.content, Content::Contact { contacts } if contacts.len() == 64));
        assert_eq!(poll.content, Content::Unknown { raw_type: "poll".into() });
    }
}
