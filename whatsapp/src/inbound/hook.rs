//! The durability hook: the receipt of a message leaves only after the owner has committed the message.

use std::sync::Arc;
use std::time::Duration;

use anyhow::anyhow;
use async_trait::async_trait;
use futures::future::try_join_all;
use network::driver::{InboundItem, ItemId};
use wacore::types::events::InboundMessage;
use whatsapp_rust::{Client, InboundDurabilityHook};

use super::message;
use crate::failpoint::{Point, reach};
use crate::line::Line;
use crate::state::backend::Backend;

/// How long the owner may take, including items ahead of the messages: querying a new group takes up to 20 s. After
/// that the network keeps the messages and sends them again.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);

pub struct Hook {
    pub line: Arc<Line>,
    pub backend: Arc<Backend>,
}

#[async_trait]
impl InboundDurabilityHook for Hook {
    async fn on_messages(&self, client: Arc<Client>, batch: &[InboundMessage]) -> anyhow::Result<()> {
        reach(Point::MessagesBeforeHook);
        let own = message::Own::of(&client);
        let mut taken = Vec::new();
        for inbound in batch {
            let info = &inbound.info;
            self.backend.learn_pair(&info.source.sender, info.source.sender_alt.as_ref()).await?;
            let Some(kind) = message::kind(&inbound.message, info, &own, &self.backend) else { continue };
            let source = &info.source;
            let id = ItemId(format!("m/{}/{}/{}", source.chat, source.sender.to_non_ad(), info.id));
            let item = InboundItem { id, at: message::time(info.timestamp), kind };
            taken.push(self.line.inbox().pass_on(item));
        }
        let all = tokio::select! {
            all = tokio::time::timeout(TAKEN_WITHIN, try_join_all(taken)) => all,
            () = self.line.stopped().cancelled() => return Err(anyhow!("the session has ended")),
        };
        match all {
            Ok(Ok(_)) => {
                reach(Point::MessagesAfterHook);
                Ok(())
            }
            Ok(Err(_)) => Err(anyhow!("the session has ended")),
            Err(_) => Err(anyhow!("the messages were not committed within {} s", TAKEN_WITHIN.as_secs())),
        }
    }
}
