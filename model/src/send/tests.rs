#![allow(clippy::unwrap_used, reason = "a test")]

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::error::ErrorCode;
use crate::media::Media;
use crate::message::ContactCard;

fn parse(body: Value) -> Result<SendRequest, CallError> {
    SendRequest::parse(&Body::try_from(body).unwrap(), &Suffixes::simulated())
}

/// A body of every type with all its fields, without `to`.
fn good(kind: &str) -> Value {
    let key = json!({ "id": "3EB0A1", "from_me": true, "remote_jid": "15551234567@s.example" });
    let media = |mut more: Value| {
        more["media_url"] = json!("https://example.com/file");
        more["mime_type"] = json!("image/png");
        more
    };
    let mut body = match kind {
        "text" => json!({ "text": "see https://example.com/a", "link_preview": true }),
        "image" => media(json!({ "caption": "c", "view_once": true })),
        "video" => media(json!({ "caption": "c", "view_once": false, "gif": true, "ptv": true })),
        "audio" => media(json!({ "ptt": true, "view_once": true })),
        "voice" => media(json!({ "convert": true })),
        "document" => media(json!({ "filename": "a.pdf", "caption": "c" })),
        "sticker" => json!({ "media_url": "https://example.com/file" }),
        "reaction" => json!({ "message_key": key, "emoji": "👍" }),
        "edit" => json!({ "message_key": key, "text": "better" }),
        "pin" => json!({ "message_key": key, "duration": 86400 }),
        "delete" | "unpin" | "star" | "unstar" | "forward" => json!({ "message_key": key }),
        "location" => json!({ "latitude": -90, "longitude": 179.5, "name": "n", "address": "a" }),
        "contact" => json!({ "contacts": [{ "name": "Ann", "phones": ["15551234567"] }] }),
        "poll" => json!({ "name": "Which?", "options": ["a", "b", "c"], "selectable_count": 2 }),
        "product" => json!({ "product_id": "p1" }),
        "catalog" => json!({}),
        other => panic!("no body for {other}"),
    };
    body["type"] = json!(kind);
    body
}

fn with(mut body: Value, field: &str, value: Value) -> Value {
    body[field] = value;
    body
}

fn without(mut body: Value, field: &str) -> Value {
    body.as_object_mut().unwrap().remove(field);
    body
}

fn to(body: Value) -> Value {
    with(body, "to", json!("15551234567"))
}

/// The nested shape of a flat body.
fn nested(mut body: Value) -> Value {
    let to = body.as_object_mut().unwrap().remove("to");
    let mut outer = json!({ "body": body });
    if let Some(to) = to {
        outer["to"] = to;
    }
    outer
}

fn issues(body: Value) -> Vec<String> {
    let error = parse(body.clone()).expect_err(&body.to_string());
    assert_eq!(error.code, ErrorCode::InvalidRequest, "{body}");
    let line = |issue: &Value| format!("{} {}", issue["path"], issue["code"].as_str().unwrap()).replace('"', "");
    error.details.unwrap().as_array().unwrap().iter().map(line).collect()
}

fn content(body: Value) -> Content {
    parse(body).unwrap().content.ready().unwrap().clone()
}

fn media(body: Value) -> MediaSend {
    let SendContent::Media(media) = parse(body).unwrap().content else { panic!("no media") };
    media
}

#[test]
fn both_shapes_mean_the_same() {
    let text = json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": "order-17" });
    let expected = parse(text).unwrap();
    assert_eq!(expected.to.as_str(), "15551234567@s.example");
    assert_eq!(expected.content, SendContent::Ready(Content::Text { text: "hi".into() }));
    assert_eq!(expected.client_ref.as_deref(), Some("order-17"));
    for body in [
        json!({ "type": "text", "to": "15551234567@s.example", "text": "hi", "client_ref": "order-17" }),
        json!({ "to": "15551234567", "client_ref": "order-17", "body": { "type": "text", "text": "hi" } }),
        json!({ "to": "15551234567", "body": { "type": "text", "text": "hi", "client_ref": "order-17" } }),
        json!({ "type": "text", "to": "15551234567", "text": "hi", "client_ref": "order-17", "body": "ignored" }),
    ] {
        assert_eq!(parse(body.clone()).unwrap(), expected, "{body}");
    }
    for kind in SEND_TYPES {
        let flat = to(good(kind));
        assert_eq!(parse(flat.clone()).unwrap(), parse(nested(flat)).unwrap(), "{kind}");
    }
}

