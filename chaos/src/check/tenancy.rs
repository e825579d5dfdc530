//! I12: no tenant sees or touches anything of another, through any node.

use std::collections::HashMap;

use super::verdict::{Finding, figure};
use crate::history::{Answer, Collected, Op, Outcome, Record};

pub fn judge(run: &Collected, finding: &mut Finding) {
    let owners = Owners::of(run);
    trespasses(run, finding);
    lists(run, &owners, finding);
    events(run, &owners, finding);
}

/// Checks that another tenant's resource looks like a missing one: 404 and nothing else, unless the caller was not
/// admitted at all. A list that is filtered by it is empty.
fn trespasses(run: &Collected, finding: &mut Finding) {
    let (mut tried, mut missing) = (0, 0);
    for call in run.calls() {
        let Op::Trespass { what } = &call.op else { continue };
        let breach = match &call.outcome {
            Outcome::Done(Answer::Ids { ids }) if ids.is_empty() => None,
            Outcome::Done(_) => Some("a tenant was let at another's"),
            Outcome::Refused { status: 404, .. } => None,
            // The call was never made, or refused before the target was looked up; or its outcome is unknown.
            Outcome::Refused { status: 0 | 429, .. } | Outcome::Unknown { .. } => continue,
            Outcome::Refused { .. } => Some("a tenant could tell another's from a missing one"),
        };
        tried += 1;
        missing += usize::from(breach.is_none());
        if let Some(breach) = breach {
            let seen = format!("{what} by {} through node {} at {}", call.tenant, call.node, call.begin);
            finding.violated(breach, [format!("{seen}: {:?}", call.outcome)]);
        }
    }
    finding.judged(tried);
    finding.count(format!("{} tries at another's, {} answered as missing", figure(tried), figure(missing)));
}

fn lists(run: &Collected, owners: &Owners, finding: &mut Finding) {
    let mut listed = 0;
    for call in run.calls() {
        let Some(Answer::Ids { ids }) = call.answer().filter(|_| is_list(&call.op)) else { continue };
        listed += 1;
        let foreign: Vec<_> = ids.iter().filter(|id| owners.is_foreign(id, &call.tenant)).cloned().collect();
        if !foreign.is_empty() {
            let what = format!("{:?} of {} through node {} shows another's", call.op, call.tenant, call.node);
            finding.violated(what, [format!("at {}: {}", call.begin, foreign.join(", "))]);
        }
    }
    finding.count(format!("{} lists", figure(listed)));
}

fn is_list(op: &Op) -> bool {
    matches!(op, Op::ListChannels | Op::ListEndpoints | Op::ListMessages)
}

fn events(run: &Collected, owners: &Owners, finding: &mut Finding) {
    let (mut webhooks, mut frames) = (0, 0);
    for record in &run.records {
        match record {
            Record::Webhook(request) => {
                webhooks += 1;
                let hears = owners.of_hooks.get(request.hook.as_str());
                if let Some(tenant) = hears.filter(|tenant| owners.is_foreign(&request.channel, tenant)) {
                    let what = format!("{} of channel {} at {}", request.event_id, request.channel, request.at);
                    finding.violated(format!("an endpoint of {tenant} heard of another's channel"), [what]);
                }
            }
            Record::Frame(frame) => {
                frames += 1;
                if let Some(channel) = frame.channel.as_ref().filter(|id| owners.is_foreign(id, &frame.tenant)) {
                    let what = format!(
                        "{:?} of channel {channel} through node {} at {}",
                        frame.event_id, frame.node, frame.at
                    );
                    finding.violated(format!("a stream of {} showed another's channel", frame.tenant), [what]);
                }
            }
            Record::Call(_)
            | Record::Fault(_)
            | Record::Damage(_)
            | Record::Leader(_)
            | Record::Progress(_)
            | Record::Ended(_) => {}
        }
    }
    finding.count(format!("{} webhooks and {} frames with their owner", figure(webhooks), figure(frames)));
}

/// The tenant of each id and each webhook path.
struct Owners<'a> {
    of_ids: HashMap<&'a str, &'a str>,
    of_hooks: HashMap<&'a str, &'a str>,
}

impl<'a> Owners<'a> {
    fn of(run: &'a Collected) -> Self {
        let stage = &run.evidence.stage;
        let mut of_ids: HashMap<&str, &str> = HashMap::new();
        of_ids.extend(stage.channels.iter().map(|channel| (channel.id.as_str(), channel.tenant.as_str())));
        of_ids.extend(stage.endpoints.iter().map(|endpoint| (endpoint.id.as_str(), endpoint.tenant.as_str())));
        let made = run.calls().filter_map(|call| call.made().map(|id| (id, call.tenant.as_str())));
        of_ids.extend(made);
        let mut of_hooks: HashMap<&str, &str> =
            stage.endpoints.iter().map(|endpoint| (endpoint.hook.as_str(), endpoint.tenant.as_str())).collect();
        of_hooks.extend(run.calls().filter_map(|call| match &call.op {
            Op::CreateEndpoint { hook } | Op::ChangeEndpoint { hook: Some(hook), .. } => {
                Some((hook.as_str(), call.tenant.as_str()))
            }
            _ => None,
        }));
        Self { of_ids, of_hooks }
    }

    /// Whether something is known to belong to another tenant.
    fn is_foreign(&self, id: &str, tenant: &str) -> bool {
        self.of_ids.get(id).is_some_and(|owner| *owner != tenant)
    }
}
