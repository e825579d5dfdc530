//! Connections to the network: [`dial`] opens one, [`transport`] lets bytes out when the state log allows it, [`http`]
//! transfers media, and [`proxy`] is the route of both if the channel has one. [`ratchets`] stores Signal state before
//! bytes leave.

pub mod dial;
pub mod http;
pub mod proxy;
pub mod ratchets;
pub mod transport;
