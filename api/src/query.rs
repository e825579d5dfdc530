//! Reads query parameters by rules, and reports all issues of a query at once.

use std::str::FromStr;
use std::sync::Arc;

use model::address::{Address, LONGEST_ADDRESS, Suffixes};
use model::error::CallError;
use model::field::rule::{ADDRESS_OR_DIGITS, LONGEST_TIME, LONGEST_UUID};
use model::issue::{IssueCode, Issues, Violation};
use model::page::{Cursor, LARGEST_LIMIT, LONGEST_CURSOR, ListId};
use model::time::Timestamp;
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};
use salvo::Request;
use serde_json::{Value, json};

/// The most characters of a text parameter, unless stated otherwise.
const LONGEST_TEXT: usize = 255;

/// The parameters of one request, and the issues found so far. An invalid parameter reads as absent.
pub struct Query<'a> {
    request: Option<&'a Request>,
    issues: Issues,
    /// Collects the parameters that a parser reads, when there is no request.
    outline: Option<Outline>,
}

/// The parameters in the order in which a parser reads them.
type Outline = Arc<Mutex<Vec<Parameter>>>;

/// A parameter in the OpenAPI document.
#[derive(Debug)]
pub struct Parameter {
    pub name: String,
    /// Its JSON Schema.
    pub schema: Value,
    pub required: bool,
    /// The parameter is repeated for each item of a list, instead of a comma-separated list.
    pub repeated: bool,
}

impl<'a> Query<'a> {
    pub fn of(request: &'a Request) -> Self {
        Self { request: Some(request), issues: Issues::new(), outline: None }
    }

    /// The parameters that `parser` reads.
    pub fn outline<T>(parser: impl FnOnce(&Query<'static>) -> T) -> Vec<Parameter> {
        let outline = Outline::default();
        parser(&Query { request: None, issues: Issues::new(), outline: Some(outline.clone()) });
        std::mem::take(&mut *outline.lock())
    }

    /// Declares the schema of a parameter that the caller validates itself.
    pub fn note(&self, name: &str, schema: impl FnOnce() -> Value) {
        if let Some(mut noted) = self.noted(name) {
            noted.schema = schema();
        }
    }

    /// The declaration of a parameter, when there is no request to read.
    fn noted(&self, name: &str) -> Option<MappedMutexGuard<'_, Parameter>> {
        Some(MutexGuard::map(self.outline.as_ref()?.lock(), |all| {
            let place = all.iter().position(|known| known.name == name).unwrap_or_else(|| {
                all.push(Parameter { name: name.to_owned(), schema: Value::Null, required: false, repeated: false });
                all.len() - 1
            });
            &mut all[place]
        }))
    }

    fn note_repeated(&self, name: &str, most: usize, each: Value) {
        if let Some(mut noted) = self.noted(name) {
            noted.schema = json!({ "type": "array", "items": each, "maxItems": most });
            noted.repeated = true;
        }
    }

