//! What goes wrong at the moment, by order of the control API: the simulator's faults that make sense here, and this
//! network's own.

use std::time::Duration;

use model::id::NodeId;
use network::simulator::faults::{Nack, RefuseLogins, RefusePairing, Switch, check_time_scale};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::number::Number;
use crate::wire::Resumption;

/// Longer delays are surely a mistake of the unit.
const MAX_DELAY_MS: u64 = 3_600_000;

/// So many numbers or nodes a list of a fault may name.
const MAX_NAMED: usize = 10_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PairingFault {
    #[default]
    Ok,
    /// The phone's word for the device has a wrong HMAC.
    Hmac,
    /// The device's answer is lost and its connection cut.
    DropSign,
}

/// What the media port answers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MediaFault {
    pub status: u16,
}

#[derive(Clone, Debug, Serialize)]
pub struct Faults {
    pub accept_delay_ms: u64,
    pub accept_jitter_ms: u64,
    pub drop_before_accept_pct: f64,
    pub drop_after_accept_pct: f64,
    pub nack: Option<Nack>,
    #[serde(serialize_with = "false_or")]
    pub refuse_logins: Option<RefuseLogins>,
    #[serde(serialize_with = "false_or")]
    pub refuse_pairing: Option<RefusePairing>,
    pub login_delay_ms: u64,
    pub dedup: bool,
    pub hold_inbound_acks: bool,
    pub cut_node: Vec<NodeId>,
    pub qr_time_scale: f64,
    pub ik: Resumption,
    pub pairing: PairingFault,
    #[serde(serialize_with = "as_texts")]
    pub usync_empty: Vec<Number>,
    #[serde(serialize_with = "as_texts")]
    pub prekeys_empty: Vec<Number>,
    pub media: Option<MediaFault>,
    pub offline_primer: bool,
}

/// A change of faults; what is left out keeps its value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FaultsChange {
    accept_delay_ms: Option<u64>,
    accept_jitter_ms: Option<u64>,
    drop_before_accept_pct: Option<f64>,
    drop_after_accept_pct: Option<f64>,
    #[serde(deserialize_with = "given")]
    nack: Option<Option<Nack>>,
    refuse_logins: Option<Switch<RefuseLogins>>,
    refuse_pairing: Option<Switch<RefusePairing>>,
    login_delay_ms: Option<u64>,
    dedup: Option<bool>,
    hold_inbound_acks: Option<bool>,
    cut_node: Option<Vec<NodeId>>,
    qr_time_scale: Option<f64>,
    ik: Option<Resumption>,
    pairing: Option<PairingFault>,
    usync_empty: Option<Vec<String>>,
    prekeys_empty: Option<Vec<String>>,
    #[serde(deserialize_with = "given")]
    media: Option<Option<MediaFault>>,
    offline_primer: Option<bool>,
}

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
            ik: Resumption::Accept,
            pairing: PairingFault::Ok,
            usync_empty: Vec::new(),
            prekeys_empty: Vec::new(),
            media: None,
            offline_primer: true,
        }
    }

    pub fn login_delay(&self) -> Duration {
        Duration::from_millis(self.login_delay_ms)
    }

    /// How much later the next answer to a message comes.
    pub fn accept_delay(&self) -> Duration {
        let jitter = if self.accept_jitter_ms == 0 { 0 } else { rand::random::<u64>() % (self.accept_jitter_ms + 1) };
        Duration::from_millis(self.accept_delay_ms + jitter)
    }

    /// Whether one of `pct` in a hundred is hit.
    pub fn hits(pct: f64) -> bool {
        pct > 0.0 && rand::random::<f64>() * 100.0 < pct
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
            ik: change.ik.unwrap_or(self.ik),
            pairing: change.pairing.unwrap_or(self.pairing),
            usync_empty: numbers("usync_empty", change.usync_empty, &self.usync_empty)?,
            prekeys_empty: numbers("prekeys_empty", change.prekeys_empty, &self.prekeys_empty)?,
            media: change.media.unwrap_or(self.media),
            offline_primer: change.offline_primer.unwrap_or(self.offline_primer),
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
        ];
        for (name, delay) in delays {
            if delay > MAX_DELAY_MS {
                return Err(format!("{name} must be at most {MAX_DELAY_MS}"));
            }
        }
        if self.media.is_some_and(|media| !(400..=599).contains(&media.status)) {
            return Err("media.status must be from 400 to 599".into());
        }
        if self.cut_node.len() > MAX_NAMED {
            return Err(format!("cut_node may name at most {MAX_NAMED} nodes"));
        }
        check_time_scale(self.qr_time_scale)
    }
}

fn switched<T>(name: &str, change: Option<Switch<T>>, now: Option<T>) -> Result<Option<T>, String> {
    match change {
        None => Ok(now),
        Some(Switch::Off(false)) => Ok(None),
        Some(Switch::Off(true)) => Err(format!("{name} must be false or say how")),
        Some(Switch::On(how)) => Ok(Some(how)),
    }
}

fn numbers(name: &str, change: Option<Vec<String>>, now: &[Number]) -> Result<Vec<Number>, String> {
    let Some(texts) = change else { return Ok(now.to_vec()) };
    if texts.len() > MAX_NAMED {
        return Err(format!("{name} may name at most {MAX_NAMED} numbers"));
    }
    texts.iter().map(|text| Number::of_text(text).ok_or_else(|| format!("{name}: {text:?} is no number"))).collect()
}

fn false_or<T: Serialize, S: Serializer>(value: &Option<T>, serializer: S) -> Result<S::Ok, S::Error> {
    match value {
        None => serializer.serialize_bool(false),
        Some(value) => value.serialize(serializer),
    }
}

fn as_texts<S: Serializer>(numbers: &[Number], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(numbers.iter().map(ToString::to_string))
}

/// Tells a field that is `null` from one that is left out.
fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
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
