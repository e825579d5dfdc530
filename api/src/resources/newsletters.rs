//! Newsletters. Publishing in a newsletter is an ordinary message to its address.

use model::address::Address;
use model::error::{CallError, ErrorCode};
use model::field::{Body, Change, rule};
use model::issue::{IssueCode, Violation};
use model::newsletter::{Newsletter, NewsletterChanges, NewsletterMessage, NewsletterRole, ReactionMode};
use model::page::ListId;
use model::time::Timestamp;
use network::operation::newsletters::{NewsletterAnswer, NewsletterOperation, Wanted};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;
use shard::call::read::Filter;

use super::groups::{REFUSALS, invite_in_path};
use super::media::{FETCHED, PICTURE_URL, set_or_cleared};
use crate::failure::{self, of_kind};
use crate::projection::{Page, read_refresh, read_rest};
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;
use crate::route::{DELETE, GET, PATCH, POST, PUT, Route};

pub fn routes() -> Vec<Route> {
    let routes = [
        Route::channel(GET, "/v1/channels/{id}/newsletters", list)
            .doc("list_newsletters", "List newsletters")
            .query(|query| (read_role(query), read_refresh(query), read_rest(query)))
            .list_or_page::<Newsletter>(),
        Route::channel(POST, "/v1/channels/{id}/newsletters", create)
            .doc("create_newsletter", "Create a newsletter")
            .body(parse_create, json!({ "name": "News of the week" }))
            .created::<Newsletter>()
            .errors(FETCHED),
        Route::channel(GET, "/v1/channels/{id}/newsletters/search", search)
            .doc("search_newsletters", "Search newsletters")
            .query(|query| (read_wanted(query), Page::read(query, ListId::only())))
            .page::<Newsletter>(),
        Route::channel(GET, "/v1/channels/{id}/newsletters/recommended", recommend)
            .doc("list_recommended_newsletters", "List newsletters that the network recommends")
            .query(|query| (read_country(query), Page::read(query, ListId::only())))
            .page::<Newsletter>(),
        Route::channel(GET, "/v1/channels/{id}/newsletters/invite/{invite_code}", show_invited)
            .doc("get_newsletter_by_invite", "Show the newsletter of an invite code")
            .ok::<Newsletter>(),
        Route::channel(GET, "/v1/channels/{id}/newsletters/{newsletter_id}", show)
            .doc("get_newsletter", "Show a newsletter")
            .about("If the channel does not know it, the network is asked, provided that the channel is connected.")
            .query(read_refresh)
            .ok::<Newsletter>(),
        Route::channel(PATCH, "/v1/channels/{id}/newsletters/{newsletter_id}", change)
            .doc("update_newsletter", "Change a newsletter")
            .body(parse_change, json!({ "name": "News of the day", "reactions": "basic" }))
            .ok::<Newsletter>()
            .errors(&[ErrorCode::NoOp])
            .errors(FETCHED),
        Route::channel(DELETE, "/v1/channels/{id}/newsletters/{newsletter_id}", delete)
            .doc("delete_newsletter", "Delete a newsletter")
            .no_content(),
        Route::channel(POST, "/v1/channels/{id}/newsletters/{newsletter_id}/subscription", subscribe)
            .doc("subscribe_newsletter", "Subscribe to a newsletter")
            .ok::<Newsletter>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(DELETE, "/v1/channels/{id}/newsletters/{newsletter_id}/subscription", unsubscribe)
            .doc("unsubscribe_newsletter", "End a subscription to a newsletter")
            .no_content()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(PUT, "/v1/channels/{id}/newsletters/{newsletter_id}/mute", mute)
            .doc("mute_newsletter", "Mute or unmute a newsletter")
            .body(parse_muted, json!({ "muted": true }))
            .ok::<Newsletter>()
            .errors(&[ErrorCode::NoOp]),
        Route::channel(GET, "/v1/channels/{id}/newsletters/{newsletter_id}/messages", list_messages)
            .doc("list_newsletter_messages", "List a newsletter's messages, the newest first")
            .query(|query| (read_before(query), Page::read(query, ListId::only())))
            .page::<NewsletterMessage>(),
        Route::channel(POST, "/v1/channels/{id}/newsletters/{newsletter_id}/messages/{server_id}/reaction", react)
            .doc("react_to_newsletter_message", "React to a newsletter's message")
            .body(parse_emoji, json!({ "emoji": "👍" }))
            .accepted::<NewsletterReaction>(),
        Route::channel(POST, "/v1/channels/{id}/newsletters/{newsletter_id}/admins/{contact_id}", invite_admin)
            .doc("invite_newsletter_admin", "Ask a contact to be an admin of a newsletter")
            .accepted::<NewsletterAdminInvite>()
            .errors(&[ErrorCode::NoOp, ErrorCode::UndeliverableRecipient]),
        Route::channel(DELETE, "/v1/channels/{id}/newsletters/{newsletter_id}/admins/{contact_id}", remove_admin)
            .doc("remove_newsletter_admin", "Make an admin of a newsletter a subscriber")
            .no_content()
            .errors(&[ErrorCode::NoOp, ErrorCode::UndeliverableRecipient]),
    ];
    routes.map(|route| route.errors(REFUSALS)).into()
}

