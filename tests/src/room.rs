//! Room on the machine: how many nodes run at once, and on which ports those of each cluster.
//!
//! Both are locked files in the temporary folder, so that test programs running side by side share them, and so that
//! the system gives them back when a program dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Nodes at once, over all test programs, those of the cluster that most tests share among them. Tests mostly wait: four clusters of
/// three nodes keep two cores busy, and more would only blur every time measured.
const NODES: usize = 12;

/// Ports of one cluster: base + 1 to base + 291.
const BLOCK: u16 = 300;

/// The first block's base, and how many follow. Below the range from which Linux takes ports of outgoing connections.
const FIRST_BASE: u16 = 12_000;
const BLOCKS: u16 = 68;

/// After what time it says that it waits.
const PATIENT: Duration = Duration::from_secs(3);

/// How long a test waits until others are gone.
const PATIENCE: Duration = Duration::from_secs(900);

/// The right to run a cluster on one block of ports, for as long as it lives.
#[derive(Debug)]
pub struct Room {
    pub base_port: u16,
    _nodes: Vec<File>,
    _block: File,
}

impl Room {
    /// Waits for room for a cluster of so many nodes. Blocks the thread.
    pub fn take(nodes: usize) -> Self {
        let start = Instant::now();
        let mut told = false;
        let places = loop {
            // Nobody keeps some while it waits for more: two that do would wait for ever.
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

    /// Ports alone, for the second cluster of one test: two tests that each have one and wait for another would wait for ever.
    pub fn beside_another() -> Self {
        // A random start spreads programs over the blocks, so that a port of a cluster that is still going down is
        // seldom the next one's.
        let offset: u16 = rand::random_range(0..BLOCKS);
        let (base_port, block) = (0..BLOCKS)
            .map(|n| FIRST_BASE + (n + offset) % BLOCKS * BLOCK)
            .find_map(|base| lock(&format!("ports-{base}")).filter(|_| is_free(base)).map(|file| (base, file)))
            .expect("one of the blocks of ports is free");
        Self { base_port, _nodes: Vec::new(), _block: block }
    }
}

/// Locks a file of this name, unless another holds it.
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

/// Whether nobody listens on any port that a cluster of up to nine nodes takes.
///
/// Asked by connecting: a listener of our own, bound for a moment, may live on in a child that another thread is just
/// starting, and then the cluster itself finds its port taken.
fn is_free(base: u16) -> bool {
    let nodes = 1..=9;
    let offsets = nodes.flat_map(|n| [n, 100 + n, 200 + n]).chain([90, 91, 92]);
    offsets.map(|offset| base + offset).all(|port| TcpStream::connect(("127.0.0.1", port)).is_err())
}
