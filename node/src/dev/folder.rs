//! The folder of a development cluster: its files, and which of them survive from one run to the next.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use model::id::NodeId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use uuid::Uuid;

use super::description::Description;
use super::ports::Ports;
use crate::config::{Driver, Peer, load};
use crate::key_files::{random_hex, write_atomically, write_private};
use crate::pki::{Authority, Pair};
use crate::refusal::{Refusal, ensure};
use crate::trust::Trust;

/// File that marks a folder as one that `gateway dev` may wipe.
const MARKER: &str = ".gateway-dev.json";

/// Properties of a cluster that stay the same when its folder is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    pub nodes: u8,
    pub base_port: u16,
    pub cluster_id: Uuid,
    /// The network that its channels use.
    #[serde(default)]
    pub network: Driver,
}

impl Plan {
    pub fn ports(self) -> Ports {
        Ports { base: self.base_port }
    }

    pub fn node_ids(self) -> impl DoubleEndedIterator<Item = NodeId> {
        1..=NodeId::from(self.nodes)
    }
}

/// The demo customer, stored across runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoCustomer {
    pub customer_id: String,
    pub api_key: String,
}

/// A development cluster's folder. All paths are absolute.
#[derive(Clone, Debug)]
pub struct Folder {
    root: PathBuf,
}

impl Folder {
    /// Opens the folder of an existing development cluster.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder holds none.
    pub fn existing(root: &Path) -> Result<(Self, Plan), Refusal> {
        let folder = Self { root: absolute(root)? };
        match folder.plan()? {
            Some(plan) => Ok((folder, plan)),
            None => {
                let remedy = "name one with --data, or start one with gateway dev";
                Err(Refusal::new(root.display(), "holds no development cluster", remedy))
            }
        }
    }

    /// Checks whether the folder can hold a cluster of this shape, a new one or the one already there. Changes nothing.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder holds something else, or a cluster of another shape than requested.
    pub fn choose(
        root: &Path,
        nodes: Option<u8>,
        base_port: Option<u16>,
        network: Option<Driver>,
        fresh: bool,
    ) -> Result<(Self, Plan), Refusal> {
        let folder = Self { root: absolute(root)? };
        let shown = root.display();
        let former = folder.plan()?;
        let is_empty = fs::read_dir(&folder.root).map(|mut entries| entries.next().is_none()).unwrap_or(true);
        let problem = "is neither empty nor the folder of a development cluster";
        let remedy = "name an empty folder, or one that gateway dev has made";
        ensure(former.is_some() || is_empty, &shown, problem, remedy)?;
        let Some(plan) = former.filter(|_| !fresh) else {
            let (nodes, base_port) = (nodes.unwrap_or(3), base_port.unwrap_or(8000));
            let network = network.unwrap_or_default();
            return Ok((folder, Plan { nodes, base_port, cluster_id: Uuid::new_v4(), network }));
        };
        let has_nodes = nodes.is_none_or(|nodes| nodes == plan.nodes);
        let problem = format!("holds a cluster of {} nodes", plan.nodes);
        ensure(has_nodes, &shown, problem, "leave out --nodes, or give --fresh to delete it")?;
        let has_port = base_port.is_none_or(|port| port == plan.base_port);
        let problem = format!("holds a cluster on base port {}", plan.base_port);
        ensure(has_port, &shown, problem, "leave out --base-port, or give --fresh to delete it")?;
        let has_network = network.is_none_or(|network| network == plan.network);
        let remedy = "leave out --network, or give --fresh to delete it";
        ensure(has_network, &shown, "holds a cluster on another network", remedy)?;
        Ok((folder, plan))
    }

    /// Prepares the folder for the chosen cluster; a cluster with another plan is deleted.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder cannot be created; any other error when it cannot be written.
    pub fn establish(&self, plan: Plan) -> anyhow::Result<()> {
        let shown = self.root.display();
        if self.plan()?.is_some_and(|former| former != plan) {
            fs::remove_dir_all(&self.root).with_context(|| format!("emptying {shown}"))?;
        }
        fs::create_dir_all(&self.root).map_err(|error| {
            Refusal::new(format!("--data {shown}"), error, "name a folder that this process can write to")
        })?;
        write_json(&self.root.join(MARKER), &plan)?;
        self.make_secrets(plan)
    }

    fn plan(&self) -> Result<Option<Plan>, Refusal> {
        read_json(&self.root.join(MARKER))
            .map_err(|error| Refusal::new(self.root.join(MARKER).display(), error, "remove the folder"))
    }

