//! openraft's types on simulated time: those of [`crate::types`] but for the runtime.

use openraft::{OptionalSend, RaftTypeConfig};

use super::applier::Applier;
use crate::types::{Command, GatewayTypes, Reply, TypeConfig, Waiter};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SimulatedTypes {}

impl RaftTypeConfig for SimulatedTypes {
    type D = Command;
    type R = Reply;
    type NodeId = <TypeConfig as RaftTypeConfig>::NodeId;
    type Node = ();
    type Term = <TypeConfig as RaftTypeConfig>::Term;
    type LeaderId = <TypeConfig as RaftTypeConfig>::LeaderId;
    type Vote = <TypeConfig as RaftTypeConfig>::Vote;
    type Payload = <TypeConfig as RaftTypeConfig>::Payload;
    type Entry = <TypeConfig as RaftTypeConfig>::Entry;
    type AsyncRuntime = openraft_rt_sim::SimRuntime;
    type Responder<T>
        = Waiter<T>
    where
        T: OptionalSend + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: OptionalSend + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

impl GatewayTypes for SimulatedTypes {}

pub(super) type Raft = openraft::Raft<SimulatedTypes, Applier>;
