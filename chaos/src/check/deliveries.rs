//! I5: each event has one id, each endpoint one delivery of it, and everything that happened arrives at the endpoints
//! that want it and can take it.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

use super::repeats::BLUR;
use super::verdict::{Finding, figure};
use crate::history::record::{Channel, Endpoint};
use crate::history::{At, Collected, Delivery, FaultKind, Frame, Op, Record, Request};

/// The event that says how far a send is. Of one message there are several, each with another status.
const STATUS: &str = "message.status";

/// A success may be forgotten with the node that heard it; the attempt is then made again, some seconds later at most.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// An answer may be lost on its way, and the attempt is then made again: of one delivery this often. The next one waits
/// for longer, and what goes on being delivered has not been ended by its success.
const REPEATS: usize = 1;

/// Answers that are lost on their way in a whole run; of many, one in a hundred.
const SELDOM: usize = 5;

/// How long before it was seen a group may have had its new leader: nodes are asked once a second, some in vain.
const SEEN: Duration = Duration::from_secs(10);

/// What phones did so shortly before the last call of a run may not have come through when the gateway was asked.
const LATE: Duration = Duration::from_secs(10);

/// For so long after a clock has jumped nobody may know that a stream is watched: each announces itself again every minute.
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

/// The event that tells of what came in.
const RECEIVED: &str = "message.received";

/// Ids under which several senders wrote: who wrote tells their messages apart, as a message is the same when chat,
/// sender and id are.
type Namesakes<'a> = HashSet<&'a str>;

fn namesakes(run: &Collected) -> Namesakes<'_> {
    let written = run.calls().filter_map(|call| match &call.op {
        Op::InboundAs { id, .. } => Some(id.as_str()),
        _ => None,
    });
    written.collect()
}

/// What tells an event from others of its name and message: the status, or who wrote.
fn which<'a>(request: &'a Request, namesakes: &Namesakes<'_>) -> &'a str {
    let is_namesake = || request.message.as_deref().is_some_and(|message| namesakes.contains(message));
    let which = if request.event == RECEIVED && is_namesake() { &request.from } else { &request.status };
    which.as_deref().unwrap_or_default()
}

/// What an event is about.
fn about<'a>(request: &'a Request, namesakes: &Namesakes<'_>) -> Option<(&'a str, &'a str, &'a str)> {
    let single = ["message.sent", RECEIVED, STATUS];
    let message = request.message.as_deref().filter(|_| single.contains(&request.event.as_str()))?;
    Some((&request.event, message, which(request, namesakes)))
}

/// The same event always bears the same id, and the id is no other event's.
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

/// Of a send that failed at once no call names the message, nor is its channel known. Where every customer has an endpoint that
/// hears of everything, one of them was told, unless the channel was deleted in time.
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
    // Each of these may have brought about one.
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

/// What the network took, gave and refused is told to every endpoint that wants it.
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

/// What a receiver never answers well stays on record for it, and as what it is.
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

/// Whether a delivery has a next attempt, or one under way, and has not waited too long for it.
fn waits(row: &Delivery) -> bool {
    matches!(row.state.as_str(), "pending" | "in_flight" | "retrying") && !row.overdue
}

/// The status that each event tells of, or who wrote; empty where neither is told.
fn statuses(run: &Collected) -> HashMap<&str, &str> {
    let namesakes = namesakes(run);
    run.webhooks().map(|request| (request.event_id.as_str(), which(request, &namesakes))).collect()
}

/// An endpoint's deliveries by event and message.
struct OnRecord<'a> {
    rows: HashMap<(&'a str, &'a str), Vec<&'a Delivery>>,
    /// A record does not say which status it is of.
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

    /// The delivery of what must be told. One of which no receiver has heard may be of any status.
    fn find(&self, told: Told<'_>) -> Option<&'a Delivery> {
        let rows = self.rows.get(&(told.event, told.message))?;
        let status = |row: &Delivery| self.statuses.get(row.event_id.as_str()).copied();
        let its_own = rows.iter().find(|row| status(row) == Some(told.status));
        let unheard = || rows.iter().filter(|row| status(row).is_none());
        its_own.or_else(|| unheard().find(|row| waits(row))).or_else(|| unheard().next()).copied()
    }
}

/// What must be told of.
#[derive(Clone, Copy)]
struct Told<'a> {
    event: &'static str,
    /// Of `message.status`, and who wrote under an id that another has used; else empty.
    status: &'a str,
    channel: &'a str,
    message: &'a str,
    /// When what it tells of began.
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
    /// Sends that failed, and nothing says of which channel.
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
                    // Where one copy was refused and another accepted, the gateway goes by what it heard first.
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

/// The channel of each message that receivers were told of, or are to be.
fn whose(run: &Collected) -> HashMap<&str, &str> {
    let heard = run.webhooks().map(|request| (request.message.as_deref(), request.channel.as_str()));
    let rows = run.evidence.deliveries.values().flatten();
    let on_record = rows.map(|row| (row.message_id.as_deref(), row.channel_id.as_str()));
    heard.chain(on_record).filter_map(|(message, channel)| Some((message?, channel))).collect()
}

/// How far sends came, as the network and the phones know it.
struct Reached<'a> {
    /// When the network accepted each message.
    accepted: HashMap<&'a str, At>,
    /// Phone and message.
    arrived: HashSet<(&'a str, &'a str)>,
    /// When the phone that a channel writes to last read all that it had got.
    opened: HashMap<&'a str, At>,
    /// The gateway has had time to hear of what happened by then.
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

    /// What must be told of a send.
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

/// A delivery ends with its success, unless the node that heard of it was hurt, or followed by another owner, before it
/// could tell.
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

/// Whether a fault strikes those who deliver: the messaging network has no part in it.
fn forgets(kind: FaultKind) -> bool {
    use FaultKind::{KeepRepeats, LoseAcceptances, LoseSends, Noise, Refuse, Slow, Use};
    !matches!(kind, KeepRepeats | LoseAcceptances | LoseSends | Noise | Refuse | Slow | Use)
}

/// When any group was seen with a new leader.
fn leader_changes(run: &Collected) -> Vec<(At, At)> {
    let mut terms: HashMap<u16, u64> = HashMap::new();
    let looks = run.records.iter().filter_map(|record| match record {
        Record::Leader(seen) => Some(seen),
        _ => None,
    });
    // The first that is known of a group is no change, and one that is cut off tells of an old term.
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

/// A stream shows an event once, also over the connections of which each goes on where the one before ended, and leaves none
/// out that it does not tell of.
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
            // While a clock is wrong, nobody may seem to watch; best effort is all that a stream promises.
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

/// What a phone does once is one event, also where the owner died that had told of it: the network tells the next owner again.
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

/// When an event came into being: after the call behind it had begun, and before a receiver heard of it.
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

/// The events that a stream left out of what it showed without a gap, each with the time by which it had shown a later one.
/// A channel's events have one order, that of its shard's log: what came into being after one that was shown and before
/// another has to stand between the two. Of when a stream began and ended, and of other channels, this needs to know nothing.
fn left_out<'a, 'b>(
    chain: &[&Frame],
    origins: &'b BTreeMap<&'a str, Origin<'a>>,
    due: &mut usize,
) -> Vec<(&'a str, &'b Origin<'a>, At)> {
    let ids: HashSet<&str> = chain.iter().filter_map(|frame| frame.event_id.as_deref()).collect();
    let shown = || chain.iter().filter_map(|frame| Some((origins.get(frame.event_id.as_deref()?)?, frame.at)));
    // By channel: when one that was shown had come into being at the earliest, and when another had not yet at the latest.
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