#[test]
fn a_type_about_a_message_goes_to_the_chat_of_that_message() {
    for kind in ["reaction", "edit", "delete", "pin", "unpin", "star", "unstar"] {
        for given in [good(kind), with(good(kind), "to", json!("19998887777")), with(good(kind), "to", json!(5))] {
            let send = parse(given).unwrap();
            assert_eq!(send.to.as_str(), "15551234567@s.example", "{kind}");
            assert_eq!(send.content.ready().unwrap().type_name(), kind);
        }
    }
    let group = json!({ "id": "3EB0A1", "from_me": false, "remote_jid": "12036@g.example" });
    let delete = parse(with(good("delete"), "message_key", group)).unwrap();
    assert!(matches!(delete.content, SendContent::Ready(Content::Delete { by_admin: true, .. })));
    assert_eq!(delete.to.as_str(), "12036@g.example");
    assert!(matches!(content(good("delete")), Content::Delete { by_admin: false, .. }));
    let removed = content(with(good("reaction"), "emoji", json!("")));
    assert!(matches!(removed, Content::Reaction { emoji, .. } if emoji.is_empty()));
    let week = content(without(good("pin"), "duration"));
    assert!(matches!(week, Content::Pin { duration_seconds: 604_800, .. }));
}

#[test]
fn every_rule_of_the_shape_has_its_issue() {
    let text = || to(good("text"));
    let table = [
        (json!({}), vec!["[type] required"]),
        (json!({ "type": 5 }), vec!["[type] type"]),
        (json!({ "type": null }), vec!["[type] type"]),
        (json!({ "type": "telegram", "to": "15551234567" }), vec!["[type] enum"]),
        (json!({ "type": "text" }), vec!["[text] required", "[to] required"]),
        (with(text(), "to", json!(15551234567_u64)), vec!["[to] type"]),
        (with(text(), "to", json!("12")), vec!["[to] too_short"]),
        (with(text(), "to", json!("+15551234567")), vec!["[to] format"]),
        (with(text(), "to", json!("anna")), vec!["[to] format"]),
        (with(text(), "to", json!("@s.example")), vec!["[to] format"]),
        (with(text(), "client_ref", json!("x".repeat(129))), vec!["[client_ref] too_long"]),
        (with(text(), "client_ref", json!(17)), vec!["[client_ref] type"]),
        (with(text(), "body", good("text")), vec!["[type] conflict"]),
        (json!({ "to": "15551234567", "body": { "type": "telegram" } }), vec!["[body,type] enum"]),
        (json!({ "to": "15551234567", "body": { "text": "hi" } }), vec!["[type] required"]),
        (json!({ "to": "15551234567", "body": { "type": "text" } }), vec!["[body,text] required"]),
        (json!({ "body": { "type": "text", "text": "hi", "to": "15551234567" } }), vec!["[to] required"]),
        (
            json!({ "to": "15551234567", "client_ref": "a", "body": { "type": "text", "text": "hi", "client_ref": "a" } }),
            vec!["[body,client_ref] conflict"],
        ),
        (
            json!({ "to": "x", "client_ref": 1, "body": { "type": "text", "text": "" } }),
            vec!["[client_ref] type", "[body,text] too_short", "[to] too_short"],
        ),
    ];
    for (body, expected) in table {
        assert_eq!(issues(body.clone()), expected, "{body}");
    }
}

