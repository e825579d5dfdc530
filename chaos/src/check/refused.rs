//! I6: once a revoke, a disable or a delete is answered, no node acts against it.

use std::collections::HashMap;
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::{Answer, At, Call, Collected, FaultKind, Op};

/// A request that was on its way when the answer went out may arrive a little after it.
const ON_THE_WAY: Duration = Duration::from_secs(3);
/// The longest that one attempt takes (supplement 20.5), with a node that is slow to begin it.
const ATTEMPT: Duration = Duration::from_secs(25);

pub fn judge(run: &Collected, finding: &mut Finding) {
    let ended = ended(run);
    let (mut after, mut unknown) = (0, 0);
    for call in run.calls() {
        let touched = touched(call).filter_map(|(id, verb)| ended.get(id).map(|end| (id, verb, end)));
        for (id, verb, end) in touched.filter(|(_, _, end)| end.end <= call.begin) {
            after += 1;
            unknown += usize::from(!call.is_done() && call.refusal().is_none());
            let acted = match call.answer() {
                Some(Answer::Ids { ids }) => ids.iter().any(|listed| listed == id),
                answer => answer.is_some(),
            };
            if acted {
                finding.violated(
                    format!("a node {verb} what was gone"),
                    [
                        format!("{id}: {:?} answered by node {} at {}", end.op, end.node, end.end),
                        format!("{:?} through node {}, {} to {}", call.op, call.node, call.begin, call.end),
                    ],
                );
            }
        }
    }
    finding.count(format!("{} revoked or deleted", figure(ended.len())));
    finding.count(format!("{} calls after it, {} with an unknown outcome", figure(after), figure(unknown)));
    webhooks(run, finding);
}

/// What was revoked or deleted, with the call that was answered first.
fn ended(run: &Collected) -> HashMap<&str, &Call> {
    let mut ended: HashMap<&str, &Call> = HashMap::new();
    for call in run.calls().filter(|call| call.is_done()) {
        if let Op::RevokeKey { key: id } | Op::DeleteChannel { channel: id } | Op::DeleteEndpoint { endpoint: id } =
            &call.op
        {
            let first = ended.entry(id).or_insert(call);
            if call.end < first.end {
                *first = call;
            }
        }
    }
    ended
}

/// What a call uses, and in what words it would be a breach.
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

/// No request reaches an endpoint that is off or gone.
fn webhooks(run: &Collected, finding: &mut Finding) {
    let quiet = quiet(run);
    let of_hooks: HashMap<&str, (&str, &Quiet)> =
        quiet.iter().flat_map(|(id, quiet)| quiet.hooks.iter().map(move |hook| (*hook, (*id, quiet)))).collect();
    let (mut requests, mut late) = (0, 0);
    for request in run.webhooks() {
        let Some((endpoint, quiet)) = of_hooks.get(request.hook.as_str()) else { continue };
        requests += 1;
        let Some((from, _)) = quiet.times.iter().find(|(from, to)| *from < request.at && request.at < *to) else {
            continue;
        };
        if request.at <= from.plus(grace(run, *from, request.at)) {
            late += 1;
            continue;
        }
        finding.violated(
            "an endpoint that was off or gone was called",
            [format!("{endpoint}, off since {from}: {} of {} at {}", request.delivery, request.event_id, request.at)],
        );
    }
    let times: usize = quiet.values().map(|quiet| quiet.times.len()).sum();
    finding.count(format!(
        "{} requests at {} endpoints that were off {} times",
        figure(requests),
        figure(quiet.len()),
        figure(times)
    ));
    if late > 0 {
        finding.note(format!("{} requests were on their way when their endpoint was switched off", figure(late)));
    }
}

#[derive(Default)]
struct Quiet<'a> {
    /// Paths that belong to the endpoint, in the versions that it had.
    hooks: Vec<&'a str>,
    /// From an answer that switched it off to the next call that may have switched it on.
    times: Vec<(At, At)>,
}

fn quiet(run: &Collected) -> HashMap<&str, Quiet<'_>> {
    let mut endpoints: HashMap<&str, (Vec<&str>, Vec<&Call>)> = HashMap::new();
    for call in run.calls() {
        match &call.op {
            Op::CreateEndpoint { hook } => {
                if let Some(id) = call.made() {
                    endpoints.entry(id).or_default().0.push(hook);
                }
            }
            Op::ChangeEndpoint { endpoint, hook, .. } => {
                let (hooks, calls) = endpoints.entry(endpoint).or_default();
                hooks.push(hook);
                calls.push(call);
            }
            Op::DeleteEndpoint { endpoint } => endpoints.entry(endpoint).or_default().1.push(call),
            _ => {}
        }
    }
    let quiet = endpoints.into_iter().map(|(id, (hooks, calls))| {
        let ons = || calls.iter().filter(|call| matches!(call.op, Op::ChangeEndpoint { enabled: true, .. }));
        let off = |call: &&&Call| match call.op {
            Op::ChangeEndpoint { enabled, .. } => !enabled && call.is_done(),
            _ => call.is_done(),
        };
        let times = calls.iter().filter(off).map(|call| {
            // A call to switch it on that was under way at the same time, or still may be, may have come second.
            let second = |on: &&&Call| on.refusal().is_none() && (on.end >= call.begin || !on.is_done());
            let on = ons().filter(second).map(|on| on.begin).min();
            let gone = matches!(call.op, Op::DeleteEndpoint { .. });
            (call.end, if gone { At(u64::MAX) } else { on.unwrap_or(At(u64::MAX)) })
        });
        (id, Quiet { hooks, times: times.collect() })
    });
    quiet.collect()
}

/// How long after the answer a request may still arrive that was begun before it.
fn grace(run: &Collected, from: At, at: At) -> Duration {
    const AFTER: Duration = Duration::from_secs(10);
    let near: Vec<_> = run.faults().filter(|fault| fault.touches(from.minus(ATTEMPT), at, AFTER)).collect();
    if near.is_empty() {
        return ON_THE_WAY;
    }
    let stood = near.iter().filter(|fault| fault.kind == FaultKind::Pause).map(|fault| fault.to.since(fault.from));
    ATTEMPT + stood.sum::<Duration>()
}
