//! Pairing a channel with a phone, by QR code or by a code to type.

use model::error::CallError;
use model::field::{Body, rule};
use model::issue::{IssueCode, Violation};
use model::time::Timestamp;
use salvo::http::header::ACCEPT;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use shard::call::PairingCode;
use shard::call::request::{PairCode, ShowQr};
use shard::picture;

use crate::failure;
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::ChannelCall;

model::words! {
    Format {
        Json = "json",
        Png = "png",
        Raw = "raw",
    }
}

/// A QR code for pairing, as an image and as its content.
#[derive(Serialize, JsonSchema)]
pub struct Qr {
    /// The QR code: a PNG image as a data URL.
    qr: String,
    raw: String,
    expires_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
pub struct RawQr {
    raw: String,
    expires_at: Timestamp,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "PairCode")]
pub struct PairCodeView {
    /// The code to enter on the phone.
    code: String,
    phone_number: String,
    expires_at: Timestamp,
}

pub async fn qr(call: &mut ChannelCall) -> Outcome {
    let (format, size) = call.asked(asked)?;
    let format = format.unwrap_or_else(|| if prefers_png(call) { Format::Png } else { Format::Json });

    let code = call.ask(ShowQr).await?;
    let draw =
        |raw: &str| picture::png(raw, size).map_err(|error| failure::internal("a QR text could not be drawn", &error));
    let reply = match format {
        Format::Raw => Reply::ok(&RawQr { raw: code.raw, expires_at: code.expires_at }),
        Format::Png => Reply::content("image/png", draw(&code.raw)?),
        Format::Json => {
            let qr = picture::data_url(&draw(&code.raw)?);
            Reply::ok(&Qr { qr, raw: code.raw, expires_at: code.expires_at })
        }
    };
    Ok(reply.uncached())
}

/// Reads the format, if the query names one, and the size of a picture.
pub fn asked(query: &Query<'_>) -> (Option<Format>, usize) {
    let format = query.word("format", Format::WORDS, Format::parse);
    let (least, most) = picture::SIZES.into_inner();
    (format, query.number("size", least, most).unwrap_or(picture::DEFAULT_SIZE))
}

/// Whether the `Accept` header asks for a picture, which decides the format without `format`.
fn prefers_png(call: &ChannelCall) -> bool {
    let accept = call.http.headers().get(ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.trim_start().starts_with("image/png"))
}

pub async fn pair_code(call: &mut ChannelCall) -> Outcome {
    let (phone_number, display_name) = parse_pair_code(&call.object().await?)?;
    let request = PairCode { phone_number: phone_number.clone(), display_name };
    let PairingCode { code, expires_at } = call.ask(request).await?;
    Ok(Reply::ok(&PairCodeView { code, phone_number, expires_at }).uncached())
}

/// Reads `{ "phone_number", "display_name"? }`.
pub fn parse_pair_code(body: &Body) -> Result<(String, Option<String>), CallError> {
    body.read(|fields| {
        let phone_number = fields.required("phone_number", phone_rule);
        let display_name = fields.optional("display_name", rule::text(1..=64));
        Some((phone_number?, display_name))
    })
}

/// Validates a phone number: 7 to 15 digits, no `+`.
fn phone_rule(value: &Value) -> Result<String, Violation> {
    let text = rule::string(value, || json!({ "maxLength": 15, "pattern": "^[0-9]{7,15}$" }))?;
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Violation::new(IssueCode::Format, "must be the digits of an international number, without +"));
    }
    match text.len() {
        ..7 => Err(Violation::new(IssueCode::TooShort, "at least 7 digits")),
        16.. => Err(Violation::new(IssueCode::TooLong, "at most 15 digits")),
        _ => Ok(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phone_number_is_7_to_15_digits() {
        let code = |value: Value| phone_rule(&value).err().map(|violation| violation.code);
        assert_eq!(code(json!("15551234567")), None);
        assert_eq!(code(json!("123456")), Some(IssueCode::TooShort));
        assert_eq!(code(json!("1234567890123456")), Some(IssueCode::TooLong));
        assert_eq!(code(json!("+15551234567")), Some(IssueCode::Format));
        assert_eq!(code(json!("")), Some(IssueCode::Format));
        assert_eq!(code(json!(15551234567_u64)), Some(IssueCode::Type));
    }
}
