//! Content without media: text, location, contact, poll, product.

use serde_json::{Value, json};

use super::LONGEST_TEXT;
use crate::address::MAX_DIGITS;
use crate::field::{Fields, Judged, rule};
use crate::issue::{IssueCode, Violation};
use crate::message::{ContactCard, Content};

/// Maximum number of contact cards in a message.
pub const MOST_CONTACTS: usize = 20;

/// Maximum number of phone numbers per card.
const MOST_PHONES: usize = 20;

/// Longest name on a card, in Unicode scalar values, and longest vCard, which may contain a small picture.
const LONGEST_NAME: usize = 255;
const LONGEST_VCARD: usize = 64 * 1024;

/// Maximum size of all cards of a message, in bytes.
pub const MOST_CONTACT_BYTES: usize = 128 * 1024;

/// Minimum and maximum number of options in a poll.
const FEWEST_OPTIONS: usize = 2;
const MOST_OPTIONS: usize = 12;

/// Reads a type that has `to` and no media.
pub fn read(kind: &str, fields: &Fields<'_>) -> Option<Content> {
    match kind {
        "text" => Some(Content::Text { text: fields.required("text", rule::text(1..=LONGEST_TEXT))? }),
        "location" => read_location(fields),
        "contact" => Some(Content::Contact { contacts: read_contacts(fields)? }),
        "poll" => read_poll(fields),
        "product" => Some(Content::Product { product_id: fields.required("product_id", rule::text(1..=255))? }),
        "catalog" => Some(Content::Catalog),
        _ => None,
    }
}

fn read_location(fields: &Fields<'_>) -> Option<Content> {
    let latitude = fields.required("latitude", rule::number(-90.0..=90.0));
    let longitude = fields.required("longitude", rule::number(-180.0..=180.0));
    let name = fields.optional("name", rule::text(0..=100));
    let address = fields.optional("address", rule::text(0..=200));
    Some(Content::Location { latitude: latitude?, longitude: longitude?, name, address, live: false })
}

fn read_poll(fields: &Fields<'_>) -> Option<Content> {
    let name = fields.required("name", rule::text(1..=255));
    let options = fields.required_list("options", MOST_OPTIONS, rule::text(1..=100));
    fields.tell("options", || {
        json!({
            "type": "array",
            "items": rule::wants(rule::text(1..=100)),
            "minItems": FEWEST_OPTIONS,
            "maxItems": MOST_OPTIONS,
            "uniqueItems": true,
        })
    });
    let selectable = if fields.has("selectable_count") {
        fields.optional("selectable_count", rule::integer(1..=MOST_OPTIONS as u64))
    } else {
        Some(1)
    };
    fields.between(|| {
        let at_least = |count: usize| {
            json!({
                "properties": { "selectable_count": { "maximum": count }, "options": { "minItems": count } },
            })
        };
        let enough: Vec<Value> = (FEWEST_OPTIONS..=MOST_OPTIONS).map(at_least).collect();
        json!({ "dependentSchemas": { "selectable_count": { "anyOf": enough } } })
    });
    if let Some(options) = &options {
        if options.len() < FEWEST_OPTIONS {
            fields.refuse("options", Violation::new(IssueCode::TooShort, format!("at least {FEWEST_OPTIONS} items")));
            return None;
        }
        // A vote refers to options by their text.
        if options.iter().enumerate().any(|(at, option)| options[..at].contains(option)) {
            fields.refuse("options", Violation::new(IssueCode::Conflict, "each option must differ from the others"));
        }
        if selectable.is_some_and(|selectable| selectable > options.len() as u64) {
            fields
                .refuse("selectable_count", Violation::new(IssueCode::TooBig, "at most as many as there are options"));
        }
    }
    let selectable_count = u8::try_from(selectable?).ok()?;
    Some(Content::Poll { name: name?, options: options?, selectable_count })
}

