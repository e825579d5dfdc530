//! Permission scopes of API keys.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::CallError;
use crate::issue::{IssueCode, Violation};

crate::words! {
    /// The resources of the API that scopes refer to.
    #[derive(PartialOrd, Ord)]
    Resource {
        Channels = "channels",
        Messages = "messages",
        Media = "media",
        Chats = "chats",
        Contacts = "contacts",
        Groups = "groups",
        Communities = "communities",
        Newsletters = "newsletters",
        Labels = "labels",
        Blacklist = "blacklist",
        Stories = "stories",
        Calls = "calls",
        Presences = "presences",
        Profile = "profile",
        Settings = "settings",
        Business = "business",
        Webhooks = "webhooks",
        Keys = "keys",
        Events = "events",
        Limits = "limits",
        Metrics = "metrics",
    }

    /// `read` covers GET (and HEAD), `write` every other method.
    #[derive(PartialOrd, Ord, JsonSchema)]
    Access {
        Read = "read",
        Write = "write",
    }
}

impl Access {
    /// The access that an HTTP method requires.
    pub fn of_method(method: &str) -> Self {
        if matches!(method, "GET" | "HEAD") { Self::Read } else { Self::Write }
    }
}

/// One scope string, parsed; serialized as the string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Scope {
    /// `*`: everything, including routes that belong to no resource.
    Everything,
    /// `<resource>.*`
    Whole(Resource),
    /// `<resource>.read` or `<resource>.write`
    One(Resource, Access),
}

impl Scope {
    pub fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::Everything);
        }
        let (resource, access) = text.split_once('.')?;
        let resource = Resource::parse(resource)?;
        match access {
            "*" => Some(Self::Whole(resource)),
            access => Some(Self::One(resource, Access::parse(access)?)),
        }
    }

    /// The rule for an item of `scopes` in a body.
    pub fn rule(value: &Value) -> Result<Self, Violation> {
        let wants = || {
            let resources = Resource::WORDS.join("|");
            json!({ "maxLength": 32, "pattern": format!("^(\\*|({resources})\\.(read|write|\\*))$") })
        };
        let text = crate::field::rule::string(value, wants)?;
        Self::parse(text).ok_or_else(|| {
            Violation::new(IssueCode::Enum, "must be *, <resource>.*, <resource>.read or <resource>.write")
        })
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Everything => f.write_str("*"),
            Self::Whole(resource) => write!(f, "{resource}.*"),
            Self::One(resource, access) => write!(f, "{resource}.{access}"),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or_else(|| format!("{text:?} is no scope"))
    }
}

/// The scopes of a key. An empty list means unrestricted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Scopes(Vec<Scope>);

impl Scopes {
    /// Removes duplicates and keeps the order of first occurrence.
    pub fn new(scopes: impl IntoIterator<Item = Scope>) -> Self {
        let mut folded = Vec::new();
        for scope in scopes {
            if !folded.contains(&scope) {
                folded.push(scope);
            }
        }
        Self(folded)
    }

    pub fn unrestricted() -> Self {
        Self::default()
    }

    pub fn as_slice(&self) -> &[Scope] {
        &self.0
    }

    /// Whether routes without a resource are allowed: the list is empty or contains `*`.
    pub fn is_unrestricted(&self) -> bool {
        self.0.is_empty() || self.0.contains(&Scope::Everything)
    }

    /// Whether a request with `access` to `resource` is allowed.
    pub fn allow(&self, resource: Resource, access: Access) -> bool {
        self.covers(Scope::One(resource, access))
    }

    /// Whether all requests within `scope` are allowed.
    pub fn covers(&self, scope: Scope) -> bool {
        let has = |wanted: Scope| self.0.contains(&wanted);
        self.is_unrestricted()
            || match scope {
                Scope::Everything => false,
                Scope::Whole(resource) => {
                    has(scope) || (has(Scope::One(resource, Access::Read)) && has(Scope::One(resource, Access::Write)))
                }
                Scope::One(resource, _) => has(scope) || has(Scope::Whole(resource)),
            }
    }

    /// Refuses a request beyond the scopes with `insufficient_scope`.
    pub fn require(&self, resource: Resource, access: Access) -> Result<(), CallError> {
        self.require_scope(Scope::One(resource, access))
    }

    /// Refuses all keys but unrestricted ones; for account, audit log and support.
    pub fn require_unrestricted(&self) -> Result<(), CallError> {
        self.require_scope(Scope::Everything)
    }

