//! Polls and votes on them.

use model::message::Content;
use wacore::poll::PollVoteCiphertext;
use wacore::types::message::MessageInfo;
use waproto::whatsapp as wa;
use waproto::whatsapp::message::PollUpdateMessage;

use super::content::Reader;
use super::message::without_device;
use crate::state::backend::Backend;
use crate::state::backend::polls::Author;

/// Keeps the secret and options of a poll, to decrypt votes on it later.
pub fn keep(backend: &Backend, message: &wa::Message, content: &Content, info: &MessageInfo) {
    let Content::Poll { options, .. } = content else { return };
    let context = message.message_context_info.as_option();
    let secret =
        context.and_then(|context| context.message_secret.as_deref()).and_then(|secret| secret.try_into().ok());
    let Some(secret) = secret else { return };
    let author = if info.source.is_from_me { Author::Own } else { Author::Other(names(info)) };
    if let Err(error) = backend.keep_poll(&info.id, author, options, Some(secret)) {
        tracing::debug!(%error, "a poll is not kept: votes on it will not be opened");
    }
}

fn names(info: &MessageInfo) -> Vec<String> {
    [Some(&info.source.sender), info.source.sender_alt.as_ref()].into_iter().flatten().map(without_device).collect()
}

impl Reader<'_> {
    /// The content of a vote; `None` if its poll is unknown.
    pub(super) fn vote(&self, update: &PollUpdateMessage) -> Option<Content> {
        let key = update.poll_creation_message_key.as_option()?;
        let vote = update.vote.as_option()?;
        let vote = PollVoteCiphertext { enc_payload: vote.enc_payload.as_deref()?, enc_iv: vote.enc_iv.as_deref()? };
        let own = self.own.names();
        let voters = if self.info.source.is_from_me { own.clone() } else { names(self.info) };
        let opened = self.backend.opened_vote(key.id.as_deref()?, vote, &own, &voters);
        let selected = opened.inspect_err(|error| tracing::debug!(%error, "a vote's poll cannot be read")).ok()??;
        Some(Content::PollVote { target: self.key(key)?, selected })
    }
}
