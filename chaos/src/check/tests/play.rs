//! Small handmade histories.

use std::time::Duration;

use model::time::Timestamp;

use crate::history::record::{Channel, Endpoint, Limited, Manner, Tenant};
use crate::history::{
    Answer, At, Call, Collected, Delivery, Ended, Evidence, Fault, FaultKind, Frame, InboxRow, LeaderSeen, LedgerRow,
    Liveness, Login, Meta, Op, Outcome, Progress, Record, Replica, Request, Size, Stage,
};

pub const MAIN: &str = "main";
pub const STRANGER: &str = "stranger";
pub const LIMITED: &str = "limited";
/// The channel, its number, and its recipient.
pub const CHANNEL: &str = "channel";
pub const NUMBER: &str = "491";
pub const RECIPIENT: &str = "492";
pub const OTHERS_CHANNEL: &str = "another's channel";
/// A channel that is connected for a while, and then deleted.
pub const PASSING: &str = "a channel";
pub const PASSING_NUMBER: &str = "494";
pub const HOOK: &str = "/Good/main";
pub const BURST: f64 = 10.0;
pub const PER_SECOND: f64 = 2.0;
/// The coordinator's group of the small bucket.
pub const HOME: u16 = 3;

/// A history under construction. Each step takes a tenth of a second.
pub struct Play {
    pub run: Collected,
    now: At,
    next: u64,
}

pub const STEP: Duration = Duration::from_millis(100);

impl Play {
    /// A stage without any records.
    pub fn empty() -> Self {
        let tenant = |name: &str| Tenant { name: name.to_owned(), customer: format!("customer {name}") };
        let channel = |id: &str, tenant: &str, number: &str| Channel {
            id: id.to_owned(),
            tenant: tenant.to_owned(),
            number: number.to_owned(),
            recipient: RECIPIENT.to_owned(),
        };
        let endpoint = |tenant: &str, hook: &str| Endpoint {
            id: format!("endpoint {tenant}"),
            tenant: tenant.to_owned(),
            hook: hook.to_owned(),
            events: ["message.sent", "message.received", "message.status"].map(str::to_owned).to_vec(),
            channel: None,
            manner: Manner::Good,
            since: None,
        };
        let limited = Limited { tenant: LIMITED.to_owned(), burst: BURST, per_second: PER_SECOND, home: HOME };
        let stage = Stage {
            tenants: [MAIN, STRANGER, LIMITED].map(tenant).to_vec(),
            channels: vec![channel(CHANNEL, MAIN, NUMBER), channel(OTHERS_CHANNEL, STRANGER, "493")],
            passing: vec![channel(PASSING, MAIN, PASSING_NUMBER)],
            endpoints: vec![endpoint(MAIN, HOOK), endpoint(STRANGER, "/Good/stranger")],
            limited: vec![limited],
            ..Stage::default()
        };
        let meta = Meta { seed: 1, started: Timestamp(1_000_000) };
        let evidence = Evidence { stage, ..Evidence::default() };
        Self {
            run: Collected { meta, records: Vec::new(), faults: Vec::new(), evidence },
            now: At::seconds(10),
            next: 0,
        }
    }

    /// A bit of everything, without a violation.
    pub fn good_day() -> Self {
        let mut play = Self::empty();
        play.login(1, 5);
        for text in ["one", "two", "three"] {
            play.send(text);
        }
        play.inbound("hello");
        play.life();
        play.draws(12);
        play.call(
            STRANGER,
            Op::Trespass { what: "GET /v1/channels/channel".to_owned() },
            refused(404, "channel_not_found"),
        );
        play.list(MAIN, &[CHANNEL]);
        play.list(STRANGER, &[OTHERS_CHANNEL]);
        play.frame(1, "evt_1", CHANNEL);
        play.frame(1, "evt_2", CHANNEL);
        let replica = |node| Replica { node, group: 1, applied: 70, hash: "abc".to_owned() };
        play.run.evidence.replicas = [1, 2, 3].map(replica).to_vec();
        play.damage(Some("raft/000012.log: checksum"));
        play.sized(Size::Within, done());
        play.sized(Size::Beyond, refused(400, "invalid_request"));
        let healed = Some(play.now.plus(Duration::from_secs(3)));
        play.run.evidence.liveness = Some(Liveness {
            since: play.now,
            bound: Duration::from_secs(30),
            channels: [CHANNEL, OTHERS_CHANNEL].map(|channel| (channel.to_owned(), healed)).into(),
            sending: [CHANNEL, OTHERS_CHANNEL].map(|channel| (channel.to_owned(), healed)).into(),
            nodes: [(1, healed), (2, healed), (3, healed)].into(),
            ready: [(1, healed), (2, healed), (3, healed)].into(),
        });
        play
    }

