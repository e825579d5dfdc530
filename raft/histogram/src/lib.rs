//! Replaces the crate of this name, with which openraft keeps statistics that nothing here reads. On first use, that
//! crate builds tables for all its precisions, 39 MiB in each process, although openraft uses one of 2 KiB. Here
//! nothing is counted, and all values are 0. See `docs/adr/0010-openraft-without-histograms.md`.

use std::fmt;
use std::marker::PhantomData;

/// Accepts values and discards them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram<T = ()>(PhantomData<T>);

impl<T> Histogram<T> {
    pub fn new() -> Self {
        Self(PhantomData)
    }

    pub fn record(&mut self, _value: u64) {}

    pub fn record_n(&mut self, _value: u64, _count: u64) {}

    pub fn percentile_stats(&self) -> PercentileStats {
        PercentileStats::default()
    }
}

/// The fields that openraft prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PercentileStats {
    pub samples: u64,
    pub p0_1: u64,
    pub p1: u64,
    pub p5: u64,
    pub p10: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    pub p99_9: u64,
}

impl fmt::Display for PercentileStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[not counted]")
    }
}

/// A chart of histograms, always empty.
#[derive(Clone, Debug, Default)]
pub struct AsciiChart<T = ()>(PhantomData<T>);

impl<T> AsciiChart<T> {
    pub fn new() -> Self {
        Self(PhantomData)
    }

    #[must_use]
    pub fn add(self, _name: &str, _histogram: Histogram<T>) -> Self {
        self
    }
}

impl<T> fmt::Display for AsciiChart<T> {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}
