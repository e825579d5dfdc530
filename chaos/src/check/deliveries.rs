//! I5: each event has one id, each endpoint one delivery of it, and everything that happened arrives at the endpoints
//! that want it and can take it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::verdict::{Finding, figure};
use crate::history::record::{Channel, Endpoint};
use crate::history::{At, Collected, Delivery, FaultKind, Op, Record, Request};

/// A success may be forgotten with the node that heard it; the attempt is then made again, some seconds later at most.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// An answer may be lost on its way, and the attempt is then made again (supplement 20.5): of one delivery this often. The
/// next one waits for longer, and what goes on being delivered has not been ended by its success.
const REPEATS: usize = 1;

/// Answers that are lost on their way in a whole run; of many, one in a hundred.
const SELDOM: usize = 5;

/// How long before it was seen a group may have had its new leader: nodes are asked once a second, some in vain.
const SEEN: Duration = Duration::from_secs(10);

pub fn judge(run: &Collected, finding: &mut Finding) {
    one_id_each(run, finding);
    one_delivery_each(run, finding);
    let happened = Happened::of(run);
    everything_arrives(run, &happened, finding);
    nothing_is_given_up(run, &happened, finding);
    no_repeats(run, finding);
    streams(run, finding);
}

/// What an event is about.
fn about(request: &Request) -> Option<(&str, &str, &str)> {
    let single = ["message.sent", "message.received", "message.status"];
    let message = request.message.as_deref().filter(|_| single.contains(&request.event.as_str()))?;
    Some((&request.event, message, request.status.as_deref().unwrap_or_default()))
}

