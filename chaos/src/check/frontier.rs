//! Whether operations have an order that explains what each of them saw, told by walking along their time with everything
//! that may be so at a moment.
//!
//! A search over orders (WGL) doubles with each look that is under way beside others. Looks change nothing, though: one that
//! fits when a state begins has had its place. So only changes are tried here, and those only when an operation is about to
//! end, before which they can always be put off. That makes looks cheap that may belong to a time long before they began.

use std::collections::{BTreeSet, HashSet};

use todc_utils::specifications::Specification;

use crate::history::At;

/// An operation, as far as its order goes.
pub struct Step<S: Specification> {
    pub begin: At,
    /// None when it may still have its effect, or never.
    pub ended: Option<At>,
    /// Whether it may change the state; else it looks.
    pub changes: bool,
    pub what: S::Operation,
}

/// What may be so.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Point<T> {
    state: T,
    /// Of the operations under way, those that have had their place in the order.
    placed: BTreeSet<usize>,
}

pub fn has_order<S: Specification>(steps: &[Step<S>]) -> bool {
    // At one moment beginnings come before ends: what touches is concurrent.
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

/// Gives looks their place where they fit.
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

/// All that may be so once an operation that is about to end has had its place, and no more changes than that took.
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
            // What may never have its effect needs none that changes nothing.
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

    /// Begin, length, what, and whether it is a write that may never have had its effect.
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
