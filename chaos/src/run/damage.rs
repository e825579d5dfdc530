//! Damages the files of a stopped node at places drawn from a seed, and records how the node reacts.
//!
//! Only damage that the node must detect is done. In the log that is every record but the last, which may not have been
//! acknowledged, and may be followed by leftovers of another file. In the state all tables are damaged: a block is
//! verified when it is read, and a start does not read them all, but does read whole tables of the groups' positions.

use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::injector::revive;
use crate::schedule::fault::{Damage, Foreign};
use crate::world::World;
use crate::world::asking::{get, until};
use crate::world::founding::READY;

/// Observation time for a node that may wait for its peers rather than refuse its files.
const WAITS: Duration = Duration::from_secs(20);

/// How long the other nodes accept writes that the stopped node does not receive.
const UNHEARD: Duration = Duration::from_secs(3);

/// Longest delay of the last nodes' start, when the folder was emptied.
const LATER: Duration = Duration::from_secs(4);

/// The same when the folder was restored. By itself such a folder cannot be told from an intact one: a starting node
/// asks its peers for three seconds how far its log had been synced, and only peers with its later entries know.
const SOON: Duration = Duration::from_secs(1);

/// RocksDB writes the records of its log in pieces that lie within a block. A piece begins with checksum (4 bytes),
/// length (2), type (1) and the number of its file (4), which distinguishes it from the contents before a file was
/// recycled.
const BLOCK: usize = 32 << 10;
const HEADER: usize = 11;

/// Types of pieces: a whole record, the first piece of a record, and the last.
const WHOLE: u8 = 5;
const FIRST: u8 = 6;
const LAST: u8 = 8;

/// How a node reacted to its damaged files.
#[derive(Debug)]
pub struct Damaged {
    pub node: u64,
    /// Where the damage is.
    pub place: String,
    /// The log line with which the node refused its files.
    pub refused: Option<String>,
    /// Whether the node did not have to read the damaged part.
    pub harmless: bool,
}

/// Kills a node, damages its files, and starts it again: it must refuse them.
///
/// # Errors
/// When there is nothing to damage yet, or the node cannot be killed or started. It may be up or down then.
pub async fn damage(world: &World, id: u64, how: Damage, seed: u64) -> anyhow::Result<Damaged> {
    world.kill(&[id])?;
    let data = world.data(id)?;
    if how == Damage::FlippedTables {
        // The next start moves what the write-ahead files hold at a kill into tables.
        revive(world, id).await?;
        world.kill(&[id])?;
    }
    let harmed = harm(&data, how, &mut StdRng::seed_from_u64(seed));
    world.launch(id)?;
    let Harmed { place, log } = harmed?;
    // A node whose whole folder is gone may have no peer left that knows it. It then waits, and serves nothing.
    let refused = refusal(world, id, &data, how == Damage::Wiped).await?;
    let harmless = refused.is_none() && log.is_some_and(|log| was_skipped(&data, log));
    Ok(Damaged { node: id, place, refused, harmless })
}

/// Replaces the folder of node `id` by an empty or an older one. Before, `away` is killed, the others accept writes,
/// and all are killed. After, `id` and `away` start, and later the others. What only `id` and those know must survive.
///
/// # Errors
/// When a node cannot be killed or started, or the folder cannot be replaced.
pub async fn exchange(world: &World, id: u64, away: u64, how: Foreign, seed: u64) -> anyhow::Result<Damaged> {
    let (data, mut rng) = (world.data(id)?, StdRng::seed_from_u64(seed));
    let older = world.folder().join(format!("older-{id}"));
    if how == Foreign::Restored {
        world.kill(&[id])?;
        let copied = copy(&data, &older);
        world.launch(id)?;
        copied?;
        world.wait_ready(id, READY).await?;
    }
    world.kill(&[away])?;
    tokio::time::sleep(UNHEARD).await;
    let all = world.node_ids();
    world.kill(&all)?;
    let exchanged = (|| {
        let Harmed { place, .. } = harm(&data, Damage::Wiped, &mut rng)?;
        if how == Foreign::Restored {
            copy(&older, &data)?;
            fs::remove_dir_all(&older)?;
        }
        anyhow::Ok(place)
    })();
    world.launch(id)?;
    world.launch(away)?;
    let most = if how == Foreign::Restored { SOON } else { LATER };
    tokio::time::sleep(rng.random_range(Duration::ZERO..most)).await;
    // Without `id`, which may have refused its files by now.
    for other in all.into_iter().filter(|other| *other != id) {
        world.launch(other)?;
    }
    let place = exchanged?;
    let refused = refusal(world, id, &data, true).await?;
    Ok(Damaged { node: id, place, refused, harmless: false })
}

/// Copies the contents of a folder.
fn copy(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() { copy(&path, &copied)? } else { fs::copy(&path, &copied).map(drop)? }
    }
    Ok(())
}