fn read_contacts(fields: &Fields<'_>) -> Option<Vec<ContactCard>> {
    let cards = fields.required_objects("contacts", MOST_CONTACTS)?;
    // All cards are read before the list is rejected, so that all issues are reported.
    let cards: Vec<Option<ContactCard>> = cards.iter().map(read_card).collect();
    let cards: Vec<ContactCard> = cards.into_iter().collect::<Option<_>>()?;
    if cards.iter().map(ContactCard::bytes).sum::<usize>() > MOST_CONTACT_BYTES {
        let together = format!("at most {MOST_CONTACT_BYTES} bytes together");
        fields.refuse("contacts", Violation::new(IssueCode::TooBig, together));
        return None;
    }
    Some(cards)
}

/// A card with phone numbers, from which a vCard is generated, or with a vCard, or both.
fn read_card(fields: &Fields<'_>) -> Option<ContactCard> {
    let name = fields.required("name", rule::text(1..=LONGEST_NAME));
    if !fields.has("phones") && !fields.has("vcard") {
        fields.refuse("phones", Violation::new(IssueCode::Required, "give phones or a vcard"));
    }
    fields.between(|| json!({ "anyOf": [{ "required": ["phones"] }, { "required": ["vcard"] }] }));
    let phones = fields.list("phones", MOST_PHONES, digits);
    let vcard = fields.optional("vcard", vcard);
    let broken = (fields.has("phones") && phones.is_none()) || (fields.has("vcard") && vcard.is_none());
    let name = name.filter(|_| !broken)?;
    match (vcard, phones) {
        (Some(vcard), phones) => {
            let phones = phones.unwrap_or_else(|| phones_of(&vcard));
            Some(ContactCard { name, vcard, phones })
        }
        (None, Some(phones)) => Some(ContactCard { vcard: vcard_of(&name, &phones), name, phones }),
        (None, None) => None,
    }
}

fn digits(value: &Value) -> Judged<String> {
    let wants = || json!({ "pattern": "^[0-9]+$" });
    let text = rule::described(wants, rule::text(3..=MAX_DIGITS))(value)?;
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(text);
    }
    Err(Violation::new(IssueCode::Format, "write the number as digits, without a leading +"))
}

fn vcard(value: &Value) -> Judged<String> {
    let wants = || json!({ "pattern": "^\\s*BEGIN:VCARD[\\s\\S]*END:VCARD\\s*$" });
    let text = rule::described(wants, rule::text(1..=LONGEST_VCARD))(value)?;
    let lines = text.trim();
    if lines.starts_with("BEGIN:VCARD") && lines.ends_with("END:VCARD") {
        return Ok(text);
    }
    Err(Violation::new(IssueCode::Format, "must be a vCard, from BEGIN:VCARD to END:VCARD"))
}

/// A vCard of version 3.0, which all clients of the network support.
fn vcard_of(name: &str, phones: &[String]) -> String {
    let name = escaped(name);
    let mut lines =
        vec!["BEGIN:VCARD".to_owned(), "VERSION:3.0".to_owned(), format!("N:;{name};;;"), format!("FN:{name}")];
    lines.extend(phones.iter().map(|digits| format!("TEL;type=CELL;waid={digits}:+{digits}")));
    lines.push("END:VCARD".to_owned());
    lines.join("\n")
}

/// Escapes a text as the value of a vCard property.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\\' | ',' | ';' => escaped.extend(['\\', letter]),
            '\n' => escaped.push_str("\\n"),
            '\r' => {}
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The phone numbers in a vCard, as digits.
fn phones_of(vcard: &str) -> Vec<String> {
    let numbers = vcard.lines().filter_map(|line| {
        let (property, value) = line.split_once(':')?;
        // A property may have a group prefix, as in `item1.TEL`, and parameters.
        let name = property.split(';').next()?.rsplit('.').next()?;
        let digits: String = value.chars().filter(char::is_ascii_digit).collect();
        (name.eq_ignore_ascii_case("TEL") && !digits.is_empty()).then_some(digits)
    });
    numbers.take(MOST_PHONES).collect()
}