    fn require_scope(&self, scope: Scope) -> Result<(), CallError> {
        if self.covers(scope) {
            return Ok(());
        }
        Err(CallError::insufficient_scope(&[scope.to_string()], &self.to_strings()))
    }

    pub fn to_strings(&self) -> Vec<String> {
        self.0.iter().map(Scope::to_string).collect()
    }
}

/// The required scopes that `granted` lacks; empty if `required` is a subset. An empty `required` list is unrestricted,
/// and so requires `*`. Used to keep a key from minting a more powerful one.
pub fn missing(required: &Scopes, granted: &Scopes) -> Vec<String> {
    let everything = [Scope::Everything];
    let wanted = if required.0.is_empty() { &everything[..] } else { &required.0[..] };
    wanted.iter().filter(|scope| !granted.covers(**scope)).map(Scope::to_string).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scopes(texts: &[&str]) -> Scopes {
        Scopes::new(texts.iter().map(|text| Scope::parse(text).unwrap()))
    }

    #[test]
    fn scopes_are_a_resource_and_an_access() {
        assert_eq!(Resource::ALL.len(), 21);
        for text in ["*", "channels.*", "messages.read", "metrics.write"] {
            assert_eq!(Scope::parse(text).unwrap().to_string(), text);
        }
        for text in [
            "",
            "channels",
            "channels.",
            ".read",
            "*.read",
            "account.read",
            "channels.delete",
            "Channels.read",
            "channels.read.x",
        ] {
            assert_eq!(Scope::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_grant_covers_what_it_names() {
        let table: &[(&[&str], Resource, Access, bool)] = &[
            (&[], Resource::Keys, Access::Write, true),
            (&["*"], Resource::Keys, Access::Write, true),
            (&["messages.read"], Resource::Messages, Access::Read, true),
            (&["messages.read"], Resource::Messages, Access::Write, false),
            (&["messages.write"], Resource::Messages, Access::Read, false),
            (&["messages.*"], Resource::Messages, Access::Write, true),
            (&["messages.*"], Resource::Media, Access::Write, false),
        ];
        for (grant, resource, access, expected) in table {
            assert_eq!(scopes(grant).allow(*resource, *access), *expected, "{grant:?} {resource:?} {access:?}");
        }
    }

    #[test]
    fn a_minted_grant_is_a_subset() {
        let table: &[(&[&str], &[&str], &[&str])] = &[
            (&[], &[], &[]),
            (&[], &["messages.*"], &["*"]),
            (&["*"], &[], &[]),
            (&["*"], &["messages.*"], &["*"]),
            (&["messages.read"], &["messages.*"], &[]),
            (&["messages.*"], &["messages.read", "messages.write"], &[]),
            (&["messages.*", "keys.read"], &["messages.read"], &["messages.*", "keys.read"]),
        ];
        for (wanted, granted, lacking) in table {
            assert_eq!(missing(&scopes(wanted), &scopes(granted)), *lacking, "{wanted:?} of {granted:?}");
        }
    }

    #[test]
    fn a_refusal_names_what_is_required_and_what_is_granted() {
        let error = scopes(&["messages.read"]).require(Resource::Messages, Access::Write).unwrap_err();
        assert_eq!(
            error.details.unwrap(),
            serde_json::json!({ "required": ["messages.write"], "granted": ["messages.read"] })
        );
    }

    fn any_scope() -> impl Strategy<Value = Scope> {
        (0..Resource::ALL.len(), 0..4_u8).prop_map(|(index, kind)| {
            let resource = Resource::ALL[index];
            match kind {
                0 => Scope::Everything,
                1 => Scope::Whole(resource),
                2 => Scope::One(resource, Access::Read),
                _ => Scope::One(resource, Access::Write),
            }
        })
    }

    proptest! {
        /// No key can mint a key that is allowed more than itself.
        #[test]
        fn a_subset_allows_nothing_more(
            wanted in prop::collection::vec(any_scope(), 0..5),
            granted in prop::collection::vec(any_scope(), 0..5),
        ) {
            let (wanted, granted) = (Scopes::new(wanted), Scopes::new(granted));
            if missing(&wanted, &granted).is_empty() {
                for resource in Resource::ALL {
                    for access in [Access::Read, Access::Write] {
                        prop_assert!(!wanted.allow(resource, access) || granted.allow(resource, access));
                    }
                }
                prop_assert!(!wanted.is_unrestricted() || granted.is_unrestricted());
            }
        }
    }
}
