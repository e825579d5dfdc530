//! Requests of the largest permitted size, and larger ones.

use serde_json::{Value, json};

use super::client::{ApiRequest, Reading, made, nothing};
use super::hooks::SECRET;
use super::sends::taken;
use crate::history::Size;
use crate::history::record::Channel;

const TEXT: usize = 4_096;
const CLIENT_REF: usize = 128;
const NAME: usize = 120;
const ADDRESS: usize = 128;
const CARDS: usize = 20;
/// Limit of all cards of a send together, in bytes.
const CARDS_BYTES: usize = 128 << 10;
const METADATA: usize = 4 << 10;
const URL: usize = 2_048;
/// Limit of a send's JSON, in bytes.
const BODY: usize = 256 << 10;

/// Distance from the limit: names and numbers of cards, and the JSON around them, may or may not count towards it.
const SLACK: usize = 4 << 10;

/// One request to try.
pub struct Case {
    pub what: String,
    pub size: Size,
    pub request: ApiRequest,
    pub read: Reading,
    /// Whether it creates an endpoint, which is deleted again.
    pub is_endpoint: bool,
}

/// All cases for a channel, with a receiver's URL for endpoints.
pub fn cases(channel: &Channel, receiver: &str) -> Vec<Case> {
    let messages = format!("/v1/channels/{}/messages", channel.id);
    let itself = format!("/v1/channels/{}", channel.id);
    let to = channel.recipient.as_str();
    let mut cases = Vec::new();
    let mut add = |what: String, size, request, read: Reading| {
        let is_endpoint = what.contains("URL") || what.contains("secret");
        cases.push(Case { what, size, request, read, is_endpoint });
    };
    let text = |text: String| json!({ "type": "text", "to": to, "text": text });
    for (more, size) in [(0, Size::Within), (1, Size::Beyond)] {
        let send = |body: Value| ApiRequest::post(&*messages, body);
        let length = TEXT + more;
        // The limit counts characters, not bytes.
        add(format!("a text of {length} characters"), size, send(text("ä".repeat(length))), taken);
        let length = CLIENT_REF + more;
        let body = json!({ "type": "text", "to": to, "text": "referred to", "client_ref": "r".repeat(length) });
        add(format!("a client_ref of {length} characters"), size, send(body), taken);
        let length = NAME + more;
        let request = ApiRequest::patch(&*itself, json!({ "name": "n".repeat(length) }));
        add(format!("a channel's name of {length} characters"), size, request, nothing);
        let count = CARDS + more;
        add(format!("{count} contact cards"), size, send(cards(to, count, 1 << 10)), taken);
        let length = METADATA + more;
        add(format!("metadata of {length} bytes"), size, ApiRequest::patch(&*itself, metadata(length)), nothing);
        let endpoint = |url: String, secret: String| {
            let body = json!({ "url": url, "events": ["order.cancelled"], "signing_secret": secret, "enabled": false });
            ApiRequest::post("/v1/webhook-endpoints", body)
        };
        let length = URL + more;
        let url = format!("{receiver}/Good/{}", "u".repeat(length - receiver.len() - "/Good/".len()));
        add(format!("a webhook's URL of {length} characters"), size, endpoint(url, SECRET.to_owned()), made);
        let (url, length) = (format!("{receiver}/Good/secret"), 255 + more);
        add(format!("a signing secret of {length} characters"), size, endpoint(url, "s".repeat(length)), made);
        let length = BODY + more;
        let mut padded = text("padded".to_owned()).to_string();
        padded.push_str(&" ".repeat(length - padded.len()));
        add(format!("a send whose JSON has {length} bytes"), size, ApiRequest::as_written(&*messages, padded), taken);
    }
    for (bytes, size) in [(CARDS_BYTES - SLACK, Size::Within), (CARDS_BYTES + SLACK, Size::Beyond)] {
        let body = cards(to, CARDS, bytes / CARDS);
        add(format!("contact cards of {bytes} bytes together"), size, ApiRequest::post(&*messages, body), taken);
    }
    // There is no case within the limit: such an address is no phone number, and refused for that.
    for length in [ADDRESS + 1, 1 << 20] {
        let group = "@g.example";
        let to = format!("{}{group}", "1".repeat(length - group.len()));
        let body = json!({ "type": "text", "to": to, "text": "to nobody" });
        add(format!("an address of {length} bytes"), Size::Beyond, ApiRequest::post(&*messages, body), taken);
    }
    cases
}

/// A send of the largest permitted size.
pub fn largest(channel: &Channel) -> ApiRequest {
    let body = cards(&channel.recipient, CARDS, (CARDS_BYTES - SLACK) / CARDS);
    ApiRequest::post(format!("/v1/channels/{}/messages", channel.id), body)
}

/// A send of `count` cards of `bytes` bytes each.
pub fn cards(to: &str, count: usize, bytes: usize) -> Value {
    let card = |n: usize| {
        let (name, head, tail) = (format!("Card {n}"), "BEGIN:VCARD\nVERSION:3.0\n", "END:VCARD");
        let told = format!("{head}FN:{name}\nTEL;TYPE=CELL:+15550001234\nNOTE:");
        let note = "x".repeat(bytes.saturating_sub(told.len() + 1 + tail.len()));
        json!({ "name": name, "vcard": format!("{told}{note}\n{tail}") })
    };
    json!({ "type": "contact", "to": to, "contacts": (0..count).map(card).collect::<Vec<_>>() })
}

/// Metadata whose JSON has `bytes` bytes.
fn metadata(bytes: usize) -> Value {
    let around = json!({ "note": "" }).to_string().len();
    json!({ "metadata": { "note": "m".repeat(bytes - around) } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn channel() -> Channel {
        let text = str::to_owned;
        Channel { id: text("c"), tenant: text("loud"), number: text("491"), recipient: text("492") }
    }

    #[test]
    fn each_limit_is_tried_at_its_size_and_one_beyond() {
        let cases = cases(&channel(), "http://10.213.0.254:9000");
        let count = |size| cases.iter().filter(|case| case.size == size).count();
        assert_eq!((count(Size::Within), count(Size::Beyond)), (9, 11));
        let body = |what: &str| {
            let case = cases.iter().find(|case| case.what == what).unwrap_or_else(|| panic!("{what}"));
            case.request.body().to_owned()
        };
        assert_eq!(body("a send whose JSON has 262144 bytes").len(), BODY);
        let url: Value = serde_json::from_str(&body("a webhook's URL of 2049 characters")).expect("JSON");
        assert_eq!(url["url"].as_str().map(str::len), Some(URL + 1));
        let metadata: Value = serde_json::from_str(&body("metadata of 4096 bytes")).expect("JSON");
        assert_eq!(metadata["metadata"].to_string().len(), METADATA);
        let to: Value = serde_json::from_str(&body("an address of 129 bytes")).expect("JSON");
        assert_eq!(to["to"].as_str().map(str::len), Some(129));
    }

    #[test]
    fn the_largest_send_is_within_its_limit_and_close_to_it() {
        let bytes = largest(&channel()).body().len();
        assert!((120 << 10..=CARDS_BYTES).contains(&bytes), "{bytes}");
    }
}
