//! How fast groups detect the failure of a leader.

use std::time::Duration;

/// How fast groups detect the failure of a leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    pub heartbeat: Duration,
    pub election_min: Duration,
    pub election_max: Duration,
}

impl Timing {
    /// How long after the lease, the shortest election timeout, a follower stands for election at the earliest; at the
    /// latest, it is as long as the lease. The span must be some round trips, as simultaneous candidates fail.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stands_for_election_does_so_after_a_heartbeat_and_within_twice_the_shortest_election() {
        let ms = Duration::from_millis;
        let timing =
            |heartbeat, min, max| Timing { heartbeat: ms(heartbeat), election_min: ms(min), election_max: ms(max) };
        assert_eq!((Timing::LAN.after_lease(), Timing::WAN.after_lease()), (ms(120), ms(750)));
        // The narrowest and the widest timing that a configuration may have.
        for timing in [timing(100, 300, 301), timing(100, 300, 60_000), timing(10, 30, 31)] {
            let after = timing.after_lease();
            assert!(timing.heartbeat < after && after < timing.election_min, "{timing:?}: {after:?}");
        }
    }
}
