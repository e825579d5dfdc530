//! Cluster-wide limits of login attempts and of changes that leave data behind, by address, session or account.

use std::net::IpAddr;

use model::error::CallError;
use model::id::{CustomerId, SessionId};
use model::limit::{AttemptRule, LimitScope};
use uuid::Uuid;

use crate::ip_bucket::network_of;
use crate::request_context::RequestContext;

/// A limited action. E-mail addresses are folded.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// A failed login from a client address.
    LoginFrom(IpAddr),
    /// A failed login from a client address with this e-mail address, known or not. Counted by both, so that nobody can
    /// lock a member out from elsewhere.
    LoginFromAs(IpAddr, String),
    /// A successful login of a member.
    Login(String),
    SignUpFrom(IpAddr),
    /// An e-mail to one address.
    MailTo(String),
    MailFrom(IpAddr),
    /// An invitation by an account.
    InviteBy(CustomerId),
    /// An exchange of a session's refresh token, a write to the directory. Good clients do it every few minutes.
    RefreshOf(SessionId),
    /// A key created by an account. Every node holds keys in memory, even long after they were revoked.
    KeyBy(CustomerId),
    /// A channel deleted by an account. Every node holds deleted channels in memory for long, too.
    DeletionBy(CustomerId),
    /// A change or read that an account can repeat, each with an audit entry on the disk of every node for as long as
    /// the log is kept. Deletions of keys, endpoints and members are bounded by their number, and are never refused by
    /// this limit.
    EntryBy(CustomerId),
}

/// How an attempt is counted.
struct Counting {
    rule: AttemptRule,
    /// The scope that a refusal names.
    scope: LimitScope,
    /// The id of the counter; the same on every node.
    subject: Uuid,
}

impl Attempt {
    fn counting(&self) -> Counting {
        use LimitScope::{Customer, Ip, Session};
        let ((most, every_seconds), scope, name) = match self {
            Self::LoginFrom(ip) => ((30, 10), Ip, format!("login from {}", network_of(*ip))),
            Self::LoginFromAs(ip, email) => ((10, 60), Customer, format!("login from {} as {email}", network_of(*ip))),
            Self::Login(email) => ((10, 6), Customer, format!("login as {email}")),
            Self::SignUpFrom(ip) => ((30, 60), Ip, format!("sign-up from {}", network_of(*ip))),
            Self::MailTo(email) => ((3, 300), Customer, format!("mail to {email}")),
            Self::MailFrom(ip) => ((30, 60), Ip, format!("mail from {}", network_of(*ip))),
            Self::InviteBy(customer) => ((20, 60), Customer, format!("invitation by {customer}")),
            Self::RefreshOf(session) => ((30, 10), Session, format!("refresh of {session}")),
            Self::KeyBy(customer) => ((2_000, 30), Customer, format!("key by {customer}")),
            Self::DeletionBy(customer) => ((5_000, 60), Customer, format!("deletion by {customer}")),
            Self::EntryBy(customer) => ((5_000, 60), Customer, format!("entry by {customer}")),
        };
        let subject = Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes());
        Counting { rule: AttemptRule { most, every_seconds }, scope, subject }
    }
}

/// Counts attempts that belong together, before they are made: concurrent ones cannot exceed the limit.
///
/// # Errors
/// `rate_limited` when one is too many (none is counted then); `auth_backend_unavailable` without a coordinator.
pub async fn count(ctx: &RequestContext, attempts: &[Attempt]) -> Result<(), CallError> {
    for (counted, attempt) in attempts.iter().enumerate() {
        let Counting { rule, scope, subject } = attempt.counting();
        let tried = ctx.cluster().attempt(subject, rule, &ctx.context()).await;
        let refused = match tried {
            Ok(None) => continue,
            Ok(Some(retry_after)) => CallError::rate_limited(scope, rule.most, retry_after),
            // Nobody is admitted uncounted. The node that cannot count would be needed to look the member up, too.
            Err(_) => CallError::auth_backend_unavailable(),
        };
        give_back(ctx, &attempts[..counted]).await;
        return Err(refused);
    }
    Ok(())
}

/// Gives attempts back that succeeded or could not be made.
pub async fn give_back(ctx: &RequestContext, attempts: &[Attempt]) {
    for attempt in attempts {
        let Counting { rule, subject, .. } = attempt.counting();
        ctx.cluster().return_attempt(subject, rule, &ctx.context()).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::time::Duration;

    use model::limit::TokenBucket;
    use model::time::Timestamp;

    use super::*;

    #[test]
    fn the_same_thing_is_counted_under_the_same_subject() {
        let from = |ip: &str| Attempt::LoginFrom(ip.parse().unwrap()).counting().subject;
        assert_eq!(from("2001:db8::1"), from("2001:db8::2"), "one network");
        assert_ne!(from("198.51.100.1"), from("198.51.100.2"));
        assert_ne!(
            Attempt::Login("a@b.c".into()).counting().subject,
            Attempt::MailTo("a@b.c".into()).counting().subject
        );
        let from_as =
            |ip: &str, email: &str| Attempt::LoginFromAs(ip.parse().unwrap(), email.into()).counting().subject;
        assert_ne!(from_as("198.51.100.1", "a@b.c"), from_as("198.51.100.2", "a@b.c"), "another address");
        assert_ne!(from_as("198.51.100.1", "a@b.c"), from_as("198.51.100.1", "b@b.c"), "another member");
        let account = CustomerId::random();
        let subjects = left_behind_by(account).map(|attempt| attempt.counting().subject);
        assert!(subjects[0] != subjects[1] && subjects[0] != subjects[2] && subjects[1] != subjects[2]);
    }

    /// The attempts that leave data behind on all nodes.
    fn left_behind_by(account: CustomerId) -> [Attempt; 3] {
        [Attempt::KeyBy(account), Attempt::DeletionBy(account), Attempt::EntryBy(account)]
    }

    #[test]
    fn as_many_as_an_account_may_leave_behind_at_once_are_counted_and_one_more_waits() {
        for attempt in left_behind_by(CustomerId::random()) {
            let (rule, start) = (attempt.counting().rule, Timestamp(1_000_000));
            let mut bucket = TokenBucket::full(rule.bucket(), start);
            assert!((0..rule.most).all(|_| bucket.try_attempt(rule, start).is_ok()), "{attempt:?}");
            assert_eq!(bucket.try_attempt(rule, start), Err(rule.every_seconds), "{attempt:?}");
            let later = start.plus(Duration::from_secs(u64::from(rule.every_seconds)));
            assert!(bucket.try_attempt(rule, later).is_ok() && bucket.try_attempt(rule, later).is_err(), "{attempt:?}");
        }
    }

    #[test]
    fn what_an_account_leaves_with_all_nodes_grows_by_megabytes_a_day_at_most() {
        for attempt in left_behind_by(CustomerId::random()) {
            let rule = attempt.counting().rule;
            // A channel's record may hold 4 KiB of metadata, and an entry names an endpoint by its URL.
            let a_day = 86_400 / u64::from(rule.every_seconds) * 5_000;
            assert!(a_day <= 16 << 20, "{attempt:?}: {a_day}");
            assert_eq!(rule.bucket().burst, rule.most * rule.every_seconds, "the bucket holds them all");
        }
    }
}
