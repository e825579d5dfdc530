//! I5: each event has one id and one delivery per endpoint, and everything that happened arrives at the endpoints that
//! want it and can accept it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::repeats::BLUR;
use super::verdict::{Finding, figure};
use crate::history::record::{Channel, Endpoint};
use crate::history::{At, Collected, Delivery, FaultKind, Frame, Op, Record, Request};

/// The event for the progress of a send. A message has several, each with another status.
const STATUS: &str = "message.status";

/// A success may be lost with the node that received the response; the attempt is then repeated within this time.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The most repeats of one delivery without a fault nearby: a response may be lost, and the attempt is then repeated.
/// Further attempts wait longer; more repeats mean that success does not end the delivery.
const REPEATS: usize = 1;

/// The most such repeats in a whole run; in a large one, 1% of its successes.
const SELDOM: usize = 5;

/// A group may have had a new leader this long before it was seen: nodes are asked once a second, and may not answer.
const SEEN: Duration = Duration::from_secs(10);

/// Actions of phones this shortly before the last call of a run may not have reached the gateway when it was queried.
const LATE: Duration = Duration::from_secs(10);

/// For this long after a jump of a clock a stream may count as unwatched: each announces itself every minute.
const UNWATCHED: Duration = Duration::from_secs(90);

pub fn judge(run: &Collected, finding: &mut Finding) {
    one_id_each(run, finding);
    one_delivery_each(run, finding);
    let happened = Happened::of(run);
    somebody_hears(run, &happened, finding);
    everything_arrives(run, &happened, finding);
    nothing_is_given_up(run, &happened, finding);
    no_repeats(run, finding);
    streams(run, finding);
}

/// The event of an inbound message.
const RECEIVED: &str = "message.received";

/// Message ids that several senders have used. A message is identified by chat, sender and id, so the sender tells
/// these apart.
type Namesakes<'a> = HashSet<&'a str>;

fn namesakes(run: &Collected) -> Namesakes<'_> {
    let written = run.calls().filter_map(|call| match &call.op {
        Op::InboundAs { id, .. } => Some(id.as_str()),
        _ => None,
    });
    written.collect()
}

/// Distinguishes an event from others of the same name and message: by its status, or by the sender.
fn which<'a>(request: &'a Request, namesakes: &Namesakes<'_>) -> &'a str {
    let is_namesake = || request.message.as_deref().is_some_and(|message| namesakes.contains(message));
    let which = if request.event == RECEIVED && is_namesake() { &request.from } else { &request.status };
    which.as_deref().unwrap_or_default()
}

/// The subject of an event: its name, its message and [`which`] of them it is.
fn about<'a>(request: &'a Request, namesakes: &Namesakes<'_>) -> Option<(&'a str, &'a str, &'a str)> {
    let single = ["message.sent", RECEIVED, STATUS];
    let message = request.message.as_deref().filter(|_| single.contains(&request.event.as_str()))?;
    Some((&request.event, message, which(request, namesakes)))
}

