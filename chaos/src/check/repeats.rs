//! I2: the network's effect is exactly one per message id, one send has one id, and a refused send has no effect. Nor
//! has anything that no client sent, or sent to another recipient. Logins and faults explain all raw copies beyond one.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::number_of;
use super::sends_by_text;
use super::verdict::{Finding, figure};
use crate::history::record::Channel;
use crate::history::{At, Call, Collected, FaultKind, InboxRow, LedgerRow, Op, Outcome};

/// When a send without acceptance is written again while its session lives: after these many seconds, then every 60.
const RESENDS: [u64; 3] = [10, 30, 70];
const RESEND_EVERY: u64 = 60;

/// The network's clock differs from ours: its timestamps may be this much too early or too late.
pub(super) const BLUR: Duration = Duration::from_secs(1);

/// The longest time that a written message is in flight without cuts: the network may be slow to accept it.
const LINGER: Duration = Duration::from_secs(10);

/// When the gateway may have written a message: from the beginning of its call until its outcome was committed, as no
/// owner writes it after that. The first webhook about it shows the commit; without one, writes may go on.
#[derive(Clone, Copy)]
struct Life {
    begin: At,
    end: At,
}

pub fn judge(run: &Collected, finding: &mut Finding) {
    let sends = sends_by_text(run);
    let numbers: HashSet<&str> = run.evidence.stage.channels.iter().map(|channel| channel.number.as_str()).collect();
    one_row_each(run, finding);
    let lives = one_id_each(run, &sends, &numbers, finding);
    sent_by_somebody(run, &lives, &numbers, finding);
    raw_copies(run, &lives, &numbers, finding);
}

/// How long a written message may be in flight: after an outage it is retried within about the duration of the outage.
fn linger(run: &Collected) -> Duration {
    let cuts = run.faults().filter(|fault| fault.kind == FaultKind::NetworkCut);
    LINGER + cuts.map(|fault| fault.to.since(fault.from)).max().unwrap_or_default()
}

/// When receivers were first told the outcome of each send.
fn outcomes(run: &Collected) -> HashMap<&str, At> {
    let mut outcomes: HashMap<&str, At> = HashMap::new();
    let tells = |event: &str| ["message.sent", "message.status"].contains(&event);
    for request in run.webhooks().filter(|request| tells(&request.event)) {
        if let Some(message) = request.message.as_deref() {
            let first = outcomes.entry(message).or_insert(request.at);
            *first = request.at.min(*first);
        }
    }
    outcomes
}

/// Checks that an id is in the ledger only once.
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
    finding.judged(run.evidence.ledger.len());
    finding.count(format!("{} messages accepted, {} ids", figure(run.evidence.ledger.len()), figure(rows.len())));
}

/// Checks that the messages at phones are those that were sent, once each. Returns the life of each message.
fn one_id_each<'a>(
    run: &'a Collected,
    sends: &HashMap<&str, &'a Call>,
    numbers: &HashSet<&str>,
    finding: &mut Finding,
) -> HashMap<&'a str, Life> {
    let (outcomes, linger) = (outcomes(run), linger(run));
    let repeats_kept = |life: Life| {
        let mut kept = run.faults().filter(|fault| fault.kind == FaultKind::KeepRepeats);
        kept.any(|fault| fault.touches(life.begin, life.end.plus(linger), Duration::ZERO))
    };
    let channels: HashMap<&str, &Channel> =
        run.evidence.stage.channels.iter().map(|channel| (channel.id.as_str(), channel)).collect();
    // Whether these arrived unaltered is checked by I1.
    let taken: HashSet<&str> = run.calls().filter_map(Call::taken).collect();
    let mut first: HashMap<&str, &InboxRow> = HashMap::new();
    let mut lives = HashMap::new();
    let mut arrived = 0;
    let rows = run.evidence.inboxes.iter().flat_map(|(phone, rows)| rows.iter().map(move |row| (phone, row)));
    for (phone, row) in rows.filter(|(_, row)| numbers.contains(number_of(&row.from))) {
        arrived += 1;
        // A send of unknown outcome is among the calls, with its text.
        let Some(call) = sends.get(row.text.as_str()) else {
            if !taken.contains(row.id.as_str()) {
                let row = format!("{} from {} at {phone}: {:?}", row.id, row.from, row.text);
                finding.violated("a message reached a phone that no client of the run sent", [row]);
            }
            continue;
        };
        let life = Life { begin: call.begin, end: outcomes.get(row.id.as_str()).copied().unwrap_or(At(u64::MAX)) };
        lives.insert(row.id.as_str(), life);
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
        if row.copies > 1 && !repeats_kept(life) {
            finding
                .violated("a message reached the phone more than once", [format!("{}, {} times", row.id, row.copies)]);
        }
    }
    finding.judged(arrived);
    finding.count(format!("{} arrived at phones", figure(arrived)));
    lives
}

