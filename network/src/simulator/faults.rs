//! The faults that the control API puts in force.

use model::id::NodeId;
use serde::{Deserialize, Deserializer, Serialize};

/// What goes wrong at the moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Faults {
    /// The answer to a send comes this much later; sends of one device keep their order.
    pub accept_delay_ms: u64,
    /// Up to this much more, at random.
    pub accept_jitter_ms: u64,
    /// This share of sends is lost unanswered before it counts.
    pub drop_before_accept_pct: f64,
    /// This share of sends is delivered, and the acceptance lost.
    pub drop_after_accept_pct: f64,
    pub nack: Option<Nack>,
    #[serde(serialize_with = "false_or")]
    pub refuse_logins: Option<RefuseLogins>,
    #[serde(serialize_with = "false_or")]
    pub refuse_pairing: Option<RefusePairing>,
    pub login_delay_ms: u64,
    /// Whether a repeated message id is dropped, as the real network does it.
    pub dedup: bool,
    /// Acknowledgements wait until this is off again; those of a session that ends meanwhile are lost.
    pub hold_inbound_acks: bool,
    /// Nodes whose connections are cut and refused.
    pub cut_node: Vec<NodeId>,
    /// Multiplies the life of QR texts and pair codes.
    pub qr_time_scale: f64,
    /// How long media is kept, what is kept already included; `null` for the network's 14 days.
    pub media_ttl_ms: Option<u64>,
    /// The end of an upload and the beginning of a download come this much later.
    pub media_delay_ms: u64,
    #[serde(serialize_with = "false_or")]
    pub media_fail: Option<MediaFail>,
    /// Operations are done, and not answered.
    pub mute_operations: bool,
    /// That many more patches of chats run into another device's.
    pub conflicting_patches: u32,
}

/// Refuses a share of sends with a code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nack {
    pub code: u16,
    pub pct: f64,
}

impl Nack {
    /// What the network says with the code.
    pub fn text(&self) -> &'static str {
        match self.code {
            463 => "reachout_timelock",
            475 => "new_chats_capped",
            _ => "refused by fault",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefuseLogins {
    Transport,
    Version,
    Banned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusePairing {
    /// The phone has too many devices: the link is refused.
    DeviceLimit,
    /// No pair code is given out.
    Code,
}

/// What becomes of uploads and downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaFail {
    /// Refused for good.
    Refuse,
    /// Broken off in the middle.
    Break,
}

/// A change of faults; what is left out keeps its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultsChange {
    pub accept_delay_ms: Option<u64>,
    pub accept_jitter_ms: Option<u64>,
    pub drop_before_accept_pct: Option<f64>,
    pub drop_after_accept_pct: Option<f64>,
    #[serde(deserialize_with = "given")]
    pub nack: Option<Option<Nack>>,
    pub refuse_logins: Option<Switch<RefuseLogins>>,
    pub refuse_pairing: Option<Switch<RefusePairing>>,
    pub login_delay_ms: Option<u64>,
    pub dedup: Option<bool>,
    pub hold_inbound_acks: Option<bool>,
    pub cut_node: Option<Vec<NodeId>>,
    pub qr_time_scale: Option<f64>,
    #[serde(deserialize_with = "given")]
    pub media_ttl_ms: Option<Option<u64>>,
    pub media_delay_ms: Option<u64>,
    pub media_fail: Option<Switch<MediaFail>>,
    pub mute_operations: Option<bool>,
    pub conflicting_patches: Option<u32>,
}

/// `false`, or the way in which something is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected false or one of the fault's names")]
pub enum Switch<T> {
    Off(bool),
    On(T),
}

/// Longer delays are surely a mistake of the unit.
const MAX_DELAY_MS: u64 = 3_600_000;

impl Faults {
    pub fn none(qr_time_scale: f64) -> Self {
        Self {
            accept_delay_ms: 0,
            accept_jitter_ms: 0,
            drop_before_accept_pct: 0.0,
            drop_after_accept_pct: 0.0,
            nack: None,
            refuse_logins: None,
            refuse_pairing: None,
            login_delay_ms: 0,
            dedup: true,
            hold_inbound_acks: false,
            cut_node: Vec::new(),
            qr_time_scale,
            media_ttl_ms: None,
            media_delay_ms: 0,
            media_fail: None,
            mute_operations: false,
            conflicting_patches: 0,
        }
    }

