//! Operations on the labels of a business, and their notices.

use std::sync::Arc;

use model::id::MessageId;
use model::label::Labelled;

use crate::notice::{LabelNews, News};
use crate::operation::labels::{Borne, LabelAnswer, LabelOperation, LabelState};
use crate::simulator::engine::Engine;
use crate::simulator::engine::labels::{Bearer, Labels, Moved};
use crate::simulator::engine::operations::chats::NO_SUCH_MESSAGE;
use crate::simulator::engine::rules::Allowed;
use crate::simulator::number::Number;

impl Engine {
    pub(super) fn label_operation(&mut self, by: Number, operation: LabelOperation) -> Allowed<LabelAnswer> {
        match operation {
            LabelOperation::List => Ok(LabelAnswer::Labels(self.label_state(by))),
            LabelOperation::Create { name, color } => {
                let label = self.business(by)?.labels.create(name, color)?;
                self.tell_labels(by, LabelNews::Label(label.clone()));
                Ok(LabelAnswer::Label(label))
            }
            LabelOperation::Change { label, changes } => {
                let label = self.business(by)?.labels.change(&label, changes)?;
                self.tell_labels(by, LabelNews::Label(label.clone()));
                Ok(LabelAnswer::Label(label))
            }
            LabelOperation::Delete { label } => {
                self.business(by)?.labels.delete(&label)?;
                self.tell_labels(by, LabelNews::Gone { label });
                Ok(LabelAnswer::Done)
            }
            LabelOperation::Put { label, on } => self.move_labels(by, &on, |labels, on| labels.put(&label, on)),
            LabelOperation::Take { label, from } => {
                self.move_labels(by, &from, |labels, from| labels.take(&label, from))
            }
            LabelOperation::Set { chat, labels: ids } => {
                self.move_labels(by, &Labelled { chat, message: None }, |labels, bearer| labels.set(bearer, &ids))
            }
        }
    }

    /// Changes the labels of a chat or a message.
    fn move_labels(
        &mut self,
        by: Number,
        on: &Labelled,
        change: impl FnOnce(&mut Labels, Bearer) -> Allowed<Moved>,
    ) -> Allowed<LabelAnswer> {
        self.business(by)?;
        let bearer = self.bearer(by, on)?;
        let moved = change(&mut self.business(by)?.labels, bearer.clone())?;
        if moved != Moved::default() {
            let Moved { put, taken } = moved;
            self.tell_labels(by, LabelNews::Moved { on: self.labelled(by, &bearer), put, taken });
        }
        Ok(LabelAnswer::Done)
    }

    /// Resolves an account's reference to a chat, or to a message in it.
    fn bearer(&self, by: Number, labelled: &Labelled) -> Allowed<Bearer> {
        let chat = self.chat_of(&labelled.chat)?;
        let message = match &labelled.message {
            Some(id) => Some(Arc::clone(&self.messages.find(id.as_str(), by, chat).ok_or(NO_SUCH_MESSAGE)?.id)),
            None => None,
        };
        Ok(Bearer { chat, message })
    }

    fn labelled(&self, by: Number, bearer: &Bearer) -> Labelled {
        let message = bearer.message.as_deref().map(|id| MessageId(id.to_owned()));
        Labelled { chat: self.chat_as_seen(by, bearer.chat), message }
    }

    fn label_state(&mut self, by: Number) -> LabelState {
        let Ok(business) = self.business(by) else { return LabelState::default() };
        let labels = business.labels.all().cloned().collect();
        let borne: Vec<(Bearer, Vec<String>)> =
            business.labels.borne().map(|(bearer, labels)| (bearer.clone(), labels)).collect();
        let borne = borne.into_iter().map(|(bearer, labels)| Borne { by: self.labelled(by, &bearer), labels });
        LabelState { labels, borne: borne.collect() }
    }

    /// Reports all labels, after an account became a business or ceased to be one.
    pub(super) fn tell_all_labels(&mut self, whom: Number) {
        let state = self.label_state(whom);
        self.tell_labels(whom, LabelNews::All(state));
    }

    fn tell_labels(&mut self, whom: Number, news: LabelNews) {
        self.notify(whom, Some(whom), News::Labels(news));
    }
}
