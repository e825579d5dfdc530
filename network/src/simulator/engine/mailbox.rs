//! A device's inbound items: kept until acknowledged, sent in order within a window, and sent again after a login.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

use crate::driver::EVENT_WINDOW;

/// The items of one device, oldest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Mailbox<T> {
    items: VecDeque<Item<T>>,
    /// Number of items, from the front, that were sent to the live session and are not acknowledged.
    #[serde(skip)]
    out: usize,
    /// Acknowledgements that a fault holds back.
    #[serde(skip)]
    held: BTreeSet<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Item<T> {
    number: u64,
    sent_before: bool,
    what: T,
}

/// An item to send.
#[derive(Debug, PartialEq, Eq)]
pub struct Sending<'a, T> {
    pub number: u64,
    /// Whether it was sent to an earlier session already.
    pub again: bool,
    pub what: &'a T,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), out: 0, held: BTreeSet::new() }
    }
}

impl<T> Mailbox<T> {
    /// Adds an item. Numbers must increase.
    pub fn push(&mut self, number: u64, what: T) {
        self.items.push_back(Item { number, sent_before: false, what });
    }

    /// Starts over for a new session, which is sent everything from the front.
    pub fn rewind(&mut self) {
        self.out = 0;
        self.held.clear();
    }

    /// The next item to send, if the window has room.
    pub fn next_to_send(&mut self) -> Option<Sending<'_, T>> {
        if self.out >= EVENT_WINDOW {
            return None;
        }
        let item = self.items.get_mut(self.out)?;
        self.out += 1;
        let again = std::mem::replace(&mut item.sent_before, true);
        Some(Sending { number: item.number, again, what: &item.what })
    }

    /// The first item that was not sent to the live session.
    pub fn first_unsent(&self) -> Option<u64> {
        self.items.get(self.out).map(|item| item.number)
    }

    /// Removes an acknowledged item. An unknown number was acknowledged before.
    pub fn acknowledge(&mut self, number: u64) {
        if let Ok(position) = self.items.binary_search_by_key(&number, |item| item.number) {
            self.items.remove(position);
            if position < self.out {
                self.out -= 1;
            }
        }
    }

    /// Records an acknowledgement that is held back.
    pub fn hold(&mut self, number: u64) {
        self.held.insert(number);
    }

    /// Applies the held acknowledgements.
    pub fn release(&mut self) {
        for number in std::mem::take(&mut self.held) {
            self.acknowledge(number);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn drain(mailbox: &mut Mailbox<u64>) -> Vec<u64> {
        std::iter::from_fn(|| mailbox.next_to_send().map(|sending| *sending.what)).collect()
    }

    #[test]
    fn a_session_has_at_most_the_window_out() {
        let mut mailbox = Mailbox::default();
        let all = EVENT_WINDOW as u64 + 10;
        (0..all).for_each(|number| mailbox.push(number, number));
        assert_eq!(drain(&mut mailbox).len(), EVENT_WINDOW);
        mailbox.acknowledge(5);
        assert_eq!(drain(&mut mailbox), [EVENT_WINDOW as u64]);
        mailbox.acknowledge(5);
        assert!(drain(&mut mailbox).is_empty());
    }

    #[test]
    fn acknowledgements_held_back_count_only_when_released() {
        let mut mailbox = Mailbox::default();
        (0..3).for_each(|number| mailbox.push(number, number));
        drain(&mut mailbox);
        mailbox.hold(0);
        mailbox.rewind();
        assert_eq!(drain(&mut mailbox), [0, 1, 2]);
        mailbox.hold(1);
        mailbox.release();
        mailbox.rewind();
        assert_eq!(drain(&mut mailbox), [0, 2]);
    }

    proptest! {
        #[test]
        fn what_is_not_acknowledged_comes_again_in_order(
            count in 1_u64..200,
            acknowledged in proptest::collection::btree_set(0_u64..200, 0..100),
        ) {
            let mut mailbox = Mailbox::default();
            (0..count).for_each(|number| mailbox.push(number, number));
            drain(&mut mailbox);
            acknowledged.iter().for_each(|number| mailbox.acknowledge(*number));
            mailbox.rewind();
            let expected: Vec<u64> = (0..count).filter(|number| !acknowledged.contains(number)).collect();
            let mut seen = Vec::new();
            loop {
                let batch = drain(&mut mailbox);
                if batch.is_empty() {
                    break;
                }
                batch.iter().for_each(|number| mailbox.acknowledge(*number));
                seen.extend(batch);
            }
            prop_assert_eq!(seen, expected);
        }
    }
}