#[test]
fn every_rule_of_a_type_has_its_issue() {
    let key = |field: &str, value: Value| {
        let mut key = good("star")["message_key"].clone();
        key[field] = value;
        key
    };
    let table = [
        ("text", "text", json!(""), "[text] too_short"),
        ("text", "text", json!("x".repeat(4097)), "[text] too_long"),
        ("text", "text", json!(5), "[text] type"),
        ("image", "media_url", json!(null), "[media_url] type"),
        ("image", "media_url", json!("example.com/a.png"), "[media_url] format"),
        ("image", "media_url", json!("ftp://example.com/a.png"), "[media_url] url_scheme"),
        ("image", "media_url", json!(format!("https://example.com/{}", "x".repeat(2048))), "[media_url] too_long"),
        ("image", "mime_type", json!(""), "[mime_type] too_short"),
        ("image", "mime_type", json!("x".repeat(256)), "[mime_type] too_long"),
        ("image", "caption", json!("x".repeat(1025)), "[caption] too_long"),
        ("image", "view_once", json!("yes"), "[view_once] type"),
        ("video", "caption", json!("x".repeat(1025)), "[caption] too_long"),
        ("video", "gif", json!(1), "[gif] type"),
        ("video", "ptv", json!(1), "[ptv] type"),
        ("audio", "ptt", json!(1), "[ptt] type"),
        ("audio", "view_once", json!(0), "[view_once] type"),
        ("voice", "convert", json!("true"), "[convert] type"),
        ("document", "filename", json!(""), "[filename] too_short"),
        ("document", "filename", json!("x".repeat(256)), "[filename] too_long"),
        ("document", "caption", json!(1), "[caption] type"),
        ("sticker", "mime_type", json!(""), "[mime_type] too_short"),
        ("reaction", "message_key", json!("3EB0"), "[message_key] type"),
        ("reaction", "message_key", key("id", json!("")), "[message_key,id] too_short"),
        ("reaction", "message_key", key("from_me", json!("yes")), "[message_key,from_me] type"),
        ("reaction", "message_key", key("remote_jid", json!("x")), "[message_key,remote_jid] too_short"),
        ("reaction", "message_key", key("remote_jid", json!("anna")), "[message_key,remote_jid] format"),
        ("reaction", "emoji", json!("👍".repeat(9)), "[emoji] too_long"),
        ("reaction", "emoji", json!(null), "[emoji] type"),
        ("edit", "text", json!(""), "[text] too_short"),
        ("edit", "text", json!("x".repeat(4097)), "[text] too_long"),
        ("edit", "message_key", key("from_me", json!(false)), "[message_key,from_me] conflict"),
        ("delete", "message_key", key("from_me", json!(false)), "[message_key,from_me] conflict"),
        ("pin", "duration", json!(3600), "[duration] enum"),
        ("pin", "duration", json!("day"), "[duration] type"),
        ("location", "latitude", json!(90.5), "[latitude] too_big"),
        ("location", "latitude", json!(-91), "[latitude] too_small"),
        ("location", "longitude", json!("0"), "[longitude] type"),
        ("location", "longitude", json!(180.1), "[longitude] too_big"),
        ("location", "name", json!("x".repeat(101)), "[name] too_long"),
        ("location", "address", json!("x".repeat(201)), "[address] too_long"),
        ("contact", "contacts", json!([]), "[contacts] empty"),
        ("contact", "contacts", json!(["Ann"]), "[contacts,0] type"),
        ("contact", "contacts", json!(vec![json!({ "name": "A", "phones": ["123"] }); 21]), "[contacts] too_many"),
        ("contact", "contacts", json!([{ "phones": ["15551234567"] }]), "[contacts,0,name] required"),
        ("contact", "contacts", json!([{ "name": "Ann" }]), "[contacts,0,phones] required"),
        ("contact", "contacts", json!([{ "name": "Ann", "phones": [] }]), "[contacts,0,phones] empty"),
        ("contact", "contacts", json!([{ "name": "Ann", "phones": ["+1555"] }]), "[contacts,0,phones,0] format"),
        ("contact", "contacts", json!([{ "name": "Ann", "vcard": "Ann" }]), "[contacts,0,vcard] format"),
        ("poll", "name", json!("x".repeat(256)), "[name] too_long"),
        ("poll", "options", json!([]), "[options] empty"),
        ("poll", "options", json!(["a"]), "[options] too_short"),
        ("poll", "options", json!(["a", "b", "a"]), "[options] conflict"),
        ("poll", "options", json!(["a", "x".repeat(101), "c"]), "[options,1] too_long"),
        ("poll", "selectable_count", json!(0), "[selectable_count] too_small"),
        ("poll", "selectable_count", json!(13), "[selectable_count] too_big"),
        ("poll", "selectable_count", json!(4), "[selectable_count] too_big"),
        ("product", "product_id", json!(""), "[product_id] too_short"),
        ("text", "quoted", json!({}), ""),
        ("text", "quoted", json!("3EB0"), "[quoted] type"),
        ("catalog", "quoted", key("id", json!(5)), "[quoted,id] type"),
        ("text", "mentions", json!(["15551234567"]), "[mentions] conflict"),
        ("text", "mentions", json!([]), "[mentions] empty"),
        ("image", "mentions", json!(["x"]), "[mentions,0] too_short"),
        ("text", "link_preview", json!("yes"), "[link_preview] type"),
        ("text", "link_preview", json!({ "title": "x".repeat(256) }), "[link_preview,title] too_long"),
        ("text", "link_preview", json!({ "image_url": "nowhere" }), "[link_preview,image_url] format"),
        ("poll", "ephemeral_expiration", json!(-1), "[ephemeral_expiration] too_small"),
        ("text", "ephemeral_expiration", json!("1d"), "[ephemeral_expiration] type"),
    ];
    for (kind, field, value, expected) in table {
        let expected = match expected {
            "" => vec!["[quoted,id] required", "[quoted,from_me] required", "[quoted,remote_jid] required"],
            one => vec![one],
        };
        let flat = with(to(good(kind)), field, value.clone());
        assert_eq!(issues(flat.clone()), expected, "{kind} {field} {value}");
        let inside: Vec<_> = expected.iter().map(|issue| issue.replacen('[', "[body,", 1)).collect();
        assert_eq!(issues(nested(flat)), inside, "nested {kind} {field} {value}");
    }
}

