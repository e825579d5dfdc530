//! Room on the machine: how many nodes run at once, and which ports each cluster gets.
//!
//! Both are locked files in the temporary folder, so that concurrent test programs share them and the system releases
//! them when a program dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The most nodes at once, over all test programs and including the shared cluster. Tests mostly wait: four clusters of
/// three nodes keep two cores busy, and more would only blur every measured time.
const NODES: usize = 12;

/// Ports of a cluster: base + 1 to base + 291.
const BLOCK: u16 = 300;

/// Base of the first block, and the number of blocks, below the range that Linux uses for outgoing connections.
const FIRST_BASE: u16 = 12_000;
const BLOCKS: u16 = 68;

/// After how long a waiting test prints that it waits.
const PATIENT: Duration = Duration::from_secs(3);

/// How long a test waits for room.
const PATIENCE: Duration = Duration::from_secs(900);

/// A reservation to run a cluster on a block of ports, released on drop.
#[derive(Debug)]
pub struct Room {
    pub base_port: u16,
    _nodes: Vec<File>,
    _block: File,
}

impl Room {
    /// Waits for room for a cluster of `nodes` nodes. Blocks the thread.
    pub fn take(nodes: usize) -> Self {
        let start = Instant::now();
        let mut told = false;
        let places = loop {
            // All or nothing: two tests that each hold some places while they wait for more would deadlock.
            let places: Vec<File> = (0..NODES).filter_map(|n| lock(&format!("node-{n}"))).take(nodes).collect();
            if places.len() == nodes {
                break places;
            }
            drop(places);
            assert!(start.elapsed() < PATIENCE, "no room for {nodes} nodes within {PATIENCE:?}");
            if !told && start.elapsed() > PATIENT {
                eprintln!("waiting for room for {nodes} of the {NODES} nodes that may run on this machine");
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        Self { _nodes: places, ..Self::beside_another() }
    }

    /// Reserves ports only, for the second cluster of a test: two tests that hold a cluster each and wait for room for
    /// a second one would deadlock.
    pub fn beside_another() -> Self {
        // A random start spreads programs over the blocks, so that the next cluster seldom gets a port of one that is
        // still shutting down.
        let offset: u16 = rand::random_range(0..BLOCKS);
        let (base_port, block) = (0..BLOCKS)
            .map(|n| FIRST_BASE + (n + offset) % BLOCKS * BLOCK)
            .find_map(|base| lock(&format!("ports-{base}")).filter(|_| is_free(base)).map(|file| (base, file)))
            .expect("one of the blocks of ports is free");
        Self { base_port, _nodes: Vec::new(), _block: block }
    }
}

/// Locks a file with this name; `None` if another process holds it.
fn lock(name: &str) -> Option<File> {
    let folder: PathBuf = std::env::temp_dir().join("gateway-tests");
    std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
    let path = folder.join(name);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(path).expect("a lock file opens");
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(error)) => panic!("cannot lock {name}: {error}"),
    }
}

/// Whether all ports of a cluster of up to nine nodes are free.
///
/// This connects to the ports. Binding them for a moment is unsafe: a child process that another thread starts just
/// then inherits the listener, and keeps the port taken.
fn is_free(base: u16) -> bool {
    let nodes = 1..=9;
    let offsets = nodes.flat_map(|n| [n, 100 + n, 200 + n]).chain([90, 91, 92]);
    offsets.map(|offset| base + offset).all(|port| TcpStream::connect(("127.0.0.1", port)).is_err())
}
