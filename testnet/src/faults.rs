//! Faults that the control API has turned on: those of the simulator that apply here, and faults of this network only.

use std::time::Duration;

use model::id::NodeId;
use network::simulator::faults::{
    Nack, RefuseLogins, RefusePairing, Switch, check_time_scale, false_or, given, switched,
};
use serde::{Deserialize, Serialize};

use crate::number::Number;
use crate::wire::Resumption;

/// Longer delays are probably a wrong unit.
const MAX_DELAY_MS: u64 = 3_600_000;

/// Maximum number of entries in a fault's list of phone numbers or nodes.
const MAX_NAMED: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairingFault {
    #[default]
    Ok,
    /// The device identity that the phone signs has a wrong HMAC.
    Hmac,
    /// The device's response is dropped, and its connection closed.
    DropSign,
}

/// The media port answers every request with this status.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaFault {
    pub status: u16,
}

network::faults! {
    plain {
        accept_delay_ms: u64 = 0;
        accept_jitter_ms: u64 = 0;
        drop_before_accept_pct: f64 = 0.0;
        drop_after_accept_pct: f64 = 0.0;
        login_delay_ms: u64 = 0;
        groups_delay_ms: u64 = 0;
        dedup: bool = true;
        hold_inbound_acks: bool = false;
        cut_node: Vec<NodeId> = Vec::new();
        qr_time_scale: f64 = 1.0;
        ik: Resumption = Resumption::Accept;
        pairing: PairingFault = PairingFault::Ok;
        usync_empty: Vec<Number> = Vec::new();
        prekeys_empty: Vec<Number> = Vec::new();
        offline_primer: bool = true;
    }
    nullable {
        nack: Nack;
        media: MediaFault;
    }
    switched {
        refuse_logins: RefuseLogins;
        refuse_pairing: RefusePairing;
    }
}

impl Faults {
    pub fn login_delay(&self) -> Duration {
        Duration::from_millis(self.login_delay_ms)
    }

    pub fn groups_delay(&self) -> Duration {
        Duration::from_millis(self.groups_delay_ms)
    }

    /// Delay of the next response to a message.
    pub fn accept_delay(&self) -> Duration {
        let jitter = if self.accept_jitter_ms == 0 { 0 } else { rand::random::<u64>() % (self.accept_jitter_ms + 1) };
        Duration::from_millis(self.accept_delay_ms + jitter)
    }

    /// True with a probability of `pct` percent.
    pub fn hits(pct: f64) -> bool {
        pct > 0.0 && rand::random::<f64>() * 100.0 < pct
    }

    fn check(&self) -> Result<(), String> {
        let shares = [
            ("drop_before_accept_pct", self.drop_before_accept_pct),
            ("drop_after_accept_pct", self.drop_after_accept_pct),
            ("nack.pct", self.nack.map_or(0.0, |nack| nack.pct)),
        ];
        for (name, share) in shares {
            if !(0.0..=100.0).contains(&share) {
                return Err(format!("{name} must be from 0 to 100"));
            }
        }
        let delays = [
            ("accept_delay_ms", self.accept_delay_ms),
            ("accept_jitter_ms", self.accept_jitter_ms),
            ("login_delay_ms", self.login_delay_ms),
            ("groups_delay_ms", self.groups_delay_ms),
        ];
        for (name, delay) in delays {
            if delay > MAX_DELAY_MS {
                return Err(format!("{name} must be at most {MAX_DELAY_MS}"));
            }
        }
        if self.media.is_some_and(|media| !(400..=599).contains(&media.status)) {
            return Err("media.status must be from 400 to 599".into());
        }
        let lists = [
            ("cut_node", self.cut_node.len()),
            ("usync_empty", self.usync_empty.len()),
            ("prekeys_empty", self.prekeys_empty.len()),
        ];
        if let Some((name, _)) = lists.iter().find(|(_, named)| *named > MAX_NAMED) {
            return Err(format!("{name} may name at most {MAX_NAMED}"));
        }
        check_time_scale(self.qr_time_scale)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn change(json: &str) -> Result<Faults, String> {
        let change = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Faults { dedup: false, ..Faults::none(1.0) }.changed(change)
    }

    #[test]
    fn what_is_left_out_keeps_its_value() {
        let changed =
            change(r#"{ "ik": "reject", "usync_empty": ["15551110000"], "refuse_logins": "version" }"#).unwrap();
        assert_eq!((changed.ik, changed.dedup), (Resumption::Reject, false));
        let shown = serde_json::to_value(&changed).unwrap();
        assert_eq!(shown["usync_empty"], serde_json::json!(["15551110000"]));
        assert_eq!((&shown["refuse_logins"], &shown["refuse_pairing"]), (&"version".into(), &false.into()));
    }

    #[test]
    fn a_fault_out_of_range_or_unknown_is_refused() {
        for wrong in [
            r#"{ "drop_before_accept_pct": 101 }"#,
            r#"{ "accept_delay_ms": 3600001 }"#,
            r#"{ "refuse_logins": true }"#,
            r#"{ "usync_empty": ["none"] }"#,
            r#"{ "ik": "perhaps" }"#,
            r#"{ "media_fail": "refuse" }"#,
            r#"{ "media": { "status": 200 } }"#,
        ] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }
}
