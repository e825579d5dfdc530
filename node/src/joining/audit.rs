//! Audit entries about nodes that ask to join: whoever is admitted gets the cluster's keys.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use model::id::AuditId;
use model::time::Timestamp;
use parking_lot::Mutex;
use raft::directory::command::Rejection;
use raft::directory::records::{AuditActor, AuditEntry, AuditTarget};
use raft::transport::admission::network_of;
use uuid::Uuid;

const MINUTE_MILLIS: i64 = 60_000;
const HOUR_MILLIS: i64 = 60 * MINUTE_MILLIS;

const UNKNOWN: &str = "join_token_unknown";

/// Maximum number of refusals per hour that a node writes for unknown tokens, and the same number for others. Clients
/// choose how many addresses they ask from, and every node stores the entries as long as the log is kept.
const MOST: usize = 256;

/// Refusals that this node has written in the current hour, which bounds how fast clients can fill the log.
#[derive(Debug, Default)]
pub struct Written(Mutex<OfHour>);

#[derive(Debug, Default)]
struct OfHour {
    hour: i64,
    refusals: HashSet<AuditId>,
    /// Number of refusals for unknown tokens. They are counted separately, so that invented tokens cannot hide the
    /// misuse of real ones.
    unknown: usize,
}

impl Written {
    /// Records a refusal; `false` if it must not be written.
    pub fn is_news(&self, entry: &AuditEntry) -> bool {
        let hour = entry.created_at.0.div_euclid(HOUR_MILLIS);
        let mut written = self.0.lock();
        if written.hour != hour {
            *written = OfHour { hour, ..OfHour::default() };
        }
        let is_unknown = is_unknown(entry);
        let alike = if is_unknown { written.unknown } else { written.refusals.len() - written.unknown };
        let is_news = alike < MOST && written.refusals.insert(entry.id);
        written.unknown += usize::from(is_news && is_unknown);
        is_news
    }

    /// Forgets a refusal that could not be written, so that the next one of its kind is.
    pub fn remove(&self, entry: &AuditEntry) {
        let mut written = self.0.lock();
        if written.refusals.remove(&entry.id) && is_unknown(entry) {
            written.unknown -= 1;
        }
    }
}

fn is_unknown(entry: &AuditEntry) -> bool {
    entry.details.get("code").is_some_and(|code| code == UNKNOWN)
}

/// A node that asks to join.
#[derive(Clone, Copy, Debug)]
pub struct JoiningNode<'a> {
    /// Address of the client.
    pub from: IpAddr,
    /// `host:port` at which the new node will be reachable.
    pub peer: &'a str,
    pub storage_id: Uuid,
}

impl JoiningNode<'_> {
    /// Entry for a node that got a certificate and keys; repeated when it asks again.
    pub fn joined(&self, at: Timestamp) -> AuditEntry {
        let details = BTreeMap::from([("storage_id".to_owned(), self.storage_id.to_string())]);
        self.entry(AuditId::new(), "node.joined", "join_token", true, at, details)
    }

    /// Entry for a refused token; `None` when the reason is not the token. Aggregated like failed authentications: one
    /// entry per address (IPv6: network), reason and minute, whichever node was asked.
    pub fn refused(&self, rejection: &Rejection, at: Timestamp) -> Option<AuditEntry> {
        let code = match rejection {
            Rejection::TokenUnknown => UNKNOWN,
            Rejection::TokenUsed => "join_token_used",
            Rejection::TokenExpired(_) => "join_token_expired",
            _ => return None,
        };
        let minute = at.begin_of(MINUTE_MILLIS).0;
        let name = format!("auth.failed|{code}|{}|{minute}", network_of(self.from));
        let id = AuditId(Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()));
        let details = BTreeMap::from([("code".to_owned(), code.to_owned())]);
        Some(self.entry(id, "auth.failed", "unknown", false, at, details))
    }

    fn entry(
        &self,
        id: AuditId,
        action: &str,
        actor: &str,
        success: bool,
        created_at: Timestamp,
        details: BTreeMap<String, String>,
    ) -> AuditEntry {
        let (actor, target) = (AuditActor::of_kind(actor), AuditTarget::new("node", self.peer, self.peer));
        let ip = Some(self.from.to_string());
        AuditEntry { ip, success, details, ..AuditEntry::done(id, action, actor, target, created_at) }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn refused_tokens_fold_by_minute_address_and_reason_and_other_refusals_leave_no_entry() {
        let joining =
            |from: &str| JoiningNode { from: from.parse().unwrap(), peer: "b:8082", storage_id: Uuid::from_u128(1) };
        let refused = |from, rejection, at| joining(from).refused(&rejection, Timestamp(at)).unwrap();
        let first = refused("10.0.0.1", Rejection::TokenUsed, 60_000);
        assert_eq!((first.action.as_str(), first.success), ("auth.failed", false));
        assert_eq!(first.details["code"], "join_token_used");
        assert_eq!(refused("10.0.0.1", Rejection::TokenUsed, 119_999).id, first.id);
        for other in [
            refused("10.0.0.1", Rejection::TokenUsed, 120_000),
            refused("10.0.0.2", Rejection::TokenUsed, 60_000),
            refused("10.0.0.1", Rejection::TokenUnknown, 60_000),
        ] {
            assert_ne!(other.id, first.id, "{other:?}");
        }
        let of_ipv6 = |from| refused(from, Rejection::TokenUsed, 60_000).id;
        assert_eq!(of_ipv6("2001:db8::1"), of_ipv6("2001:db8::ffff:2"), "one network");
        assert_ne!(of_ipv6("2001:db8::1"), of_ipv6("2001:db8:0:1::1"));
        assert!(joining("10.0.0.1").refused(&Rejection::NodeLimit { limit: 9 }, Timestamp(0)).is_none());
        let joined = joining("10.0.0.1").joined(Timestamp(1));
        assert_eq!((joined.action.as_str(), joined.ip.as_deref()), ("node.joined", Some("10.0.0.1")));
    }

    #[test]
    fn a_refusal_is_written_once_a_minute_and_no_more_of_them_an_hour_than_so_many() {
        let written = Written::default();
        let refused = |address: u32, rejection, at| {
            let from = std::net::Ipv4Addr::from_bits(address).into();
            let joining = JoiningNode { from, peer: "b:8082", storage_id: Uuid::from_u128(1) };
            joining.refused(&rejection, Timestamp(at)).unwrap()
        };
        let is_news = |address, at| written.is_news(&refused(address, Rejection::TokenUnknown, at));
        assert!(is_news(1, 0) && !is_news(1, 59_999) && is_news(1, 60_000));
        let more = (2..10_000).filter(|address| is_news(*address, HOUR_MILLIS - 1)).count();
        assert_eq!(more, MOST - 2);
        let is_news_of_used = |address| written.is_news(&refused(address, Rejection::TokenUsed, 60_000));
        assert!(is_news_of_used(9_999), "its token was made");
        assert_eq!((10_000..20_000).filter(|address| is_news_of_used(*address)).count(), MOST - 1);
        let lost = refused(1, Rejection::TokenUnknown, 60_000);
        written.remove(&lost);
        assert!(written.is_news(&lost) && !is_news(9_998, 60_000));
        assert!(is_news(9_999, HOUR_MILLIS));
    }
}