/// The newsletter that the path names.
fn newsletter_id(call: &ChannelCall) -> Result<Address, CallError> {
    call.address("newsletter_id", "newsletter")
}

/// Reads the newsletter from the projection.
async fn found(call: &mut ChannelCall, id: &Address) -> Result<Newsletter, CallError> {
    call.find::<Newsletter>(id.as_str()).await?.ok_or_else(|| CallError::not_found("newsletter", id.as_str()))
}

/// Changes a newsletter, and returns it from the projection.
async fn changed(call: &mut ChannelCall, id: &Address, operation: NewsletterOperation) -> Outcome {
    call.operate(operation).await?;
    Ok(Reply::ok(&found(call, id).await?))
}

fn read_role(query: &Query<'_>) -> Option<NewsletterRole> {
    query.word("role", NewsletterRole::LISTED, NewsletterRole::parse_listed)
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let (role, refresh, page) =
        call.asked(|query| (read_role(query), read_refresh(query), call.rest::<Newsletter>(query)))?;
    call.refresh(refresh, NewsletterOperation::List).await?;
    let mut newsletters = call.page_of::<Newsletter>(Filter::All, page).await?;
    newsletters.data.retain(|newsletter| role.is_none_or(|role| newsletter.role == role));
    Ok(Reply::ok(&newsletters))
}

/// Parses the body of a new newsletter.
fn parse_create(body: &Body) -> Result<(String, Option<String>, Option<String>), CallError> {
    body.read(|fields| {
        let name = fields.required("name", rule::text(1..=100));
        let description = fields.optional("description", rule::text(0..=2048));
        let picture_url = fields.optional(PICTURE_URL, rule::web_url);
        Some((name?, description, picture_url))
    })
}

async fn create(call: &mut ChannelCall) -> Outcome {
    let (name, description, picture_url) = parse_create(&call.object().await?)?;
    let picture = match picture_url {
        Some(url) => Some(call.fetch_picture(&url).await?),
        None => None,
    };
    let answer = call.operate(NewsletterOperation::Create { name, description, picture }).await?;
    of_kind!(answer, NewsletterAnswer::Newsletter(made) => Reply::created(&found(call, &made.id).await?))
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let refresh = call.asked(read_refresh)?;
    let id = newsletter_id(call)?;
    if !refresh && let Some(known) = call.find::<Newsletter>(id.as_str()).await? {
        return Ok(Reply::ok(&known));
    }
    // The projection has only the channel's own newsletters; for others the network is asked.
    match call.operate(NewsletterOperation::Show { newsletter: id.clone() }).await {
        Ok(NewsletterAnswer::Newsletter(newsletter)) => Ok(Reply::ok(&newsletter)),
        Ok(other) => Err(failure::unexpected(&other)),
        Err(error) if !refresh && matches!(error.code, ErrorCode::NotConnected | ErrorCode::ChannelUnavailable) => {
            Err(CallError::not_found("newsletter", id.as_str()))
        }
        Err(error) => Err(error),
    }
}