/// Checks that the same event always has the same id, and that no other event has it.
fn one_id_each(run: &Collected, finding: &mut Finding) {
    let mut ids: BTreeMap<(&str, &str, &str), BTreeSet<&str>> = BTreeMap::new();
    let mut events: HashMap<&str, &Request> = HashMap::new();
    let (mut forged, namesakes) = (0, namesakes(run));
    for request in run.webhooks() {
        if let Some(about) = about(request, &namesakes) {
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

/// Checks that each endpoint has one delivery per event, both at the receivers and in the gateway's records.
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

/// Checks sends that failed at once: no call names their message, and their channel is unknown. If every customer has
/// an endpoint for all events, one of them must have received the failure, unless the channel was deleted in time.
fn somebody_hears(run: &Collected, happened: &Happened<'_>, finding: &mut Finding) {
    let stage = &run.evidence.stage;
    let hears_all = |endpoint: &&Endpoint| {
        endpoint.manner.takes_all() && endpoint.channel.is_none() && endpoint.events.iter().any(|event| event == STATUS)
    };
    let hearing: HashSet<&str> =
        stage.endpoints.iter().filter(hears_all).map(|endpoint| endpoint.tenant.as_str()).collect();
    if !stage.channels.iter().all(|channel| hearing.contains(channel.tenant.as_str())) {
        return;
    }
    // Each of these calls may have caused one.
    let of_passing = run.calls().filter(|call| match &call.op {
        Op::Send { channel, .. } => !happened.channels.contains_key(channel.as_str()) && !call.is_done(),
        _ => false,
    });
    let excused = of_passing.filter(|call| matches!(call.refusal(), None | Some("other" | "undeliverable_recipient")));
    let (excused, unheard) = (excused.count(), &happened.unheard);
    finding.judged(unheard.len().saturating_sub(excused));
    if unheard.len() > excused {
        let messages = unheard.iter().map(|message| (*message).to_owned());
        finding.violated(format!("{} sends failed, and nobody was told of it", unheard.len()), messages);
    }
}

/// Checks that every endpoint receives its events for everything that the network accepted, delivered and refused.
fn everything_arrives(run: &Collected, happened: &Happened<'_>, finding: &mut Finding) {
    let (namesakes, statuses) = (namesakes(run), statuses(run));
    let (mut due, mut arrived, mut waiting) = (0, 0, 0);
    for endpoint in run.evidence.stage.endpoints.iter().filter(|endpoint| endpoint.manner.takes_all()) {
        let mut heard: HashMap<(&str, &str, &str), bool> = HashMap::new();
        for request in run.webhooks().filter(|request| request.hook == endpoint.hook) {
            if let Some(about) = about(request, &namesakes) {
                *heard.entry(about).or_default() |= well(request);
            }
        }
        let records = OnRecord::of(run, endpoint, &statuses);
        for told in happened.wanted_by(endpoint) {
            due += 1;
            let heard = heard.get(&(told.event, told.message, told.status));
            if heard.is_some_and(|well| *well) {
                arrived += 1;
                continue;
            }
            let record = records.find(told);
            if record.is_some_and(waits) {
                waiting += 1;
                continue;
            }
            let state = match record {
                Some(row) if row.overdue => format!("{}, and its time is past", row.state),
                Some(row) => row.state.clone(),
                None => "unknown to the gateway".to_owned(),
            };
            let tried = if heard.is_some() { "tried in vain" } else { "never tried" };
            finding.violated(
                format!("{told} never arrived at {} ({:?})", endpoint.hook, endpoint.manner),
                [format!("{} of channel {}: {state}, {tried}", told.message, told.channel)],
            );
        }
    }
    finding.judged(due);
    finding.count(format!("{} due at endpoints that take all, {} arrived", figure(due), figure(arrived)));
    if waiting > 0 {
        finding.note(format!("{} still wait for their next attempt", figure(waiting)));
    }
}

/// Checks that deliveries to a receiver that always fails stay on record, and not as delivered.
fn nothing_is_given_up(run: &Collected, happened: &Happened<'_>, finding: &mut Finding) {
    let statuses = statuses(run);
    let mut due = 0;
    let failing = |endpoint: &&Endpoint| endpoint.manner.stays_on() && !endpoint.manner.takes_all();
    for endpoint in run.evidence.stage.endpoints.iter().filter(failing) {
        let records = OnRecord::of(run, endpoint, &statuses);
        for told in happened.wanted_by(endpoint) {
            due += 1;
            let state = records.find(told).map(|row| row.state.as_str());
            if state.is_none_or(|state| state == "delivered") {
                let state = state.unwrap_or("unknown to the gateway");
                finding.violated(
                    format!("{told} was given up for {} ({:?})", endpoint.hook, endpoint.manner),
                    [format!("{} of channel {}: {state}", told.message, told.channel)],
                );
            }
        }
    }
    finding.judged(due);
    if due > 0 {
        finding.count(format!("{} on record for endpoints that take nothing", figure(due)));
    }
}

/// Whether a delivery waits for an attempt, or has one in progress, and is not overdue.
fn waits(row: &Delivery) -> bool {
    matches!(row.state.as_str(), "pending" | "in_flight" | "retrying") && !row.overdue
}

/// The status or the sender that each event reports; empty if it has neither.
fn statuses(run: &Collected) -> HashMap<&str, &str> {
    let namesakes = namesakes(run);
    run.webhooks().map(|request| (request.event_id.as_str(), which(request, &namesakes))).collect()
}

/// An endpoint's deliveries on record, by event and message.
struct OnRecord<'a> {
    rows: HashMap<(&'a str, &'a str), Vec<&'a Delivery>>,
    /// Status by event id, as a record does not hold it.
    statuses: &'a HashMap<&'a str, &'a str>,
}

impl<'a> OnRecord<'a> {
    fn of(run: &'a Collected, endpoint: &Endpoint, statuses: &'a HashMap<&'a str, &'a str>) -> Self {
        let mut rows: HashMap<(&str, &str), Vec<&Delivery>> = HashMap::new();
        for row in run.evidence.deliveries.get(&endpoint.id).into_iter().flatten() {
            if let Some(message) = row.message_id.as_deref() {
                rows.entry((&row.event, message)).or_default().push(row);
            }
        }
        Self { rows, statuses }
    }

    /// The delivery of an expected event. One that no receiver has seen may be of any status.
    fn find(&self, told: Told<'_>) -> Option<&'a Delivery> {
        let rows = self.rows.get(&(told.event, told.message))?;
        let status = |row: &Delivery| self.statuses.get(row.event_id.as_str()).copied();
        let its_own = rows.iter().find(|row| status(row) == Some(told.status));
        let unheard = || rows.iter().filter(|row| status(row).is_none());
        its_own.or_else(|| unheard().find(|row| waits(row))).or_else(|| unheard().next()).copied()
    }
}

/// An expected event.
#[derive(Clone, Copy)]
struct Told<'a> {
    event: &'static str,
    /// The status for `message.status`, or the sender of a message whose id others have used; else empty.
    status: &'a str,
    channel: &'a str,
    message: &'a str,
    /// When the reported action began.
    from: At,
}

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gap = if self.status.is_empty() { "" } else { " " };
        write!(f, "{}{gap}{}", self.event, self.status)
    }
}