/// Waits until a node has refused its files or is ready, and kills it then.
async fn refusal(world: &World, id: u64, data: &Path, may_wait: bool) -> anyhow::Result<Option<String>> {
    let what = format!("node {id} refuses its files");
    let operator = world.operator(id)?;
    let ended = until(&what, if may_wait { WAITS } else { READY }, async || {
        if !world.is_running(id) {
            return Ok(true);
        }
        ensure!(get(&operator, "/readyz").await.is_ok(), "its process runs");
        Ok(false)
    });
    let refused = match ended.await {
        // A process that failed for another reason has not refused its files.
        Ok(true) => Some(world.last_line(id)).filter(|line| line.contains(&data.display().to_string())),
        Ok(false) => None,
        Err(_) => may_wait.then(|| "it found nobody who knows it, and was not ready".to_owned()),
    };
    world.kill(&[id])?;
    Ok(refused)
}

/// The damage done.
struct Harmed {
    place: String,
    /// The number of the damaged log file, if the damage is in one.
    log: Option<u64>,
}

fn harm(data: &Path, how: Damage, rng: &mut StdRng) -> anyhow::Result<Harmed> {
    match how {
        Damage::FlippedBit | Damage::Truncated => {
            let logs = logs(&data.join("raft"))?;
            let (log, at) = draw(&logs, rng).with_context(|| format!("{} promises nothing yet", data.display()))?;
            let place = if how == Damage::FlippedBit {
                flip(&log.path, at, rng.random_range(0..8))?;
                format!("byte {at} of {}", log.path.display())
            } else {
                File::options().write(true).open(&log.path)?.set_len(at)?;
                format!("{} from byte {at} on", log.path.display())
            };
            Ok(Harmed { place, log: Some(log.number) })
        }
        Damage::FlippedTables => {
            let folder = data.join("data");
            let tables = files(&folder, "sst")?;
            ensure!(!tables.is_empty(), "{} holds no table", folder.display());
            let part: f64 = rng.random_range(0.0..1.0);
            for table in &tables {
                flip(table, (fs::metadata(table)?.len() as f64 * part) as u64, rng.random_range(0..8))?;
            }
            let place = format!("{} tables of {}, each after {:.1} %", tables.len(), folder.display(), part * 100.0);
            Ok(Harmed { place, log: None })
        }
        Damage::Wiped => {
            // The folder itself may be a mount point.
            for entry in fs::read_dir(data)? {
                let path = entry?.path();
                if path.is_dir() { fs::remove_dir_all(path)? } else { fs::remove_file(path)? }
            }
            Ok(Harmed { place: data.display().to_string(), log: None })
        }
    }
}

fn flip(file: &Path, at: u64, bit: u32) -> anyhow::Result<()> {
    let open = File::options().read(true).write(true).open(file)?;
    let mut byte = [0];
    open.read_exact_at(&mut byte, at).with_context(|| format!("byte {at} of {}", file.display()))?;
    Ok(open.write_all_at(&[byte[0] ^ (1 << bit)], at)?)
}

/// A file of the log, and the positions of its acknowledged records.
struct Log {
    number: u64,
    path: PathBuf,
    records: Vec<Range<usize>>,
}

/// The files of a log that hold acknowledged records. A record counts as acknowledged once another follows it.
fn logs(folder: &Path) -> anyhow::Result<Vec<Log>> {
    let mut logs = Vec::new();
    for path in files(folder, "log")? {
        let number = path.file_stem().and_then(|stem| stem.to_str()?.parse().ok());
        let number = number.with_context(|| format!("{} bears no number", path.display()))?;
        let records = records(&fs::read(&path)?, number);
        logs.push(Log { number, path, records });
    }
    logs.sort_by_key(|log| log.number);
    if let Some(newest) = logs.iter_mut().rfind(|log| !log.records.is_empty()) {
        newest.records.pop();
    }
    logs.retain(|log| !log.records.is_empty());
    Ok(logs)
}

/// Positions of the records in a log file, up to the first piece that does not belong to it.
fn records(file: &[u8], number: u64) -> Vec<Range<usize>> {
    let (mut found, mut begun, mut at) = (Vec::new(), None, 0_usize);
    loop {
        if BLOCK - at % BLOCK < HEADER {
            // The rest is too short for a header: the next piece is in the next block.
            at = at.next_multiple_of(BLOCK);
        }
        let Some(header) = file.get(at..at + HEADER) else { return found };
        let own = u32::from_le_bytes([header[7], header[8], header[9], header[10]]);
        let end = at + HEADER + usize::from(u16::from_le_bytes([header[4], header[5]]));
        if u64::from(own) != number || end > file.len().min((at + 1).next_multiple_of(BLOCK)) {
            return found;
        }
        match header[6] {
            WHOLE => found.push(at..end),
            FIRST => begun = Some(at),
            LAST => found.extend(begun.take().map(|begin| begin..end)),
            // The middle of a record, or metadata of the file.
            _ => {}
        }
        at = end;
    }
}

