//! A channel's settings at its owner: how they change, and what a change affects at once.

use std::time::{Duration, Instant};

use bytes::Bytes;
use model::address::Address;
use model::error::CallError;
use model::field::Change;
use model::issue::{IssueCode, Violation};
use model::presence::Presence;
use model::settings::{ConnectPresence, Settings};
use model::time::Timestamp;
use network::driver::InboundKind;
use uuid::Uuid;

use super::channel::{Channel, Worked};
use super::committer::{Answered, LeadershipLost};
use super::submission::LARGEST_COMMAND;
use crate::call::OwnerResponse;
use crate::command::{Command, Reply};
use crate::records::encode;
use crate::retention::Keep;
use crate::settings::{ChangeSettings, Changed, NewSettings, SealedProxy, SettingsRow, proxy_purpose};

/// How often an always-online channel shows itself: another device of the account may have shown otherwise.
const SHOWN_FOR: Duration = Duration::from_secs(60);

/// Why a channel's proxy cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the channel's proxy cannot be opened")]
pub struct UnreadableProxy;

impl Channel {
    /// How long the channel's messages are kept, and how much of them.
    pub fn keep(&self) -> Keep {
        self.owner.node.retention.of(&self.settings.settings)
    }

    /// How long the channel's media is kept.
    pub fn media_retention(&self) -> Duration {
        self.owner.node.media.retention_of(&self.settings.settings)
    }

    /// Shows the presence that the settings ask for, and again before the network forgets it (`always_online`).
    pub(super) async fn show_settled_presence(&mut self) {
        let settings = &self.settings.settings;
        self.shown_until = settings.always_online.then(|| Instant::now() + SHOWN_FOR);
        let presence = match settings.presence_on_connect {
            _ if settings.always_online => Presence::Available,
            ConnectPresence::Available => Presence::Available,
            ConnectPresence::Unavailable => Presence::Unavailable,
            ConnectPresence::None => return,
        };
        self.show_presence(presence, None).await;
    }

    /// Whether the channel ignores an item. Receipts are about its own sends, and notices keep the projection correct:
    /// see [`ignores_chat`](Self::ignores_chat) for their events.
    pub fn ignores(&self, item: &InboundKind) -> bool {
        match item {
            InboundKind::Message(message) | InboundKind::OwnMessage(message) => self.ignores_chat(&message.chat),
            InboundKind::Receipt(_)
            | InboundKind::LidDisclosed { .. }
            | InboundKind::Notice(_)
            | InboundKind::Synced(_) => false,
        }
    }

    /// Whether a chat has no events.
    pub fn ignores_chat(&self, chat: &Address) -> bool {
        self.settings.settings.ignores(chat, &self.owner.node.suffixes)
    }

    pub(super) async fn change_settings(&mut self, change: ChangeSettings, call_id: Uuid) -> Answered<Worked> {
        self.settings.proxy = self.stored_proxy();
        let before = &self.settings;
        if let Some((_, proxy)) = before.changed_by.filter(|(call, _)| *call == call_id) {
            return Ok(changed(&before.settings, proxy));
        }
        if change.expect.is_some_and(|expected| expected != before.version()) {
            return Err(CallError::concurrent_modification("settings").into());
        }
        let (mut row, proxy) = self.applied(change.to)?;
        if row.settings == before.settings && !proxy {
            return Err(CallError::no_op("the settings have these values already").into());
        }
        // Two changes within a millisecond get different versions.
        row.settings.updated_at = Timestamp::now().max(Timestamp(before.version().0 + 1));
        row.changed_by = Some((call_id, proxy));
        let command = Command::ChangeSettings {
            channel: self.row.id,
            customer: self.row.customer,
            expect: before.version(),
            row: Bytes::from(encode(&row)),
        };
        match self.commit(command).await? {
            Reply::Done => {}
            Reply::ChannelDeleted => return Err(CallError::channel_not_found().into()),
            Reply::TooLarge => return Err(CallError::payload_too_large_over(LARGEST_COMMAND as u64).into()),
            // Only this task changes the settings, so another version means another owner.
            _ => return Err(LeadershipLost.into()),
        }
        let was_online = self.settings.settings.always_online;
        self.settings = row;
        if self.settings.settings.always_online != was_online {
            self.show_settled_presence().await;
        }
        Ok(changed(&self.settings.settings, proxy))
    }

    /// The row with the change, and whether its proxy differs.
    fn applied(&self, to: NewSettings) -> Result<(SettingsRow, bool), CallError> {
        let mut row = self.settings.clone();
        let updated_at = row.version();
        match to {
            NewSettings::Defaults => {
                let proxy = row.proxy.is_some();
                let settings = Settings { updated_at, ..Settings::default() };
                Ok((SettingsRow { settings, ..SettingsRow::default() }, proxy))
            }
            NewSettings::Patched { change, proxy } => {
                change.apply(&mut row.settings);
                let proxy = match proxy {
                    Change::Keep => false,
                    Change::To(proxy) => self.set_proxy(&mut row, proxy)?,
                };
                Ok((row, proxy))
            }
        }
    }

    /// Changes a row's proxy; returns whether it differs.
    fn set_proxy(&self, row: &mut SettingsRow, to: Option<SealedProxy>) -> Result<bool, CallError> {
        let Some(SealedProxy { shown, sealed }) = to else {
            row.settings.proxy_url = None;
            return Ok(row.proxy.take().is_some());
        };
        let as_shown = row.settings.proxy_url.as_ref() == Some(&shown);
        let Some(sealed) = sealed else {
            let why = "write the proxy's password; *** only replaces it in responses";
            return if as_shown { Ok(false) } else { Err(Violation::new(IssueCode::Format, why).at(&["proxy_url"])) };
        };
        // Sealing the same value twice gives different bytes, so the opened values are compared.
        let same = as_shown && self.opened(&sealed).is_ok_and(|new| self.proxy().is_ok_and(|old| old == Some(new)));
        if same {
            return Ok(false);
        }
        row.settings.proxy_url = Some(shown);
        row.proxy = Some(sealed);
        Ok(true)
    }

    /// The URL of the proxy for the channel's sessions, with its password.
    ///
    /// # Errors
    /// If it cannot be opened. The channel must not connect without it then.
    pub(super) fn proxy(&self) -> Result<Option<String>, UnreadableProxy> {
        self.stored_proxy().map(|sealed| self.opened(&sealed)).transpose()
    }

    /// The stored proxy: it may have been resealed since this task read its settings.
    fn stored_proxy(&self) -> Option<Bytes> {
        self.settings.proxy.as_ref()?;
        SettingsRow::of(&self.owner.reader, self.row.id).proxy
    }

    fn opened(&self, sealed: &Bytes) -> Result<String, UnreadableProxy> {
        let (customer, node) = (self.row.customer, &self.owner.node);
        let record = node.customer(customer).ok_or(UnreadableProxy)?;
        let opened = node.secrets.open(&record, &proxy_purpose(self.row.id), sealed).map_err(|_| UnreadableProxy)?;
        String::from_utf8(opened).map_err(|_| UnreadableProxy)
    }
}

fn changed(settings: &Settings, proxy: bool) -> Worked {
    Worked::Done(OwnerResponse::Settings(Changed { settings: Box::new(settings.clone()), proxy }))
}