struct Happened<'a> {
    channels: HashMap<&'a str, &'a Channel>,
    told: Vec<Told<'a>>,
    /// Failed sends of unknown channels.
    unheard: Vec<&'a str>,
}

impl<'a> Happened<'a> {
    fn of(run: &'a Collected) -> Self {
        let stage = &run.evidence.stage;
        let channels: HashMap<&str, &Channel> =
            stage.channels.iter().map(|channel| (channel.id.as_str(), channel)).collect();
        let (reached, failed) = (Reached::of(run), &run.evidence.failed);
        let mut told = Vec::new();
        let mut whose = whose(run);
        let mut begun: HashMap<&str, At> = HashMap::new();
        for call in run.calls() {
            match (&call.op, call.taken(), call.made()) {
                (Op::Send { channel, .. }, Some(message), _) => {
                    whose.insert(message, channel);
                    begun.insert(message, call.begin);
                    // If one copy was refused and another accepted, the gateway keeps the outcome that came first.
                    let channel = channels.get(channel.as_str()).copied().filter(|_| !failed.contains_key(message));
                    told.extend(channel.into_iter().flat_map(|channel| reached.told(channel, message, call.begin)));
                }
                (Op::Inbound { channel, .. }, _, Some(message)) => {
                    told.push(Told { event: RECEIVED, status: "", channel, message, from: call.begin });
                }
                (Op::InboundAs { channel, from, id }, ..) if call.is_done() => {
                    told.push(Told { event: RECEIVED, status: from, channel, message: id, from: call.begin });
                }
                _ => {}
            }
        }
        let mut unheard = Vec::new();
        for message in failed.keys() {
            match whose.get(message.as_str()).copied() {
                Some(channel) => {
                    let from = begun.get(message.as_str()).copied().unwrap_or_default();
                    told.push(Told { event: STATUS, status: "failed", channel, message, from });
                }
                None => unheard.push(message.as_str()),
            }
        }
        Self { channels, told, unheard }
    }

    fn wanted_by(&self, endpoint: &Endpoint) -> impl Iterator<Item = Told<'a>> {
        self.told.iter().copied().filter(move |told| {
            let own = self.channels.get(told.channel).is_some_and(|channel| channel.tenant == endpoint.tenant);
            let hears = endpoint.channel.as_deref().is_none_or(|wanted| wanted == told.channel);
            let was_there = endpoint.since.is_none_or(|since| since <= told.from);
            own && hears && was_there && endpoint.events.iter().any(|wanted| wanted == told.event)
        })
    }
}

/// The channel of each message in webhooks or in delivery records.
fn whose(run: &Collected) -> HashMap<&str, &str> {
    let heard = run.webhooks().map(|request| (request.message.as_deref(), request.channel.as_str()));
    let rows = run.evidence.deliveries.values().flatten();
    let on_record = rows.map(|row| (row.message_id.as_deref(), row.channel_id.as_str()));
    heard.chain(on_record).filter_map(|(message, channel)| Some((message?, channel))).collect()
}

/// How far sends came, according to the network and the phones.
struct Reached<'a> {
    /// When the network accepted each message.
    accepted: HashMap<&'a str, At>,
    /// Messages that arrived: phone and message id.
    arrived: HashSet<(&'a str, &'a str)>,
    /// By channel, when the phone that it writes to last read everything.
    opened: HashMap<&'a str, At>,
    /// What happened before this time has reached the gateway.
    heard: At,
}

