//! Members of an account: what a dashboard session may do by its role.

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
    /// The grant of a session with this role.
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

    /// Whether the account's own routes take this access of the role: everybody reads, administrators write.
    pub fn reaches_account(self, access: Access) -> bool {
        access == Access::Read || self >= Self::Admin
    }
}

/// The longest e-mail address, in bytes.
pub const LONGEST_EMAIL: usize = 254;

/// An e-mail address as it is compared and kept: without the space around it, in lower case. `None` when it has not the
/// form of one; whether anybody reads it, only a message to it can tell.
pub fn fold_email(text: &str) -> Option<String> {
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
            assert_eq!(fold_email(text), None, "{text:?}");
        }
    }
}
