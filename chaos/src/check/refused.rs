//! I6: once a revoke, a disable or a delete is answered, no node acts against it. No call succeeds that began after the
//! answer, the network accepts nothing that was sent after it, and no endpoint that is disabled or deleted is called.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::number_of;
use super::repeats::BLUR;
use super::sends_by_text;
use super::verdict::{Finding, figure};
use crate::history::{Answer, At, Call, Collected, Fault, FaultKind, Op};

/// How long after an answer things that were in flight may arrive: a node's copy of the directory may be 2.05 s old,
/// and what the node began by it takes a while.
const ON_THE_WAY: Duration = Duration::from_secs(5);

/// The longest time that one attempt takes, including a slow start at the node.
const ATTEMPT: Duration = Duration::from_secs(25);

/// Time after which a node that was hurt knows what the others know.
const HEARS_AGAIN: Duration = Duration::from_secs(10);

/// Time after a fault within which every channel has an owner again that has compared it with the directory (I10).
const HEALED: Duration = Duration::from_secs(30);

pub fn judge(run: &Collected, finding: &mut Finding) {
    let ends = ends(run);
    calls(run, &ends, finding);
    network(run, &ends, finding);
    webhooks(run, &ends, finding);
}

/// A period in which something was off, or from which on it was gone.
struct End<'a> {
    call: &'a Call,
    gone: bool,
    /// When the next call began that may have switched it on again.
    until: At,
}

impl End<'_> {
    fn answered(&self) -> At {
        self.call.end
    }

    /// Whether something began after the answer, and ended before it may have been permitted again.
    fn spans(&self, begin: At, end: At) -> bool {
        self.answered() <= begin && end < self.until
    }
}

type Ends<'a> = HashMap<&'a str, Vec<End<'a>>>;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Switch {
    On,
    Off,
    Gone,
}

fn switch(op: &Op) -> Option<(&str, Switch)> {
    let (id, switch) = match op {
        Op::RevokeKey { key: id } | Op::DeleteChannel { channel: id } | Op::DeleteEndpoint { endpoint: id } => {
            (id, Switch::Gone)
        }
        Op::DisableChannel { channel } => (channel, Switch::Off),
        Op::EnableChannel { channel } => (channel, Switch::On),
        Op::ChangeEndpoint { endpoint, enabled: Some(true), .. } => (endpoint, Switch::On),
        Op::ChangeEndpoint { endpoint, enabled: Some(false), .. } => (endpoint, Switch::Off),
        _ => return None,
    };
    Some((id.as_str(), switch))
}

/// A caller that is told that a key is already revoked relies on it like the first one.
fn is_revoked_already(call: &Call) -> bool {
    matches!(call.op, Op::RevokeKey { .. }) && call.refusal() == Some("no_op")
}

/// The periods, by id, in which something was off or gone.
fn ends(run: &Collected) -> Ends<'_> {
    let mut ends: Ends = HashMap::new();
    let mut ons: HashMap<&str, Vec<&Call>> = HashMap::new();
    for call in run.calls() {
        let Some((id, switch)) = switch(&call.op) else { continue };
        match switch {
            Switch::On if call.refusal().is_none() => ons.entry(id).or_default().push(call),
            Switch::Off | Switch::Gone if call.is_done() || is_revoked_already(call) => {
                let end = End { call, gone: switch == Switch::Gone, until: At(u64::MAX) };
                ends.entry(id).or_default().push(end);
            }
            _ => {}
        }
    }
    for (id, ends) in &mut ends {
        let ons = ons.get(*id).map_or(&[][..], Vec::as_slice);
        for end in ends.iter_mut().filter(|end| !end.gone) {
            // A call that switches it on may have come second if it was concurrent, or its outcome is unknown.
            let second = ons.iter().filter(|on| on.end >= end.call.begin || !on.is_done());
            end.until = second.map(|on| on.begin).min().unwrap_or(end.until);
        }
    }
    ends
}