    /// All values of a parameter that may be repeated, at most `most`. Each has 1 to 255 characters.
    pub fn texts(&self, name: &str, most: usize) -> Vec<&'a str> {
        self.note_repeated(name, most, json!({ "type": "string", "minLength": 1, "maxLength": LONGEST_TEXT }));
        let values = self.request.and_then(|request| request.queries().get_vec(name));
        let texts: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
        if texts.len() > most {
            return self.refused(name, IssueCode::TooMany, &format!("at most {most} times"));
        }
        if texts.iter().any(|text| text.is_empty()) {
            return self.refused(name, IssueCode::Empty, "must not be empty");
        }
        if texts.iter().any(|text| text.chars().count() > LONGEST_TEXT) {
            return self.refused(name, IssueCode::TooLong, &format!("has at most {LONGEST_TEXT} characters"));
        }
        texts
    }

    /// The value of a parameter, of at most 255 characters; the last value if it is repeated.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.text_up_to(name, LONGEST_TEXT)
    }

    /// Like [`text`](Self::text), with at most `longest` characters.
    pub fn text_up_to(&self, name: &str, longest: usize) -> Option<&'a str> {
        self.note(name, || json!({ "type": "string", "maxLength": longest }));
        let text = self.value(name)?;
        if text.chars().count() > longest {
            return self.refused(name, IssueCode::TooLong, &format!("has at most {longest} characters"));
        }
        Some(text)
    }

    fn value(&self, name: &str) -> Option<&'a str> {
        self.request?.queries().get_vec(name).and_then(|values| values.last()).map(String::as_str)
    }

    /// A parameter with a rule: `parse` returns `None` for invalid text, `must` and `schema` say what is valid.
    pub fn parsed<T>(
        &self,
        name: &str,
        schema: impl FnOnce() -> Value,
        must: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Option<T> {
        self.note(name, schema);
        let parsed = parse(self.value(name)?);
        if parsed.is_none() {
            self.refuse(name, IssueCode::Format, must);
        }
        parsed
    }

    /// An identifier.
    pub fn id<T: FromStr>(&self, name: &str) -> Option<T> {
        self.parsed(name, uuid, "must be a uuid", |text| text.parse().ok())
    }

    /// Declares that a parameter is required; its rule must be declared before.
    pub fn require(&self, name: &str) {
        if let Some(mut noted) = self.noted(name) {
            noted.required = true;
        }
        if self.value(name).is_none() {
            self.refuse(name, IssueCode::Required, "is required");
        }
    }

    /// Identifiers of a parameter that may be repeated.
    pub fn ids<T: FromStr>(&self, name: &str, most: usize) -> Vec<T> {
        let parsed = self.texts(name, most).into_iter().map(|text| text.parse().ok());
        let parsed: Option<Vec<T>> = parsed.collect();
        self.note_repeated(name, most, uuid());
        parsed.unwrap_or_else(|| self.refused(name, IssueCode::Format, "must be a uuid"))
    }

    /// A comma-separated list of known words, at most as many as there are; an unknown word is an `enum` issue.
    pub fn words<T>(&self, name: &str, known: &[&str], parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        self.note(name, || {
            let word = json!({ "type": "string", "enum": known });
            json!({ "type": "array", "items": word, "minItems": 1, "maxItems": known.len() })
        });
        let parsed: Option<Vec<T>> =
            self.value(name).map_or(Some(Vec::new()), |text| text.split(',').map(parse).collect());
        match parsed {
            Some(words) if words.len() > known.len() => {
                self.refused(name, IssueCode::TooMany, &format!("at most {} words", known.len()))
            }
            Some(words) => words,
            None => self.refused(name, IssueCode::Enum, &format!("must be a comma list of {}", known.join(","))),
        }
    }

    /// One of the known words.
    pub fn word<T>(&self, name: &str, known: &[&str], parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        self.note(name, || json!({ "type": "string", "enum": known }));
        let parsed = parse(self.value(name)?);
        if parsed.is_none() {
            self.refuse(name, IssueCode::Enum, &format!("must be one of {}", known.join(", ")));
        }
        parsed
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.parsed(name, || json!({ "type": "boolean" }), "must be true or false", |text| text.parse().ok())
    }

    pub fn time(&self, name: &str) -> Option<Timestamp> {
        let schema = || json!({ "type": "string", "format": "date-time", "maxLength": LONGEST_TIME });
        self.parsed(name, schema, "must be an ISO 8601 date-time such as 2026-01-01T00:00:00.000Z", |text| {
            if text.len() > LONGEST_TIME {
                return None;
            }
            // An unescaped `+` of an offset arrives as a space.
            Timestamp::parse_iso(text).or_else(|| Timestamp::parse_iso(&text.replace(' ', "+")))
        })
    }

    /// A whole number from `least` to `most`.
    pub fn number(&self, name: &str, least: usize, most: usize) -> Option<usize> {
        let schema = || json!({ "type": "integer", "minimum": least, "maximum": most });
        self.parsed(name, schema, &format!("must be a whole number from {least} to {most}"), |text| {
            text.parse().ok().filter(|number| (least..=most).contains(number))
        })
    }

    /// An address, or the digits of a phone number.
    pub fn address(&self, name: &str, suffixes: &Suffixes) -> Option<Address> {
        let schema =
            || json!({ "type": "string", "minLength": 3, "maxLength": LONGEST_ADDRESS, "pattern": ADDRESS_OR_DIGITS });
        if self.value(name).is_some_and(|text| text.len() > LONGEST_ADDRESS) {
            return self.refused(name, IssueCode::TooLong, &format!("has at most {LONGEST_ADDRESS} characters"));
        }
        self.parsed(name, schema, "must be an address or the digits of a number", |text| {
            Address::parse_or_digits(text, suffixes).ok()
        })
    }

    /// The requested page size.
    pub fn limit(&self) -> Option<usize> {
        self.number("limit", 1, LARGEST_LIMIT)
    }

    /// Whether the oldest come first. By default the newest do.
    pub fn ascending(&self) -> bool {
        let ascending = self.word("order", &["asc", "desc"], |word| match word {
            "asc" => Some(true),
            "desc" => Some(false),
            _ => None,
        });
        ascending.unwrap_or(false)
    }

    /// The position in this list where the previous page ended.
    pub fn cursor<T: Cursor>(&self, list: ListId) -> Option<T> {
        self.note("cursor", || json!({ "type": "string", "format": "cursor", "maxLength": LONGEST_CURSOR }));
        match T::decode(self.value("cursor")?, list) {
            Ok(cursor) => Some(cursor),
            Err(violation) => self.refused("cursor", violation.code, &violation.message),
        }
    }

    /// Reports an issue of a parameter.
    pub fn refuse(&self, name: &str, code: IssueCode, message: &str) {
        self.issues.push(vec![name.into()], Violation::new(code, message));
    }

    /// Like [`refuse`](Self::refuse); returns the default, as if the parameter were absent.
    fn refused<T: Default>(&self, name: &str, code: IssueCode, message: &str) -> T {
        self.refuse(name, code, message);
        T::default()
    }

    /// Returns `value` if there were no issues.
    ///
    /// # Errors
    /// `invalid_request` with all issues.
    pub fn finish<T>(self, value: T) -> Result<T, CallError> {
        self.issues.finish(|| Some(value))
    }
}

