//! I8: the directory is linearizable; what one node has answered is visible through every node.
//!
//! Each key, endpoint and channel is an object of its own: created once, changed as a whole or in part by clients that
//! do not wait for each other, read, and ended. A WGL checker (`todc-utils`) searches for an order of its operations
//! that explains all responses. A call of unknown outcome may have taken effect at any time since it began, or never:
//! it stays open to the end of the history, where an effect is harmless.
//!
//! An update is answered once every node has applied it, and nodes read their own copies. So *while it is in flight*,
//! one node may show it before another does. That is only noted. What is judged: each node by itself has such an order,
//! which contains all updates; and all nodes together have one in which a read may be up to [`COPY`] older than its
//! request, but no older than the updates that were in flight then. An update of unknown outcome is in flight forever,
//! but nodes may not differ over it for longer than that.
//!
//! An update that is refused because the object is gone may have been refused by the directory's leader, or by the node
//! that was asked; so it is part of the order of all nodes alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History};
use todc_utils::specifications::Specification;

use super::frontier::{Step, has_order};
use super::verdict::{Finding, figure};
use crate::history::{Answer, At, Call, Collected, Op};

/// Each open update doubles the search; an object with more of them is not judged.
const MOST_OPEN: usize = 10;

/// How long after the last operation on an object lists are still considered.
const LISTED: Duration = Duration::from_secs(10);

/// How old a node's copy of the directory may be when a request is admitted by it: 2 s, plus the 50 ms that an update's
/// response waits beyond that. The shown state is no older, however long the response takes.
const COPY: Duration = Duration::from_millis(2_050);

/// How many of the preceding operations a violation shows.
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

/// The operations up to the first that fits no order of those before it.
fn unexplained<'o, 'a>(
    seen: &[&'o Operation<'a>],
    have_an_order: impl Fn(&[Operation<'a>]) -> bool,
) -> Vec<&'o Operation<'a>> {
    let mut ends: Vec<At> = seen.iter().filter_map(|operation| operation.ended).collect();
    ends.sort_unstable();
    let until = |end: At| -> Vec<Operation<'a>> {
        // An operation that had not ended by then may have taken effect; its later response is not known yet.
        let begun = seen.iter().filter(|operation| operation.begin <= end);
        let known = begun.filter_map(|operation| match operation.ended {
            Some(ended) if ended <= end => Some((*operation).clone()),
            _ if operation.is_update() => Some(Operation { ended: None, seen: Seen::Unknown, ..(*operation).clone() }),
            _ => None,
        });
        known.collect()
    };
    // Operations without an order have none with further operations either, so a binary search finds the first.
    let first = ends.get(ends.partition_point(|end| have_an_order(&until(*end)))).copied();
    let mut told: Vec<_> =
        seen.iter().copied().filter(|operation| first.is_none_or(|first| operation.begin <= first)).collect();
    told.sort_by_key(|operation| operation.ended.unwrap_or(At(u64::MAX)).min(first.unwrap_or_default()));
    told.split_off(told.len().saturating_sub(SHOWN))
}

/// The operations on each object whose id a caller learned.
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

/// What lists show of an object. Lists from before its creation, or from long after the last operation on it, say
/// nothing of its changes; objects that are listed after their end are found by I6.
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

/// The operation of a call on one object; `None` if its response proves nothing.
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

/// Error codes which mean that an object is gone.
const GONE: [&str; 6] =
    ["auth_revoked", "auth_invalid", "channel_not_found", "webhook_endpoint_not_found", "not_found", "no_op"];

/// The state of an object: a channel's name, or an endpoint's path and whether it is enabled. Nothing else changes.
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

/// A change. Fields that are `None` keep their value, even if another change comes first.
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
    /// Whether a list shows the object.
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
    /// The earliest moment at which it may have taken effect.
    begin: At,
    /// `None` if it may still take effect.
    ended: Option<At>,
    kind: Kind,
    seen: Seen,
}

impl<'a> Operation<'a> {
    fn new(call: &'a Call, kind: Kind, seen: Seen) -> Self {
        let ended = (!matches!(seen, Seen::Unknown)).then_some(call.end);
        Self { call, begin: call.begin, ended, kind, seen }
    }

    /// The same operation, where a read, or a refused change, may be as old as the node's copy. Every copy has the
    /// updates that had been answered when it was asked; since then only updates that were in flight may have taken
    /// effect.
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

/// The state of an object.
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
    // At the same moment calls sort before responses: operations that touch are concurrent.
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

/// The same as [`is_linearizable`], but fast even if many reads are in flight at a time.
fn is_explained(operations: &[Operation<'_>]) -> bool {
    let step = |operation: &Operation<'_>| Step::<Object> {
        begin: operation.begin,
        ended: operation.ended,
        changes: operation.changes(),
        what: (operation.kind.clone(), operation.seen.clone()),
    };
    has_order(&operations.iter().map(step).collect::<Vec<_>>())
}
