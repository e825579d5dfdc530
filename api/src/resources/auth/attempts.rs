//! How often a way in may be tried, and what leaves something behind may be done: counted over the whole cluster, for addresses of
//! clients and of mail, for sessions and accounts.

use std::net::IpAddr;

use model::error::CallError;
use model::id::{CustomerId, SessionId};
use model::limit::{AttemptRule, LimitScope};
use uuid::Uuid;

use crate::ip_bucket::network_of;
use crate::request_context::RequestContext;

/// Something that is tried. E-mail addresses are folded.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// A login that fails, from one client address.
    LoginFrom(IpAddr),
    /// A login that fails, from one client address as one member or as nobody. Counted by both, so that nobody locks a
    /// member out from elsewhere.
    LoginFromAs(IpAddr, String),
    /// A login that succeeds, as one member.
    Login(String),
    SignUpFrom(IpAddr),
    /// A message to one address.
    MailTo(String),
    MailFrom(IpAddr),
    /// An invitation, by an account.
    InviteBy(CustomerId),
    /// An exchange of a session's refresh token, which is a write of the directory: any good client makes one in some minutes.
    RefreshOf(SessionId),
    /// A key made by an account. Every node holds it in memory, long after it was revoked, too.
    KeyBy(CustomerId),
    /// A channel deleted by an account, of which the same is true.
    DeletionBy(CustomerId),
}

impl Attempt {
    fn rule(&self) -> AttemptRule {
        let (most, every_seconds) = match self {
            Self::LoginFrom(_) => (30, 10),
            Self::LoginFromAs(..) => (10, 60),
            Self::Login(_) => (10, 6),
            Self::SignUpFrom(_) => (30, 60),
            Self::MailTo(_) => (3, 300),
            Self::MailFrom(_) => (30, 60),
            Self::InviteBy(_) => (20, 60),
            Self::RefreshOf(_) => (30, 10),
            Self::KeyBy(_) => (2_000, 30),
            Self::DeletionBy(_) => (5_000, 60),
        };
        AttemptRule { most, every_seconds }
    }

    fn scope(&self) -> LimitScope {
        match self {
            Self::LoginFrom(_) | Self::SignUpFrom(_) | Self::MailFrom(_) => LimitScope::Ip,
            Self::LoginFromAs(..) | Self::Login(_) | Self::MailTo(_) => LimitScope::Customer,
            Self::InviteBy(_) | Self::KeyBy(_) | Self::DeletionBy(_) => LimitScope::Customer,
            Self::RefreshOf(_) => LimitScope::Session,
        }
    }

    /// What it is counted under; the same on every node.
    fn subject(&self) -> Uuid {
        let name = match self {
            Self::LoginFrom(ip) => format!("login from {}", network_of(*ip)),
            Self::LoginFromAs(ip, email) => format!("login from {} as {email}", network_of(*ip)),
            Self::Login(email) => format!("login as {email}"),
            Self::SignUpFrom(ip) => format!("sign-up from {}", network_of(*ip)),
            Self::MailTo(email) => format!("mail to {email}"),
            Self::MailFrom(ip) => format!("mail from {}", network_of(*ip)),
            Self::InviteBy(customer) => format!("invitation by {customer}"),
            Self::RefreshOf(session) => format!("refresh of {session}"),
            Self::KeyBy(customer) => format!("key by {customer}"),
            Self::DeletionBy(customer) => format!("deletion by {customer}"),
        };
        Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes())
    }
}

/// Counts attempts that belong together. Counted before they are made, so that many at once are not more than allowed.
///
/// # Errors
/// `rate_limited` when one of them is too many, and then none is counted; `auth_backend_unavailable` while a home has no
/// leader.
pub async fn count(ctx: &RequestContext, attempts: &[Attempt]) -> Result<(), CallError> {
    for (counted, attempt) in attempts.iter().enumerate() {
        let rule = attempt.rule();
        let tried = ctx.cluster().attempt(attempt.subject(), rule, &ctx.context()).await;
        let refused = match tried {
            Ok(None) => continue,
            Ok(Some(retry_after)) => CallError::rate_limited(attempt.scope(), rule.most, retry_after),
            // Those who are let in are looked up there too.
            Err(_) => CallError::auth_backend_unavailable(),
        };
        give_back(ctx, &attempts[..counted]).await;
        return Err(refused);
    }
    Ok(())
}

/// Attempts that succeeded cost nothing.
pub async fn give_back(ctx: &RequestContext, attempts: &[Attempt]) {
    for attempt in attempts {
        ctx.cluster().return_attempt(attempt.subject(), attempt.rule(), &ctx.context()).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn the_same_thing_is_counted_under_the_same_subject() {
        let from = |ip: &str| Attempt::LoginFrom(ip.parse().unwrap()).subject();
        assert_eq!(from("2001:db8::1"), from("2001:db8::2"), "one network");
        assert_ne!(from("198.51.100.1"), from("198.51.100.2"));
        assert_ne!(Attempt::Login("a@b.c".into()).subject(), Attempt::MailTo("a@b.c".into()).subject());
        let from_as = |ip: &str, email: &str| Attempt::LoginFromAs(ip.parse().unwrap(), email.into()).subject();
        assert_ne!(from_as("198.51.100.1", "a@b.c"), from_as("198.51.100.2", "a@b.c"), "another address");
        assert_ne!(from_as("198.51.100.1", "a@b.c"), from_as("198.51.100.1", "b@b.c"), "another member");
        let account = CustomerId::random();
        assert_ne!(Attempt::KeyBy(account).subject(), Attempt::DeletionBy(account).subject());
    }

    #[test]
    fn what_an_account_leaves_in_the_memory_of_all_nodes_grows_by_megabytes_a_day_at_most() {
        for attempt in [Attempt::KeyBy(CustomerId::random()), Attempt::DeletionBy(CustomerId::random())] {
            let rule = attempt.rule();
            // A channel's record may hold 4 KiB of metadata.
            let a_day = 86_400 / u64::from(rule.every_seconds) * 5_000;
            assert!(a_day <= 16 << 20, "{attempt:?}: {a_day}");
            assert_eq!(rule.bucket().burst, rule.most * rule.every_seconds, "the bucket holds them all");
        }
    }
}
