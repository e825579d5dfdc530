//! The way to the network: [`dial`] makes a connection, [`transport`] lets bytes out where the state log allows it, [`http`]
//! fetches media. [`proxy`] is the way of both, where the channel has one.

pub mod dial;
pub mod http;
pub mod proxy;
pub mod ratchets;
pub mod transport;
