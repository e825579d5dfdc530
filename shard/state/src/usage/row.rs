//! The usage of one channel in one hour.

use serde::{Deserialize, Serialize};

use super::Latencies;

/// Counts of events; the module's documentation says what each counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counts {
    #[serde(skip_serializing_if = "is_zero")]
    pub sent: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub received: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub media_bytes: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub delivered: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub exhausted: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counts {
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.failed += other.failed;
        self.received += other.received;
        self.media_bytes += other.media_bytes;
        self.delivered += other.delivered;
        self.exhausted += other.exhausted;
    }
}

/// The usage of one channel in one hour.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UsageRow {
    pub counts: Counts,
    /// Latencies from the acceptance of a send here to its acceptance by the network.
    #[serde(skip_serializing_if = "Latencies::is_empty")]
    pub sends: Latencies,
    /// Latencies of successful attempts, from the request to the status line.
    #[serde(skip_serializing_if = "Latencies::is_empty")]
    pub webhooks: Latencies,
}

impl UsageRow {
    pub fn add(&mut self, other: &Self) {
        self.counts.add(&other.counts);
        self.sends.add(&other.sends);
        self.webhooks.add(&other.webhooks);
    }
}

#[cfg(test)]
mod tests {
    use model::time::Timestamp;

    use crate::keys::Hour;

    #[test]
    fn an_hour_begins_at_its_first_millisecond_and_lies_in_its_day() {
        let noon = Timestamp(1_767_268_800_000);
        assert_eq!(Hour::of(noon).start(), noon);
        assert_eq!(Hour::of(Timestamp(noon.0 - 1)).next(), Hour::of(noon));
        assert_eq!(Hour::of(noon).day().to_string(), "2026-01-01");
        assert_eq!(Hour::first_of(Hour::of(noon).day()).0 + 12, Hour::of(noon).0);
    }
}
