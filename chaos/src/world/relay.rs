//! Delays the traffic between a node and its peers: a process in front of the node's peer port. A queue in the kernel
//! could delay packets, but not let one connection overtake another.
//!
//! Each piece waits for the sum of the delays of both ends, plus a random time up to the sum of their spreads. Pieces
//! of one connection keep their order. Nodes have several connections to each other, so votes, entries and calls may
//! overtake each other.

use std::collections::HashMap;
use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ::tests::binary;
use anyhow::Context;
use bytes::BytesMut;
use parking_lot::RwLock;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// The most bytes read at once. The bytes of a piece share one delay.
const PIECE: usize = 16 << 10;

/// Pieces in flight per direction; beyond that the relay stops reading.
const UNDER_WAY: usize = 256;

/// Timeout for a connection to the node behind the relay.
const CONNECT: Duration = Duration::from_secs(1);

/// Delay of everything from and to one end, in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    pub least: u16,
    /// Upper bound of the random addition, which is drawn for each piece.
    pub spread: u16,
}

impl Hold {
    fn and(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), spread: self.spread.saturating_add(other.spread) }
    }

    fn draw(self) -> Duration {
        Duration::from_millis(u64::from(self.least) + rand::random_range(0..=u64::from(self.spread)))
    }
}

/// The delays in force, as the runner sends them to a relay: of its own node, and of that node's peers by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds {
    pub own: Hold,
    pub peers: HashMap<IpAddr, Hold>,
}

impl Holds {
    fn of(&self, peer: IpAddr) -> Hold {
        self.own.and(self.peers.get(&peer).copied().unwrap_or_default())
    }
}

/// The runner's handle of the relay of a place. Dropping it ends the relay.
#[derive(Debug)]
pub struct Relay {
    child: Child,
}

impl Relay {
    /// Starts a relay in a network namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(namespace: &str, listen: SocketAddr, node: SocketAddr, log: &Path) -> anyhow::Result<Self> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace]).arg(binary::beside("gateway-chaos"));
        command.args(["relay", "--listen", &listen.to_string(), "--node", &node.to_string()]);
        let said = std::fs::File::create(log).with_context(|| log.display().to_string())?;
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(said);
        Ok(Self { child: command.spawn().context("ip cannot be run")? })
    }

    /// Sets the delays in force.
    ///
    /// # Errors
    /// When the relay is gone.
    pub fn tell(&mut self, holds: &Holds) -> anyhow::Result<()> {
        let input = self.child.stdin.as_mut().context("its input is open")?;
        writeln!(input, "{}", serde_json::to_string(holds)?)?;
        input.flush().context("the relay is gone")
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Relays until standard input ends. Each line of the input is the [`Holds`] in force from then on.
///
/// # Errors
/// When the address cannot be bound, or a line cannot be parsed.
pub async fn run(listen: SocketAddr, node: SocketAddr) -> anyhow::Result<()> {
    let holds = Arc::new(RwLock::new(Holds::default()));
    let listener = TcpListener::bind(listen).await.with_context(|| listen.to_string())?;
    let accepting = tokio::spawn(accept(listener, node, holds.clone()));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        *holds.write() = serde_json::from_str(&line).with_context(|| line.clone())?;
    }
    accepting.abort();
    Ok(())
}

async fn accept(listener: TcpListener, node: SocketAddr, holds: Arc<RwLock<Holds>>) {
    loop {
        // A failed accept means that the peer has given its connection up.
        let Ok((outside, peer)) = listener.accept().await else { continue };
        let holds = holds.clone();
        tokio::spawn(async move {
            // If the node is down, the peer's connection is closed.
            let Ok(Ok(inside)) = tokio::time::timeout(CONNECT, TcpStream::connect(node)).await else { return };
            let _ = (outside.set_nodelay(true), inside.set_nodelay(true));
            let (from_peer, to_peer) = outside.into_split();
            let (from_node, to_node) = inside.into_split();
            let hold = || holds.read().of(peer.ip());
            // The end of one direction ends the other as well: a node that died answers nobody.
            tokio::select! {
                () = pass(from_peer, to_node, &hold) => {}
                () = pass(from_node, to_peer, &hold) => {}
            }
        });
    }
}

/// Forwards pieces in order, each once its delay has passed.
async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, hold: &impl Fn() -> Hold) {
    let (queue, mut under_way) = mpsc::channel::<(Instant, BytesMut)>(UNDER_WAY);
    let reading = async move {
        let mut last = Instant::now();
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if !matches!(from.read_buf(&mut piece).await, Ok(1..)) {
                return;
            }
            last = last.max(Instant::now() + hold().draw());
            if queue.send((last, piece)).await.is_err() {
                return;
            }
        }
    };
    let writing = async move {
        while let Some((due, piece)) = under_way.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
    };
    tokio::pin!(reading);
    tokio::select! {
        () = writing => {}
        // Pieces read before the end still arrive: the writer ends when the queue is empty.
        () = async { (&mut reading).await; std::future::pending().await } => {}
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const HOLD: Hold = Hold { least: 80, spread: 0 };

    #[tokio::test]
    async fn what_is_said_arrives_late_whole_and_in_order() {
        let (mut peer, outside) = tokio::io::duplex(1 << 20);
        let (inside, mut node) = tokio::io::duplex(1 << 20);
        let passing = tokio::spawn(async move { pass(outside, inside, &|| HOLD).await });
        let (began, said) = (Instant::now(), vec![7; 100_000]);
        peer.write_all(&said).await.unwrap();
        drop(peer);
        let mut heard = Vec::new();
        node.read_to_end(&mut heard).await.unwrap();
        assert!(heard == said && began.elapsed() >= Duration::from_millis(80), "{:?}", began.elapsed());
        passing.await.unwrap();
    }

    #[test]
    fn a_peer_is_held_up_by_both_ends() {
        let peer = IpAddr::from([10, 213, 0, 2]);
        let holds = Holds { own: HOLD, peers: [(peer, Hold { least: 20, spread: 5 })].into() };
        assert_eq!(holds.of(peer), Hold { least: 100, spread: 5 });
        assert_eq!(holds.of(IpAddr::from([10, 213, 0, 3])), HOLD);
    }
}
