//! Moves a channel to another cluster without a new QR code: exports its session, sealed under a passphrase, and
//! imports it. The operator must ensure that only one cluster logs in at a time.

mod sealed;

use std::sync::Arc;

use model::error::{CallError, ErrorCode as E};
use model::field::{Body, rule};
use model::format::Format;
use model::issue::{IssueCode, Violation};
use raft::directory::command::Command;
use raft::directory::records::ChannelRecord;
use salvo::http::HeaderName;
use serde_json::{Value, json};
use shard::call::bundle::{Export, Import, LIDS, LidPair, PART, Place, StateRow};
use shard::call::request::GetStatus;
use shard::machine::CREDENTIALS;

use self::sealed::{BundleError, Content, LARGEST_BUNDLE};
use super::channels::{PlacedChannel, ask, audited, find};
use crate::openapi::binary;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{POST, Route};

const BYTES: &str = "application/octet-stream";

/// Header with the passphrase of a bundle that is sent as the body.
const PASSPHRASE: HeaderName = HeaderName::from_static("x-passphrase");

/// Bounds of a passphrase, in characters.
const SHORTEST_PASSPHRASE: usize = 12;
const LONGEST_PASSPHRASE: usize = 200;

/// The allowed passphrases as a regular expression: text that a header can hold.
const PASSPHRASE_PATTERN: &str = "^[!-~]([ -~]*[!-~])?$";

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(POST, "/v1/admin/channels/{id}/export", export)
            .doc("export_channel", "Get the session of a stopped channel, encrypted under a passphrase")
            .about(
                "Another cluster can log in with the bundle without a new QR code, and so can anyone who has it and \
                 the passphrase. Disable the channel first, and leave it disabled: a session that two clusters use \
                 ends on both.",
            )
            .body(parse_passphrase, json!({ "passphrase": "correct horse battery staple" }))
            .content(BYTES)
            .errors(&[E::InvalidLifecycleTransition, E::ConcurrentModification]),
        Route::operator(POST, "/v1/admin/channels/{id}/import", import)
            .doc("import_channel", "Load the session of a bundle into a channel that has none")
            .about(
                "The channel is then `stopped_by_user`, with the reason `restored`, and `connect` logs in without a QR \
                 code: call it once the exported channel can no longer log in. An import that fails leaves the channel \
                 without a session: import again.",
            )
            .header(
                "X-Passphrase",
                "The passphrase that encrypts the bundle.",
                json!({
                    "type": "string",
                    "minLength": SHORTEST_PASSPHRASE,
                    "maxLength": LONGEST_PASSPHRASE,
                    "pattern": PASSPHRASE_PATTERN,
                }),
            )
            .content_body(vec![(BYTES, binary())])
            .ok::<PlacedChannel>()
            .errors(&[E::ChannelUnavailable, E::InvalidLifecycleTransition, E::ConcurrentModification]),
    ]
}

fn parse_passphrase(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("passphrase", passphrase))
}

/// Validates a passphrase.
fn passphrase(value: &Value) -> Result<String, Violation> {
    let wants = || json!({ "pattern": PASSPHRASE_PATTERN });
    let text = rule::described(wants, rule::text(SHORTEST_PASSPHRASE..=LONGEST_PASSPHRASE))(value)?;
    let is_plain = text.trim() == text && text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let wrong = || Violation::new(IssueCode::Format, "must be visible ASCII characters, with spaces only between them");
    is_plain.then_some(text).ok_or_else(wrong)
}

async fn export(call: &mut OperatorCall) -> Outcome {
    let passphrase = parse_passphrase(&call.object().await?)?;
    let channel = find(call)?;
    has_format(call)?;
    let app = call.app.clone();
    let _place = app.bundles.try_acquire().map_err(|_| CallError::worker_at_capacity())?;
    let content = read(call, &channel).await?;
    let (salt, nonce) = (rand::random(), rand::random());
    let seal = move || sealed::seal(&content, &passphrase, salt, nonce);
    let bundle = app.auth.passwords.run(call.client.ip, seal).await?.map_err(refused)?;
    // The audit entry is written before anything is sent.
    call.update(Command::Audit, vec![audited(call, &channel, "channel.exported")]).await?;
    Ok(Reply::content(BYTES, bundle).uncached())
}

/// Reads all state of a channel as of one moment.
async fn read(call: &OperatorCall, channel: &ChannelRecord) -> Result<Content, CallError> {
    let mut part = ask(call, channel, Export { from: Place::Rows(None) }).await?;
    let version = part.version;
    let mut content = Content {
        driver: call.cluster().driver().to_owned(),
        channel: channel.id,
        made_at: call.now,
        identity: part.identity.clone(),
        rows: Vec::new(),
        lids: Vec::new(),
    };
    let mut weight = 0;
    loop {
        if part.version != version {
            return Err(CallError::concurrent_modification("channel"));
        }
        weight += part.rows.iter().map(StateRow::weight).sum::<usize>() + part.lids.len() * size_of::<LidPair>();
        if weight as u64 > LARGEST_BUNDLE {
            return Err(refused(BundleError::TooLarge));
        }
        content.rows.append(&mut part.rows);
        content.lids.append(&mut part.lids);
        let Some(from) = part.next else { return Ok(content) };
        part = ask(call, channel, Export { from }).await?;
    }
}

