//! The program and the machine that are measured, with the duration of a disk sync.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use hdrhistogram::Histogram;
use nix::unistd::fdatasync;
use serde::Serialize;

use crate::commands::said;

/// Bytes of one write: about a batch of a quiet log.
const BLOCK: usize = 4_096;

/// Writes go over an existing file of this length, as logs reuse their files.
const FILE_BLOCKS: u64 = 1_024;

const SYNCS: usize = 1_000;

/// Facts without which the figures mean nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Facts {
    /// The gateway's own version output: its release, and whether it is a build for tests.
    pub program: String,
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    pub memory_mib: u64,
    /// Load averages of 1, 5 and 15 minutes when the measurements began.
    pub load: [f64; 3],
    /// The file system of the folder of clusters and etcd.
    pub file_system: String,
    pub fdatasync: Fdatasync,
}

/// Duration of a write of 4 KiB over existing bytes of a file, with `fdatasync`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fdatasync {
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl Facts {
    /// Reads the facts of the machine and of the temporary folder's file system, where clusters and etcd keep their
    /// data.
    ///
    /// # Errors
    /// When the folder cannot be written, or the kernel's files cannot be read.
    pub fn now() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir();
        let processor = read("/proc/cpuinfo")?;
        let processor = processor.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let memory = read("/proc/meminfo")?;
        let memory = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).context("no MemTotal")?;
        let memory_kib: u64 = memory.trim().trim_end_matches("kB").trim().parse()?;
        let load = read("/proc/loadavg")?;
        let mut load = load.split(' ').map(str::parse::<f64>);
        let mut next = || anyhow::Ok(load.next().context("/proc/loadavg is short")??);
        Ok(Self {
            program: program()?,
            cores: std::thread::available_parallelism()?.get(),
            processor: processor.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned()),
            kernel: read("/proc/sys/kernel/osrelease")?.trim().to_owned(),
            memory_mib: memory_kib / 1_024,
            load: [next()?, next()?, next()?],
            file_system: file_system(&folder)?,
            fdatasync: syncs(&folder)?,
        })
    }

    /// The facts for people.
    pub fn lines(&self) -> String {
        let [one, five, fifteen] = self.load;
        format!(
            "{}\n{} cores ({}), {} MiB, Linux {}, load {one:.2} {five:.2} {fifteen:.2}\n{}; fdatasync of 4 KiB: p50 {:.2} ms, p99 {:.2} ms",
            self.program,
            self.cores,
            self.processor,
            self.memory_mib,
            self.kernel,
            self.file_system,
            self.fdatasync.p50_ms,
            self.fdatasync.p99_ms
        )
    }
}

fn read(path: &str) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| path.to_owned())
}

fn program() -> anyhow::Result<String> {
    let told = said(&::tests::binary::gateway().to_string_lossy(), &["--version"])?;
    Ok(told.trim().replace('\n', ", "))
}

/// Type and options of the mount that contains a folder.
fn file_system(folder: &Path) -> anyhow::Result<String> {
    let folder = folder.canonicalize()?;
    let mounts = read("/proc/self/mounts")?;
    let mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    // The last one of the longest path, as later mounts hide earlier ones.
    let mount =
        mounts.filter(|mount| mount.len() > 3 && folder.starts_with(mount[1])).max_by_key(|mount| mount[1].len());
    Ok(mount.map_or_else(|| "unknown".to_owned(), |mount| format!("{} ({})", mount[2], mount[3])))
}

fn syncs(folder: &Path) -> anyhow::Result<Fdatasync> {
    let mut file: File = tempfile::tempfile_in(folder)?;
    let block = [7_u8; BLOCK];
    for _ in 0..FILE_BLOCKS {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    let mut times = Histogram::<u64>::new(3)?;
    for n in 0..SYNCS {
        file.seek(SeekFrom::Start(n as u64 % FILE_BLOCKS * BLOCK as u64))?;
        let began = Instant::now();
        file.write_all(&block)?;
        fdatasync(&file)?;
        times.record(u64::try_from(began.elapsed().as_nanos())?)?;
    }
    let ms = |part| times.value_at_quantile(part) as f64 / 1e6;
    Ok(Fdatasync { p50_ms: ms(0.5), p99_ms: ms(0.99) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_machine_tells_what_it_is() {
        let facts = Facts::now().unwrap();
        assert!(facts.program.starts_with("gateway "), "{facts:?}");
        assert!(facts.cores > 0 && facts.memory_mib > 0, "{facts:?}");
        assert!(facts.fdatasync.p50_ms > 0.0 && facts.fdatasync.p50_ms <= facts.fdatasync.p99_ms, "{facts:?}");
        assert_ne!(facts.file_system, "unknown");
    }
}
