//! Contacts, and the phone addresses behind linked-device addresses.

use std::time::Duration;

use model::address::{Address, LID_SUFFIX, MAX_DIGITS, Suffixes};
use model::contact::{CommonGroup, Contact, ContactCheck, KnownLidPair, LidPair};
use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::issue::{IssueCode, Violation};
use model::page::{Cursor, DEFAULT_LIMIT, ListId};
use model::time::Timestamp;
use network::operation::contacts::{ContactAnswer, ContactOperation};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use shard::call::read::{MOST_PAIRS, Read};
use shard::projection::contacts::{ContactFilter, ContactRow};

use crate::failure::of_kind;
use crate::projection::read_refresh;
use crate::query::Query;
use crate::reply::{Counted, CountedPage, List, Outcome, Reply, cut};
use crate::request_context::ChannelCall;
use crate::route::{GET, PATCH, POST, Route};

/// How long a known picture is used before the network is asked again.
const PICTURE_KEPT: Duration = Duration::from_secs(24 * 3600);

/// The most numbers that one call may check.
const MOST_CHECKED: usize = 50;

/// Documentation of routes that find out whether somebody who is no contact of the channel is registered.
pub const LOOKED_UP: &str =
    "A number that is no contact yet is one of the 200 that a channel may check a minute; beyond, 429 `rate_limited`.";

pub fn routes() -> Vec<Route> {
    vec![
        Route::channel(GET, "/v1/channels/{id}/contacts", list_lids)
            .doc("list_lids", "List the phone addresses behind linked-device addresses")
            .query(|query| asked_lids(query, &Suffixes::simulated(), ListId::only()))
            .ok::<Counted<LidPair>>(),
        Route::channel(GET, "/v1/channels/{id}/contacts/all", list)
            .doc("list_contacts", "List contacts")
            .query(|query| asked_contacts(query, ListId::only()))
            .ok::<CountedPage<Contact>>(),
        Route::channel(POST, "/v1/channels/{id}/contacts/check", check)
            .doc("check_contacts", "Find out which numbers are registered")
            .about("At most 200 numbers per minute and channel; beyond that, 429 `rate_limited`.")
            .body(parse_check, json!({ "phones": ["15551234567"] }))
            .list::<ContactCheck>()
            .on_network(),
        Route::channel(GET, "/v1/channels/{id}/contacts/lids/{lid}", show_lid)
            .doc("get_lid", "Get the phone address behind a linked-device address")
            .ok::<KnownLidPair>(),
        Route::channel(GET, "/v1/channels/{id}/contacts/phones/{digits}/lid", show_lid_of_phone)
            .doc("get_lid_of_phone", "Get the linked-device address of a number")
            .ok::<LidPair>(),
        Route::channel(GET, "/v1/channels/{id}/contacts/{contact_id}", show)
            .doc("get_contact", "Get a contact")
            .about(LOOKED_UP)
            .query(read_refresh)
            .ok::<Contact>()
            .on_network(),
        Route::channel(PATCH, "/v1/channels/{id}/contacts/{contact_id}", rename)
            .doc("rename_contact", "Save a contact's name in the address book, or remove it")
            .about(LOOKED_UP)
            .body(parse_name, json!({ "name": "Ann" }))
            .ok::<Contact>()
            .on_network(),
        Route::channel(GET, "/v1/channels/{id}/contacts/{contact_id}/picture", picture)
            .doc("get_contact_picture", "Get a contact's picture")
            .about("The network is asked if the known picture is older than 24 hours.")
            .query(asked_picture)
            .ok::<ContactPicture>()
            .on_network(),
        Route::channel(GET, "/v1/channels/{id}/contacts/{contact_id}/groups", common_groups)
            .doc("list_common_groups", "List the groups that a contact and the channel are in")
            .list::<CommonGroup>(),
    ]
}

model::cursor! {
    /// The last pair of a response that could not hold all.
    LidCursor("lids.1") { lid: String }
}

