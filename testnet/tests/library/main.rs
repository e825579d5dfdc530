//! The test network as an unmodified client library sees it.

#![allow(clippy::unwrap_used, reason = "tests")]

mod client;
mod contents;
mod control;
mod ends;
mod groups;
mod keys;
mod messages;
mod pairing;

use testnet::{Config, TestNet};
use tracing_subscriber::EnvFilter;

use self::client::TestClient;
use self::control::Control;

/// The channel's number, and one that it writes with.
pub const CHANNEL: &str = "15551110000";
pub const PEER: &str = "15552220000";

/// A network with the two phones.
pub async fn network() -> (TestNet, Control) {
    // `RUST_LOG=testnet=trace` shows what the server sees; another test may have been first.
    let logs = tracing_subscriber::fmt().with_env_filter(EnvFilter::from_default_env()).with_test_writer();
    let _ = logs.try_init();
    let net = TestNet::start(Config::anywhere()).await.unwrap();
    let control = Control { address: net.control_address() };
    control.phone(CHANNEL).await;
    control.phone(PEER).await;
    (net, control)
}

/// A network on which the channel is paired and logged in.
pub async fn paired() -> (TestNet, Control, TestClient) {
    let (net, control) = network().await;
    let mut client = TestClient::new(net.chat_address()).await;
    client.pair(&control, CHANNEL).await;
    (net, control, client)
}