fn read_country(query: &Query<'_>) -> Option<String> {
    query.parsed(
        "country",
        || json!({ "type": "string", "maxLength": 2, "pattern": "^[A-Za-z]{2}$" }),
        "must be two letters of ISO 3166, such as BR",
        |text| (text.len() == 2 && text.bytes().all(|b| b.is_ascii_alphabetic())).then(|| text.to_ascii_uppercase()),
    )
}

fn read_wanted(query: &Query<'_>) -> Wanted {
    let text = |name, least: usize, most: usize| {
        query.parsed(
            name,
            || json!({ "type": "string", "minLength": least, "maxLength": most }),
            &format!("must have {least} to {most} characters"),
            |text| (least..=most).contains(&text.chars().count()).then(|| text.to_owned()),
        )
    };
    let wanted = text("q", 2, 100);
    query.require("q");
    Wanted { text: wanted, country: read_country(query), category: text("category", 1, 50), unknown: false }
}

async fn search(call: &mut ChannelCall) -> Outcome {
    let (wanted, page) = call.asked(|query| {
        let wanted = read_wanted(query);
        let within = format!("{:?} {:?} {:?}", wanted.text, wanted.country, wanted.category);
        (wanted, call.page_within::<Newsletter>(query, &within))
    })?;
    look_for(call, wanted, page).await
}

async fn recommend(call: &mut ChannelCall) -> Outcome {
    let (country, page) = call.asked(|query| {
        let country = read_country(query);
        let page = call.page_within::<Newsletter>(query, &format!("recommended {country:?}"));
        (country, page)
    })?;
    look_for(call, Wanted { country, unknown: true, ..Wanted::default() }, page).await
}

async fn look_for(call: &mut ChannelCall, wanted: Wanted, page: Page) -> Outcome {
    let (after, limit) = (page.after().map(str::to_owned), page.limit + 1);
    let answer = call.operate(NewsletterOperation::Search { wanted, after, limit }).await?;
    of_kind!(answer, NewsletterAnswer::Newsletters(found) =>
        Reply::ok(&page.up_to_limit(found, |found| found.id.to_string())))
}

async fn show_invited(call: &mut ChannelCall) -> Outcome {
    let invite_code = invite_in_path(call)?;
    let answer = call.operate(NewsletterOperation::Invited { invite_code }).await?;
    of_kind!(answer, NewsletterAnswer::Newsletter(newsletter) => Reply::ok(&newsletter))
}

/// Parses the body of a change.
fn parse_change(body: &Body) -> Result<(NewsletterChanges, Option<String>, bool), CallError> {
    body.read_patch(|fields| {
        let changes = NewsletterChanges {
            name: fields.optional("name", rule::text(1..=100)),
            description: fields.optional("description", rule::text(0..=2048)),
            reactions: fields.optional("reactions", rule::one_of(ReactionMode::WORDS, ReactionMode::parse)),
        };
        let picture_url = fields.optional(PICTURE_URL, rule::web_url);
        let clear_picture = fields.optional("clear_picture", rule::boolean);
        if clear_picture == Some(true) && picture_url.is_some() {
            fields.refuse("clear_picture", Violation::new(IssueCode::Conflict, "give picture_url or clear_picture"));
        }
        if clear_picture == Some(false) && picture_url.is_none() && changes == NewsletterChanges::default() {
            fields.refuse("clear_picture", Violation::new(IssueCode::Empty, "name at least one field to change"));
        }
        fields.between(|| set_or_cleared(&["name", "description", "reactions"]));
        Some((changes, picture_url, clear_picture.unwrap_or(false)))
    })
}

