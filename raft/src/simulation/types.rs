//! openraft's types on simulated time: those of [`crate::types`] except the runtime.

use super::applier::Applier;
use crate::types::gateway_types;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SimulatedTypes {}

gateway_types!(SimulatedTypes on openraft_rt_sim::SimRuntime);

pub(super) type Raft = openraft::Raft<SimulatedTypes, Applier>;
