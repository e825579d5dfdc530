//! The faults that the control API injects.

use model::id::NodeId;
use serde::{Deserialize, Deserializer, Serialize};

/// Declares the faults of a network: plain values, nullable values, and switches, which are `false` or a mode. The
/// caller must have `given`, `false_or`, `switched` and `Switch` in scope, and give `Faults` a method `check`.
#[macro_export]
macro_rules! faults {
    (
        plain { $($(#[$about:meta])* $plain:ident: $of:ty = $usual:expr;)* }
        nullable { $($(#[$nullable_about:meta])* $nullable:ident: $nullable_of:ty;)* }
        switched { $($(#[$switch_about:meta])* $switch:ident: $switch_of:ty;)* }
    ) => {
        /// The active faults.
        #[derive(Clone, Debug, PartialEq, Serialize)]
        pub struct Faults {
            $($(#[$about])* pub $plain: $of,)*
            $($(#[$nullable_about])* pub $nullable: Option<$nullable_of>,)*
            $($(#[$switch_about])* #[serde(serialize_with = "false_or")] pub $switch: Option<$switch_of>,)*
        }

        /// A change of faults; omitted fields keep their value.
        #[derive(Clone, Debug, Default, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct FaultsChange {
            $(pub $plain: Option<$of>,)*
            $(#[serde(deserialize_with = "given")] pub $nullable: Option<Option<$nullable_of>>,)*
            $(pub $switch: Option<Switch<$switch_of>>,)*
        }

        impl Faults {
            pub fn none(qr_time_scale: f64) -> Self {
                let usual = Self { $($plain: $usual,)* $($nullable: None,)* $($switch: None,)* };
                Self { qr_time_scale, ..usual }
            }

            /// The faults after a change.
            ///
            /// # Errors
            /// A message that names the field and its permitted values.
            pub fn changed(&self, change: FaultsChange) -> Result<Self, String> {
                let next = Self {
                    $($plain: change.$plain.unwrap_or_else(|| self.$plain.clone()),)*
                    $($nullable: change.$nullable.unwrap_or(self.$nullable),)*
                    $($switch: switched(stringify!($switch), change.$switch, self.$switch)?,)*
                };
                next.check()?;
                Ok(next)
            }
        }
    };
}

faults! {
    plain {
        /// Delays the answer to a send; the sends of one device keep their order.
        accept_delay_ms: u64 = 0;
        /// Maximum random addition to that delay.
        accept_jitter_ms: u64 = 0;
        /// Percentage of sends that are lost without an answer, before they count.
        drop_before_accept_pct: f64 = 0.0;
        /// Percentage of sends that are delivered but whose acceptance is lost.
        drop_after_accept_pct: f64 = 0.0;
        login_delay_ms: u64 = 0;
        /// Whether a repeated message id is dropped, as in the real network.
        dedup: bool = true;
        /// Holds acknowledgements back until this is off again; those of a session that ends meanwhile are lost.
        hold_inbound_acks: bool = false;
        /// Nodes whose connections are cut and refused.
        cut_node: Vec<NodeId> = Vec::new();
        /// Multiplies the lifetime of QR texts and pair codes.
        qr_time_scale: f64 = 1.0;
        /// Delays the end of an upload and the beginning of a download.
        media_delay_ms: u64 = 0;
        /// Operations are executed but not answered.
        mute_operations: bool = false;
        /// How many more patches of chats conflict with one of another device.
        conflicting_patches: u32 = 0;
    }
    nullable {
        nack: Nack;
        /// Retention of media, including media that is stored already; `null` for the network's 14 days.
        media_ttl_ms: u64;
    }
    switched {
        refuse_logins: RefuseLogins;
        refuse_pairing: RefusePairing;
        media_fail: MediaFail;
    }
}

/// Refuses a percentage of sends with a code.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nack {
    pub code: u16,
    pub pct: f64,
}

impl Nack {
    /// The text that the network sends with the code.
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
    /// The phone has too many devices, so the link is refused.
    DeviceLimit,
    /// No pair code is issued.
    Code,
}

/// How uploads and downloads fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaFail {
    /// Refused for good.
    Refuse,
    /// Interrupted in the middle.
    Break,
}

/// `false`, or the mode of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "expected false or one of the fault's names")]
pub enum Switch<T> {
    Off(bool),
    On(T),
}

/// Maximum delay; a longer one is most likely a mistake in the unit.
const MAX_DELAY_MS: u64 = 3_600_000;

impl Faults {
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

/// Whether QR lifetimes can be multiplied by this factor.
///
/// # Errors
/// A message that names the permitted range.
pub fn check_time_scale(scale: f64) -> Result<(), String> {
    if (0.001..=1000.0).contains(&scale) { Ok(()) } else { Err("qr_time_scale must be from 0.001 to 1000".into()) }
}

/// The value of a switch after a change.
///
/// # Errors
/// A message that names the field and its permitted values.
pub fn switched<T>(name: &str, change: Option<Switch<T>>, now: Option<T>) -> Result<Option<T>, String> {
    match change {
        None => Ok(now),
        Some(Switch::Off(false)) => Ok(None),
        Some(Switch::Off(true)) => Err(format!("{name} must be false or say how")),
        Some(Switch::On(how)) => Ok(Some(how)),
    }
}

/// Serializes a switch: `false`, or its mode.
///
/// # Errors
/// Those of the serializer.
pub fn false_or<T: Serialize, S: serde::Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_bool(false),
        Some(value) => value.serialize(serializer),
    }
}

/// Distinguishes a field that is `null` from one that is omitted.
///
/// # Errors
/// Those of the deserializer.
pub fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
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