async fn import(call: &mut OperatorCall) -> Outcome {
    let app = call.app.clone();
    let (passphrase, channel) = ready(call)?;
    let _place = app.bundles.try_acquire().map_err(|_| CallError::worker_at_capacity())?;
    let bundle = call.octets(LARGEST_BUNDLE).await?;
    let open = move || sealed::open(&bundle, &passphrase);
    let content = app.auth.passwords.run(call.client.ip, open).await?.map_err(refused)?;
    let driver = call.cluster().driver();
    if content.driver != driver {
        let theirs = content.driver;
        return Err(CallError::bad_request(format!(
            "the bundle is from the network driver {theirs}, but this cluster has {driver}"
        )));
    }
    let version = ask(call, &channel, Import::Begin { identity: content.identity }).await?;
    for (rows, lids) in parts(content.rows, content.lids) {
        ask(call, &channel, Import::Rows { version, rows, lids }).await?;
    }
    let mut entry = audited(call, &channel, "channel.imported");
    entry.details.insert("exported_as".to_owned(), content.channel.to_string());
    call.record(entry).await;
    let live = ask(call, &channel, GetStatus).await?;
    Ok(Reply::ok(&PlacedChannel::new(call, &channel, Some(&live))))
}

/// Reads what an import needs besides the bundle: the passphrase and the channel.
fn ready(call: &OperatorCall) -> Result<(String, Arc<ChannelRecord>), CallError> {
    let given = call.http.headers().get(PASSPHRASE).and_then(|given| given.to_str().ok());
    let required = || Violation::new(IssueCode::Required, "is required");
    let passphrase = given.ok_or_else(required).and_then(|given| passphrase(&Value::String(given.to_owned())));
    let passphrase = passphrase.map_err(|violation| violation.at(&["X-Passphrase"]))?;
    has_format(call)?;
    Ok((passphrase, find(call)?))
}

/// Requires format 3, since owners of the previous release do not know bundles.
fn has_format(call: &OperatorCall) -> Result<(), CallError> {
    if call.directory().format() >= Format::THIRD {
        return Ok(());
    }
    Err(CallError::bad_request("this needs format 3 of the cluster: run `gateway format raise` first"))
}

fn refused(error: BundleError) -> CallError {
    CallError::bad_request(error.to_string())
}

/// Splits a session into parts to store in order. The credentials come last: until then nothing can log in.
fn parts(mut rows: Vec<StateRow>, lids: Vec<LidPair>) -> Vec<(Vec<StateRow>, Vec<LidPair>)> {
    rows.sort_by_key(|row| row.name == CREDENTIALS);
    let mut parts: Vec<_> = lids.chunks(LIDS).map(|lids| (Vec::new(), lids.to_vec())).collect();
    let mut room = 0;
    for row in rows {
        let weight = row.weight();
        match parts.last_mut() {
            Some((last, _)) if weight <= room => {
                room -= weight;
                last.push(row);
            }
            _ => {
                room = PART.saturating_sub(weight);
                parts.push((vec![row], Vec::new()));
            }
        }
    }
    parts
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use model::time::Timestamp;

    use super::*;

    fn row(name: &str, bytes: usize) -> StateRow {
        StateRow { name: name.to_owned(), value: vec![7; bytes].into() }
    }

    #[test]
    fn a_session_is_stored_in_parts_of_a_bounded_size_and_its_credentials_last() {
        let pair =
            |number: usize| LidPair { lid: number.to_string(), phone: number.to_string(), first_seen_at: Timestamp(1) };
        let rows =
            vec![row("a", 10), row(CREDENTIALS, 1_000), row("m/1", PART), row("s/1", PART / 2), row("s/2", PART / 3)];
        let lids: Vec<LidPair> = (0..LIDS + 1).map(pair).collect();
        let parts = parts(rows.clone(), lids.clone());
        assert_eq!(parts.iter().flat_map(|(_, lids)| lids).cloned().collect::<Vec<_>>(), lids);
        let stored: Vec<&StateRow> = parts.iter().flat_map(|(rows, _)| rows).collect();
        assert_eq!(stored.last().unwrap().name, CREDENTIALS);
        assert_eq!(stored.len(), rows.len());
        for (rows, lids) in &parts {
            let weight: usize = rows.iter().map(StateRow::weight).sum();
            assert!(lids.len() <= LIDS && (weight <= PART || rows.len() == 1), "{weight}");
        }
        assert!(super::parts(Vec::new(), Vec::new()).is_empty());
    }

    #[test]
    fn a_passphrase_is_what_a_header_can_hold() {
        let long = "x".repeat(LONGEST_PASSPHRASE);
        let table = [
            ("correct horse battery staple", None),
            (long.as_str(), None),
            ("too short", Some(IssueCode::TooShort)),
            (" leading spaces", Some(IssueCode::Format)),
            ("größer als ASCII", Some(IssueCode::Format)),
            ("a line\nand another", Some(IssueCode::Format)),
        ];
        for (text, expected) in table {
            assert_eq!(passphrase(&json!(text)).err().map(|violation| violation.code), expected, "{text}");
        }
        assert_eq!(passphrase(&json!(format!("{long}x"))).unwrap_err().code, IssueCode::TooLong);
    }
}
