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
