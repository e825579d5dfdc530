//! I8: the directory is linearizable; what one node answered is seen through every node.
//!
//! Each key, endpoint and channel is an object of its own, made once, changed by clients that do not wait for each other, as a
//! whole or in a part, read and ended. A WGL checker (`todc-utils`) looks for an order of its operations that explains all answers. A call
//! whose outcome nobody knows may have had its effect at any time since it began, or never: it is open to the end of the
//! history, where an effect harms nobody.
//!
//! An update is answered when every node has applied it, and nodes read their own copies. So *while it is under way* one
//! node may show it before another does. That is noted; what is judged is that each node by itself has such an order,
//! with all the updates in it, and that all nodes together have one in which what a node showed was so at most [`COPY`]
//! before it was asked, and no earlier than the updates began that were under way then. An update of unknown outcome is
//! under way for ever, and nodes may not differ over it for longer.
//!
//! An update that is refused because the object is gone may have been so by the directory's leader, or by the node that was
//! asked; so it is in the order of all nodes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

use super::frontier::{Step, has_order};
use super::verdict::{Finding, figure};
use crate::history::{Answer, At, Call, Collected, Op};

/// Each open update doubles what has to be tried; a history with more of them is not judged.
const MOST_OPEN: usize = 10;

/// How long after the last operation on an object lists are still looked at.
const LISTED: Duration = Duration::from_secs(10);

/// How old a node's copy of the directory may be when a request is let in by it: 2 s, and the 50 ms by which an
/// update's answer waits longer than that. What a copy shows is no older, however long the answer takes.
const COPY: Duration = Duration::from_millis(2_050);

/// A violation shows this many of the operations before it.
const SHOWN: usize = 12;

pub fn judge(run: &Collected, finding: &mut Finding) {
    let objects = objects(run);
    let (mut judged, mut operations, mut open, mut early) = (0, 0, 0, 0);
    for (id, object) in &objects {
        if object.iter().filter(|operation| operation.ended.is_none()).count() > MOST_OPEN {
            open += 1;
            continue;
        }
        judged += 1;
        operations += object.len();
        if is_linearizable(object.iter()) {
            continue;
        }
        let nodes: BTreeSet<u64> = object.iter().map(|operation| operation.call.node).collect();
        let broken = nodes.into_iter().find_map(|node| {
            let of_it = |operation: &&Operation<'_>| {
                operation.changes() || !operation.is_update() && operation.call.node == node
            };
            let seen: Vec<_> = object.iter().filter(of_it).collect();
            (!is_linearizable(seen.iter().copied())).then_some((node, seen))
        });
        if let Some((node, seen)) = broken {
            finding.violated(
                format!("no order of the operations on {id} explains what node {node} answered"),
                unexplained(&seen, |seen| is_linearizable(seen.iter())).iter().map(ToString::to_string),
            );
            continue;
        }
        let updates: Vec<&Operation<'_>> = object.iter().filter(|operation| operation.changes()).collect();
        let copies: Vec<_> = object.iter().map(|operation| operation.of_a_copy(&updates)).collect();
        if is_explained(&copies) {
            early += 1;
        } else {
            finding.violated(
                format!("no order of the operations on {id} explains what nodes answered from copies {COPY:?} old"),
                unexplained(&copies.iter().collect::<Vec<_>>(), is_explained).iter().map(ToString::to_string),
            );
        }
    }
    finding.judged(operations);
    finding.count(format!("{} operations on {} objects have an order", figure(operations), figure(judged)));
    if early > 0 {
        finding.note(format!(
            "{} objects were shown changed by one node before another, while the update was under way",
            figure(early)
        ));
    }
    if open > 0 {
        finding.note(format!(
            "{} objects were not judged: more than {MOST_OPEN} updates of unknown outcome",
            figure(open)
        ));
    }
}

