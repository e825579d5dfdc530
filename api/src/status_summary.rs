//! The status of the whole gateway as one node sees it.

use model::time::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use shard::router::Readiness;

#[derive(Clone, Serialize, JsonSchema)]
pub struct StatusSummary {
    #[schemars(extend("enum" = ["operational", "degraded", "outage"]))]
    status: &'static str,
    /// The parts of the service.
    components: Vec<Component>,
    nodes: Nodes,
    pub updated_at: Timestamp,
}

#[derive(Clone, Serialize, JsonSchema)]
pub struct Component {
    #[schemars(extend("enum" = COMPONENTS))]
    name: &'static str,
    #[schemars(extend("enum" = ["operational", "degraded", "outage"]))]
    status: &'static str,
    /// Time since which the component has had this status.
    since: Timestamp,
}

#[derive(Clone, Serialize, JsonSchema)]
pub struct Nodes {
    /// Number of ready nodes.
    ready: usize,
    total: usize,
}

const COMPONENTS: [&str; 5] = ["api", "channels", "webhooks", "media", "events"];

/// Summarises the status. A component whose status has not changed keeps its `since`.
pub fn summarise(
    readiness: &Readiness,
    ready: usize,
    total: usize,
    now: Timestamp,
    last: Option<&StatusSummary>,
) -> StatusSummary {
    // Keys, sends and deliveries all need the directory; channels and their events also need their shards.
    let shards = if readiness.leases { "operational" } else { "degraded" };
    let components = COMPONENTS.map(|name| {
        let status = match name {
            _ if !readiness.cluster || !readiness.store => "outage",
            "api" => "operational",
            _ => shards,
        };
        let before = last.and_then(|last| last.components.iter().find(|component| component.name == name));
        let since = before.filter(|component| component.status == status).map_or(now, |component| component.since);
        Component { name, status, since }
    });
    let status = if components.iter().any(|component| component.status == "outage") {
        "outage"
    } else if ready < total || components.iter().any(|component| component.status == "degraded") {
        "degraded"
    } else {
        "operational"
    };
    StatusSummary { status, components: components.into(), nodes: Nodes { ready, total }, updated_at: now }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readiness(cluster: bool, leases: bool) -> Readiness {
        Readiness { store: true, cluster, leases, commits: true, draining: false }
    }

    #[test]
    fn a_draining_node_is_not_ready() {
        assert!(readiness(true, true).is_ready());
        assert!(!Readiness { draining: true, ..readiness(true, true) }.is_ready());
        assert!(!readiness(true, false).is_ready());
        assert!(!Readiness { commits: false, ..readiness(true, true) }.is_ready());
    }

    #[test]
    fn a_component_keeps_its_since_while_it_stays_as_it_is() {
        let first = summarise(&readiness(true, true), 3, 3, Timestamp(1000), None);
        assert_eq!(first.status, "operational");
        let second = summarise(&readiness(true, false), 3, 3, Timestamp(9000), Some(&first));
        assert_eq!(second.status, "degraded");
        assert_eq!(second.components[0].since, Timestamp(1000));
        assert_eq!(second.components[1].since, Timestamp(9000));
        assert_eq!(summarise(&readiness(false, true), 3, 3, Timestamp(9000), None).status, "outage");
        assert_eq!(summarise(&readiness(true, true), 2, 3, Timestamp(9000), None).status, "degraded");
    }
}
