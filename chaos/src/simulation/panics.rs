//! Panics of any task of a run, those of openraft among them, which leaves the rest of its core running.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

thread_local! {
    /// A run has a thread for as long as it takes.
    static COUNT: Cell<u32> = const { Cell::new(0) };
}

/// Does the work and says how often this thread has panicked meanwhile, caught or not.
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