/// The same event always bears the same id, and the id is no other event's.
fn one_id_each(run: &Collected, finding: &mut Finding) {
    let mut ids: BTreeMap<(&str, &str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut events: HashMap<&str, &Request> = HashMap::new();
    let mut forged = 0;
    for request in run.webhooks() {
        if let Some(about) = about(request) {
            ids.entry(about).or_default().insert(&request.event_id);
        }
        let first = events.entry(&request.event_id).or_insert(request);
        let same = |request: &Request| (request.event.clone(), request.channel.clone(), request.message.clone());
        if same(first) != same(request) {
            let told = |request: &Request| format!("{} {:?} at {}", request.event, request.message, request.at);
            finding.violated(format!("{} is two events", request.event_id), [told(first), told(request)]);
        }
        forged += usize::from(request.signed == Some(false));
    }
    for ((event, message, status), ids) in ids.iter().filter(|(_, ids)| ids.len() > 1) {
        let ids = ids.iter().map(|id| (*id).to_owned());
        finding.violated(format!("{event} {status} of {message} was told under several ids"), ids);
    }
    if forged > 0 {
        finding.violated(format!("{forged} requests bore a signature that does not hold"), []);
    }
    finding.count(format!("{} events told", figure(events.len())));
}

/// One delivery for each endpoint and event, by what receivers saw and by what the gateway says.
fn one_delivery_each(run: &Collected, finding: &mut Finding) {
    let mut deliveries: HashMap<(&str, &str), &Request> = HashMap::new();
    let mut requests = 0;
    for request in run.webhooks() {
        requests += 1;
        let first = deliveries.entry((&request.hook, &request.event_id)).or_insert(request);
        if first.delivery != request.delivery {
            finding.violated(
                format!("{} has two deliveries at {}", request.event_id, request.hook),
                [format!("{} at {}", first.delivery, first.at), format!("{} at {}", request.delivery, request.at)],
            );
        }
    }
    for (endpoint, rows) in &run.evidence.deliveries {
        let mut first: HashMap<&str, &Delivery> = HashMap::new();
        for row in rows {
            if let Some(before) = first.insert(&row.event_id, row) {
                finding.violated(
                    format!("{} has two deliveries at endpoint {endpoint}", row.event_id),
                    [before.id.clone(), row.id.clone()],
                );
            }
        }
    }
    finding.count(format!("{} requests for {} deliveries", figure(requests), figure(deliveries.len())));
}

/// What the network took and gave is told to every endpoint that wants it.
fn everything_arrives(run: &Collected, happened: &Happened<'_>, finding: &mut Finding) {
    let (mut due, mut told, mut waiting) = (0, 0, 0);
    for endpoint in run.evidence.stage.endpoints.iter().filter(|endpoint| endpoint.manner.takes_all()) {
        let mut heard: HashMap<(&str, &str), bool> = HashMap::new();
        for request in run.webhooks().filter(|request| request.hook == endpoint.hook) {
            if let Some((event, message, _)) = about(request) {
                *heard.entry((event, message)).or_default() |= well(request);
            }
        }
        let records = on_record(run, endpoint);
        for (event, channel, message) in happened.wanted_by(endpoint) {
            due += 1;
            if heard.get(&(event, message)).is_some_and(|well| *well) {
                told += 1;
                continue;
            }
            match records.get(&(event, message)).map(|row| (row.state.as_str(), row.overdue)) {
                Some(("pending" | "in_flight" | "retrying", false)) => waiting += 1,
                record => {
                    let state = match record {
                        Some((state, true)) => format!("{state}, and its time is past"),
                        Some((state, false)) => state.to_owned(),
                        None => "unknown to the gateway".to_owned(),
                    };
                    let tried = if heard.contains_key(&(event, message)) { "tried in vain" } else { "never tried" };
                    finding.violated(
                        format!("{event} never arrived at {} ({:?})", endpoint.hook, endpoint.manner),
                        [format!("{message} of channel {channel}: {state}, {tried}")],
                    );
                }
            }
        }
    }
    finding.count(format!("{} due at endpoints that take all, {} arrived", figure(due), figure(told)));
    if waiting > 0 {
        finding.note(format!("{} still wait for their next attempt", figure(waiting)));
    }
}

/// What a receiver never answers well stays on record for it, and as what it is.
fn nothing_is_given_up(run: &Collected, happened: &Happened<'_>, finding: &mut Finding) {
    let mut due = 0;
    let failing = |endpoint: &&Endpoint| endpoint.manner.stays_on() && !endpoint.manner.takes_all();
    for endpoint in run.evidence.stage.endpoints.iter().filter(failing) {
        let records = on_record(run, endpoint);
        for (event, channel, message) in happened.wanted_by(endpoint) {
            due += 1;
            let state = records.get(&(event, message)).map(|row| row.state.as_str());
            if state.is_none_or(|state| state == "delivered") {
                finding.violated(
                    format!("{event} was given up for {} ({:?})", endpoint.hook, endpoint.manner),
                    [format!("{message} of channel {channel}: {}", state.unwrap_or("unknown to the gateway"))],
                );
            }
        }
    }
    if due > 0 {
        finding.count(format!("{} on record for endpoints that take nothing", figure(due)));
    }
}

/// An endpoint's deliveries by event and message.
fn on_record<'a>(run: &'a Collected, endpoint: &Endpoint) -> HashMap<(&'a str, &'a str), &'a Delivery> {
    let rows = run.evidence.deliveries.get(&endpoint.id).map_or(&[][..], Vec::as_slice);
    let about = |row: &'a Delivery| row.message_id.as_deref().map(|message| ((row.event.as_str(), message), row));
    rows.iter().filter_map(about).collect()
}

/// What must be told of: event, channel and message.
struct Happened<'a> {
    channels: HashMap<&'a str, &'a Channel>,
    told: Vec<(&'static str, &'a str, &'a str)>,
}

impl<'a> Happened<'a> {
    fn of(run: &'a Collected) -> Self {
        let stage = &run.evidence.stage;
        let channels = stage.channels.iter().map(|channel| (channel.id.as_str(), channel)).collect();
        let accepted: HashSet<&str> = run.evidence.ledger.iter().map(|row| row.id.as_str()).collect();
        let mut told = Vec::new();
        for call in run.calls() {
            match (&call.op, call.taken(), call.made()) {
                (Op::Send { channel, .. }, Some(message), _) if accepted.contains(message) => {
                    told.extend(["message.sent", "message.status"].map(|event| (event, channel.as_str(), message)));
                }
                (Op::Inbound { channel, .. }, _, Some(message)) => {
                    told.push(("message.received", channel, message));
                }
                _ => {}
            }
        }
        Self { channels, told }
    }