/// Draws a byte of an acknowledged record: of the first and the last record more often, as bugs hide at the ends.
fn draw<'a>(logs: &'a [Log], rng: &mut StdRng) -> Option<(&'a Log, u64)> {
    let log = logs.choose(rng)?;
    let record = match rng.random_range(0..4) {
        0 => log.records.first(),
        1 => log.records.last(),
        _ => log.records.choose(rng),
    };
    let at = rng.random_range(record?.clone());
    Some((log, at as u64))
}

/// Whether the database skipped a log file at its last start, because its contents are in tables.
fn was_skipped(data: &Path, log: u64) -> bool {
    let told = fs::read_to_string(data.join("raft/LOG")).unwrap_or_default();
    told.contains(&format!("Skipping log #{log} since"))
}

/// The files of a folder with this extension that are not empty.
fn files(folder: &Path, ending: &str) -> anyhow::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    found.retain(|path| path.extension().is_some_and(|end| end == ending));
    found.retain(|path| path.metadata().is_ok_and(|facts| facts.len() > 0));
    // The order of a directory listing is arbitrary; a seed must give the same result again.
    found.sort();
    Ok(found)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn piece(number: u32, kind: u8, length: usize) -> Vec<u8> {
        let mut piece = vec![0xaa; 4];
        piece.extend(u16::try_from(length).unwrap().to_le_bytes());
        piece.push(kind);
        piece.extend(number.to_le_bytes());
        piece.resize(HEADER + length, 0x05);
        piece
    }

    #[test]
    fn records_are_found_over_blocks_up_to_what_another_file_has_left() {
        let mut file = piece(7, WHOLE, 100);
        // Leaves five bytes of the block.
        file.extend(piece(7, WHOLE, BLOCK - 5 - HEADER - file.len()));
        file.resize(BLOCK, 0);
        file.extend(piece(7, FIRST, BLOCK - HEADER));
        file.extend(piece(7, 7, BLOCK - HEADER));
        file.extend(piece(7, LAST, 50));
        let whole = file.len();
        let expected = vec![0..111, 111..BLOCK - 5, BLOCK..whole];
        assert_eq!(records(&file, 7), expected);
        for tail in [piece(6, WHOLE, 20), piece(7, WHOLE, 20)[..15].to_vec(), vec![0; 500], piece(7, FIRST, 20)] {
            let file = [file.clone(), tail].concat();
            assert_eq!(records(&file, 7), expected);
        }
        assert!(records(&file, 8).is_empty() && records(&[], 7).is_empty());
    }

    #[test]
    fn the_last_record_of_all_is_never_damaged_and_every_other_may_be() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
        let three = |number| [piece(number, WHOLE, 9), piece(number, WHOLE, 9), piece(number, WHOLE, 9)].concat();
        write("000010.log", three(10));
        write("000009.log", three(9));
        // A file that was created and not written yet.
        write("000011.log", Vec::new());
        write("000012.log", three(9));
        let logs = logs(folder.path()).unwrap();
        let found: Vec<_> = logs.iter().map(|log| (log.number, log.records.len())).collect();
        assert_eq!(found, [(9, 3), (10, 2)]);
        let drawn: BTreeSet<(u64, u64)> = (0..5_000)
            .map(|seed| draw(&logs, &mut StdRng::seed_from_u64(seed)).unwrap())
            .map(|(log, at)| (log.number, at))
            .collect();
        assert_eq!(drawn.len(), 3 * 20 + 2 * 20);
        assert!(draw(&[], &mut StdRng::seed_from_u64(1)).is_none());
    }

    #[test]
    fn a_seed_damages_one_bit_of_each_table_at_the_same_place_again() {
        let damaged = |seed| {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data");
            fs::create_dir(&data).unwrap();
            for (name, length) in [("1.sst", 1), ("2.sst", 5_000), ("3.sst", 0), ("OPTIONS", 9)] {
                fs::write(data.join(name), vec![0_u8; length]).unwrap();
            }
            harm(folder.path(), Damage::FlippedTables, &mut StdRng::seed_from_u64(seed)).unwrap();
            ["1.sst", "2.sst", "3.sst", "OPTIONS"].map(|name| fs::read(data.join(name)).unwrap())
        };
        let flipped = damaged(1);
        let bits = |bytes: &Vec<u8>| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        assert_eq!(flipped.each_ref().map(bits), [1, 1, 0, 0]);
        assert_eq!(flipped, damaged(1));
        assert!((2..20).any(|seed| damaged(seed) != flipped));
    }

    #[test]
    fn a_log_that_the_database_says_it_passed_over_was_not_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!was_skipped(folder.path(), 12));
        fs::create_dir(folder.path().join("raft")).unwrap();
        let told = "Skipping log #12 since it is older than min log to keep #15\nRecovering log #15 mode 2\n";
        fs::write(folder.path().join("raft/LOG"), told).unwrap();
        assert!(was_skipped(folder.path(), 12) && !was_skipped(folder.path(), 15) && !was_skipped(folder.path(), 1));
    }
}
