//! `gateway join`: asks a cluster to let this machine in, and writes what it is given.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::format::Format;
use model::join_token::JoinToken;
use raft::transport::stranger::{self, StrangerError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::place::Place;
use super::words::{Answer, Question, VERSION, Welcome};
use super::{init, words};
use crate::cli::joining::JoinArgs;
use crate::config::files::PeerIdentity;
use crate::config::{Config, HostPort, Member, Node, validate};
use crate::console::say;
use crate::data_folder::DataFolder;
use crate::dev::folder::{read_json, write_json};
use crate::refusal::Refusal;

/// How long a cluster may take to answer, an election included.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is kept over attempts, so that a lost answer does not use the token up.
#[derive(Serialize, Deserialize)]
struct Asking {
    storage_id: Uuid,
}

/// Joins. May be run again after a failure, with the same token.
///
/// # Errors
/// A [`Refusal`] for what the caller gave and what the cluster does not want; anything else for what went wrong.
pub async fn run(args: &JoinArgs) -> anyhow::Result<()> {
    let token: JoinToken = args.token.parse().map_err(|error: model::join_token::NotAJoinToken| {
        Refusal::new("--token", error.to_string(), "make one with gateway token on a node of the cluster")
    })?;
    let place = Place::choose(&args.node.dir)?;
    let asking = match read_json::<Asking>(&place.asking_file())? {
        Some(asking) => asking,
        None => {
            let asking = Asking { storage_id: Uuid::new_v4() };
            write_json(&place.asking_file(), &asking)?;
            asking
        }
    };
    let welcome = ask(args, &token, asking.storage_id).await?;
    let (id, nodes) = (welcome.id, welcome.nodes.len());
    let config = configuration(args, &welcome)?;
    let cluster_id = config.cluster.cluster_id;
    DataFolder::claim(&config.node.data_dir, cluster_id, id, asking.storage_id, welcome.format)?;
    let identity = PeerIdentity { ca_pem: welcome.ca_pem, cert_pem: welcome.cert_pem, key_pem: welcome.key_pem };
    place.write(&identity, &welcome.master_key.0, &welcome.operator_token.0, config)?;
    // The configuration stands: nobody asks again.
    std::fs::remove_file(place.asking_file()).context("removing what was kept while asking")?;
    say(format!("node {id} of a cluster of {nodes}, in {}", args.node.dir.display()));
    say(format!("  start it with      gateway run --config {}", place.config_file().display()));
    Ok(())
}

async fn ask(args: &JoinArgs, token: &JoinToken, storage_id: Uuid) -> anyhow::Result<Welcome> {
    let node = &args.node;
    let question = Question {
        version: VERSION,
        token: token.hash(),
        storage_id,
        peer: node.advertise.to_string(),
        zone: node.zone.clone(),
        weight: node.weight,
        max_channels: node.max_channels,
        format: Format::LATEST,
    };
    let question = rmp_serde::to_vec_named(&question).context("writing the question")?;
    let via = args.via.to_string();
    let subject = format!("--via {via}");
    let answer = stranger::ask(&via, token.authority(), &question, Instant::now() + PATIENCE).await;
    let answer = answer.map_err(|error| match error {
        StrangerError::NotTheCluster(reason) => {
            let problem = format!("is not of the cluster that the token is for: {reason}");
            Refusal::new(&subject, problem, "name the peer port of a node of the cluster that made the token")
        }
        StrangerError::Unreachable(reason) => Refusal::new(&subject, reason, "name the peer port of a node that runs"),
    })?;
    match rmp_serde::from_slice::<words::Answer>(&answer).context("reading the cluster's answer")? {
        Answer::Welcome(welcome) => Ok(*welcome),
        Answer::Refused(reason) => {
            Err(Refusal::new("--token", reason, "make another one with gateway token, or mend what it names").into())
        }
    }
}

/// The configuration of the node that answered, with what is this node's own.
fn configuration(args: &JoinArgs, welcome: &Welcome) -> anyhow::Result<Config> {
    let theirs: Config = toml::from_str(&welcome.config.0).context("reading the cluster's configuration")?;
    let node = &args.node;
    let nodes: Vec<Member> = welcome
        .nodes
        .iter()
        .filter(|(id, _)| *id != welcome.id)
        .filter_map(|(id, peer)| Some(Member { id: *id, peer: peer.parse::<HostPort>().ok()?, api: None }))
        .collect();
    if nodes.is_empty() {
        bail!("the cluster names no node of its own");
    }
    let mut config = Config {
        node: Node {
            id: welcome.id,
            data_dir: std::path::absolute(&node.data_dir)?,
            zone: node.zone.clone(),
            weight: node.weight,
            max_channels: node.max_channels,
        },
        peer: init::peer(node),
        ..theirs
    };
    config.api.listen = node.api_listen;
    config.ops.listen = node.ops_listen;
    (config.cluster.joined, config.cluster.nodes) = (true, nodes);
    validate::validate(&config)?;
    Ok(config)
}