fn uuid() -> Value {
    json!({ "type": "string", "format": "uuid", "maxLength": LONGEST_UUID })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn request(query: &str) -> Request {
        let mut request = Request::new();
        request.set_uri(format!("http://gateway.example/v1/messages?{query}").parse().unwrap());
        request
    }

    #[test]
    fn all_issues_of_a_query_are_found_at_once() {
        let request = request("limit=0&since=yesterday&has_media=perhaps&status=sent,lost&channel_id=7");
        let query = Query::of(&request);
        assert_eq!(query.limit(), None);
        assert_eq!(query.time("since"), None);
        assert_eq!(query.flag("has_media"), None);
        assert!(query.words("status", &["sent"], |word| (word == "sent").then_some(())).is_empty());
        assert!(query.ids::<model::id::ChannelId>("channel_id", 20).is_empty());
        let details = query.finish(()).unwrap_err().details.unwrap();
        let codes: Vec<&str> =
            details.as_array().unwrap().iter().map(|issue| issue["code"].as_str().unwrap()).collect();
        assert_eq!(codes, ["format", "format", "format", "enum", "format"]);
    }

    #[test]
    fn what_is_right_is_read() {
        let request = request("limit=100&since=2026-01-01T00:00:00%2B01:00&a=1&a=2&type=text,image");
        let query = Query::of(&request);
        assert_eq!(query.limit(), Some(100));
        assert_eq!(query.time("since").unwrap().to_iso(), "2025-12-31T23:00:00.000Z");
        assert_eq!(query.texts("a", 2), ["1", "2"]);
        assert_eq!(query.words("type", &["text", "image"], |word| Some(word.to_owned())), ["text", "image"]);
        assert_eq!(query.text("missing"), None);
        assert!(query.finish(()).is_ok());
    }

    #[test]
    fn every_parameter_is_taken_up_to_its_bound_and_refused_beyond() {
        let suffixes = Suffixes::simulated();
        let read = |name: &str, value: &str| {
            let request = request(&format!("{name}={value}"));
            let query = Query::of(&request);
            query.text("text");
            query.texts("texts", 1);
            query.words("words", &["a", "b"], |word| Some(word.to_owned()));
            query.time("time");
            query.address("address", &suffixes);
            query.finish(()).map_err(|error| error.details.unwrap()[0]["code"].as_str().unwrap().to_owned())
        };
        let long = |length: usize| "1".repeat(length);
        let time =
            |length: usize| format!("2026-01-01T00:00:00.{}Z", "0".repeat(length - "2026-01-01T00:00:00.Z".len()));
        let table = [
            ("text", long(255), long(256), "too_long"),
            ("texts", long(255), long(256), "too_long"),
            ("words", "a,b".to_owned(), "a,b,a".to_owned(), "too_many"),
            ("time", time(30), time(65), "format"),
            ("address", format!("{}@s.example", long(118)), format!("{}@s.example", long(119)), "too_long"),
        ];
        for (name, longest, beyond, code) in table {
            assert_eq!(read(name, &longest), Ok(()), "{name}");
            assert_eq!(read(name, &beyond).unwrap_err(), code, "{name}");
        }
    }
}