#[test]
fn what_a_type_requires_is_missed() {
    let table = [
        ("text", vec!["text"]),
        ("image", vec!["media_url", "mime_type"]),
        ("video", vec!["media_url", "mime_type"]),
        ("audio", vec!["media_url", "mime_type"]),
        ("voice", vec!["media_url", "mime_type"]),
        ("document", vec!["media_url", "mime_type"]),
        ("sticker", vec!["media_url"]),
        ("reaction", vec!["message_key", "emoji"]),
        ("edit", vec!["message_key", "text"]),
        ("delete", vec!["message_key"]),
        ("forward", vec!["message_key"]),
        ("pin", vec!["message_key"]),
        ("unpin", vec!["message_key"]),
        ("star", vec!["message_key"]),
        ("unstar", vec!["message_key"]),
        ("location", vec!["latitude", "longitude"]),
        ("contact", vec!["contacts"]),
        ("poll", vec!["name", "options"]),
        ("product", vec!["product_id"]),
        ("catalog", vec![]),
    ];
    assert_eq!(table.len(), SEND_TYPES.len());
    for (kind, fields) in table {
        let aimed = target::reader(kind).is_some();
        let mut expected: Vec<_> = fields.iter().map(|field| format!("[{field}] required")).collect();
        if !aimed {
            expected.push("[to] required".into());
        }
        assert_eq!(issues(json!({ "type": kind })), expected, "{kind}");
    }
}

