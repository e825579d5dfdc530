//! Counts panics in all tasks of a run, as one in a task of openraft would go unnoticed: the rest of its core goes on.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// Counted per thread: a run occupies one thread from beginning to end.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// Runs `work`. Returns its output and how often this thread panicked meanwhile, whether caught or not.
pub(super) fn counted<T>(work: impl FnOnce() -> T) -> (T, u32) {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |told| {
            COUNT.with(|count| count.set(count.get() + 1));
            hook(told);
        }));
    });
    let before = COUNT.get();
    let output = work();
    (output, COUNT.get() - before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panics_that_are_caught_are_counted_and_those_of_other_threads_are_not() {
        let caught = || drop(panic::catch_unwind(|| panic!("on purpose")));
        let (output, count) = counted(|| {
            caught();
            drop(std::thread::spawn(caught).join());
            caught();
            7
        });
        assert_eq!((output, count), (7, 2));
        assert_eq!(counted(|| ()).1, 0);
    }
}