/// Checks that no call succeeds that began after the end of its target.
fn calls(run: &Collected, ends: &Ends<'_>, finding: &mut Finding) {
    let (mut after, mut unknown) = (0, 0);
    for call in run.calls() {
        for (id, verb) in touched(call) {
            // A disabled object can still be shown and changed.
            let forbids = |end: &&End<'_>| end.gone || matches!(call.op, Op::Send { .. });
            let mut ends = ends.get(id).into_iter().flatten().filter(forbids);
            let Some(end) = ends.find(|end| end.spans(call.begin, call.end)) else { continue };
            after += 1;
            unknown += usize::from(!call.is_done() && call.refusal().is_none());
            let acted = match call.answer() {
                Some(Answer::Ids { ids }) => ids.iter().any(|listed| listed == id),
                answer => answer.is_some(),
            };
            if acted {
                finding.violated(
                    format!("a node {verb} what was {}", word(end)),
                    [
                        told(id, end),
                        format!("{:?} through node {}, {} to {}", call.op, call.node, call.begin, call.end),
                    ],
                );
            }
        }
    }
    let gone = ends.values().filter(|ends| ends.iter().any(|end| end.gone)).count();
    finding.judged(after);
    finding.count(format!("{} revoked or deleted", figure(gone)));
    finding.count(format!("{} calls after an end, {} with an unknown outcome", figure(after), figure(unknown)));
}