/// Reads `?lid=` and `?phone=`, and where the previous response ended.
fn asked_lids(query: &Query<'_>, suffixes: &Suffixes, list: ListId) -> Read {
    Read::Lids {
        lid: query.address("lid", suffixes).map(|lid| as_lid(&lid)),
        phone: query.address("phone", suffixes),
        after: query.cursor::<LidCursor>(list).map(|cursor| cursor.lid),
    }
}

/// The linked-device address; bare digits are read as one.
fn as_lid(address: &Address) -> Address {
    if address.is_lid() { address.clone() } else { Address::lid(address.local()) }
}

async fn list_lids(call: &mut ChannelCall) -> Outcome {
    let of = call.account.list(Some(call.channel.id.0), true);
    let read = call.asked(|query| asked_lids(query, call.suffixes(), of))?;
    let (pairs, count, _) = call.read_counted::<KnownLidPair>(read).await?;
    let cursor = |pair: &KnownLidPair| LidCursor { lid: pair.lid.local().to_owned() }.encode(of);
    let List { data, next_cursor } = List::first(pairs, MOST_PAIRS, cursor).map(KnownLidPair::pair);
    Ok(Reply::ok(&Counted { data, count, next_cursor: next_cursor.flatten() }))
}

/// The first pair that matches.
async fn pair(call: &mut ChannelCall, lid: Option<Address>, phone: Option<Address>) -> Result<KnownLidPair, CallError> {
    let named = lid.as_ref().or(phone.as_ref()).map(Address::to_string).unwrap_or_default();
    let (pairs, ..) = call.read_counted::<KnownLidPair>(Read::Lids { lid, phone, after: None }).await?;
    pairs.into_iter().next().ok_or_else(|| CallError::contact_not_found(&named))
}

async fn show_lid(call: &mut ChannelCall) -> Outcome {
    let text = call.parameter("lid");
    let digits = text.strip_suffix(LID_SUFFIX).and_then(|text| text.strip_suffix('@')).unwrap_or(text);
    if !is_digits(digits) {
        return Err(CallError::contact_not_found(text));
    }
    let lid = Address::lid(digits);
    Ok(Reply::ok(&pair(call, Some(lid), None).await?))
}

