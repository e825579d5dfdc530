//! Members of an account, and what their sessions may do by role.

use schemars::JsonSchema;

use crate::scope::{Access, Resource, Scope, Scopes};

crate::words! {
    /// What a member may do.
    ///
    /// | role | scopes | account |
    /// |---|---|---|
    /// | `viewer` | every `.read` | reads |
    /// | `member` | everything but `keys.write` | reads |
    /// | `admin` | everything | changes it |
    /// | `owner` | everything | changes and deletes it |
    #[derive(PartialOrd, Ord, JsonSchema)]
    Role {
        Viewer = "viewer",
        Member = "member",
        Admin = "admin",
        Owner = "owner",
    }
}

impl Role {
    /// The scopes of a session with this role.
    pub fn scopes(self) -> Scopes {
        match self {
            Self::Viewer => Scopes::new(Resource::ALL.iter().map(|resource| Scope::One(*resource, Access::Read))),
            Self::Member => Scopes::new(Resource::ALL.iter().map(|resource| match resource {
                Resource::Keys => Scope::One(Resource::Keys, Access::Read),
                other => Scope::Whole(*other),
            })),
            Self::Admin | Self::Owner => Scopes::new([Scope::Everything]),
        }
    }

    /// Whether the account's own routes grant this access to the role: every member reads, admins write.
    pub fn reaches_account(self, access: Access) -> bool {
        access == Access::Read || self >= Self::Admin
    }
}

/// Longest e-mail address, in bytes.
pub const LONGEST_EMAIL: usize = 254;

/// Longest label of its domain, in bytes.
const LONGEST_LABEL: usize = 63;

/// Whether a character is invisible or reverses the text direction, so that different addresses look alike.
fn is_unseen(letter: char) -> bool {
    matches!(letter,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// The canonical form in which an e-mail address is compared and stored: trimmed and in lower case. `None` if it is
/// malformed. Whether anyone reads mail to the address, only a message can tell.
pub fn fold_email(text: &str) -> Option<String> {
    let folded = known_email(text)?;
    let (_, domain) = folded.split_once('@')?;
    let fits = |label: &str| label.len() <= LONGEST_LABEL && !label.ends_with('-');
    let is_taken = !folded.contains(is_unseen) && domain.split('.').all(fits);
    is_taken.then_some(folded)
}

/// Like [`fold_email`], for looking up a member: up to release 0.3.0, invisible characters, longer domain labels and
/// labels ending in a hyphen were accepted.
pub fn known_email(text: &str) -> Option<String> {
    let text = text.trim().to_lowercase();
    let (local, domain) = text.rsplit_once('@')?;
    let forbidden = |c: char| c.is_whitespace() || c.is_control() || "<>()[],;:\\\"".contains(c);
    let well_formed = (3..=LONGEST_EMAIL).contains(&text.len())
        && (1..=64).contains(&local.len())
        && !local.contains('@')
        && !text.contains(forbidden)
        && domain.split('.').all(|label| {
            !label.is_empty() && label.chars().all(|c| c.is_alphanumeric() || c == '-') && !label.starts_with('-')
        });
    well_formed.then_some(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_role_grants_what_the_table_says() {
        let table = [
            (Role::Viewer, true, false, true, false),
            (Role::Member, true, true, true, false),
            (Role::Admin, true, true, true, true),
            (Role::Owner, true, true, true, true),
        ];
        for (role, reads, writes, reads_keys, writes_keys) in table {
            let scopes = role.scopes();
            assert_eq!(scopes.allow(Resource::Messages, Access::Read), reads, "{role:?}");
            assert_eq!(scopes.allow(Resource::Messages, Access::Write), writes, "{role:?}");
            assert_eq!(scopes.allow(Resource::Keys, Access::Read), reads_keys, "{role:?}");
            assert_eq!(scopes.allow(Resource::Keys, Access::Write), writes_keys, "{role:?}");
            assert!(role.reaches_account(Access::Read));
            assert_eq!(role.reaches_account(Access::Write), role >= Role::Admin);
            assert_eq!(Role::parse(role.as_str()), Some(role));
        }
    }

    #[test]
    fn an_email_is_folded_and_what_is_none_is_refused() {
        assert_eq!(fold_email(" Ann@Example.COM ").unwrap(), "ann@example.com");
        assert_eq!(fold_email("a.b+c@localhost").unwrap(), "a.b+c@localhost");
        for text in ["", "a", "@", "a@", "@b", "a b@c.d", "a@b@c", "a@b..c", "a@-b", "Ann <a@b.c>", "a@b\r\nBcc: c@d"] {
            assert_eq!((fold_email(text), known_email(text)), (None, None), "{text:?}");
        }
        // The Kelvin sign folds to `k`; invisible characters are refused.
        assert_eq!(fold_email("\u{212a}im@example.com").unwrap(), "kim@example.com");
        for unseen in ['\u{ad}', '\u{200b}', '\u{202e}', '\u{2066}', '\u{feff}', '\u{e0041}'] {
            assert_eq!(fold_email(&format!("ann{unseen}@example.com")), None, "{unseen:?}");
        }
        let label = |length| format!("ann@{}.com", "a".repeat(length));
        assert!(fold_email(&label(LONGEST_LABEL)).is_some() && fold_email(&label(LONGEST_LABEL + 1)).is_none());
        assert_eq!(fold_email("ann@a-.com"), None);
        assert_eq!(fold_email("ann-@a.com").unwrap(), "ann-@a.com");
    }

    #[test]
    fn who_signed_up_with_an_address_that_is_refused_now_is_found_by_it() {
        let long = format!("ann@{}.com", "a".repeat(LONGEST_LABEL + 1));
        for text in ["an\u{200b}n@example.com", "ann@a-.com", &long] {
            assert_eq!((fold_email(text), known_email(text)), (None, Some(text.to_owned())), "{text:?}");
        }
    }
}