async fn change(call: &mut ChannelCall) -> Outcome {
    let (changes, picture_url, clear_picture) = parse_change(&call.object().await?)?;
    let newsletter = newsletter_id(call)?;
    let picture = match picture_url {
        Some(url) => Change::To(Some(call.fetch_picture(&url).await?)),
        None if clear_picture => Change::To(None),
        None => Change::Keep,
    };
    let operation = NewsletterOperation::Change { newsletter: newsletter.clone(), changes, picture };
    changed(call, &newsletter, operation).await
}

async fn delete(call: &mut ChannelCall) -> Outcome {
    call.done(NewsletterOperation::Delete { newsletter: newsletter_id(call)? }).await
}

async fn subscribe(call: &mut ChannelCall) -> Outcome {
    let newsletter = newsletter_id(call)?;
    changed(call, &newsletter, NewsletterOperation::Subscribe { newsletter: newsletter.clone() }).await
}

async fn unsubscribe(call: &mut ChannelCall) -> Outcome {
    call.done(NewsletterOperation::Unsubscribe { newsletter: newsletter_id(call)? }).await
}

/// Reads `{ "muted": boolean }`.
fn parse_muted(body: &Body) -> Result<bool, CallError> {
    body.read(|fields| fields.required("muted", rule::boolean))
}

async fn mute(call: &mut ChannelCall) -> Outcome {
    let muted = parse_muted(&call.object().await?)?;
    let newsletter = newsletter_id(call)?;
    changed(call, &newsletter, NewsletterOperation::Mute { newsletter: newsletter.clone(), muted }).await
}

fn read_before(query: &Query<'_>) -> Option<u64> {
    let range = || json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
    query.parsed("before", range, "must be a server_id", |text| text.parse().ok())
}

async fn list_messages(call: &mut ChannelCall) -> Outcome {
    let within = call.parameter("newsletter_id");
    let (before, page) = call.asked(|query| (read_before(query), call.page_within::<Newsletter>(query, within)))?;
    let newsletter = newsletter_id(call)?;
    let behind = page.after().and_then(|after| after.parse().ok());
    let before = [before, behind].into_iter().flatten().min();
    let answer = call.operate(NewsletterOperation::Messages { newsletter, before, limit: page.limit + 1 }).await?;
    of_kind!(answer, NewsletterAnswer::Messages(messages) =>
        Reply::ok(&page.up_to_limit(messages, |message| message.server_id.to_string())))
}

/// Reads `{ "emoji": text }`. An empty text removes the reaction.
fn parse_emoji(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("emoji", rule::text(0..=8)))
}

#[derive(Serialize, JsonSchema)]
struct NewsletterReaction {
    /// The message, by its position in the newsletter.
    server_id: u64,
    emoji: String,
}

async fn react(call: &mut ChannelCall) -> Outcome {
    let emoji = parse_emoji(&call.object().await?)?;
    let newsletter = newsletter_id(call)?;
    let server_id = call.id("server_id").ok_or_else(|| CallError::message_not_found(call.parameter("server_id")))?;
    call.operate(NewsletterOperation::React { newsletter, server_id, emoji: emoji.clone() }).await?;
    Ok(Reply::accepted(&NewsletterReaction { server_id, emoji }))
}

#[derive(Serialize, JsonSchema)]
struct NewsletterAdminInvite {
    /// Time until which the invitation can be accepted.
    invite_expires_at: Timestamp,
}

async fn invite_admin(call: &mut ChannelCall) -> Outcome {
    let newsletter = newsletter_id(call)?;
    let whom = call.person().await?;
    let answer = call.operate(NewsletterOperation::InviteAdmin { newsletter, whom }).await?;
    of_kind!(answer, NewsletterAnswer::Invited { invite_expires_at } =>
        Reply::accepted(&NewsletterAdminInvite { invite_expires_at }))
}

async fn remove_admin(call: &mut ChannelCall) -> Outcome {
    let newsletter = newsletter_id(call)?;
    let whom = call.person().await?;
    call.done(NewsletterOperation::RemoveAdmin { newsletter, whom }).await
}