    /// Creates the authority, a certificate per node, the master key and the operator token, if they are missing.
    fn make_secrets(&self, plan: Plan) -> anyhow::Result<()> {
        let ca = self.ca_file();
        if !ca.exists() {
            let authority = Authority::create()?;
            fs::create_dir_all(self.root.join("pki"))?;
            for node in plan.node_ids() {
                let Pair { certificate, key } = authority.issue(node, Peer::CERTIFICATE_LIFE)?;
                write_private(&self.key_file(node), &key)?;
                write_atomically(&self.cert_file(node), certificate.as_bytes(), 0o644)?;
            }
            write_private(&self.ca_key_file(), &authority.pair.key)?;
            // Written last: its presence means that the other files exist.
            write_atomically(&ca, authority.pair.certificate.as_bytes(), 0o644)?;
        }
        for (path, length) in [(self.master_key_file(), 32), (self.operator_token_file(), 24)] {
            if !path.exists() {
                write_private(&path, &random_hex(length))?;
            }
        }
        Ok(())
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn ca_file(&self) -> PathBuf {
        self.root.join("pki/ca.pem")
    }

    pub fn ca_key_file(&self) -> PathBuf {
        self.root.join("pki/ca.key")
    }

    pub fn cert_file(&self, node: NodeId) -> PathBuf {
        self.root.join(format!("pki/node-{node}.pem"))
    }

    pub fn key_file(&self, node: NodeId) -> PathBuf {
        self.root.join(format!("pki/node-{node}.key"))
    }

    pub fn master_key_file(&self) -> PathBuf {
        self.root.join("master.key")
    }

    pub fn operator_token_file(&self) -> PathBuf {
        self.root.join("operator.token")
    }

    pub fn operator_token(&self) -> anyhow::Result<String> {
        let path = self.operator_token_file();
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(text.trim().to_owned())
    }

    pub fn config_file(&self, node: NodeId) -> PathBuf {
        self.root.join(format!("node-{node}.toml"))
    }

    /// URL of a node's operators' port, and how its certificate is verified: by the node's configuration, once that
    /// exists.
    pub fn operators_port(&self, plan: Plan, node: NodeId) -> (String, Trust) {
        let config = load::load(Some(&self.config_file(node)), [], &[]).ok();
        let address = plan.ports().ops(node);
        match config.and_then(|config| config.ops.tls) {
            Some(tls) => (format!("https://{address}"), Trust::Same(tls.cert_file)),
            None => (format!("http://{address}"), Trust::System),
        }
    }

    pub fn data_dir(&self, node: NodeId) -> PathBuf {
        self.root.join(format!("node-{node}"))
    }

    /// Folder in which the simulator stores its phones across runs.
    pub fn simulator_dir(&self) -> PathBuf {
        self.root.join("simulator")
    }

    pub fn description_file(&self) -> PathBuf {
        Description::file_in(&self.root)
    }

    pub fn customer_file(&self) -> PathBuf {
        self.root.join("customer.json")
    }

    pub fn member_file(&self) -> PathBuf {
        self.root.join("member.json")
    }

    /// Lock for updates of the folder's JSON files, since several commands may run at once.
    pub fn lock(&self) -> anyhow::Result<File> {
        let file = File::create(self.root.join(".lock"))?;
        file.lock()?;
        Ok(file)
    }
}

fn absolute(root: &Path) -> Result<PathBuf, Refusal> {
    std::path::absolute(root)
        .map_err(|error| Refusal::new(format!("--data {}", root.display()), error, "name a folder"))
}

/// Reads a JSON file; `None` if it does not exist.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a JSON file atomically, readable only by its owner: most of these files hold a key.
pub fn write_json<T: Serialize>(path: &Path, value: &T) -> anyhow::Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_atomically(path, &text, 0o600).with_context(|| path.display().to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn prepare(root: &Path, nodes: Option<u8>, base: Option<u16>, fresh: bool) -> Result<(Folder, Plan), Refusal> {
        let (folder, plan) = Folder::choose(root, nodes, base, None, fresh)?;
        folder.establish(plan).unwrap();
        Ok((folder, plan))
    }

    #[test]
    fn a_resumed_folder_keeps_its_plan_and_secrets_and_a_fresh_one_does_not() {
        let temporary = tempfile::tempdir().unwrap();
        let root = temporary.path().join("dev");
        let (folder, plan) = prepare(&root, Some(2), Some(9000), false).unwrap();
        let token = folder.operator_token().unwrap();
        assert_eq!(fs::metadata(folder.key_file(1)).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::metadata(folder.master_key_file()).unwrap().permissions().mode() & 0o777, 0o600);

        let (folder, resumed) = prepare(&root, None, None, false).unwrap();
        assert_eq!((resumed, folder.operator_token().unwrap()), (plan, token.clone()));
        let other = prepare(&root, Some(3), None, false).unwrap_err();
        assert!(other.to_string().contains("2 nodes"), "{other}");
        let other = Folder::choose(&root, None, None, Some(Driver::Whatsapp), false).unwrap_err();
        assert!(other.to_string().contains("--network"), "{other}");
        let other = Folder::choose(&root, None, Some(9001), None, false).unwrap_err();
        assert!(other.to_string().contains("base port 9000"), "{other}");

        let (folder, fresh) = prepare(&root, Some(3), None, true).unwrap();
        assert_eq!((fresh.nodes, fresh.base_port), (3, 8000));
        assert_ne!(folder.operator_token().unwrap(), token);
        assert_ne!(fresh.cluster_id, plan.cluster_id);
    }

    #[test]
    fn a_folder_that_cannot_be_made_is_named_with_its_flag() {
        let (folder, plan) = Folder::choose(Path::new("/proc/nowhere"), Some(1), None, None, false).unwrap();
        let error = folder.establish(plan).unwrap_err();
        assert!(error.is::<Refusal>() && error.to_string().starts_with("--data /proc/nowhere: "), "{error}");
    }

    #[test]
    fn a_folder_of_somebody_else_is_left_alone_even_when_a_fresh_one_is_asked_for() {
        let temporary = tempfile::tempdir().unwrap();
        fs::write(temporary.path().join("thesis.txt"), "years of work").unwrap();
        for fresh in [false, true] {
            let refusal = Folder::choose(temporary.path(), None, None, None, fresh).unwrap_err();
            assert!(refusal.to_string().contains("neither empty"), "{refusal}");
        }
        assert!(temporary.path().join("thesis.txt").exists());
        assert!(Folder::existing(temporary.path()).is_err());
    }
}