#[test]
fn media_keeps_what_was_asked_for_until_its_bytes_are_there() {
    let image = media(to(good("image")));
    assert_eq!(image.url, "https://example.com/file");
    assert!(image.said.media().unwrap().view_once);
    let jpeg = || Media::of_type("image/jpeg");
    match image.content(jpeg(), false) {
        Content::Image { media, caption } => {
            assert_eq!((media.mime_type.as_str(), media.view_once), ("image/jpeg", true));
            assert_eq!(caption.as_deref(), Some("c"));
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(media(to(good("video"))).content(jpeg(), false), Content::Video { gif: true, note: true, .. }));
    for (body, voice) in [
        (good("audio"), true),
        (without(good("audio"), "ptt"), false),
        (good("voice"), true),
        (with(good("audio"), "caption", json!(["no caption on audio"])), true),
    ] {
        assert_eq!(media(to(body)).content(jpeg(), false).media().unwrap().voice, voice);
    }
    assert!(media(to(good("voice"))).convert && !media(to(good("audio"))).convert);
    let document = media(to(good("document"))).content(jpeg(), false);
    assert_eq!(document.media().unwrap().filename.as_deref(), Some("a.pdf"));
    let sticker = media(to(good("sticker")));
    assert_eq!(sticker.said.media().unwrap().mime_type, "image/webp");
    assert!(matches!(sticker.content(jpeg(), true), Content::Sticker { animated: true, .. }));
}

#[test]
fn nothing_sent_to_a_newsletter_is_to_be_seen_once() {
    let to_newsletter = |body| with(body, "to", json!("120363@n.example"));
    assert_eq!(issues(to_newsletter(good("image"))), ["[view_once] conflict"]);
    assert_eq!(issues(nested(to_newsletter(good("audio")))), ["[body,view_once] conflict"]);
    assert!(parse(to_newsletter(good("video"))).is_ok());
}

#[test]
fn cards_are_made_of_numbers_and_read_from_vcards() {
    let cards = |contacts: Value| match content(to(json!({ "type": "contact", "contacts": contacts }))) {
        Content::Contact { contacts } => contacts,
        other => panic!("{other:?}"),
    };
    let made = cards(json!([{ "name": "Ann; Müller", "phones": ["15551234567", "4930123456"] }]));
    let vcard = "BEGIN:VCARD\nVERSION:3.0\nN:;Ann\\; Müller;;;\nFN:Ann\\; Müller\n\
                 TEL;type=CELL;waid=15551234567:+15551234567\nTEL;type=CELL;waid=4930123456:+4930123456\nEND:VCARD";
    let phones = vec!["15551234567".to_owned(), "4930123456".to_owned()];
    assert_eq!(made, [ContactCard { name: "Ann; Müller".into(), vcard: vcard.into(), phones }]);

    let given = "BEGIN:VCARD\r\nVERSION:3.0\r\nFN:Ben\r\nitem1.TEL;type=HOME:+1 (555) 123-4567\r\nEND:VCARD\r\n";
    let read = cards(json!([{ "name": "Ben", "vcard": given }]));
    assert_eq!(read, [ContactCard { name: "Ben".into(), vcard: given.into(), phones: vec!["15551234567".into()] }]);
}

#[test]
fn what_stands_around_a_send_is_read() {
    let group = |more: Value| {
        let mut body = json!({ "type": "text", "to": "12036@g.example", "text": "hi https://example.com/a." });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        parse(body).unwrap().around
    };
    assert_eq!(group(json!({})), SendAround::default());
    let mentions = group(json!({ "mentions": ["15551234567", "25@lid"] })).mentions;
    assert_eq!(mentions.iter().map(Address::as_str).collect::<Vec<_>>(), ["15551234567@s.example", "25@lid"]);
    assert!(group(json!({ "mentions": ["all"] })).mentions_all);
    let quoted = json!({ "id": "3EB0", "from_me": false, "remote_jid": "12036@g.example" });
    assert_eq!(group(json!({ "quoted": quoted })).quoted.unwrap().id.as_str(), "3EB0");
    let previews = [
        (json!(false), None),
        (json!(true), Some((None, None))),
        (json!({ "title": "T", "description": "D" }), Some((Some("T"), Some("D")))),
    ];
    for (asked, expected) in previews {
        let preview = match group(json!({ "link_preview": asked })).preview {
            PreviewMode::Shown(preview) => Some(preview),
            PreviewMode::Off => None,
            PreviewMode::Usual => panic!("{asked} is an answer"),
        };
        let url = preview.as_ref().map(|preview| preview.url.as_str());
        assert_eq!(url, expected.map(|_| "https://example.com/a"));
        let given = preview.as_ref().map(|preview| (preview.title.as_deref(), preview.description.as_deref()));
        assert_eq!(given, expected);
    }
    let seconds = |value: u32| group(json!({ "ephemeral_expiration": value })).ephemeral_expiration;
    assert_eq!((seconds(86_400), seconds(0)), (Some(86_400), None));

    let mixed = json!({ "type": "text", "to": "12036@g.example", "text": "x", "mentions": ["all", "15551234567"] });
    assert_eq!(issues(mixed), ["[mentions] conflict"]);
    let nowhere = json!({ "type": "text", "to": "15551234567", "text": "no link", "link_preview": { "title": "T" } });
    assert_eq!(issues(nowhere), ["[link_preview] conflict"]);
}

#[test]
fn lengths_count_scalar_values() {
    let send = |text: String| parse(json!({ "type": "text", "to": "15551234567", "text": text }));
    assert!(send("😀".repeat(4096)).is_ok());
    assert!(send("😀".repeat(4097)).is_err());
    let react = |emoji: &str| parse(with(good("reaction"), "emoji", json!(emoji)));
    // The family emoji consists of seven scalar values.
    assert!(react("👨‍👩‍👧‍👦").is_ok());
    assert!(react("👨‍👩‍👧‍👦👍👍").is_err());
}

/// A body of a known type, flat or nested, with fields replaced by arbitrary values.
fn any_body() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i32>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "(text|image|all|15551234567|12036@g.example|https://example.com/a|\\PC{0,6})".prop_map(Value::from),
    ];
    let anything = leaf.prop_recursive(3, 24, 6, |inner| {
        let key = "(type|to|text|body|client_ref|id|from_me|remote_jid|name|phones|title)";
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let field = "(type|to|text|body|client_ref|message_key|emoji|media_url|mime_type|caption|filename|view_once|duration\
                 |latitude|longitude|contacts|options|name|selectable_count|quoted|mentions|link_preview\
                 |ephemeral_expiration)";
    let changes = prop::collection::vec((field, anything), 0..3);
    (prop::sample::select(SEND_TYPES), changes, any::<bool>()).prop_map(|(kind, changes, nest)| {
        let mut body = to(good(kind));
        changes.into_iter().for_each(|(field, value)| body[field] = value);
        if nest { nested(body) } else { body }
    })
}

/// Whether a parsed send satisfies all rules that can be checked on it.
fn keeps_the_rules(send: &SendRequest) -> bool {
    let count = |text: &str| text.chars().count();
    let caption_fits = |caption: Option<&str>| caption.is_none_or(|text| count(text) <= LONGEST_CAPTION);
    let content = match &send.content {
        SendContent::Ready(content) => match content {
            Content::Text { text } => (1..=LONGEST_TEXT).contains(&count(text)),
            Content::Edit { target, text } => target.from_me && (1..=LONGEST_TEXT).contains(&count(text)),
            Content::Reaction { emoji, .. } => count(emoji) <= LONGEST_EMOJI,
            Content::Delete { target, by_admin } => target.from_me != *by_admin,
            Content::Location { latitude, longitude, live, .. } => {
                latitude.abs() <= 90.0 && longitude.abs() <= 180.0 && !live
            }
            Content::Contact { contacts } => {
                (1..=20).contains(&contacts.len()) && contacts.iter().all(|card| card.vcard.contains("BEGIN:VCARD"))
            }
            Content::Poll { options, selectable_count, .. } => {
                (2..=12).contains(&options.len()) && (1..=options.len()).contains(&usize::from(*selectable_count))
            }
            Content::Pin { duration_seconds, .. } => [86_400, 604_800, 2_592_000].contains(duration_seconds),
            Content::Unpin { .. }
            | Content::Star { .. }
            | Content::Unstar { .. }
            | Content::Product { .. }
            | Content::Catalog => true,
            received => panic!("{} cannot be sent", received.type_name()),
        },
        SendContent::Media(media) => {
            let said = media.said.media().unwrap();
            caption_fits(media.said.text())
                && media.url.starts_with("http")
                && (1..=255).contains(&count(&said.mime_type))
        }
        SendContent::Forward(key) => !key.id.as_str().is_empty(),
    };
    let group = send.to.kind(&Suffixes::simulated()) == AddressKind::Group;
    let mentioned = !send.around.mentions.is_empty() || send.around.mentions_all;
    let label = send.client_ref.as_ref().is_none_or(|label| count(label) <= LONGEST_CLIENT_REF);
    content && label && (group || !mentioned)
}

proptest! {
    /// Any body yields either a list of issues or a send that satisfies the rules.
    #[test]
    fn any_body_is_refused_or_well_formed(body in any_body()) {
        let Value::Object(map) = body else { return Ok(()) };
        match SendRequest::parse(&Body::try_from(Value::Object(map.clone())).unwrap(), &Suffixes::simulated()) {
            Ok(send) => prop_assert!(keeps_the_rules(&send), "{send:?}"),
            Err(error) => {
                prop_assert_eq!(error.code, ErrorCode::InvalidRequest);
                prop_assert!(!error.details.unwrap().as_array().unwrap().is_empty());
            }
        }
    }
}
