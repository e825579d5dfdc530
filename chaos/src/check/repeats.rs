//! I2: the network's effect is exactly one per message id, one send has one id, and a refused send has none. What was sent
//! by nobody, or to somebody else, has none either. Raw copies are at most one more than what stood in their way.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::number_of;
use super::verdict::{Finding, figure};
use crate::history::record::Channel;
use crate::history::{At, Call, Collected, FaultKind, InboxRow, LedgerRow, Op, Outcome};

/// How often a send without an acceptance is written again while its session lives (design, section 8): after these
/// many seconds, then every 60.
const RESENDS: [u64; 3] = [10, 30, 70];
const RESEND_EVERY: u64 = 60;

/// A login may be noted by the network a little before the call began on our clock, which is another one.
const BLUR: Duration = Duration::from_secs(1);

pub fn judge(run: &Collected, finding: &mut Finding) {
    let sends: HashMap<&str, &Call> = run
        .calls()
        .filter_map(|call| match &call.op {
            Op::Send { text, .. } => Some((text.as_str(), call)),
            _ => None,
        })
        .collect();
    let numbers: HashSet<&str> = run.evidence.stage.channels.iter().map(|channel| channel.number.as_str()).collect();
    one_row_each(run, finding);
    let begun = one_id_each(run, &sends, &numbers, finding);
    sent_by_somebody(run, &begun, &numbers, finding);
    raw_copies(run, &begun, &numbers, finding);
}

/// An id stands in the ledger once.
fn one_row_each(run: &Collected, finding: &mut Finding) {
    let mut rows: HashMap<&str, &LedgerRow> = HashMap::new();
    for row in &run.evidence.ledger {
        if let Some(before) = rows.insert(&row.id, row) {
            finding.violated(
                "a message id had its effect twice",
                [format!("{}: rows {} and {} of the ledger", row.id, before.seq, row.seq)],
            );
        }
    }
    finding.count(format!("{} messages accepted, {} ids", figure(run.evidence.ledger.len()), figure(rows.len())));
}

/// What reached the phones is what was sent, once each. Gives when the call of each message began.
fn one_id_each<'a>(
    run: &'a Collected,
    sends: &HashMap<&str, &'a Call>,
    numbers: &HashSet<&str>,
    finding: &mut Finding,
) -> HashMap<&'a str, At> {
    let repeats_kept = run.faults().any(|fault| fault.kind == FaultKind::KeepRepeats);
    let channels: HashMap<&str, &Channel> =
        run.evidence.stage.channels.iter().map(|channel| (channel.id.as_str(), channel)).collect();
    // Of these I1 tells whether they arrived whole.
    let taken: HashSet<&str> = run.calls().filter_map(Call::taken).collect();
    let mut first: HashMap<&str, &InboxRow> = HashMap::new();
    let mut begun = HashMap::new();
    let mut arrived = 0;
    let rows = run.evidence.inboxes.iter().flat_map(|(phone, rows)| rows.iter().map(move |row| (phone, row)));
    for (phone, row) in rows.filter(|(_, row)| numbers.contains(number_of(&row.from))) {
        arrived += 1;
        // A send of unknown outcome is a call, too, and its text is known.
        let Some(call) = sends.get(row.text.as_str()) else {
            if !taken.contains(row.id.as_str()) {
                let row = format!("{} from {} at {phone}: {:?}", row.id, row.from, row.text);
                finding.violated("a message reached a phone that no client of the run sent", [row]);
            }
            continue;
        };
        begun.insert(row.id.as_str(), call.begin);
        if let Op::Send { channel: id, .. } = &call.op
            && channels.get(id.as_str()).is_none_or(|channel| !is_between(channel, &row.from, phone))
        {
            let row = format!("{} ({}) of channel {id}: from {} to {phone}", row.id, row.text, row.from);
            finding.violated("a send reached a phone from or to another number than its own", [row]);
        }
        let told = || format!("{} by node {} at {}: {:?}", row.text, call.node, call.begin, call.outcome);
        if let Some(before) = first.insert(&row.text, row).filter(|before| before.id != row.id) {
            let ids = format!("{} and {}", before.id, row.id);
            finding.violated("one send reached the phone under two ids", [ids, told()]);
        }
        if let Some(message) = call.taken().filter(|message| *message != row.id) {
            let ids = format!("answered {message}, arrived {}", row.id);
            finding.violated("a send reached the phone under another id than it was answered with", [ids, told()]);
        }
        if matches!(call.outcome, Outcome::Refused { .. }) {
            finding.violated("a refused send reached the phone", [row.id.clone(), told()]);
        }
        if row.copies > 1 && !repeats_kept {
            finding
                .violated("a message reached the phone more than once", [format!("{}, {} times", row.id, row.copies)]);
        }
    }
    finding.count(format!("{} arrived at phones", figure(arrived)));
    begun
}