async fn show_lid_of_phone(call: &mut ChannelCall) -> Outcome {
    let digits = call.parameter("digits");
    if !is_digits(digits) {
        return Err(CallError::contact_not_found(digits));
    }
    let phone = call.app.config.suffixes.phone_address(digits);
    Ok(Reply::ok(&pair(call, None, Some(phone)).await?.pair()))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

model::cursor! {
    /// The last contact of a page.
    ContactCursor("contacts.1") { id: String }
}

/// Reads the filter, where the previous page ended, and the page size.
fn asked_contacts(query: &Query<'_>, list: ListId) -> (ContactFilter, Option<String>, usize) {
    let filter = ContactFilter {
        name: query.text("q").map(str::to_owned),
        is_business: query.flag("is_business"),
        is_blocked: query.flag("is_blocked"),
    };
    let after = query.cursor::<ContactCursor>(list).map(|cursor| cursor.id);
    (filter, after, query.limit().unwrap_or(DEFAULT_LIMIT))
}

async fn list(call: &mut ChannelCall) -> Outcome {
    let of = call.account.list(Some(call.channel.id.0), true);
    let (filter, after, limit) = call.asked(|query| asked_contacts(query, of))?;
    let read = Read::Contacts { filter, after, limit: limit + 1, in_bytes: true };
    let (rows, count, more) = call.read_counted::<ContactRow>(read).await?;
    let mut data: Vec<Contact> = rows.into_iter().map(|row| row.contact).collect();
    let next_cursor = cut(&mut data, limit, more, |contact| ContactCursor { id: contact.id.to_string() }.encode(of));
    Ok(Reply::ok(&CountedPage { data, count, next_cursor }))
}

async fn found(call: &mut ChannelCall, id: &Address) -> Result<ContactRow, CallError> {
    let row = call.read_one::<ContactRow>(Read::Contact(id.clone())).await?;
    row.ok_or_else(|| CallError::contact_not_found(id.as_str()))
}

/// Returns the known contact if it satisfies `counts`; otherwise asks the network first. While the channel cannot ask,
/// a known contact is returned anyway.
async fn looked_up(
    call: &mut ChannelCall,
    refresh: bool,
    counts: impl Fn(&ContactRow) -> bool,
) -> Result<ContactRow, CallError> {
    let contact = call.contact()?;
    let known = call.read_one::<ContactRow>(Read::Contact(contact.clone())).await?;
    let known = match known {
        Some(row) if !refresh && counts(&row) => return Ok(row),
        known => known,
    };
    match call.operate(ContactOperation::Show { contact: contact.clone() }).await {
        Err(error) if !refresh && matches!(error.code, E::NotConnected | E::ChannelUnavailable) => {
            known.ok_or_else(|| CallError::contact_not_found(contact.as_str()))
        }
        Err(error) => Err(error),
        Ok(_) => found(call, &contact).await,
    }
}

async fn show(call: &mut ChannelCall) -> Outcome {
    let refresh = call.asked(read_refresh)?;
    Ok(Reply::ok(&looked_up(call, refresh, |_| true).await?.contact))
}

/// Reads `{ "name": string 1..128 | null }`.
fn parse_name(body: &Body) -> Result<Option<String>, CallError> {
    body.read_patch(|fields| fields.required_nullable("name", rule::text(1..=128)))
}

async fn rename(call: &mut ChannelCall) -> Outcome {
    let name = parse_name(&call.object().await?)?;
    let contact = call.contact()?;
    call.operate(ContactOperation::Rename { contact: contact.clone(), name }).await?;
    Ok(Reply::ok(&found(call, &contact).await?.contact))
}

/// Reads `{ "phones": [digits] }`.
fn parse_check(body: &Body) -> Result<Vec<String>, CallError> {
    let digits = |value: &Value| {
        let text = rule::string(value, || json!({ "maxLength": MAX_DIGITS, "pattern": "^[0-9]{3,15}$" }))?;
        if text.len() > MAX_DIGITS {
            return Err(Violation::new(IssueCode::TooLong, "a number has at most 15 digits"));
        }
        if text.len() < 3 {
            return Err(Violation::new(IssueCode::TooShort, "at least 3 digits"));
        }
        if is_digits(text) {
            Ok(text.to_owned())
        } else {
            Err(Violation::new(IssueCode::Format, "must be digits alone"))
        }
    };
    body.read(|fields| fields.required_list("phones", MOST_CHECKED, digits))
}

async fn check(call: &mut ChannelCall) -> Outcome {
    let phones = parse_check(&call.object().await?)?;
    let answer = call.operate(ContactOperation::Check { phones }).await?;
    of_kind!(answer, ContactAnswer::Checked(checks) => Reply::ok(&List::whole(checks)))
}

/// Reads `?preview=true` and `?refresh=true`.
fn asked_picture(query: &Query<'_>) -> (bool, bool) {
    (query.flag("preview").unwrap_or(false), read_refresh(query))
}

/// A contact's picture, if the channel may see it.
#[derive(Serialize, JsonSchema)]
struct ContactPicture {
    #[schemars(extend("format" = "uri"))]
    picture_url: Option<String>,
    /// Time when the network was last asked for the picture; `null` if it never was.
    updated_at: Option<Timestamp>,
}

async fn picture(call: &mut ChannelCall) -> Outcome {
    let (preview, refresh) = call.asked(asked_picture)?;
    let now = call.now;
    let fresh = move |row: &ContactRow| row.picture_seen_at.is_some_and(|at| now.since(at) < PICTURE_KEPT);
    let row = looked_up(call, refresh, fresh).await?;
    let picture_url = row.contact.picture_url.map(|url| if preview { format!("{url}?preview=true") } else { url });
    Ok(Reply::ok(&ContactPicture { picture_url, updated_at: row.picture_seen_at }))
}

async fn common_groups(call: &mut ChannelCall) -> Outcome {
    let contact = call.contact()?;
    Ok(Reply::ok(&List::whole(call.read_many::<CommonGroup>(Read::CommonGroups(contact)).await?)))
}