fn word(end: &End<'_>) -> &'static str {
    if end.gone { "gone" } else { "off" }
}

fn told(id: &str, end: &End<'_>) -> String {
    format!("{id}: {:?} answered by node {} at {}", end.call.op, end.call.node, end.answered())
}

/// The targets of a call, each with the verb for a violation.
fn touched(call: &Call) -> impl Iterator<Item = (&str, &'static str)> {
    let one = match &call.op {
        Op::UseKey { key } => Some((key, "let in")),
        Op::Send { channel, .. } => Some((channel, "sent through")),
        Op::ReadChannel { channel } => Some((channel, "showed")),
        Op::RenameChannel { channel, .. } => Some((channel, "changed")),
        Op::ReadEndpoint { endpoint } => Some((endpoint, "showed")),
        Op::ChangeEndpoint { endpoint, .. } => Some((endpoint, "changed")),
        _ => None,
    };
    let listed = match (&call.op, call.answer()) {
        (Op::ListChannels | Op::ListEndpoints, Some(Answer::Ids { ids })) => ids.as_slice(),
        _ => &[],
    };
    one.into_iter().map(|(id, verb)| (id.as_str(), verb)).chain(listed.iter().map(|id| (id.as_str(), "listed")))
}

/// Checks that the network receives nothing of a channel that is off or gone: never what was sent after the answer; and
/// of earlier sends, and logins of an owner, only what was in flight.
fn network(run: &Collected, ends: &Ends<'_>, finding: &mut Finding) {
    let stage = &run.evidence.stage;
    let channels = stage.channels.iter().chain(&stage.passing);
    let of_numbers: HashMap<&str, &[End<'_>]> = channels
        .filter_map(|channel| Some((channel.number.as_str(), ends.get(channel.id.as_str())?.as_slice())))
        .collect();
    let ends_of = |number: &str| of_numbers.get(number).copied().unwrap_or_default().iter();
    let sends = sends(run);
    let (mut tried, mut late) = (0, 0);
    for row in &run.evidence.ledger {
        let (at, number) = (run.meta.at(row.at), number_of(&row.from));
        let call = sends.get(row.id.as_str());
        for end in ends_of(number) {
            if end.spans(at, at.plus(BLUR)) {
                let too_late = call.is_some_and(|call| end.answered() <= call.begin);
                if too_late || !may_be_late(run, end.answered(), at) {
                    let sent = call.map(|call| format!(", sent {} to {}", call.begin, call.end)).unwrap_or_default();
                    let seen = format!("{} accepted as {} of node {} at {at}{sent}", row.id, row.seq, row.node);
                    finding.violated(
                        format!("the network got a message of a channel that was {}", word(end)),
                        [told(number, end), seen],
                    );
                } else {
                    late += 1;
                }
            }
        }
    }
    for (number, logins) in run.evidence.logins.iter().filter(|(_, logins)| !logins.is_empty()) {
        for end in ends_of(number.as_str()) {
            tried += 1;
            for login in logins {
                let at = run.meta.at(login.at);
                if !end.spans(at, at.plus(BLUR)) || may_be_late(run, end.answered(), at) {
                    continue;
                }
                let seen = format!("login {} by node {}, epoch {}, at {at}", login.login_seq, login.node, login.epoch);
                finding.violated(
                    format!("an owner logged in for a channel that was {}", word(end)),
                    [told(number, end), seen],
                );
            }
        }
    }
    finding.judged(tried);
    finding.count(format!("{} ends of connected channels", figure(tried)));
    if late > 0 {
        finding.note(format!("{} messages were on their way when their channel was ended", figure(late)));
    }
}

/// The sends by message id: ids from responses, and ids of messages that arrived with the text of a send.
fn sends(run: &Collected) -> HashMap<&str, &Call> {
    let texts = sends_by_text(run);
    let arrived = run.evidence.inboxes.values().flatten();
    let arrived = arrived.filter_map(|row| Some((row.id.as_str(), *texts.get(row.text.as_str())?)));
    arrived.chain(run.calls().filter_map(|call| Some((call.taken()?, call)))).collect()
}

/// Whether the network may receive at `at` what a channel did before an answer. An owner that takes over after a fault
/// recovers the channel first and compares it with the directory then; an owner that does not learn of the end goes on;
/// and what was written waits where connections are cut or the network is slow.
fn may_be_late(run: &Collected, answered: At, at: At) -> bool {
    use FaultKind::{Clock, KeepRepeats, LoseAcceptances, LoseSends, Refuse};
    let delays = |kind| !matches!(kind, Clock | KeepRepeats | LoseAcceptances | LoseSends | Refuse);
    at <= answered.plus(ON_THE_WAY) || run.faults().any(|fault| delays(fault.kind) && fault.touches(at, at, HEALED))
}

/// Checks that no request reaches an endpoint that is off or gone.
fn webhooks(run: &Collected, ends: &Ends<'_>, finding: &mut Finding) {
    let mut of_hooks: HashMap<&str, &str> = HashMap::new();
    for call in run.calls() {
        match &call.op {
            Op::CreateEndpoint { hook } => of_hooks.extend(call.made().map(|id| (hook.as_str(), id))),
            Op::ChangeEndpoint { endpoint, hook: Some(hook), .. } => {
                of_hooks.insert(hook, endpoint);
            }
            _ => {}
        }
    }
    let (mut requests, mut late) = (0, 0);
    for request in run.webhooks() {
        let Some(endpoint) = of_hooks.get(request.hook.as_str()).copied() else { continue };
        requests += 1;
        let mut ends = ends.get(endpoint).into_iter().flatten();
        let Some(end) = ends.find(|end| end.answered() < request.at && request.at < end.until) else { continue };
        if request.at <= settled(run, end.answered()) {
            late += 1;
            continue;
        }
        finding.violated(
            format!("an endpoint was called that was {}", word(end)),
            [told(endpoint, end), format!("{} of {} at {}", request.delivery, request.event_id, request.at)],
        );
    }
    let endpoints: HashSet<&str> = of_hooks.into_values().collect();
    let quiet: Vec<&End<'_>> = endpoints.iter().filter_map(|id| ends.get(*id)).flatten().collect();
    let last = run.calls().map(|call| call.end).max().unwrap_or_default();
    let watched = quiet.iter().filter(|end| settled(run, end.answered()) < end.until.min(last)).count();
    finding.judged(watched);
    finding.count(format!(
        "{} requests at {} endpoints that were off {} times, {} of these for longer than an attempt",
        figure(requests),
        figure(endpoints.len()),
        figure(quiet.len()),
        figure(watched)
    ));
    if late > 0 {
        finding.note(format!("{} requests were on their way when their endpoint was switched off", figure(late)));
    }
}

/// Until when a request may arrive that was begun before an answer: soon, if no node was held up; after the time of a
/// whole attempt otherwise; and later by the duration of pauses.
fn settled(run: &Collected, answered: At) -> At {
    let soon = answered.plus(ON_THE_WAY);
    let held_up = |fault: &Fault| holds_up(fault.kind) && fault.touches(answered, soon, HEARS_AGAIN);
    let mut until = if run.faults().any(held_up) { answered.plus(ATTEMPT) } else { soon };
    let mut pauses: Vec<&Fault> =
        run.faults().filter(|fault| fault.kind == FaultKind::Pause && answered < fault.to).collect();
    pauses.sort_by_key(|pause| pause.from);
    for pause in pauses {
        if pause.from <= until {
            until = until.plus(pause.to.since(pause.from.max(answered)));
        }
    }
    until
}

/// Whether a fault delays what a node has begun, or the news of others to it. A node that dies has nothing in flight.
fn holds_up(kind: FaultKind) -> bool {
    use FaultKind::{Disk, Failpoint, NetworkCut, Pause, PeerCut};
    matches!(kind, Disk | Failpoint | NetworkCut | Pause | PeerCut)
}