/// Whether a message went from a channel to whom it writes.
pub(super) fn is_between(channel: &Channel, from: &str, to: &str) -> bool {
    number_of(from) == channel.number && number_of(to) == channel.recipient
}

/// What the network accepted of the run's numbers is a send of the run: its text is in an inbox. The inboxes are read after
/// the ledger, so that nothing is accepted and not there yet.
fn sent_by_somebody(run: &Collected, begun: &HashMap<&str, At>, numbers: &HashSet<&str>, finding: &mut Finding) {
    let taken: HashSet<&str> = run.calls().filter_map(Call::taken).collect();
    let arrived: HashSet<&str> = run.evidence.inboxes.values().flatten().map(|row| row.id.as_str()).collect();
    for row in run.evidence.ledger.iter().filter(|row| numbers.contains(number_of(&row.from))) {
        // What was taken is looked for by I1, and whatever arrived was judged by its text.
        if begun.contains_key(row.id.as_str()) || taken.contains(row.id.as_str()) || arrived.contains(row.id.as_str()) {
            continue;
        }
        let seen = format!("row {} of the ledger: {} from {} to {}", row.seq, row.id, row.from, row.to);
        finding.violated("the network accepted what no client of the run sent", [seen]);
    }
}

/// Each login, and each acceptance that does not come in time, lets the gateway write once more.
fn raw_copies(run: &Collected, begun: &HashMap<&str, At>, numbers: &HashSet<&str>, finding: &mut Finding) {
    let end = run.calls().map(|call| call.end).max().unwrap_or_default();
    let (mut copies, mut most) = (0_usize, 0);
    for row in run.evidence.ledger.iter().filter(|row| numbers.contains(number_of(&row.from))) {
        let Some(begin) = begun.get(row.id.as_str()) else { continue };
        let (raw, from) = (row.raw_copies as usize, begin.minus(BLUR));
        copies += raw - 1;
        most = most.max(raw);
        let logins = run.evidence.logins.get(number_of(&row.from)).map_or(&[][..], Vec::as_slice);
        let again = logins.iter().filter(|login| run.meta.at(login.at) >= from).count();
        let in_the_way = |kind| {
            use FaultKind::{Crash, Damage, Failpoint, KeepRepeats, Membership, Refuse};
            !matches!(kind, Crash | Damage | Failpoint | KeepRepeats | Membership | Refuse)
        };
        let stalled = run.faults().any(|fault| in_the_way(fault.kind) && fault.touches(from, end, Duration::ZERO));
        let allowed = 1 + again + if stalled { resends(end.since(*begin)) } else { 0 };
        if raw > allowed {
            let seen = format!("{}, {raw} copies, {again} logins of {} since {begin}", row.id, number_of(&row.from));
            finding.violated(format!("a send was written {raw} times where {allowed} are explained"), [seen]);
        }
    }
    finding.count(format!("{} written again, at most {most} copies of one", figure(copies)));
}

fn resends(within: Duration) -> usize {
    let seconds = within.as_secs();
    let last = RESENDS[RESENDS.len() - 1];
    let early = RESENDS.iter().filter(|at| **at <= seconds).count();
    early + usize::try_from(seconds.saturating_sub(last) / RESEND_EVERY).unwrap_or(usize::MAX)
}
