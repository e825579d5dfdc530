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
    /// A change or a reading that an account can make again and again, each with an entry of the audit log, which lies on the disk
    /// of every node for as long as the log is kept. Ends of keys, endpoints and members are as many as there were, and are
    /// never refused for it.
    EntryBy(CustomerId),
}

/// How an attempt is counted.
struct Counting {
    rule: AttemptRule,
    /// Whose limit it is that a refusal tells of.
    scope: LimitScope,
    /// What it is counted under; the same on every node.
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

/// Counts attempts that belong together. Counted before they are made, so that many at once are not more than allowed.
///
/// # Errors
/// `rate_limited` when one of them is too many, and then none is counted; `auth_backend_unavailable` while a home has no
/// leader.
pub async fn count(ctx: &RequestContext, attempts: &[Attempt]) -> Result<(), CallError> {
    for (counted, attempt) in attempts.iter().enumerate() {
        let Counting { rule, scope, subject } = attempt.counting();
        let tried = ctx.cluster().attempt(subject, rule, &ctx.context()).await;
        let refused = match tried {
            Ok(None) => continue,
            Ok(Some(retry_after)) => CallError::rate_limited(scope, rule.most, retry_after),
            // Without the count nobody is let in: whoever answers it would look the member up, too.
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

    /// What stays with all nodes of what an account did.
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
