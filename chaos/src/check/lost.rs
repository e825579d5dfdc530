//! I1: a send answered 202 is accepted by the network, unaltered and from its channel's number to its recipient, or
//! ends in `message.status` `failed`.

use std::collections::HashMap;
use std::time::Duration;

use super::number_of;
use super::repeats::is_between;
use super::stopped;
use super::verdict::{Finding, figure};
use crate::history::record::Channel;
use crate::history::{Answer, At, Call, Collected, FaultKind, InboxRow, LedgerRow, Op};

/// The longest time that a send waits for the network; it cannot be refused later than that.
const QUEUED: Duration = Duration::from_secs(24 * 3_600);

/// Failure code of a send that waited for that long. No refusal causes it.
const EXPIRED: &str = "expired_in_queue";

pub fn judge(run: &Collected, finding: &mut Finding) {
    let accepted: HashMap<&str, &LedgerRow> = run.evidence.ledger.iter().map(|row| (row.id.as_str(), row)).collect();
    let connected: HashMap<&str, &Channel> =
        run.evidence.stage.channels.iter().map(|channel| (channel.id.as_str(), channel)).collect();
    let inboxes = Inboxes::of(run);
    let failures = failures(run);
    let (mut taken, mut kept, mut failed, mut unknown) = (0, 0, 0, 0);
    for call in run.calls() {
        if let (Op::Sized { what, .. }, Some(message)) = (&call.op, call.taken()) {
            taken += 1;
            let (kept_it, failed_it) = (accepted.contains_key(message), run.evidence.failed.contains_key(message));
            kept += usize::from(kept_it);
            failed += usize::from(!kept_it && failed_it);
            if !kept_it && !failed_it {
                let told = format!("{message}, {what}, taken by node {} at {}", call.node, call.end);
                finding.violated("a send was answered 202, and the network never got it", [told]);
            }
        }
        let Op::Send { channel: id, text } = &call.op else { continue };
        let Some(channel) = connected.get(id.as_str()) else { continue };
        let Some(message) = call.taken() else {
            unknown += usize::from(!call.is_done() && call.refusal().is_none());
            continue;
        };
        taken += 1;
        let evidence = |more: String| {
            [format!("{message} ({text}) of channel {id}, taken by node {} at {}{more}", call.node, call.end)]
        };
        if let Some(row) = accepted.get(message) {
            kept += 1;
            if !is_between(channel, &row.from, &row.to) {
                let more = format!(", accepted from {} to {}", row.from, row.to);
                finding.violated("a send was accepted from or to another number than its own", evidence(more));
            }
            match inboxes.find(channel, message) {
                None => {
                    let more = format!(", accepted as {}, and not at {}", row.seq, channel.recipient);
                    finding.violated("a send was accepted, and its recipient has nothing of it", evidence(more));
                }
                Some(arrived) if arrived.text != *text => {
                    let more = format!(", arrived as {:?}", arrived.text);
                    finding.violated("a send reached its recipient with another text", evidence(more));
                }
                Some(_) => {}
            }
        } else if let Some(code) = run.evidence.failed.get(message) {
            failed += 1;
            let told = failures.get(message).copied();
            let more = told.map(|at| format!(", told of at {at}")).unwrap_or_default();
            if matches!(call.answer(), Some(Answer::Taken { queued: false, .. })) {
                // The caller was told that the network had accepted it: no refusal excuses this.
                finding.violated(format!("a send answered `sent` ended failed ({code})"), evidence(more));
            } else if code == EXPIRED || !was_refused(run, call, told) {
                // A send that ends `failed` although nothing refused it was lost, whatever the code.
                finding.violated(format!("a send ended failed ({code}) although nothing refused it"), evidence(more));
            }
        } else {
            finding.violated("a send was answered 202, and the network never got it", evidence(String::new()));
        }
    }
    finding.judged(taken);
    finding.count(format!("{} sends answered 202, {} accounted for", figure(taken), figure(kept + failed)));
    finding.count(format!("{} of them failed, {} more with an unknown outcome", figure(failed), figure(unknown)));
    stopped::judge(run, finding);
}

/// The messages that reached phones, by phone and message id.
struct Inboxes<'a>(HashMap<(&'a str, &'a str), &'a InboxRow>);

impl<'a> Inboxes<'a> {
    fn of(run: &'a Collected) -> Self {
        let rows = run.evidence.inboxes.iter().flat_map(|(phone, rows)| rows.iter().map(move |row| (phone, row)));
        Self(rows.map(|(phone, row)| ((phone.as_str(), row.id.as_str()), row)).collect())
    }

    /// A channel's message at the phone that it writes to.
    fn find(&self, channel: &Channel, message: &str) -> Option<&'a InboxRow> {
        let row = self.0.get(&(channel.recipient.as_str(), message))?;
        (number_of(&row.from) == channel.number).then_some(*row)
    }
}

/// When a receiver was first told that a message had failed.
pub(super) fn failures(run: &Collected) -> HashMap<&str, At> {
    let mut failures: HashMap<&str, At> = HashMap::new();
    for request in run.webhooks().filter(|request| request.status.as_deref() == Some("failed")) {
        if let Some(message) = request.message.as_deref() {
            let first = failures.entry(message).or_insert(request.at);
            *first = request.at.min(*first);
        }
    }
    failures
}

/// Whether the network refused sends at some moment between the beginning of a call and its failure. If no receiver was
/// told of the failure (which I5 reports), its time is unknown.
pub(super) fn was_refused(run: &Collected, call: &Call, told: Option<At>) -> bool {
    let until = told.unwrap_or_else(|| call.begin.plus(QUEUED));
    run.faults().any(|fault| fault.kind == FaultKind::Refuse && fault.touches(call.begin, until, Duration::ZERO))
}
