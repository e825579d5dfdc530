//! Webhooks: the rules for endpoints, the signing of deliveries, and retries.

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