    /// The faults after a change.
    ///
    /// # Errors
    /// A text that names the field and what it may be.
    pub fn changed(&self, change: FaultsChange) -> Result<Self, String> {
        let next = Self {
            accept_delay_ms: change.accept_delay_ms.unwrap_or(self.accept_delay_ms),
            accept_jitter_ms: change.accept_jitter_ms.unwrap_or(self.accept_jitter_ms),
            drop_before_accept_pct: change.drop_before_accept_pct.unwrap_or(self.drop_before_accept_pct),
            drop_after_accept_pct: change.drop_after_accept_pct.unwrap_or(self.drop_after_accept_pct),
            nack: change.nack.unwrap_or(self.nack),
            refuse_logins: switched("refuse_logins", change.refuse_logins, self.refuse_logins)?,
            refuse_pairing: switched("refuse_pairing", change.refuse_pairing, self.refuse_pairing)?,
            login_delay_ms: change.login_delay_ms.unwrap_or(self.login_delay_ms),
            dedup: change.dedup.unwrap_or(self.dedup),
            hold_inbound_acks: change.hold_inbound_acks.unwrap_or(self.hold_inbound_acks),
            cut_node: change.cut_node.unwrap_or_else(|| self.cut_node.clone()),
            qr_time_scale: change.qr_time_scale.unwrap_or(self.qr_time_scale),
            media_ttl_ms: change.media_ttl_ms.unwrap_or(self.media_ttl_ms),
            media_delay_ms: change.media_delay_ms.unwrap_or(self.media_delay_ms),
            media_fail: switched("media_fail", change.media_fail, self.media_fail)?,
            mute_operations: change.mute_operations.unwrap_or(self.mute_operations),
            conflicting_patches: change.conflicting_patches.unwrap_or(self.conflicting_patches),
        };
        next.check()?;
        Ok(next)
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
            ("media_delay_ms", self.media_delay_ms),
        ];
        for (name, delay) in delays {
            if delay > MAX_DELAY_MS {
                return Err(format!("{name} must be at most {MAX_DELAY_MS}"));
            }
        }
        check_time_scale(self.qr_time_scale)
    }
}

/// Whether QR times can be multiplied by a number.
///
/// # Errors
/// A text that says what it may be.
pub fn check_time_scale(scale: f64) -> Result<(), String> {
    if (0.001..=1000.0).contains(&scale) { Ok(()) } else { Err("qr_time_scale must be from 0.001 to 1000".into()) }
}

fn switched<T>(name: &str, change: Option<Switch<T>>, now: Option<T>) -> Result<Option<T>, String> {
    match change {
        None => Ok(now),
        Some(Switch::Off(false)) => Ok(None),
        Some(Switch::Off(true)) => Err(format!("{name} must be false or say how")),
        Some(Switch::On(how)) => Ok(Some(how)),
    }
}

fn false_or<T: Serialize, S: serde::Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_bool(false),
        Some(value) => value.serialize(serializer),
    }
}

/// Tells a field that is `null` from one that is left out.
pub(crate) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn change(json: &str) -> Result<Faults, String> {
        let change = serde_json::from_str(json).map_err(|error| error.to_string())?;
        Faults { nack: Some(Nack { code: 400, pct: 5.0 }), dedup: false, ..Faults::none(1.0) }.changed(change)
    }

    #[test]
    fn what_is_left_out_keeps_its_value_and_null_clears() {
        let kept = change(r#"{ "accept_delay_ms": 250, "refuse_logins": "version" }"#).unwrap();
        assert_eq!((kept.accept_delay_ms, kept.dedup), (250, false));
        assert_eq!(kept.nack, Some(Nack { code: 400, pct: 5.0 }));
        assert_eq!(kept.refuse_logins, Some(RefuseLogins::Version));
        assert_eq!(change(r#"{ "nack": null }"#).unwrap().nack, None);
        assert_eq!(change(r#"{ "refuse_logins": false }"#).unwrap().refuse_logins, None);
    }

    #[test]
    fn a_fault_out_of_range_or_unknown_is_refused() {
        for wrong in [
            r#"{ "drop_before_accept_pct": 101 }"#,
            r#"{ "drop_after_accept_pct": -1 }"#,
            r#"{ "nack": { "code": 400, "pct": 200 } }"#,
            r#"{ "nack": { "code": 400 } }"#,
            r#"{ "refuse_logins": true }"#,
            r#"{ "refuse_logins": "no" }"#,
            r#"{ "refuse_pairing": "banned" }"#,
            r#"{ "qr_time_scale": 0 }"#,
            r#"{ "cut_nodes": [1] }"#,
            r#"{ "accept_delay_ms": 99999999999 }"#,
        ] {
            assert!(change(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_are_shown_with_false_where_nothing_is_refused() {
        let shown = serde_json::to_value(Faults::none(1.0)).unwrap();
        assert_eq!(shown["refuse_logins"], false);
        assert_eq!(shown["dedup"], true);
        assert_eq!(shown["nack"], serde_json::Value::Null);
    }
}
