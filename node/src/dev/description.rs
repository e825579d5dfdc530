//! `dev.json`: addresses and credentials of a development cluster, for tests and people.

use std::path::{Path, PathBuf};

use model::id::NodeId;
use serde::{Deserialize, Serialize};

use super::folder::{DemoCustomer, Folder, Plan, read_json, write_json};
use super::process::{Role, recorded_pid};
use crate::refusal::Refusal;
use crate::trust::Trust;

/// Content of the file, on which tests rely. A stopped process keeps its last process id here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    pub simulator: String,
    pub simulator_pid: i32,
    pub nodes: Vec<NodeDescription>,
    pub customer_id: String,
    pub api_key: String,
    pub operator_token: String,
    /// Certificate of the operators' ports, if they use TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator_certificate: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDescription {
    pub id: NodeId,
    pub api: String,
    pub ops: String,
    pub peer: String,
    pub pid: i32,
    pub data: PathBuf,
    pub log: PathBuf,
}

impl Description {
    /// How the certificates of the operators' ports are verified.
    pub fn operators_trust(&self) -> Trust {
        self.operator_certificate.clone().map_or(Trust::System, Trust::Same)
    }

    /// Path of the file in a cluster's folder.
    pub fn file_in(folder: &Path) -> PathBuf {
        folder.join("dev.json")
    }

    /// The description of the cluster in the folder that `--data` names.
    ///
    /// # Errors
    /// A [`Refusal`] when there is none, or it cannot be read.
    pub fn find(folder: &Path) -> Result<Self, Refusal> {
        let path = Self::file_in(folder);
        let subject = format!("--data ({})", path.display());
        let found = read_json::<Self>(&path)
            .map_err(|error| Refusal::new(&subject, error, "name the folder of a cluster of gateway dev"))?;
        let remedy = "start a cluster with gateway dev, or name its folder";
        found.ok_or_else(|| Refusal::new(subject, "no such file", remedy))
    }

    /// Describes a cluster of these nodes, with its current process ids.
    ///
    /// # Errors
    /// The folder cannot be read, or a process was never started.
    pub fn compose(folder: &Folder, plan: Plan, nodes: &[NodeId], customer: &DemoCustomer) -> anyhow::Result<Self> {
        let ports = plan.ports();
        let nodes = nodes.iter().map(|id| {
            let id = *id;
            Ok(NodeDescription {
                id,
                api: format!("http://{}", ports.api(id)),
                ops: folder.operators_port(plan, id).0,
                peer: ports.peer(id).to_string(),
                pid: recorded_pid(folder, Role::Node(id))?,
                data: folder.data_dir(id),
                log: Role::Node(id).log_file(folder),
            })
        });
        Ok(Self {
            simulator: format!("http://{}", ports.network_control()),
            simulator_pid: recorded_pid(folder, Role::of_network(plan))?,
            nodes: nodes.collect::<anyhow::Result<_>>()?,
            customer_id: customer.customer_id.clone(),
            api_key: customer.api_key.clone(),
            operator_token: folder.operator_token()?,
            operator_certificate: match folder.operators_port(plan, 1).1 {
                Trust::Same(path) => Some(path),
                Trust::System | Trust::Authorities(_) => None,
            },
        })
    }

    pub fn write(&self, folder: &Folder) -> anyhow::Result<()> {
        write_json(&folder.description_file(), self)
    }

    /// Updates a node's process id, if the file exists.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn note_pid(folder: &Folder, node: NodeId, pid: i32) -> anyhow::Result<()> {
        let _lock = folder.lock()?;
        let Some(mut description) = read_json::<Self>(&folder.description_file())? else { return Ok(()) };
        for described in &mut description.nodes {
            if described.id == node {
                described.pid = pid;
            }
        }
        description.write(folder)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::super::process::record_pid;
    use super::*;

    #[test]
    fn the_description_has_the_agreed_shape() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("dev");
        let (folder, plan) = Folder::choose(&root, Some(1), Some(8000), None, false).unwrap();
        folder.establish(plan).unwrap();
        record_pid(&folder, Role::Simulator, 4100).unwrap();
        record_pid(&folder, Role::Node(1), 4101).unwrap();
        let customer = DemoCustomer { customer_id: "c".to_owned(), api_key: "zpk_x".to_owned() };
        Description::compose(&folder, plan, &[1], &customer).unwrap().write(&folder).unwrap();
        let read: serde_json::Value = read_json(&folder.description_file()).unwrap().unwrap();
        let expected = serde_json::json!({
            "simulator": "http://127.0.0.1:8090",
            "simulator_pid": 4100,
            "nodes": [{
                "id": 1, "api": "http://127.0.0.1:8001", "ops": "http://127.0.0.1:8101", "peer": "127.0.0.1:8201",
                "pid": 4101, "data": root.join("node-1"), "log": root.join("node-1.log"),
            }],
            "customer_id": "c",
            "api_key": "zpk_x",
            "operator_token": folder.operator_token().unwrap(),
        });
        assert_eq!(read, expected);

        Description::note_pid(&folder, 1, 5000).unwrap();
        let read: Description = read_json(&folder.description_file()).unwrap().unwrap();
        assert_eq!((read.nodes[0].pid, read.simulator_pid), (5000, 4100));
    }
}
