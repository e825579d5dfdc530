//! Reading the query by rules; all issues of a query are reported at once (supplement 2 and 31, row 24).

use std::str::FromStr;

use model::error::ApiError;
use model::issue::{Fault, IssueCode, Issues};
use model::page::{Cursor, LARGEST_LIMIT, ListId};
use model::time::Timestamp;
use salvo::Request;

/// The parameters of one request, and what is wrong with them so far. A parameter that is wrong reads as absent.
pub struct Query<'a> {
    request: &'a Request,
    issues: Issues,
}

impl<'a> Query<'a> {
    pub fn of(request: &'a Request) -> Self {
        Self { request, issues: Issues::new() }
    }

    /// All values of a parameter that may be repeated, at most `most`.
    pub fn texts(&self, name: &str, most: usize) -> Vec<&'a str> {
        let values = self.request.queries().get_vec(name);
        let texts: Vec<&str> = values.into_iter().flatten().map(String::as_str).collect();
        if texts.len() > most {
            self.refuse(name, IssueCode::TooMany, &format!("at most {most} times"));
            return Vec::new();
        }
        texts
    }

    /// The value of a parameter; the last one, when it is repeated.
    pub fn text(&self, name: &str) -> Option<&'a str> {
        self.request.queries().get_vec(name).and_then(|values| values.last()).map(String::as_str)
    }

    /// A parameter with a rule: `parse` yields nothing for what is wrong, `must` says what to write.
    pub fn parsed<T>(&self, name: &str, must: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let parsed = parse(self.text(name)?);
        if parsed.is_none() {
            self.refuse(name, IssueCode::Format, must);
        }
        parsed
    }

    /// An identifier.
    pub fn id<T: FromStr>(&self, name: &str) -> Option<T> {
        self.parsed(name, "must be a uuid", |text| text.parse().ok())
    }

    /// Identifiers of a parameter that may be repeated.
    pub fn ids<T: FromStr>(&self, name: &str, most: usize) -> Vec<T> {
        let parsed = self.texts(name, most).into_iter().map(|text| text.parse().ok());
        let parsed: Option<Vec<T>> = parsed.collect();
        parsed.unwrap_or_else(|| {
            self.refuse(name, IssueCode::Format, "must be a uuid");
            Vec::new()
        })
    }

    /// A comma list of words; an unknown word is an `enum` issue.
    pub fn words<T>(&self, name: &str, known: &str, parse: impl Fn(&str) -> Option<T>) -> Vec<T> {
        let parsed: Option<Vec<T>> =
            self.text(name).map_or(Some(Vec::new()), |text| text.split(',').map(parse).collect());
        parsed.unwrap_or_else(|| {
            self.refuse(name, IssueCode::Enum, &format!("must be a comma list of {known}"));
            Vec::new()
        })
    }

    /// One of a few words.
    pub fn word<T>(&self, name: &str, known: &str, parse: impl FnOnce(&str) -> Option<T>) -> Option<T> {
        let parsed = parse(self.text(name)?);
        if parsed.is_none() {
            self.refuse(name, IssueCode::Enum, &format!("must be {known}"));
        }
        parsed
    }

    pub fn flag(&self, name: &str) -> Option<bool> {
        self.parsed(name, "must be true or false", |text| text.parse().ok())
    }

    pub fn time(&self, name: &str) -> Option<Timestamp> {
        self.parsed(name, "must be an ISO 8601 date-time such as 2026-01-01T00:00:00.000Z", |text| {
            // An unescaped `+` of an offset arrives as a space.
            Timestamp::parse_iso(text).or_else(|| Timestamp::parse_iso(&text.replace(' ', "+")))
        })
    }

    /// A whole number between `least` and `most`.
    pub fn number(&self, name: &str, least: usize, most: usize) -> Option<usize> {
        self.parsed(name, &format!("must be a whole number from {least} to {most}"), |text| {
            text.parse().ok().filter(|number| (least..=most).contains(number))
        })
    }

    /// The page size that was asked for.
    pub fn limit(&self) -> Option<usize> {
        self.number("limit", 1, LARGEST_LIMIT)
    }

    /// Whether the oldest come first; lists begin with the newest.
    pub fn ascending(&self) -> bool {
        let ascending = self.word("order", "asc or desc", |word| match word {
            "asc" => Some(true),
            "desc" => Some(false),
            _ => None,
        });
        ascending.unwrap_or(false)
    }

    /// Where the page before ended in the same list.
    pub fn cursor<T: Cursor>(&self, list: ListId) -> Option<T> {
        match T::decode(self.text("cursor")?, list) {
            Ok(cursor) => Some(cursor),
            Err(fault) => {
                self.refuse("cursor", fault.code, &fault.message);
                None
            }
        }
    }

    /// Notes an issue of a parameter.
    pub fn refuse(&self, name: &str, code: IssueCode, message: &str) {
        self.issues.push(vec![name.into()], Fault::new(code, message));
    }

    /// `value`, when nothing was wrong.
    ///
    /// # Errors
    /// `invalid_request` with all issues.
    pub fn finish<T>(self, value: T) -> Result<T, ApiError> {
        self.issues.finish(|| Some(value))
    }
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
        assert!(query.words("status", "sent", |word| (word == "sent").then_some(())).is_empty());
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
        assert_eq!(query.words("type", "types", |word| Some(word.to_owned())), ["text", "image"]);
        assert_eq!(query.text("missing"), None);
        assert!(query.finish(()).is_ok());
    }
}
