//! The way to the network: [`dial`] makes a connection, [`transport`] lets bytes out where the state log allows it, [`http`]
//! fetches over the same proxy.

pub mod dial;
pub mod http;
pub mod ratchets;
pub mod transport;