impl<'a> Reached<'a> {
    fn of(run: &'a Collected) -> Self {
        let heard = run.calls().map(|call| call.end).max().unwrap_or_default().minus(LATE);
        let mut opened: HashMap<&str, At> = HashMap::new();
        for call in run.calls().filter(|call| call.is_done() && call.end <= heard) {
            if let Op::OpenChat { channel } = &call.op {
                let last = opened.entry(channel).or_default();
                *last = call.begin.max(*last);
            }
        }
        let inboxes = run.evidence.inboxes.iter();
        let arrived = inboxes.flat_map(|(phone, rows)| rows.iter().map(|row| (phone.as_str(), row.id.as_str())));
        Self {
            accepted: run.evidence.ledger.iter().map(|row| (row.id.as_str(), run.meta.at(row.at))).collect(),
            arrived: arrived.collect(),
            opened,
            heard,
        }
    }

    /// The events expected of a send.
    fn told(&self, channel: &'a Channel, message: &'a str, from: At) -> impl Iterator<Item = Told<'a>> {
        let accepted = self.accepted.get(message).copied();
        let arrived = self.arrived.contains(&(channel.recipient.as_str(), message));
        let delivered = accepted.is_some_and(|at| arrived && at <= self.heard);
        let opened = self.opened.get(channel.id.as_str()).copied().unwrap_or_default();
        let read = delivered && accepted.is_some_and(|at| at.plus(BLUR) <= opened);
        let all = [
            ("message.sent", "", accepted.is_some()),
            (STATUS, "sent", accepted.is_some()),
            (STATUS, "delivered", delivered),
            (STATUS, "read", read),
        ];
        let due = all.into_iter().filter(|(_, _, due)| *due);
        due.map(move |(event, status, _)| Told { event, status, channel: channel.id.as_str(), message, from })
    }
}

fn well(request: &Request) -> bool {
    request.answered.is_some_and(|status| (200..300).contains(&status))
}

