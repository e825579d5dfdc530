//! How fast groups notice that a leader is gone.

use std::time::Duration;

/// How fast groups notice that a leader is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
}

impl Timing {
    /// How long after the shortest election a follower stands for it at the earliest; the latest do as long again after it
    /// as the shortest election lasts. Two that stand at once win nothing, so that the span must be some round trips.
    pub(crate) fn after_lease(&self) -> Duration {
        (self.election_max.saturating_sub(self.election_min)).clamp(self.heartbeat * 5 / 4, self.election_min / 2)
    }

    /// For nodes in one data centre.
    pub const LAN: Self = Self {
        heartbeat: Duration::from_millis(80),
        election_min: Duration::from_millis(300),
        election_max: Duration::from_millis(420),
    };
    /// For nodes in different regions.
    pub const WAN: Self = Self {
        heartbeat: Duration::from_millis(250),
        election_min: Duration::from_millis(1500),
        election_max: Duration::from_millis(3000),
    };
}
