//! I4: a send of a channel that was accepted before another began goes to the network before it.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{Call, Collected, FaultKind, LedgerRow, Op};

pub fn judge(run: &Collected, finding: &mut Finding) {
    let rows: HashMap<&str, &LedgerRow> = run.evidence.ledger.iter().map(|row| (row.id.as_str(), row)).collect();
    let mut channels: BTreeMap<&str, Vec<(&Call, &LedgerRow)>> = BTreeMap::new();
    for call in run.calls() {
        if let (Op::Send { channel, .. }, Some(row)) = (&call.op, call.taken().and_then(|id| rows.get(id))) {
            channels.entry(channel).or_default().push((call, row));
        }
    }
    let (mut compared, mut excused) = (0, 0);
    for (channel, mut sends) in channels {
        let mut ended = sends.clone();
        ended.sort_by_key(|(call, _)| call.end);
        sends.sort_by_key(|(call, _)| call.begin);
        // Of all sends answered before this one began, the one that the network accepted last.
        let (mut ended, mut latest) = (ended.into_iter().peekable(), None::<(&Call, &LedgerRow)>);
        for (call, row) in sends {
            while let Some(before) = ended.next_if(|(before, _)| before.end <= call.begin) {
                latest = Some(latest.filter(|(_, latest)| latest.seq > before.1.seq).unwrap_or(before));
            }
            let Some((earlier, late)) = latest else { continue };
            compared += 1;
            if late.seq < row.seq {
                continue;
            }
            if was_lost_once(run, earlier, late) {
                excused += 1;
                continue;
            }
            let told = |call: &Call, row: &LedgerRow| {
                format!(
                    "{}: taken {} to {} by node {}, accepted as {} by node {}",
                    row.id, call.begin, call.end, call.node, row.seq, row.node
                )
            };
            finding.violated(
                format!("a later send of channel {channel} went first"),
                [told(earlier, late), told(call, row)],
            );
        }
    }
    finding.judged(compared - excused);
    finding.count(format!("{} sends came after all that had been taken before them", figure(compared)));
    if excused > 0 {
        finding.note(format!("{excused} were overtaken while the network lost sends"));
    }
}

/// Whether the network may have lost the first copy of a send, so that a later one overtook it.
fn was_lost_once(run: &Collected, call: &Call, row: &LedgerRow) -> bool {
    let accepted = run.meta.at(row.at);
    run.faults().any(|fault| fault.kind == FaultKind::LoseSends && fault.touches(call.begin, accepted, Duration::ZERO))
}
