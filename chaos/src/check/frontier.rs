//! Decides whether operations have an order that explains what each of them saw, by walking along their time with the
//! set of all states that are possible at a moment.
//!
//! A search over orders (WGL) doubles with each concurrent read. Reads change nothing, though: a read that fits when a
//! state begins can take its place there. So only changes are tried, and only when an operation is about to end, as
//! they can be postponed until then. That makes reads cheap even if their place may be long before they began.

use std::collections::{BTreeSet, HashSet};

use todc_utils::specifications::Specification;

use crate::history::At;

/// An operation, reduced to what its order depends on.
pub struct Step<S: Specification> {
    pub begin: At,
    /// `None` if it may still take effect, or never does.
    pub ended: Option<At>,
    /// Whether it may change the state; otherwise it is a read.
    pub changes: bool,
    pub what: S::Operation,
}

/// A possible situation.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point<T> {
    state: T,
    /// The operations in flight that already have their place in the order.
    placed: BTreeSet<usize>,
}

pub fn has_order<S: Specification>(steps: &[Step<S>]) -> bool {
    // At the same moment beginnings sort before ends: operations that touch are concurrent.
    let begins = steps.iter().enumerate().map(|(index, step)| (step.begin, false, index));
    let ends = steps.iter().enumerate().filter_map(|(index, step)| step.ended.map(|ended| (ended, true, index)));
    let mut moments: Vec<(At, bool, usize)> = begins.chain(ends).collect();
    moments.sort_unstable();
    let mut under_way = BTreeSet::new();
    let mut points: HashSet<Point<S::State>> = HashSet::new();
    points.insert(Point { state: S::init(), placed: BTreeSet::new() });
    for (_, ends, index) in moments {
        if ends {
            points = with_place(steps, &under_way, points, index);
            under_way.remove(&index);
        } else {
            under_way.insert(index);
            let look = |point: Point<S::State>| looked(steps, [index], point);
            points = points.into_iter().map(look).collect();
        }
        if points.is_empty() {
            return false;
        }
    }
    true
}

/// Places the reads that fit the state.
fn looked<S: Specification>(
    steps: &[Step<S>],
    looks: impl IntoIterator<Item = usize>,
    mut point: Point<S::State>,
) -> Point<S::State> {
    for index in looks {
        let step = &steps[index];
        if !step.changes && S::apply(&step.what, &point.state).0 {
            point.placed.insert(index);
        }
    }
    point
}

/// All situations in which an operation that is about to end has been placed, with no more changes than necessary.
fn with_place<S: Specification>(
    steps: &[Step<S>],
    under_way: &BTreeSet<usize>,
    points: HashSet<Point<S::State>>,
    index: usize,
) -> HashSet<Point<S::State>> {
    let mut known = points.clone();
    let mut open: Vec<Point<S::State>> = points.into_iter().collect();
    let mut reached = HashSet::new();
    while let Some(mut point) = open.pop() {
        if point.placed.remove(&index) {
            reached.insert(point);
            continue;
        }
        for change in under_way.iter().copied().filter(|step| steps[*step].changes && !point.placed.contains(step)) {
            let (fits, state) = S::apply(&steps[change].what, &point.state);
            // An operation that may never take effect need not be placed where it would change nothing.
            if !fits || steps[change].ended.is_none() && state == point.state {
                continue;
            }
            let mut placed = point.placed.clone();
            placed.insert(change);
            let next = looked(steps, under_way.iter().copied(), Point { state, placed });
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use todc_utils::linearizability::WGLChecker;
    use todc_utils::linearizability::history::{Action, History};

    use super::*;

    #[derive(Clone, Debug)]
    enum On {
        Read(u8),
        Write(u8),
    }

    struct Register;

    impl Specification for Register {
        type State = u8;
        type Operation = On;

        fn init() -> u8 {
            0
        }

        fn apply(on: &On, state: &u8) -> (bool, u8) {
            match on {
                On::Read(value) => (value == state, *state),
                On::Write(value) => (true, *value),
            }
        }
    }

    /// Begin, length, operation, and whether it is a write that may never take effect.
    fn operation() -> impl Strategy<Value = (u64, u64, On, bool)> {
        let on = prop_oneof![3 => (0_u8..3).prop_map(On::Read), 2 => (0_u8..3).prop_map(On::Write)];
        (0_u64..40, 1_u64..12, on, prop::bool::weighted(0.2))
    }

    fn searched(operations: &[(u64, u64, On, bool)]) -> bool {
        let mut actions = Vec::new();
        for (process, (begin, length, on, open)) in operations.iter().enumerate() {
            let end = if *open && matches!(on, On::Write(_)) { u64::MAX } else { begin + length };
            actions.push(((*begin, false, process), Action::Call(on.clone())));
            actions.push(((end, true, process), Action::Response(on.clone())));
        }
        actions.sort_by_key(|(at, _)| *at);
        let actions = actions.into_iter().map(|((_, _, process), action)| (process, action)).collect();
        WGLChecker::<Register>::is_linearizable(History::from_actions(actions))
    }

    fn walked(operations: &[(u64, u64, On, bool)]) -> bool {
        let step = |(begin, length, on, open): &(u64, u64, On, bool)| {
            let changes = matches!(on, On::Write(_));
            let ended = (!(*open && changes)).then_some(At(begin + length));
            Step::<Register> { begin: At(*begin), ended, changes, what: on.clone() }
        };
        has_order(&operations.iter().map(step).collect::<Vec<_>>())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn a_walk_finds_an_order_where_a_search_does(operations in prop::collection::vec(operation(), 1..9)) {
            prop_assert_eq!(walked(&operations), searched(&operations), "{:?}", operations);
        }
    }
}
