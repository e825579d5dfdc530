//! A phone's inbox, as the control API shows it.

use super::message::Chat;
use super::subscriber::InboxEntry;
use super::{ControlError, Engine};
use crate::simulator::answers::inbox::says;
use crate::simulator::answers::{InboxQuery, InboxRow, List, page_size};
use crate::simulator::number::Number;

impl Engine {
    pub fn inbox(&self, number: Number, query: &InboxQuery) -> Result<List<InboxRow>, ControlError> {
        let subscriber = self.subscriber(number)?;
        let from = query.from.as_deref().map(|from| self.parse_chat(from)).transpose()?;
        let wanted = |entry: &InboxEntry| {
            let message = &entry.message;
            let from = from.is_none_or(|from| match from {
                Chat::Direct(author) => message.from == author,
                chat => message.chat == chat,
            });
            from && query.id.as_deref().is_none_or(|id| id == &*message.id)
        };
        let matching: Vec<_> = subscriber.inbox().filter(|entry| wanted(entry)).collect();
        let start = match query.after.as_deref() {
            None => 0,
            // The last one, because a recovered message occurs twice.
            Some(after) => match matching.iter().rposition(|entry| &*entry.message.id == after) {
                Some(position) => position + 1,
                None => return Err(ControlError::Invalid(format!("no message {after} to show what is after it"))),
            },
        };
        let page = matching.iter().skip(start).take(page_size(query.limit));
        Ok(List { data: page.map(|entry| self.row(number, entry)).collect(), total: matching.len() })
    }

    fn row(&self, number: Number, entry: &InboxEntry) -> InboxRow {
        let message = &entry.message;
        let chat = self.chat_address(number, message);
        let phone = |number: Number| self.suffixes.phone_address(&number.to_string());
        let mut around = message.around.as_deref().cloned().unwrap_or_default();
        // The control API shows the author's phone address, as in `from`.
        if let (Some(quoted), Some(author)) = (&mut around.quoted, message.quoted_from) {
            quoted.from = phone(author);
        }
        InboxRow {
            id: message.message_id(),
            from: phone(message.from),
            to: message.to.clone(),
            says: says(&message.content_for(number, &chat), &around),
            copies: entry.copies,
            first_at: entry.first_at,
        }
    }

    pub fn clear_inbox(&mut self, number: Number) -> Result<(), ControlError> {
        self.subscriber_mut(number)?.clear_inbox();
        Ok(())
    }
}