/// Checks that a delivery ends with its success, unless the node that received the response was hurt, or lost the
/// shard, before it could record the success.
fn no_repeats(run: &Collected, finding: &mut Finding) {
    let mut successes: HashMap<(&str, &str), Vec<At>> = HashMap::new();
    for request in run.webhooks().filter(|request| well(request)) {
        successes.entry((&request.hook, &request.event_id)).or_default().push(request.at);
    }
    let leader_changes = leader_changes(run);
    let (mut again, mut unexplained) = (0, 0);
    for ((hook, event_id), times) in successes.iter_mut().filter(|(_, times)| times.len() > 1) {
        times.sort_unstable();
        let forgotten = |pair: &[At]| {
            let moved = leader_changes.iter().any(|(from, to)| *from <= pair[1] && pair[0] <= *to);
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

/// Whether a fault affects nodes, which make deliveries; faults of the messaging network do not.
fn forgets(kind: FaultKind) -> bool {
    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Noise, Refuse, Slow, Use};
    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Noise | Refuse | Slow | Use)
}

/// Intervals in which some group got a new leader.
fn leader_changes(run: &Collected) -> Vec<(At, At)> {
    let mut terms: HashMap<u16, u64> = HashMap::new();
    let looks = run.records.iter().filter_map(|record| match record {
        Record::Leader(seen) => Some(seen),
        _ => None,
    });
    // The first known term of a group is no change, and a node that is cut off reports an old term.
    let newer = looks.filter(|seen| {
        let known = terms.get(&seen.group).copied();
        let newer = known.is_none_or(|term| term < seen.term);
        if newer {
            terms.insert(seen.group, seen.term);
        }
        newer && known.is_some()
    });
    newer.map(|seen| (seen.asked.minus(SEEN), seen.at)).collect()
}

/// Checks that a stream shows an event once, including across reconnects that resume it, and omits none without a gap
/// frame.
fn streams(run: &Collected, finding: &mut Finding) {
    let mut seen: HashMap<(u32, &str), u32> = HashMap::new();
    // What each stream showed from one gap to the next.
    let mut chains: BTreeMap<u32, Vec<Vec<&Frame>>> = BTreeMap::new();
    let (mut frames, mut gaps) = (0, 0);
    let mut notices: BTreeMap<(u32, &str), BTreeSet<&str>> = BTreeMap::new();
    for record in &run.records {
        let Record::Frame(frame) = record else { continue };
        frames += 1;
        if let (Some(notice), Some(id)) = (&frame.notice, &frame.event_id) {
            notices.entry((frame.stream, notice)).or_default().insert(id);
        }
        let chains = chains.entry(frame.stream).or_insert_with(|| vec![Vec::new()]);
        if frame.event == "stream.gap" {
            gaps += 1;
            chains.push(Vec::new());
        }
        let Some(id) = frame.event_id.as_deref() else { continue };
        chains.last_mut().expect("there is one from the beginning").push(frame);
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
    once_each(&notices, finding);
    let origins = origins(run);
    let (mut due, mut excused) = (0, 0);
    for (stream, chain) in chains.iter().flat_map(|(stream, chains)| chains.iter().map(move |chain| (stream, chain))) {
        let missing = left_out(chain, &origins, &mut due);
        for (id, origin, shown) in missing {
            // A wrong clock may make a stream count as unwatched; streams are best effort.
            let clocks = run.faults().filter(|fault| fault.kind == FaultKind::Clock);
            if clocks.into_iter().any(|fault| fault.touches(origin.from, shown, UNWATCHED)) {
                excused += 1;
                continue;
            }
            let told = format!("{id} of {} and channel {}, told by {}", origin.message, origin.channel, origin.until);
            finding.violated(format!("stream {stream} left out an event between others"), [told]);
        }
    }
    finding.judged(due);
    finding.count(format!("{} due between others", figure(due)));
    if excused > 0 {
        finding.note(format!("{} left out of streams while a clock was wrong", figure(excused)));
    }
}

/// Checks that each action of a phone is one event, even if its owner died: the network tells the next owner again.
fn once_each(notices: &BTreeMap<(u32, &str), BTreeSet<&str>>, finding: &mut Finding) {
    for ((stream, notice), ids) in notices.iter().filter(|(_, ids)| ids.len() > 1) {
        let ids = ids.iter().map(|id| (*id).to_owned());
        finding.violated(format!("stream {stream} was told of {notice:?} under several ids"), ids);
    }
    finding.judged(notices.len());
    if !notices.is_empty() {
        finding.count(format!("{} notices shown", figure(notices.len())));
    }
}

/// When an event was created: after the call that caused it began, and before a receiver got it.
struct Origin<'a> {
    channel: &'a str,
    message: &'a str,
    from: At,
    until: At,
}

fn origins(run: &Collected) -> BTreeMap<&str, Origin<'_>> {
    let mut begun: HashMap<&str, At> = HashMap::new();
    for call in run.calls().filter(|call| matches!(call.op, Op::Send { .. } | Op::Inbound { .. })) {
        begun.extend(call.taken().or(call.made()).map(|message| (message, call.begin)));
    }
    let mut origins: BTreeMap<&str, Origin<'_>> = BTreeMap::new();
    for request in run.webhooks() {
        let Some(message) = request.message.as_deref() else { continue };
        let Some(from) = begun.get(message).copied() else { continue };
        let origin = || Origin { channel: &request.channel, message, from, until: request.at };
        let origin = origins.entry(&request.event_id).or_insert_with(origin);
        origin.until = request.at.min(origin.until);
    }
    origins
}

/// The events that a stream omitted although it reported no gap, each with the time by which it had shown a later one.
/// The events of a channel have one order, that of its shard's log: an event created after one shown event and before
/// another belongs between them. This needs no knowledge of when the stream began and ended, nor of other channels.
fn left_out<'a, 'b>(
    chain: &[&Frame],
    origins: &'b BTreeMap<&'a str, Origin<'a>>,
    due: &mut usize,
) -> Vec<(&'a str, &'b Origin<'a>, At)> {
    let ids: HashSet<&str> = chain.iter().filter_map(|frame| frame.event_id.as_deref()).collect();
    let shown = || chain.iter().filter_map(|frame| Some((origins.get(frame.event_id.as_deref()?)?, frame.at)));
    // By channel: the earliest time by which a shown event existed, and the latest at which another did not exist yet.
    let mut bounds: HashMap<&str, (At, At)> = HashMap::new();
    for (origin, _) in shown() {
        let (after, before) = bounds.entry(origin.channel).or_insert((origin.until, origin.from));
        (*after, *before) = (origin.until.min(*after), origin.from.max(*before));
    }
    let mut missing = Vec::new();
    for (id, origin) in origins {
        let between = |(after, before): &(At, At)| *after < origin.from && origin.until < *before;
        if !bounds.get(origin.channel).is_some_and(between) {
            continue;
        }
        *due += 1;
        if !ids.contains(id) {
            let later = shown().filter(|(later, _)| later.channel == origin.channel && origin.until < later.from);
            missing.push((*id, origin, later.map(|(_, at)| at).min().unwrap_or_default()));
        }
    }
    missing
}