/// Whether a message went from a channel to the phone that it writes to.
pub(super) fn is_between(channel: &Channel, from: &str, to: &str) -> bool {
    number_of(from) == channel.number && number_of(to) == channel.recipient
}

/// Checks that everything the network accepted from the run's numbers is a send of the run: its text is in an inbox.
/// The inboxes are read after the ledger, so that every accepted message is there.
fn sent_by_somebody(run: &Collected, lives: &HashMap<&str, Life>, numbers: &HashSet<&str>, finding: &mut Finding) {
    let taken: HashSet<&str> = run.calls().filter_map(Call::taken).collect();
    let arrived: HashSet<&str> = run.evidence.inboxes.values().flatten().map(|row| row.id.as_str()).collect();
    for row in run.evidence.ledger.iter().filter(|row| numbers.contains(number_of(&row.from))) {
        // Answered sends are checked by I1, and messages that arrived were checked by their text.
        if lives.contains_key(row.id.as_str()) || taken.contains(row.id.as_str()) || arrived.contains(row.id.as_str()) {
            continue;
        }
        let seen = format!("row {} of the ledger: {} from {} to {}", row.seq, row.id, row.from, row.to);
        finding.violated("the network accepted what no client of the run sent", [seen]);
    }
}

/// Checks the number of raw copies: each login, and each acceptance that does not arrive in time, permits one more
/// while the message's outcome is unknown.
fn raw_copies(run: &Collected, lives: &HashMap<&str, Life>, numbers: &HashSet<&str>, finding: &mut Finding) {
    let (mut copies, mut most, linger) = (0_usize, 0, linger(run));
    for row in run.evidence.ledger.iter().filter(|row| numbers.contains(number_of(&row.from))) {
        let Some(life) = lives.get(row.id.as_str()) else { continue };
        let raw = row.raw_copies as usize;
        copies += raw - 1;
        most = most.max(raw);
        let (begin, end) = (life.begin.minus(BLUR), life.end.plus(BLUR));
        let logins = run.evidence.logins.get(number_of(&row.from)).map_or(&[][..], Vec::as_slice);
        let logins = logins.iter().map(|login| run.meta.at(login.at)).filter(|at| begin <= *at && *at <= end);
        let mut sessions: Vec<At> = [begin, end].into_iter().chain(logins).collect();
        sessions.sort_unstable();
        let again = sessions.len() - 2;
        let in_the_way = |kind| {
            use FaultKind::{Crash, Damage, Failpoint, KeepRepeats, Membership, Noise, Refuse, Use};
            !matches!(kind, Crash | Damage | Failpoint | KeepRepeats | Membership | Noise | Refuse | Use)
        };
        let mut stalled = run.faults().filter(|fault| in_the_way(fault.kind));
        let stalled = raw > 1 + again && stalled.any(|fault| fault.touches(begin, end, linger));
        // Each session restarts the timers.
        let silences = sessions.windows(2).map(|session| session[1].since(session[0]).saturating_add(BLUR));
        let allowed = 1 + again + if stalled { silences.map(resends).sum::<usize>() } else { 0 };
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
