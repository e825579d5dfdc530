//! Mutations of valid inputs: bits are flipped, bytes are inserted, removed and repeated, and two inputs are joined.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// One change of an input. Places are relative to its length at that moment.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, Index),
    Repeat(Index, Index),
    /// Continues with the rest of another input.
    Splice(Index, Index),
    /// Inserts extreme values of lengths and numbers.
    Extreme(Index, [u8; 4]),
}

fn change() -> impl Strategy<Value = Change> {
    let place = any::<Index>;
    // Texts that parsers often mishandle.
    let words = prop::sample::select(vec![
        "\0", "@", ":", "//", "%00", "\u{202e}", "é", "\"", "{", "[[", "-1", "1e999", "::ffff:", "\r\n",
    ]);
    prop_oneof![
        (place(), 0..8_u8).prop_map(|(at, bit)| Change::Flip(at, bit)),
        (place(), any::<u8>()).prop_map(|(at, byte)| Change::Set(at, byte)),
        (place(), vec(any::<u8>(), 1..8)).prop_map(|(at, bytes)| Change::Insert(at, bytes)),
        (place(), words).prop_map(|(at, word)| Change::Insert(at, word.as_bytes().to_vec())),
        (place(), place()).prop_map(|(from, to)| Change::Remove(from, to)),
        (place(), place()).prop_map(|(from, to)| Change::Repeat(from, to)),
        (place(), place()).prop_map(|(at, other)| Change::Splice(at, other)),
        (place(), prop::sample::select(vec![[0; 4], [0xff; 4], [0x7f, 0xff, 0xff, 0xff], [0xdd, 0xff, 0xff, 0xff]]))
            .prop_map(|(at, bytes)| Change::Extreme(at, bytes)),
    ]
}

impl Change {
    fn make(&self, bytes: &mut Vec<u8>, all: &[Vec<u8>]) {
        let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
        let range = |from: &Index, to: &Index, bytes: &[u8]| {
            let (one, other) = (place(from, bytes), place(to, bytes));
            one.min(other)..one.max(other)
        };
        match self {
            Self::Flip(..) | Self::Set(..) if bytes.is_empty() => {}
            Self::Flip(at, bit) => *at.get_mut(bytes) ^= 1 << bit,
            Self::Set(at, byte) => *at.get_mut(bytes) = *byte,
            Self::Insert(at, more) => {
                let at = place(at, bytes);
                bytes.splice(at..at, more.iter().copied());
            }
            Self::Remove(from, to) => {
                bytes.drain(range(from, to, bytes));
            }
            Self::Repeat(from, to) => {
                let range = range(from, to, bytes);
                let end = range.end;
                let again = bytes[range].to_vec();
                bytes.splice(end..end, again);
            }
            Self::Splice(at, other) => {
                bytes.truncate(place(at, bytes));
                let other = other.get(all);
                bytes.extend_from_slice(&other[place(at, other)..]);
            }
            Self::Extreme(at, extreme) => {
                let at = place(at, bytes);
                let end = bytes.len().min(at + extreme.len());
                bytes.splice(at..end, extreme.iter().copied());
            }
        }
    }
}

/// Mutations of valid inputs, of which there must be at least one.
pub fn mutated(good: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    (any::<Index>(), vec(change(), 1..6)).prop_map(move |(which, changes)| {
        let mut bytes = which.get(&good).clone();
        changes.iter().for_each(|change| change.make(&mut bytes, &good));
        bytes.truncate(LONGEST);
        bytes
    })
}

/// Longest input: longer ones find nothing more.
const LONGEST: usize = 64 << 10;