    pub fn step(&mut self) -> At {
        self.now = self.now.plus(STEP);
        self.now
    }

    pub fn wait(&mut self, duration: Duration) {
        self.now = self.now.plus(duration);
    }

    fn id(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind} {}", self.next)
    }

    fn wall(&self) -> Timestamp {
        self.run.meta.wall(self.now)
    }

    /// A call of one step, through node 1.
    pub fn call(&mut self, tenant: &str, op: Op, outcome: Outcome) {
        self.call_at(1, tenant, op, outcome);
    }

    pub fn call_at(&mut self, node: u64, tenant: &str, op: Op, outcome: Outcome) {
        let (begin, end) = (self.step(), self.step());
        self.run.records.push(Record::Call(Call {
            client: 1,
            tenant: tenant.to_owned(),
            node,
            begin,
            end,
            op,
            outcome,
        }));
    }

    pub fn login(&mut self, node: u64, epoch: u64) {
        self.step();
        let (at, login_seq) = (self.wall(), self.next);
        self.next += 1;
        let rows = self.run.evidence.logins.entry(NUMBER.to_owned()).or_default();
        if let Some(before) = rows.last_mut() {
            before.ended_at = Some(at);
            before.end = Some("lost".to_owned());
        }
        rows.push(Login { login_seq, node, epoch, at, ended_at: None, end: None });
    }

    /// A successful send with everything that follows; returns its id.
    pub fn send(&mut self, text: &str) -> String {
        let message = self.take(text);
        self.accept(text, &message);
        self.tell(&message);
        message
    }

    /// Events for a send that was accepted and reached its phone.
    pub fn tell(&mut self, message: &str) {
        self.hook("message.sent", message);
        self.status(message, "sent");
        self.status(message, "delivered");
    }

    /// An event with the status of a send.
    pub fn status(&mut self, message: &str, status: &str) {
        self.hook("message.status", message);
        self.last_hook("message.status").status = Some(status.to_owned());
    }

    /// A send that is answered 202, and nothing else.
    pub fn take(&mut self, text: &str) -> String {
        let message = self.id("message");
        let answer = Answer::Taken { message: message.clone(), queued: false };
        self.call(MAIN, Op::Send { channel: CHANNEL.to_owned(), text: text.to_owned() }, Outcome::Done(answer));
        message
    }

    /// A send that is answered 202 `queued`, and nothing else.
    pub fn queue(&mut self, text: &str) -> String {
        let message = self.take(text);
        let answer = Answer::Taken { message: message.clone(), queued: true };
        self.calls(|call| call.taken() == Some(&message))[0].outcome = Outcome::Done(answer);
        message
    }

    /// The network accepts a message, and its phone receives it.
    pub fn accept(&mut self, text: &str, message: &str) {
        self.step();
        let seq = self.run.evidence.ledger.len() as u64 + 1;
        let (from, to) = (format!("{NUMBER}@s.example"), format!("{RECIPIENT}@s.example"));
        let at = self.wall();
        let row =
            LedgerRow { seq, id: message.to_owned(), from: from.clone(), to, raw_copies: 1, node: 1, epoch: 5, at };
        self.run.evidence.ledger.push(row);
        let arrived = InboxRow { id: message.to_owned(), from, text: text.to_owned(), copies: 1 };
        self.run.evidence.inboxes.entry(RECIPIENT.to_owned()).or_default().push(arrived);
    }

    /// The network accepts a message of the passing channel, and its phone receives it.
    pub fn accept_of_passing(&mut self, text: &str, message: &str) {
        self.accept(text, message);
        let from = format!("{PASSING_NUMBER}@s.example");
        let inbox = self.run.evidence.inboxes.get_mut(RECIPIENT).expect("it got something");
        inbox.last_mut().expect("it got something").from.clone_from(&from);
        self.run.evidence.ledger.last_mut().expect("it was accepted").from = from;
    }

    /// A successful delivery at the first endpoint.
    pub fn hook(&mut self, event: &str, message: &str) {
        let (event_id, delivery) = (self.id("evt"), self.id("delivery"));
        let at = self.step();
        let request = Request {
            at,
            hook: HOOK.to_owned(),
            delivery: delivery.clone(),
            event: event.to_owned(),
            event_id: event_id.clone(),
            channel: CHANNEL.to_owned(),
            message: Some(message.to_owned()),
            status: (event == "message.status").then(|| "delivered".to_owned()),
            from: (event == "message.received").then(|| RECIPIENT.to_owned()),
            signed: Some(true),
            answered: Some(200),
        };
        self.run.records.push(Record::Webhook(request));
        self.run.evidence.deliveries.entry("endpoint main".to_owned()).or_default().push(Delivery {
            id: delivery,
            event: event.to_owned(),
            event_id,
            channel_id: CHANNEL.to_owned(),
            message_id: Some(message.to_owned()),
            state: "delivered".to_owned(),
            next_attempt_at: None,
            attempt_count: 0,
            overdue: false,
        });
    }

    /// A phone's message, and the event for it.
    pub fn inbound(&mut self, text: &str) -> String {
        let message = self.id("inbound");
        let op = Op::Inbound { channel: CHANNEL.to_owned(), text: text.to_owned() };
        self.call_at(0, MAIN, op, Outcome::Done(Answer::Made { id: message.clone() }));
        self.hook("message.received", &message);
        message
    }

    /// The last webhook of an event.
    pub fn last_hook(&mut self, event: &str) -> &mut Request {
        let hooks = self.run.records.iter_mut().rev().filter_map(|record| match record {
            Record::Webhook(request) => Some(request),
            _ => None,
        });
        hooks.into_iter().find(|request| request.event == event).expect("there is such a webhook")
    }

    /// A key, a channel and an endpoint, each created, used and ended.
    pub fn life(&mut self) {
        let key = || "a key".to_owned();
        self.call(MAIN, Op::CreateKey { name: "Key".to_owned() }, made("a key"));
        self.call_at(2, MAIN, Op::UseKey { key: key() }, done());
        self.call_at(3, MAIN, Op::RevokeKey { key: key() }, done());
        self.call_at(2, MAIN, Op::UseKey { key: key() }, refused(401, "auth_revoked"));

        let channel = || "a channel".to_owned();
        let named = |name: &str| Outcome::Done(Answer::Channel { name: name.to_owned() });
        self.call(MAIN, Op::CreateChannel { name: "First".to_owned() }, made("a channel"));
        self.call_at(2, MAIN, Op::ReadChannel { channel: channel() }, named("First"));
        self.call(MAIN, Op::RenameChannel { channel: channel(), name: "Second".to_owned() }, done());
        self.call_at(3, MAIN, Op::ReadChannel { channel: channel() }, named("Second"));
        self.list(MAIN, &[CHANNEL, "a channel"]);
        self.call(MAIN, Op::DeleteChannel { channel: channel() }, done());
        self.call_at(2, MAIN, Op::ReadChannel { channel: channel() }, refused(404, "channel_not_found"));
        self.list(MAIN, &[CHANNEL]);

        let endpoint = || "an endpoint".to_owned();
        let off = Op::ChangeEndpoint { endpoint: endpoint(), hook: Some(passing(1)), enabled: Some(false) };
        let shown = |version, enabled| Outcome::Done(Answer::Endpoint { hook: passing(version), enabled });
        self.call(MAIN, Op::CreateEndpoint { hook: passing(0) }, made("an endpoint"));
        self.call_at(2, MAIN, Op::ReadEndpoint { endpoint: endpoint() }, shown(0, true));
        self.call(MAIN, off, done());
        self.call_at(3, MAIN, Op::ReadEndpoint { endpoint: endpoint() }, shown(1, false));
        self.call(MAIN, Op::DeleteEndpoint { endpoint: endpoint() }, done());
        self.call_at(2, MAIN, Op::ReadEndpoint { endpoint: endpoint() }, refused(404, "webhook_endpoint_not_found"));
    }

    /// A request at the endpoint of [`Self::life`].
    pub fn late_hook(&mut self, at: At) {
        let mut request = self.last_hook("message.sent").clone();
        request.at = at;
        request.hook = passing(1);
        self.run.records.push(Record::Webhook(request));
    }

    /// This many calls at once against the small bucket, which admits as many as it holds.
    pub fn draws(&mut self, calls: usize) {
        let (begin, end) = (self.step(), self.step());
        for n in 0..calls {
            let outcome = if n < BURST as usize { done() } else { refused(429, "rate_limited") };
            let tenant = LIMITED.to_owned();
            self.run.records.push(Record::Call(Call { client: 9, tenant, node: 1, begin, end, op: Op::Draw, outcome }));
        }
    }

    pub fn see_leader(&mut self, term: u64) {
        self.look(Some(1), term);
    }

    /// A look at the group while it has no leader.
    pub fn leaderless(&mut self, term: u64) {
        self.look(None, term);
    }

    fn look(&mut self, leader: Option<u64>, term: u64) {
        let (asked, at) = (self.step(), self.step());
        self.run.records.push(Record::Leader(LeaderSeen { asked, at, group: HOME, leader, term }));
    }

    pub fn list(&mut self, tenant: &str, ids: &[&str]) {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        self.call_at(3, tenant, Op::ListChannels, Outcome::Done(Answer::Ids { ids }));
    }

    pub fn frame(&mut self, connection: u32, event_id: &str, channel: &str) {
        let frame = Frame {
            at: self.step(),
            tenant: MAIN.to_owned(),
            stream: 1,
            connection,
            node: 1,
            event: "message.sent".to_owned(),
            event_id: Some(event_id.to_owned()),
            channel: Some(channel.to_owned()),
            message: None,
            notice: None,
        };
        self.run.records.push(Record::Frame(frame));
    }

    /// The stream shows all events of a message that receivers got, except the last `without` ones.
    pub fn show(&mut self, message: &str, without: usize) {
        let told = self.run.webhooks().filter(|request| request.message.as_deref() == Some(message));
        let told: Vec<String> = told.map(|request| request.event_id.clone()).collect();
        told[..told.len() - without].iter().for_each(|event_id| self.frame(1, event_id, CHANNEL));
    }

    /// The stream reports that events may be missing.
    pub fn gap(&mut self) {
        self.frame(1, "no event", CHANNEL);
        let Some(Record::Frame(frame)) = self.run.records.last_mut() else { return };
        (frame.event, frame.event_id, frame.channel) = ("stream.gap".to_owned(), None, None);
    }

    /// The phone reads the channel's messages.
    pub fn open_chat(&mut self) {
        self.call_at(0, MAIN, Op::OpenChat { channel: CHANNEL.to_owned() }, done());
    }

    pub fn damage(&mut self, refused: Option<&str>) {
        let at = self.step();
        let what = "raft/000012.log: a bit flipped".to_owned();
        let damage = crate::history::Damage { at, node: 2, what, refused: refused.map(str::to_owned), harmless: false };
        self.run.records.push(Record::Damage(damage));
    }

    /// A request of a size within or beyond its limit.
    pub fn sized(&mut self, size: Size, outcome: Outcome) {
        self.call(MAIN, Op::Sized { what: "metadata".to_owned(), size }, outcome);
    }

    /// A look at the group's leader at this second, when it has applied this many entries and has more.
    pub fn progress(&mut self, seconds: u64, applied: u64) {
        self.stalled(seconds, applied, false, None);
    }

    /// The same, with the leader's own report of a stall, and the bytes sent of snapshots to voters.
    pub fn stalled(&mut self, seconds: u64, applied: u64, named: bool, sent: Option<u64>) {
        let at = At::seconds(seconds);
        let progress = Progress { asked: at, at, group: HOME, leader: 1, term: 7, applied, lag: 3, named, sent };
        self.run.records.push(Record::Progress(progress));
    }

    /// A node's process ends by itself.
    pub fn end(&mut self, node: u64) {
        self.end_as(node, "signal: 6 (SIGABRT)");
    }

    /// A node's process ends by itself, with this message.
    pub fn end_as(&mut self, node: u64, how: &str) {
        let at = self.step();
        self.run.records.push(Record::Ended(Ended { at, node, how: how.to_owned() }));
    }

    /// A fault of these nodes, between two seconds.
    pub fn strike(&mut self, kind: FaultKind, nodes: &[u64], from: u64, to: u64) {
        self.fault_within(kind, At::seconds(from), At::seconds(to));
        self.run.faults.last_mut().expect("it was just added").nodes = nodes.to_vec();
    }

    /// A fault that is active all the time.
    pub fn fault(&mut self, kind: FaultKind) {
        self.fault_within(kind, At::default(), self.now.plus(Duration::from_secs(60)));
    }

    pub fn fault_within(&mut self, kind: FaultKind, from: At, to: At) {
        let fault = Fault { from, to, kind, nodes: Vec::new(), what: format!("{kind:?}") };
        self.run.faults.push(fault);
    }

    /// The calls that pass, for changes.
    pub fn calls(&mut self, passes: impl Fn(&Call) -> bool) -> Vec<&mut Call> {
        let calls = self.run.records.iter_mut().filter_map(|record| match record {
            Record::Call(call) if passes(call) => Some(call),
            _ => None,
        });
        calls.collect()
    }

    /// The end of the last call that passes.
    pub fn end_of(&mut self, passes: impl Fn(&Call) -> bool) -> At {
        self.calls(passes).last().expect("there is such a call").end
    }
}

pub fn done() -> Outcome {
    Outcome::Done(Answer::Nothing)
}

pub fn made(id: &str) -> Outcome {
    Outcome::Done(Answer::Made { id: id.to_owned() })
}

pub fn refused(status: u16, code: &str) -> Outcome {
    Outcome::Refused { status, code: code.to_owned() }
}

pub fn unknown() -> Outcome {
    Outcome::Unknown { why: "503 worker_at_capacity".to_owned() }
}

fn passing(version: usize) -> String {
    format!("/passing/1/0/{version}")
}
