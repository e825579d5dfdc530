//! Room on the machine: how many clusters run at once, and on which ports each of them.
//!
//! Both are locked files in the temporary folder, so that test programs running side by side share them, and so that
//! the system gives them back when a program dies.

use std::fs::{File, OpenOptions, TryLockError};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Clusters at once, over all test programs, that shared by most tests among them. Tests mostly wait: this many keep two cores
/// busy, and more would only blur every time measured.
const CLUSTERS: usize = 4;

/// Ports of one cluster: base + 1 to base + 291.
const BLOCK: u16 = 300;

/// The first block's base, and how many follow. Below the range from which Linux takes ports of outgoing connections.
const FIRST_BASE: u16 = 12_000;
const BLOCKS: u16 = 68;

/// After what time it says that it waits.
const PATIENT: Duration = Duration::from_secs(3);

/// How long a test waits until another cluster is gone.
const PATIENCE: Duration = Duration::from_secs(900);

/// The right to run one cluster on one block of ports, for as long as it lives.
#[derive(Debug)]
pub struct Room {
    pub base_port: u16,
    _cluster: Option<File>,
    _block: File,
}

impl Room {
    /// Waits for room. Blocks the thread.
    pub fn take() -> Self {
        let start = Instant::now();
        let mut told = false;
        let cluster = loop {
            if let Some(file) = (0..CLUSTERS).find_map(|n| lock(&format!("cluster-{n}"))) {
                break file;
            }
            assert!(start.elapsed() < PATIENCE, "no room for a cluster within {PATIENCE:?}");
            if !told && start.elapsed() > PATIENT {
                eprintln!("waiting until one of the {CLUSTERS} clusters that run on this machine has gone");
                told = true;
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        Self { _cluster: Some(cluster), ..Self::beside_another() }
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
        Self { base_port, _cluster: None, _block: block }
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