/// The operations up to the first that has no place among those before it.
fn unexplained<'o, 'a>(
    seen: &[&'o Operation<'a>],
    have_an_order: impl Fn(&[Operation<'a>]) -> bool,
) -> Vec<&'o Operation<'a>> {
    let mut ends: Vec<At> = seen.iter().filter_map(|operation| operation.ended).collect();
    ends.sort_unstable();
    let until = |end: At| -> Vec<Operation<'a>> {
        // What had not ended then may have had its effect; what it answered later is not known yet.
        let begun = seen.iter().filter(|operation| operation.begin <= end);
        let known = begun.filter_map(|operation| match operation.ended {
            Some(ended) if ended <= end => Some((*operation).clone()),
            _ if operation.is_update() => Some(Operation { ended: None, seen: Seen::Unknown, ..(*operation).clone() }),
            _ => None,
        });
        known.collect()
    };
    // What has no order has none with more behind it.
    let first = ends.get(ends.partition_point(|end| have_an_order(&until(*end)))).copied();
    let mut told: Vec<_> =
        seen.iter().copied().filter(|operation| first.is_none_or(|first| operation.begin <= first)).collect();
    told.sort_by_key(|operation| operation.ended.unwrap_or(At(u64::MAX)).min(first.unwrap_or_default()));
    told.split_off(told.len().saturating_sub(SHOWN))
}

/// The operations of each object whose id a caller was told.
fn objects(run: &Collected) -> BTreeMap<&str, Vec<Operation<'_>>> {
    let mut objects: BTreeMap<&str, Vec<Operation>> = BTreeMap::new();
    let mut makings: BTreeMap<&str, &Call> = BTreeMap::new();
    for call in run.calls() {
        if let (Some(id), Some(value)) = (call.made(), first_value(&call.op)) {
            makings.insert(id, call);
            objects.entry(id).or_default().push(Operation::new(call, Kind::Make(value), Seen::Ok));
        }
    }
    for call in run.calls() {
        if let Some((id, operation)) = on_one(call)
            && let Some(object) = objects.get_mut(id)
        {
            object.push(operation);
        }
    }
    let lists: Vec<&Call> =
        run.calls().filter(|call| matches!(call.op, Op::ListChannels | Op::ListEndpoints)).collect();
    for (id, object) in &mut objects {
        let listed = listed(&lists, id, makings[id], object);
        object.extend(listed);
    }
    objects
}

/// What lists say of an object. Those from before it was made, or from long after anybody did anything with it, tell nothing
/// of its changes; what is listed after its end is found by I6.
fn listed<'a>(lists: &[&'a Call], id: &str, making: &Call, object: &[Operation]) -> Vec<Operation<'a>> {
    let last = object.iter().map(|operation| operation.call.end).max().unwrap_or_default().plus(LISTED);
    let concerns = |call: &Call| {
        let lists = match making.op {
            Op::CreateChannel { .. } => call.op == Op::ListChannels,
            Op::CreateEndpoint { .. } => call.op == Op::ListEndpoints,
            _ => false,
        };
        lists && call.tenant == making.tenant && making.begin <= call.end && call.begin <= last
    };
    let seen = |call: &'a Call| match call.answer() {
        Some(Answer::Ids { ids }) if ids.iter().any(|listed| listed == id) => Some((call, Seen::Ok)),
        Some(Answer::Ids { .. }) => Some((call, Seen::Missing)),
        _ => None,
    };
    let lists = lists.iter().copied().filter(|call| concerns(call)).filter_map(seen);
    lists.map(|(call, seen)| Operation::new(call, Kind::List, seen)).collect()
}

fn first_value(op: &Op) -> Option<Value> {
    match op {
        Op::CreateKey { .. } => Some(Value::on("")),
        Op::CreateChannel { name } => Some(Value::on(name)),
        Op::CreateEndpoint { hook } => Some(Value::on(hook)),
        _ => None,
    }
}

/// The operation of a call on one object; none when its answer binds nobody.
fn on_one(call: &Call) -> Option<(&str, Operation<'_>)> {
    let (id, kind) = match &call.op {
        Op::UseKey { key } => (key, Kind::Read),
        Op::RevokeKey { key } => (key, Kind::End),
        Op::ReadChannel { channel } => (channel, Kind::Read),
        Op::RenameChannel { channel, name } => (channel, Kind::Change(Patch { name: Some(name.clone()), is_on: None })),
        Op::DeleteChannel { channel } => (channel, Kind::End),
        Op::ReadEndpoint { endpoint } => (endpoint, Kind::Read),
        Op::ChangeEndpoint { endpoint, hook, enabled } => {
            (endpoint, Kind::Change(Patch { name: hook.clone(), is_on: *enabled }))
        }
        Op::DeleteEndpoint { endpoint } => (endpoint, Kind::End),
        _ => return None,
    };
    let seen = match (&kind, call.answer(), call.refusal()) {
        (Kind::Read, Some(Answer::Channel { name }), _) => Seen::Value(Value::on(name)),
        (Kind::Read, Some(Answer::Endpoint { hook, enabled }), _) => {
            Seen::Value(Value { name: hook.clone(), is_on: *enabled })
        }
        (_, Some(_), _) => Seen::Ok,
        (_, None, Some(code)) if GONE.contains(&code) => Seen::Missing,
        (Kind::Read, None, _) | (_, None, Some(_)) => return None,
        (_, None, None) => Seen::Unknown,
    };
    Some((id, Operation::new(call, kind, seen)))
}

/// Codes that say that an object has come to its end.
const GONE: [&str; 6] =
    ["auth_revoked", "auth_invalid", "channel_not_found", "webhook_endpoint_not_found", "not_found", "no_op"];

/// What an object says of itself: a channel's name, or the path of an endpoint and whether it is on. Nothing else changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Value {
    name: String,
    is_on: bool,
}

