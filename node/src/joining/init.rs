//! `gateway init`: creates a cluster of one node, ready for `gateway run`, that other nodes can join.

use anyhow::Context;
use model::format::Format;
use model::id::NodeId;
use shard::layout::usual_shard_count;
use uuid::Uuid;

use super::place::{MasterKeys, Place};
use crate::cli::joining::{InitArgs, NodeArgs};
use crate::config::files::PeerIdentity;
use crate::config::{
    Api, Cluster, Config, HumanDuration, Member, Network, Node, Ops, Peer, Secret, Secrets, Timing, cores, validate,
};
use crate::console::say;
use crate::data_folder::ReservedFolder;
use crate::key_files::{random_hex, write_private};
use crate::pki::Authority;

/// Size in bytes of a master key and of an operator token.
const MASTER_KEY_BYTES: usize = 32;
const OPERATOR_TOKEN_BYTES: usize = 24;

const FIRST_NODE: NodeId = 1;

/// Creates the folder of the first node.
///
/// # Errors
/// A [`Refusal`](crate::refusal::Refusal) when the arguments are wrong; any other error when a file cannot be written.
pub fn run(args: &InitArgs) -> anyhow::Result<()> {
    let first = First::prepare(args)?;
    let keys = MasterKeys { current: Secret(random_hex(MASTER_KEY_BYTES)), previous: None };
    first.place.accepts(&keys)?;
    first.place.make()?;
    let cluster_id = first.config.cluster.cluster_id;
    // The data folder is claimed first. The configuration is written last, so that `init` can be repeated until
    // everything exists.
    ReservedFolder::unused(&first.config.node.data_dir)?.claim(cluster_id, FIRST_NODE, Format::FIRST)?;
    let place = first.write(&keys)?;
    say(format!("cluster {cluster_id}, node 1, in {}", args.node.dir.display()));
    say(format!(
        "  keep a copy of     {} (without it nothing stored can be opened)",
        place.master_key_file().display()
    ));
    say(format!("  operators need     {}", place.operator_token_file().display()));
    say(format!("  start it with      gateway run --config {}", place.config_file().display()));
    say("  then add others    gateway token (here), gateway join (there)");
    Ok(())
}

/// The first node of a new cluster, before anything has been written.
pub struct First {
    pub place: Place,
    pub config: Config,
}

impl First {
    /// Validates the arguments, and generates the cluster's id.
    ///
    /// # Errors
    /// A [`Refusal`](crate::refusal::Refusal).
    pub fn prepare(args: &InitArgs) -> anyhow::Result<Self> {
        let place = Place::choose(&args.node.dir)?;
        let config = configuration(args)?;
        validate::validate(&config)?;
        Ok(Self { place, config })
    }

    /// Creates the authority, a certificate and an operator token, and writes all files.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write(self, keys: &MasterKeys) -> anyhow::Result<Place> {
        let Self { place, config } = self;
        let authority = Authority::create().context("making the authority")?;
        let own = authority
            .issue(config.node.id, config.peer.certificate_life.0)
            .context("issuing the node's certificate")?;
        write_private(&place.ca_key_file(), &authority.pair.key)?;
        let identity =
            PeerIdentity { ca_pem: authority.pair.certificate, cert_pem: own.certificate, key_pem: Secret(own.key) };
        let config = Config { peer: Peer { ca_key_file: Some(place.ca_key_file()), ..config.peer }, ..config };
        place.write(&identity, keys, &random_hex(OPERATOR_TOKEN_BYTES), config)?;
        Ok(place)
    }
}

fn configuration(args: &InitArgs) -> std::io::Result<Config> {
    let (given, usual) = (&args.node, Config::usual());
    Ok(Config {
        node: node(given)?,
        api: Api { listen: given.api_listen, base_url: args.cluster.base_url.clone(), ..usual.api },
        ops: Ops { listen: given.ops_listen, token: Some(Secret("0".repeat(16))), ..usual.ops },
        peer: peer(given),
        cluster: Cluster {
            cluster_id: Uuid::new_v4(),
            shards: Some(args.shards.unwrap_or_else(|| usual_shard_count(args.nodes, cores()))),
            timing: if args.cluster.wan { Timing::Wan } else { Timing::Lan },
            nodes: vec![Member { id: FIRST_NODE, peer: given.advertise.clone(), api: None }],
            ..usual.cluster
        },
        secrets: Secrets { master_key: Some(Secret("0".repeat(64))), ..Secrets::default() },
        network: Network { address: Some(args.cluster.network.clone()), ..usual.network },
        ..usual
    })
}

/// The settings of a new node, with the first node's number until the cluster assigns one. Paths are absolute, because
/// the node may be started from another folder.
///
/// # Errors
/// The current folder does not exist any more.
pub fn node(given: &NodeArgs) -> std::io::Result<Node> {
    Ok(Node {
        id: FIRST_NODE,
        data_dir: std::path::absolute(&given.data_dir)?,
        zone: given.zone(),
        weight: given.weight,
        max_channels: given.max_channels,
    })
}

/// The peer listener of a new node; the paths of its files are set when they are written.
pub fn peer(node: &NodeArgs) -> Peer {
    Peer {
        listen: node.peer_listen,
        advertise: Some(node.advertise.clone()),
        ca_file: Default::default(),
        cert_file: Default::default(),
        key_file: Default::default(),
        ca_key_file: None,
        certificate_life: HumanDuration(Peer::CERTIFICATE_LIFE),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::cli::joining::NewClusterArgs;
    use crate::config::HostPort;

    #[test]
    fn a_cluster_whose_data_folder_could_not_be_written_is_made_by_another_try() {
        let root = tempfile::tempdir().unwrap();
        let listen = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let args = InitArgs {
            node: NodeArgs {
                dir: root.path().join("etc"),
                data_dir: root.path().join("data"),
                advertise: HostPort::new("localhost", 7000),
                peer_listen: listen(7000),
                api_listen: listen(7001),
                ops_listen: listen(7002),
                zone: None,
                weight: 1,
                max_channels: 1,
            },
            cluster: NewClusterArgs {
                base_url: "http://localhost:7001".to_owned(),
                network: HostPort::new("localhost", 7003),
                wan: false,
            },
            nodes: 1,
            shards: Some(1),
        };
        // A folder in the place of the identity's temporary file makes the write fail.
        let obstacle = args.node.data_dir.join("identity.json.tmp");
        std::fs::create_dir_all(&obstacle).unwrap();
        run(&args).unwrap_err();
        std::fs::remove_dir(&obstacle).unwrap();
        run(&args).unwrap();
        assert!(args.node.dir.join("gateway.toml").exists());
    }
}
