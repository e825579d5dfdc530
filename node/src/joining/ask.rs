//! `gateway join`: asks a cluster to admit this machine, and writes the certificate, keys and configuration that it
//! returns.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::format::Format;
use model::join_token::JoinToken;
use model::msgpack;
use raft::transport::unauthenticated::{self, UnauthenticatedError};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::place::{MasterKeys, Place};
use super::words::{Answer, Question, VERSION, Welcome};
use super::{init, words};
use crate::cli::joining::{JoinArgs, NodeArgs};
use crate::config::files::PeerIdentity;
use crate::config::{Config, HostPort, Member, Node, load, validate};
use crate::console::say;
use crate::data_folder::ReservedFolder;
use crate::dev::folder::{read_json, write_json};
use crate::refusal::Refusal;

/// Timeout of the cluster's answer, including an election.
const PATIENCE: Duration = Duration::from_secs(20);

/// Stored across attempts: the same storage id may use the token again after a lost answer.
#[derive(Serialize, Deserialize)]
struct JoinAttempt {
    storage_id: Uuid,
}

/// Joins a cluster. Can be repeated after a failure, with the same token.
///
/// # Errors
/// A [`Refusal`] when the arguments are wrong or the cluster refuses; any other error when something fails.
pub async fn run(args: &JoinArgs) -> anyhow::Result<()> {
    let token = token(args)?;
    // A token admits one node, so everything on this machine is checked before the token is used.
    let own = init::node(&args.node)?;
    validate::own(&own, args.node.api_listen, args.node.ops_listen, &init::peer(&args.node))?;
    let place = Place::choose(&args.node.dir)?;
    place.make()?;
    let attempt = match read_json::<JoinAttempt>(&place.asking_file())? {
        Some(attempt) => attempt,
        None => {
            let attempt = JoinAttempt { storage_id: Uuid::new_v4() };
            write_json(&place.asking_file(), &attempt)?;
            attempt
        }
    };
    let folder = ReservedFolder::reserve(&own.data_dir, attempt.storage_id)?;
    let welcome = ask(args, &token, attempt.storage_id).await?;
    let (id, nodes) = (welcome.id, welcome.nodes.len());
    settle(welcome, &args.node, folder, &place).with_context(|| {
        format!(
            "the cluster has created node {id} for this machine, but it is not finished: fix the following and run this \
             again with the same token and --dir, or remove it with gateway node remove {id}"
        )
    })?;
    // With the configuration written, the attempt is over.
    std::fs::remove_file(place.asking_file()).context("removing what was kept while asking; the node is made")?;
    say(format!("node {id} of a cluster of {nodes}, in {}", args.node.dir.display()));
    say(format!("  start it with      gateway run --config {}", place.config_file().display()));
    Ok(())
}

/// The token, from the file or the flag. The file takes precedence, since the flag's value may come from the
/// environment.
fn token(args: &JoinArgs) -> Result<JoinToken, Refusal> {
    let remedy = "create one with gateway token on a node of the cluster";
    let unreadable = |subject: &str, error: std::io::Error| {
        Refusal::new(subject, error, "name a file that you can read, or - for standard input")
    };
    let from_input = |subject: &str| {
        let mut line = String::new();
        std::io::stdin().read_line(&mut line).map_err(|error| unreadable(subject, error))?;
        Ok::<String, Refusal>(line)
    };
    let (subject, text) = match (&args.token_file, args.token.as_deref()) {
        (Some(path), _) if path.as_os_str() == "-" => ("--token-file -".to_owned(), from_input("--token-file -")?),
        (Some(path), _) => {
            let subject = format!("--token-file {}", path.display());
            let text = std::fs::read_to_string(path).map_err(|error| unreadable(&subject, error))?;
            (subject, text)
        }
        (None, Some("-")) => ("--token -".to_owned(), from_input("--token -")?),
        (None, Some(token)) => ("--token".to_owned(), token.to_owned()),
        (None, None) => return Err(Refusal::new("--token-file", "is missing", remedy)),
    };
    // The file may hold the whole output of `gateway token`, whose first line is the token.
    text.trim_start()
        .lines()
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|error: model::join_token::NotAJoinToken| Refusal::new(subject, error, remedy))
}

/// Writes the files of the new node.
fn settle(welcome: Welcome, given: &NodeArgs, folder: ReservedFolder, place: &Place) -> anyhow::Result<()> {
    let config = configuration(given, &welcome)?;
    let keys = MasterKeys { current: welcome.master_key, previous: welcome.previous_master_key };
    place.accepts(&keys)?;
    folder.claim(config.cluster.cluster_id, welcome.id, welcome.format)?;
    let identity = PeerIdentity { ca_pem: welcome.ca_pem, cert_pem: welcome.cert_pem, key_pem: welcome.key_pem };
    place.write(&identity, &keys, &welcome.operator_token.0, config)
}

async fn ask(args: &JoinArgs, token: &JoinToken, storage_id: Uuid) -> anyhow::Result<Welcome> {
    let node = &args.node;
    let question = Question {
        version: VERSION,
        token: token.hash(),
        storage_id,
        peer: node.advertise.to_string(),
        zone: node.zone(),
        names_zone: node.zone.is_some(),
        weight: node.weight,
        max_channels: node.max_channels,
        format: Format::LATEST,
    };
    let question = msgpack::to_vec_named(&question).context("writing the question")?;
    let via = args.via.to_string();
    let subject = format!("--via {via}");
    let answer = unauthenticated::ask(&via, token.authority(), &question, Instant::now() + PATIENCE).await;
    let answer = answer.map_err(|error| match error {
        UnauthenticatedError::NotTheCluster(reason) => {
            let problem = format!("is not of the cluster that the token is for: {reason}");
            Refusal::new(&subject, problem, "name the peer port of a node of the cluster that made the token")
        }
        UnauthenticatedError::Unreachable(reason) => {
            let remedy = "name the peer port (8082) of a running node, with the same token and --dir as now: if the \
                          question was answered, it is answered again, once";
            Refusal::new(&subject, reason, remedy)
        }
    })?;
    match msgpack::from_slice::<words::Answer>(&answer).context("reading the cluster's answer")? {
        Answer::Welcome(welcome) => Ok(*welcome),
        Answer::Refused(reason) => {
            let remedy = "fix what it names and run this again, or give another token (gateway token)";
            Err(Refusal::new(subject, format!("does not admit this machine: {reason}"), remedy).into())
        }
    }
}

/// The configuration of the node that answered, with this node's own settings.
fn configuration(given: &NodeArgs, welcome: &Welcome) -> anyhow::Result<Config> {
    let theirs = load::parse(&welcome.config.0, "configuration").context("reading the cluster's configuration")?;
    let nodes: Vec<Member> = welcome
        .nodes
        .iter()
        .filter(|(id, _)| *id != welcome.id)
        .filter_map(|(id, peer)| Some(Member { id: *id, peer: peer.parse::<HostPort>().ok()?, api: None }))
        .collect();
    if nodes.is_empty() {
        bail!("the cluster names no node of its own");
    }
    let node = Node { id: welcome.id, ..init::node(given)? };
    let mut config = Config { node, peer: init::peer(given), ..theirs };
    config.api.listen = given.api_listen;
    config.ops.listen = given.ops_listen;
    (config.cluster.joined, config.cluster.nodes) = (true, nodes);
    validate::validate(&config)?;
    Ok(config)
}
