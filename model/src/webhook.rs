//! Webhooks: what an endpoint may say, how a delivery is signed, and when it is tried again.

pub mod delivery;
pub mod endpoint;
pub mod headers;
pub mod recover;
pub mod signature;

pub use delivery::{DeliveryState, Outcome, RetrySchedule, Verdict};
pub use endpoint::{ChangeEndpoint, CreateEndpoint, EventFilter, MOST_ENDPOINTS, MOST_URL_BYTES};
pub use headers::StaticHeaders;
pub use recover::Recovery;
pub use signature::{default_secret, sign, signature_header, standard_signature};
