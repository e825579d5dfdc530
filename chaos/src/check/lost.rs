//! I1: a send answered 202 is accepted by the network, or ends in `message.status` `failed`.

use std::collections::HashSet;

use super::verdict::{Finding, figure};
use crate::history::{Collected, FaultKind, Op};

pub fn judge(run: &Collected, finding: &mut Finding) {
    let accepted: HashSet<&str> = run.evidence.ledger.iter().map(|row| row.id.as_str()).collect();
    let connected: HashSet<&str> = run.evidence.stage.channels.iter().map(|channel| channel.id.as_str()).collect();
    // A send that ends `failed` although nothing refused it was lost, whatever it is called.
    let refused = run.faults().any(|fault| fault.kind == FaultKind::Refuse);
    let (mut taken, mut kept, mut failed, mut unknown) = (0, 0, 0, 0);
    for call in run.calls() {
        let Op::Send { channel, text } = &call.op else { continue };
        if !connected.contains(channel.as_str()) {
            continue;
        }
        let Some(message) = call.taken() else {
            unknown += usize::from(!call.is_done() && call.refusal().is_none());
            continue;
        };
        taken += 1;
        let evidence =
            || [format!("{message} ({text}) of channel {channel}, taken by node {} at {}", call.node, call.end)];
        if accepted.contains(message) {
            kept += 1;
        } else if let Some(code) = run.evidence.failed.get(message) {
            failed += 1;
            if !refused {
                finding.violated(format!("a send ended failed ({code}) although nothing refused it"), evidence());
            }
        } else {
            finding.violated("a send was answered 202, and the network never got it", evidence());
        }
    }
    finding.count(format!("{} sends answered 202, {} accounted for", figure(taken), figure(kept + failed)));
    finding.count(format!("{} of them failed, {} more with an unknown outcome", figure(failed), figure(unknown)));
}
