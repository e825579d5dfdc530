//! Tests of logins that are given up before the network answers.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use super::*;

/// A TCP proxy that can hold back what nodes send, like a path with packet loss and retransmission. After a reset of
/// the connection, held bytes are discarded.
struct Way {
    address: String,
    held: watch::Sender<bool>,
}

impl Way {
    async fn to(simulator: &Simulator) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let network = simulator.network_address();
        let (held, holds) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((node, _)) = listener.accept().await {
                let network = TcpStream::connect(network).await.unwrap();
                tokio::spawn(carry(node, network, holds.clone()));
            }
        });
        Self { address, held }
    }

    fn network(&self, node: NodeId) -> SimulatedNetwork {
        SimulatedNetwork::new(self.address.clone(), node)
    }

    fn hold(&self) {
        self.held.send_replace(true);
    }

    fn release(&self) {
        self.held.send_replace(false);
    }
}

async fn carry(node: TcpStream, network: TcpStream, mut holds: watch::Receiver<bool>) -> std::io::Result<()> {
    let (mut node_says, mut node_hears) = node.into_split();
    let (mut network_says, mut network_hears) = network.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut network_says, &mut node_hears).await });
    let mut bytes = vec![0; 64 * 1024];
    loop {
        let read = node_says.read(&mut bytes).await?;
        let released = holds.wait_for(|held| !held).await.is_ok();
        if read == 0 || !released || node_says.as_ref().take_error()?.is_some() {
            return Ok(());
        }
        network_hears.write_all(&bytes[..read]).await?;
    }
}

/// A paired channel, and a node that connects through the proxy.
async fn world_with_a_way() -> (World, Way, SimulatedNetwork) {
    let world = World::new().await;
    let way = Way::to(&world.simulator).await;
    let old = way.network(1);
    world.pair(&old, &fence(1)).await.session.drain().await;
    (world, way, old)
}

/// Releases the held bytes and checks that the next owner's session is undisturbed.
async fn nothing_comes_late(world: &World, way: &Way, mut line: Line) {
    way.release();
    // Everything still held arrives before this answer, because a node's new connection ends its earlier ones.
    let probe = way.network(1);
    let mut probed =
        world.open(&probe, &fence(9), Purpose::Pair { device_name: "Probe".into(), full_history: false }).await;
    probed.qr().await;
    line.send("A").await.unwrap();
    assert!(matches!(line.next().await, SessionEvent::Accepted { .. }));
    let stats = world.simulator.stats();
    assert_eq!((stats.conflicts, stats.fenced, stats.logins), (0, 0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_held_up_does_not_come_after_the_next_owners() {
    let (world, way, old) = world_with_a_way().await;
    way.hold();
    let passing = fence(2);
    let mut stale = world.open(&old, &passing, Purpose::Login).await;
    passing.revoke();
    assert_eq!(stale.ended().await, EndReason::Fenced);
    until("the connection is given up", || old.shared.alive().is_none()).await;
    let new = world.network(2);
    let line = world.login(&new, &fence(3)).await;
    nothing_comes_late(&world, &way, line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_is_held_up_while_its_session_is_drained_does_not_come_after_the_next_owners() {
    let (world, way, old) = world_with_a_way().await;
    way.hold();
    let stale = world.open(&old, &fence(2), Purpose::Login).await;
    stale.session.drain().await;
    assert!(old.shared.alive().is_none(), "the connection is given up by then");
    let new = world.network(2);
    let line = world.login(&new, &fence(3)).await;
    nothing_comes_late(&world, &way, line).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_whose_login_the_network_delays_is_closed_in_order() {
    let world = World::new().await;
    let network = world.network(1);
    world.pair(&network, &fence(1)).await.session.drain().await;
    let slow = FaultsChange { login_delay_ms: Some(500), ..Default::default() };
    world.simulator.act(|engine, now| engine.change_faults(now, slow)).unwrap();
    let delayed = world.open(&network, &fence(2), Purpose::Login).await;
    delayed.session.drain().await;
    let recalled = world.open(&network, &fence(2), Purpose::Login).await;
    recalled.session.kill();
    let new = world.network(2);
    let line = world.login(&new, &fence(3)).await;
    line.send("A").await.unwrap();
    until("A is accepted", || world.simulator.stats().accepted == 1).await;
    // Neither session was ever logged in, and the connection is still open.
    let stats = world.simulator.stats();
    assert_eq!((stats.conflicts, stats.fenced, stats.logins), (0, 0, 2));
    assert!(network.shared.alive().is_some());
}
