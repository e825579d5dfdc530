//! Reads what [`super::export`] wrote. Nothing in it is trusted until its end has proven that it is complete.

use std::io::{self, Read};

use bytes::Buf;
use model::format::Foreign;
use thiserror::Error;

use super::{END, HEAD_BYTES, HIGHEST, LONGEST_KEY, LONGEST_VALUE, MAGIC};
use crate::machine::{GroupId, Position};
use crate::state::disk::{Fnv, state_key};

/// Why an exported state cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    #[error("cannot be read: {0}")]
    Io(io::Error),
    #[error("is not a group's state, or was written by another release")]
    Foreign,
    #[error("ends before its end: it is incomplete")]
    Incomplete,
    #[error("is damaged: {0}")]
    Damaged(&'static str),
    /// The file is complete, but holds a record that this release cannot read.
    #[error("holds a record that {0}")]
    Record(#[from] Foreign),
}

/// Totals at the end of a stream; the reader has verified them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Totals {
    pub pairs: u64,
    /// Hash of all keys and values; equal states have equal hashes.
    pub state_hash: u64,
}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Reads the pairs of an exported state one by one.
pub struct GroupReader<R> {
    input: R,
    pub group: GroupId,
    /// Position in the group's log that the state includes.
    pub at: Position,
    pairs: u64,
    hash: Fnv,
    totals: Option<Totals>,
}

impl<R: Read> GroupReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn open(mut input: R) -> Result<Self, FileError> {
        let mut head = [0; HEAD_BYTES];
        fill(&mut input, &mut head)?;
        let mut rest = head.strip_prefix(MAGIC).ok_or(FileError::Foreign)?;
        let group = rest.get_u16();
        let at = Position { term: rest.get_u64(), index: rest.get_u64() };
        if at.term > HIGHEST || at.index > HIGHEST {
            return Err(FileError::Damaged("its log is longer than any can be"));
        }
        Ok(Self { input, group, at, pairs: 0, hash: Fnv::default(), totals: None })
    }

    /// The next pair; `None` once the end was reached and matches everything before it.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn next_pair(&mut self) -> Result<Option<Pair>, FileError> {
        if self.totals.is_some() {
            return Ok(None);
        }
        let (key_length, value_length) = (self.number()?, self.number()?);
        if (key_length, value_length) == (END, END) {
            self.finish()?;
            return Ok(None);
        }
        if key_length > LONGEST_KEY || value_length > LONGEST_VALUE {
            return Err(FileError::Damaged("a pair is longer than any can be"));
        }
        let (key, value) = (self.bytes(key_length)?, self.bytes(value_length)?);
        self.hash.add(&state_key(self.group, &key));
        self.hash.add(&value);
        self.pairs += 1;
        Ok(Some((key, value)))
    }

    /// The totals, once the end was reached.
    pub fn totals(&self) -> Option<Totals> {
        self.totals
    }

    /// Returns the underlying reader.
    pub fn into_inner(self) -> R {
        self.input
    }

    fn finish(&mut self) -> Result<(), FileError> {
        let mut said = [0; 16];
        fill(&mut self.input, &mut said)?;
        let found = u128::from(self.pairs) << 64 | u128::from(self.hash.finish());
        if u128::from_be_bytes(said) != found {
            return Err(FileError::Damaged("its hash is another one"));
        }
        match self.input.read(&mut [0]) {
            Ok(0) => {}
            Ok(_) => return Err(FileError::Damaged("something follows its end")),
            Err(error) => return Err(FileError::Io(error)),
        }
        self.totals = Some(Totals { pairs: self.pairs, state_hash: self.hash.finish() });
        Ok(())
    }

    fn number(&mut self) -> Result<u32, FileError> {
        let mut bytes = [0; 4];
        fill(&mut self.input, &mut bytes)?;
        Ok(u32::from_be_bytes(bytes))
    }

    fn bytes(&mut self, length: u32) -> Result<Vec<u8>, FileError> {
        let mut bytes = vec![0; length as usize];
        fill(&mut self.input, &mut bytes)?;
        Ok(bytes)
    }
}

fn fill(input: &mut impl Read, into: &mut [u8]) -> Result<(), FileError> {
    input.read_exact(into).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => FileError::Incomplete,
        _ => FileError::Io(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_that_no_log_reaches_is_damage() {
        let opened = |term: u64, index: u64| {
            let head = [&MAGIC[..], &1_u16.to_be_bytes(), &term.to_be_bytes(), &index.to_be_bytes()].concat();
            GroupReader::open(head.as_slice()).map(|reader| (reader.at.term, reader.at.index))
        };
        assert!(matches!(opened(HIGHEST, HIGHEST), Ok((HIGHEST, HIGHEST))));
        for (term, index) in [(HIGHEST + 1, 1), (1, HIGHEST + 1), (1, u64::MAX)] {
            assert!(matches!(opened(term, index), Err(FileError::Damaged(_))), "{term} {index}");
        }
    }
}
