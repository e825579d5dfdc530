//! `GET /v1/messages` and `GET /v1/channels/{id}/messages`: stored messages, filtered and in pages.

use model::address::Suffixes;
use model::error::CallError;
use model::id::{ChannelId, MessageId, RowId};
use model::message::TYPE_NAMES;
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use shard::history::{Direction, HistoryQuery, MessageStatus};

use crate::query::Query;
use crate::reply::{List, Outcome, Reply};
use crate::request_context::{AccountCall, ChannelCall};

/// How often `channel_id` may be repeated.
const MOST_CHANNELS: usize = 20;
/// How often `message_id` may be repeated.
const MOST_MESSAGE_IDS: usize = 50;

/// The longest `client_ref` that a send accepts, in characters.
const LONGEST_CLIENT_REF: usize = 128;

model::cursor! {
    /// Where a page ended: the last row that was examined.
    MessageCursor("messages.3") { at: i64, row: RowId }
}

pub async fn of_channel(call: &mut ChannelCall) -> Outcome {
    let channel = call.channel.id;
    let asked = HistoryParameters::parse(call, call.query(), vec![channel], Some(channel))?;
    call.settle().await?;
    asked.page(call).await
}

pub async fn of_account(call: &mut AccountCall) -> Outcome {
    let query = call.query();
    let named = named_channels(&query);
    for channel in &named {
        call.own_channel(*channel)?;
    }
    let channels = if !named.is_empty() || query.text("channel_id").is_some() {
        named
    } else if let Some(bound) = call.bound_channel() {
        // A bound key must name its channel.
        return Err(CallError::channel_scoped_key(bound));
    } else {
        all_channels(call)
    };
    let asked = HistoryParameters::parse(call, query, channels, None)?;
    asked.page(call).await
}

/// Every channel of the account.
pub fn all_channels(call: &AccountCall) -> Vec<ChannelId> {
    let channels = call.directory().read(|state| state.channels_of(call.customer_id(), None, usize::MAX));
    channels.iter().map(|channel| channel.id).collect()
}

/// The channels that the query names, each once.
pub fn named_channels(query: &Query<'_>) -> Vec<ChannelId> {
    let mut named: Vec<ChannelId> = query.ids("channel_id", MOST_CHANNELS);
    named.sort_unstable();
    named.dedup();
    named
}

/// The parameters of a request.
pub struct HistoryParameters {
    /// Its limit is one row more than requested, to know whether there is a next page.
    query: HistoryQuery,
    limit: usize,
    list: ListId,
}

impl HistoryParameters {
    /// Reads the filters.
    fn parse(
        call: &AccountCall,
        query: Query<'_>,
        channels: Vec<ChannelId>,
        only: Option<ChannelId>,
    ) -> Result<Self, CallError> {
        let list = |ascending| call.list(only.map(|channel| channel.0), ascending);
        let asked = Self::read(&query, channels, list, &call.app.config.suffixes);
        query.finish(asked)
    }

    /// Declares all filters.
    pub fn outline(query: &Query<'_>) {
        Self::read(query, Vec::new(), |_| ListId::only(), &Suffixes::simulated());
    }

    fn read(
        query: &Query<'_>,
        channels: Vec<ChannelId>,
        list: impl FnOnce(bool) -> ListId,
        suffixes: &Suffixes,
    ) -> Self {
        let address = |name: &str| query.address(name, suffixes);
        let limit = query.limit().unwrap_or(DEFAULT_LIMIT);
        let ascending = query.ascending();
        let list = list(ascending);
        let cursor = query.cursor::<MessageCursor>(list);
        let client_ref = query.text_up_to("client_ref", LONGEST_CLIENT_REF);
        let mut message_ids = query.texts("message_id", MOST_MESSAGE_IDS);
        message_ids.sort_unstable();
        message_ids.dedup();
        let asked = HistoryQuery {
            channels,
            limit: limit + 1,
            ascending,
            after: cursor.map(|cursor| (Timestamp(cursor.at), cursor.row)),
            direction: query.word("direction", Direction::WORDS, Direction::parse),
            chat_id: address("chat_id"),
            from: address("from"),
            to: address("to"),
            participant: address("participant"),
            types: query.words("type", TYPE_NAMES, |word| TYPE_NAMES.contains(&word).then(|| word.to_owned())),
            statuses: query.words("status", MessageStatus::WORDS, MessageStatus::parse),
            message_ids: message_ids.into_iter().map(|id| MessageId(id.to_owned())).collect(),
            client_ref: client_ref.map(str::to_owned),
            since: query.time("since"),
            until: query.time("until"),
            has_media: query.flag("has_media"),
            without_deliveries: query
                .word("deliveries", &["none"], |word| (word == "none").then_some(true))
                .unwrap_or(false),
        };
        Self { query: asked, limit, list }
    }

    /// Returns a page. At the bound of examined rows it may be short or empty, and still have a next page.
    async fn page(self, call: &AccountCall) -> Outcome {
        let Self { query, limit, list } = self;
        if query.channels.is_empty() {
            return Ok(Reply::ok(&List::<()>::page(Vec::new(), None)));
        }
        let page = call.cluster().history(call.customer_id(), query, &call.context()).await?;
        let cursor = |(at, row): (Timestamp, RowId)| MessageCursor { at: at.0, row }.encode(list);
        let stopped_at = page.frontier.map(cursor);
        Ok(Reply::ok(&List::first_of(page.rows, limit, stopped_at, |row| cursor((row.occurred_at, row.id)))))
    }
}