impl Value {
    fn on(name: &str) -> Self {
        Self { name: name.to_owned(), is_on: true }
    }

    fn changed(&self, patch: &Patch) -> Self {
        let name = patch.name.as_ref().unwrap_or(&self.name).clone();
        Self { name, is_on: patch.is_on.unwrap_or(self.is_on) }
    }
}

/// A change; what is left out stays as it is, also where another change came first.
#[derive(Clone, Debug)]
struct Patch {
    name: Option<String>,
    is_on: Option<bool>,
}

#[derive(Clone, Debug)]
enum Kind {
    Make(Value),
    Change(Patch),
    End,
    Read,
    /// Whether a list shows it.
    List,
}

#[derive(Clone, Debug)]
enum Seen {
    Ok,
    Value(Value),
    Missing,
    Unknown,
}

#[derive(Clone, Debug)]
struct Operation<'a> {
    call: &'a Call,
    /// It belongs to no earlier moment than this.
    begin: At,
    /// None when it may still have its effect.
    ended: Option<At>,
    kind: Kind,
    seen: Seen,
}

impl<'a> Operation<'a> {
    fn new(call: &'a Call, kind: Kind, seen: Seen) -> Self {
        let ended = (!matches!(seen, Seen::Unknown)).then_some(call.end);
        Self { call, begin: call.begin, ended, kind, seen }
    }

    /// The same, where what a node saw may be as old as its copy is: also what it saw when it refused a change. Every copy
    /// has the updates that had been answered when it was asked, and nothing happened since but those that were under way.
    fn of_a_copy(&self, updates: &[&Self]) -> Self {
        if self.changes() {
            return self.clone();
        }
        let is_under_way =
            |update: &&&Self| update.begin <= self.begin && update.ended.is_none_or(|ended| ended >= self.begin);
        let first = updates.iter().filter(is_under_way).map(|update| update.begin).min().unwrap_or(self.begin);
        Self { begin: self.begin.minus(COPY).max(first), ..self.clone() }
    }

    /// Whether it may have an effect.
    fn changes(&self) -> bool {
        self.is_update() && !matches!(self.seen, Seen::Missing)
    }

    fn is_update(&self) -> bool {
        matches!(self.kind, Kind::Make(_) | Kind::Change(_) | Kind::End)
    }
}

impl std::fmt::Display for Operation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Call { begin, end, node, client, .. } = self.call;
        write!(f, "{begin} to {end}, node {node}, client {client}: {:?} answered {:?}", self.kind, self.seen)
    }
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Unmade,
    Is(Value),
    Gone,
}

struct Object;

impl Specification for Object {
    type State = State;
    type Operation = (Kind, Seen);

    fn init() -> State {
        State::Unmade
    }

    fn apply((kind, seen): &Self::Operation, state: &State) -> (bool, State) {
        use State::{Gone, Is, Unmade};
        match (kind, seen, state) {
            (Kind::Make(value), _, Unmade) => (true, Is(value.clone())),
            (Kind::Change(patch), Seen::Ok | Seen::Unknown, Is(is)) => (true, Is(is.changed(patch))),
            (Kind::End, Seen::Ok | Seen::Unknown, Is(_)) => (true, Gone),
            (Kind::Read, Seen::Value(value), Is(is)) => (value == is, state.clone()),
            (Kind::Read | Kind::List, Seen::Ok, Is(_))
            | (Kind::List, Seen::Missing, Unmade)
            | (_, Seen::Missing, Gone)
            | (_, Seen::Unknown, _) => (true, state.clone()),
            _ => (false, state.clone()),
        }
    }
}

fn is_linearizable<'o, 'a: 'o>(operations: impl Iterator<Item = &'o Operation<'a>>) -> bool {
    // At one moment calls come before answers: what touches is concurrent.
    let mut actions = Vec::new();
    for (process, operation) in operations.enumerate() {
        let what = (operation.kind.clone(), operation.seen.clone());
        actions.push(((operation.begin, false), process, Action::Call(what.clone())));
        actions.push(((operation.ended.unwrap_or(At(u64::MAX)), true), process, Action::Response(what)));
    }
    actions.sort_by_key(|(at, ..)| *at);
    let actions: Vec<_> = actions.into_iter().map(|(_, process, action)| (process, action)).collect();
    actions.is_empty() || WGLChecker::<Object>::is_linearizable(History::from_actions(actions))
}

/// The same as [`is_linearizable`], and quick also where many looks are under way at a time.
fn is_explained(operations: &[Operation<'_>]) -> bool {
    let step = |operation: &Operation<'_>| Step::<Object> {
        begin: operation.begin,
        ended: operation.ended,
        changes: operation.changes(),
        what: (operation.kind.clone(), operation.seen.clone()),
    };
    has_order(&operations.iter().map(step).collect::<Vec<_>>())
}