    fn wanted_by(&self, endpoint: &Endpoint) -> impl Iterator<Item = (&'static str, &'a str, &'a str)> {
        self.told.iter().copied().filter(move |(event, channel, _)| {
            let own = self.channels.get(channel).is_some_and(|channel| channel.tenant == endpoint.tenant);
            let hears = endpoint.channel.as_deref().is_none_or(|wanted| wanted == *channel);
            own && hears && endpoint.events.iter().any(|wanted| wanted == event)
        })
    }
}

fn well(request: &Request) -> bool {
    request.answered.is_some_and(|status| (200..300).contains(&status))
}

/// A delivery ends with its success, unless the node that heard of it was hurt, or followed by another owner, before it
/// could tell.
fn no_repeats(run: &Collected, finding: &mut Finding) {
    let mut successes: HashMap<(&str, &str), Vec<At>> = HashMap::new();
    for request in run.webhooks().filter(|request| well(request)) {
        successes.entry((&request.hook, &request.event_id)).or_default().push(request.at);
    }
    let handed_over = handed_over(run);
    let (mut again, mut unexplained) = (0, 0);
    for ((hook, event_id), times) in successes.iter_mut().filter(|(_, times)| times.len() > 1) {
        times.sort_unstable();
        let forgotten = |pair: &[At]| {
            let moved = handed_over.iter().any(|(from, to)| *from <= pair[1] && pair[0] <= *to);
            moved || run.faults().any(|fault| forgets(fault.kind) && fault.touches(pair[0], pair[1], FORGOTTEN))
        };
        let strange = times.windows(2).filter(|pair| !forgotten(pair)).count();
        again += times.len() - 1;
        unexplained += strange;
        if strange > REPEATS {
            let at = times.iter().map(At::to_string).collect::<Vec<_>>().join(", ");
            finding.violated(format!("{event_id} was delivered again and again to {hook}"), [at]);
        }
    }
    finding.count(format!("{} delivered again after a success", figure(again)));
    let most = SELDOM.max(successes.len() / 100);
    if unexplained > most {
        finding.violated(
            format!("{unexplained} deliveries were made again after a success with no fault near"),
            [format!("at most {most} of {} can have lost their answer", successes.len())],
        );
    } else if unexplained > 0 {
        finding.note(format!("{} of them with no fault near", figure(unexplained)));
    }
}

/// Whether a fault strikes those who deliver: the messaging network has no part in it.
fn forgets(kind: FaultKind) -> bool {
    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Refuse, Slow};
    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Refuse | Slow)
}

/// When any group was seen with a new leader.
fn handed_over(run: &Collected) -> Vec<(At, At)> {
    let mut terms: HashMap<u16, u64> = HashMap::new();
    let leads = run.records.iter().filter_map(|record| match record {
        Record::Lead(lead) => Some(lead),
        _ => None,
    });
    // The first that is known of a group is no change, and one that is cut off tells of an old term.
    let newer = leads.filter(|lead| {
        let known = terms.get(&lead.group).copied();
        let newer = known.is_none_or(|term| term < lead.term);
        if newer {
            terms.insert(lead.group, lead.term);
        }
        newer && known.is_some()
    });
    newer.map(|lead| (lead.asked.minus(SEEN), lead.at)).collect()
}

/// A stream shows an event once, also over the connections of which each goes on where the one before ended.
fn streams(run: &Collected, finding: &mut Finding) {
    let mut seen: HashMap<(u32, &str), u32> = HashMap::new();
    let (mut frames, mut gaps) = (0, 0);
    for record in &run.records {
        let Record::Frame(frame) = record else { continue };
        frames += 1;
        gaps += usize::from(frame.event == "stream.gap");
        let Some(id) = frame.event_id.as_deref() else { continue };
        if let Some(before) = seen.insert((frame.stream, id), frame.connection) {
            finding.violated(
                format!("stream {} showed {id} twice", frame.stream),
                [format!(
                    "at its connections {before} and {} through node {} at {}",
                    frame.connection, frame.node, frame.at
                )],
            );
        }
    }
    finding.count(format!("{} frames of streams, {gaps} gaps", figure(frames)));
}
