//! I1 for a channel that stops while it has much to send: what was accepted before the stop reaches the network or ends
//! `failed`, whoever owns the channel then, and nothing of it is sent once the channel has been resumed.

use std::collections::HashMap;

use super::lost::{failures, was_refused};
use super::verdict::{Finding, figure};
use crate::history::record::Channel;
use crate::history::{Call, Collected, LedgerRow, Login, Op};

/// Failure code of a send that has not reached the network.
const UNSENT: &str = "channel_unavailable";

/// Failure code of a send that may or may not have reached the network.
const UNKNOWN: &str = "outcome_unknown";

pub fn judge(run: &Collected, finding: &mut Finding) {
    let stopped = &run.evidence.stage.stopped;
    if stopped.is_empty() {
        return;
    }
    let accepted: HashMap<&str, &LedgerRow> = run.evidence.ledger.iter().map(|row| (row.id.as_str(), row)).collect();
    let told = failures(run);
    let (mut taken, mut sent, mut ended) = (0, 0, 0);
    for channel in stopped {
        let calls = Calls::of(run, channel);
        for call in &calls.sends {
            let Some(message) = call.taken() else { continue };
            taken += 1;
            let row = accepted.get(message).copied();
            let code = run.evidence.failed.get(message).map(String::as_str);
            sent += usize::from(row.is_some());
            ended += usize::from(row.is_none() && code.is_some());
            let evidence = |more: String| {
                let Channel { id, .. } = channel;
                [format!("{message} of channel {id}, taken by node {} at {}{more}", call.node, call.end)]
            };
            match (row, code) {
                (None, None) if told.contains_key(message) => {}
                (None, None) => finding.violated(
                    "a send of a channel that was stopped was neither accepted nor ended",
                    evidence(String::new()),
                ),
                (Some(row), Some(UNSENT)) => finding.violated(
                    format!("a send ended {UNSENT}, and the network has it"),
                    evidence(format!(", accepted as {}", row.seq)),
                ),
                (None, Some(_)) if was_refused(run, call, told.get(message).copied()) => {}
                (_, Some(code)) if !calls.stopped_after(call) || ![UNSENT, UNKNOWN].contains(&code) => finding
                    .violated(
                        format!("a send ended failed ({code}), and no stop explains it"),
                        evidence(String::new()),
                    ),
                _ => {}
            }
            if let Some(row) = row
                && let Some(on) = calls.let_on_after(call)
                && was_written_after(run, channel, row, on)
            {
                let more = format!(", accepted at {}; on again by {:?} at {}", run.meta.at(row.at), on.op, on.end);
                finding
                    .violated("a send from before a stop went out after the channel was let on again", evidence(more));
            }
        }
    }
    finding.judged(taken);
    finding.count(format!(
        "{} sends of channels that were stopped, {} accepted and {} ended",
        figure(taken),
        figure(sent),
        figure(ended)
    ));
}

/// Whether only an owner that logged in after the call `on` can have written what the network accepted. As the network
/// may be slow to accept, it is unknown when an owner wrote that had logged in before, too.
fn was_written_after(run: &Collected, channel: &Channel, row: &LedgerRow, on: &Call) -> bool {
    let logins = run.evidence.logins.get(&channel.number).map_or(&[][..], Vec::as_slice);
    let writer = |login: &&Login| (login.node, login.epoch) == (row.node, row.epoch) && login.at <= row.at;
    let mut began = logins.iter().filter(writer).map(|login| run.meta.at(login.at)).peekable();
    began.peek().is_some() && began.all(|at| on.begin < at)
}

/// The calls on a channel.
struct Calls<'a> {
    sends: Vec<&'a Call>,
    stops: Vec<&'a Call>,
    ons: Vec<&'a Call>,
}

impl<'a> Calls<'a> {
    fn of(run: &'a Collected, channel: &Channel) -> Self {
        let mut calls = Self { sends: Vec::new(), stops: Vec::new(), ons: Vec::new() };
        for call in run.calls() {
            match &call.op {
                Op::Send { channel: id, .. } if *id == channel.id => calls.sends.push(call),
                Op::DisableChannel { channel: id }
                | Op::DisconnectChannel { channel: id }
                | Op::UnlinkChannel { channel: id }
                    if *id == channel.id =>
                {
                    calls.stops.push(call);
                }
                Op::EnableChannel { channel: id } | Op::ConnectChannel { channel: id }
                    if *id == channel.id && call.is_done() =>
                {
                    calls.ons.push(call);
                }
                _ => {}
            }
        }
        calls
    }

    /// Whether a stop may have come after a send.
    fn stopped_after(&self, send: &Call) -> bool {
        self.stops.iter().any(|stop| stop.refusal().is_none() && send.begin <= stop.end)
    }

    /// The first call that resumed the channel after a stop that came after a send.
    fn let_on_after(&self, send: &Call) -> Option<&'a Call> {
        let stop =
            self.stops.iter().filter(|stop| stop.is_done() && send.begin <= stop.begin).min_by_key(|stop| stop.end);
        let stop = stop?;
        self.ons.iter().copied().filter(|on| stop.end <= on.begin).min_by_key(|on| on.end)
    }
}
