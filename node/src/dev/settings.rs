//! The configuration of a development node: production defaults, except for folders, ports and shorter times.

use std::time::Duration;

use anyhow::Context;
use model::format::Format;
use model::id::NodeId;
use model::limit::BucketRule;

use super::folder::{Folder, Plan};
use crate::cli::{LimitArgs, UpArgs};
use crate::config::auth::{Auth, Mail};
use crate::config::{
    Api, Cluster, Config, Drain, Driver, HostPort, HumanDuration, Limits, Member, Network, Node, Ops, Peer, Secrets,
    Webhooks, Whatsapp, load, validate,
};
use crate::data_folder::ReservedFolder;
use crate::key_files::write_private;

/// Writes the configuration files of all nodes. Flags apply to this run only: a resumed folder gets new files.
///
/// # Errors
/// A file cannot be written, or a key of `--set` is wrong.
pub fn write_all(folder: &Folder, plan: Plan, args: &UpArgs) -> anyhow::Result<()> {
    for node in plan.node_ids() {
        let config = load::lay_over(&of_node(folder, plan, args, node), &args.set)?;
        validate::validate(&config)?;
        let text = toml::to_string(&config).context("writing a configuration")?;
        write_private(&folder.config_file(node), &text)?;
        if config.is_alone() && !config.node.data_dir.exists() {
            let given = ReservedFolder::unused(&config.node.data_dir)?;
            given.claim(config.cluster.cluster_id, node, Format::FIRST)?;
        }
    }
    Ok(())
}

/// Fewer shards than on separate machines: the nodes share the CPU, and an entry of a shard's log has a fixed cost,
/// however few sends it carries. With one and a half shards per node, each node can lead one, and there are some to
/// move.
fn shard_count(nodes: usize) -> u16 {
    u16::try_from((nodes.saturating_mul(3) / 2).max(2)).unwrap_or(u16::MAX)
}

fn of_node(folder: &Folder, plan: Plan, args: &UpArgs, node: NodeId) -> Config {
    let ports = plan.ports();
    let local = |address: std::net::SocketAddr| HostPort::new(address.ip().to_string(), address.port());
    let url = |node| format!("http://{}", ports.api(node));
    let usual = Config::usual();
    Config {
        node: Node { id: node, data_dir: folder.data_dir(node), zone: "dev".to_owned(), ..usual.node },
        api: Api {
            listen: ports.api(node),
            base_url: args.base_url.clone().unwrap_or_else(|| url(1)),
            console: true,
            ..usual.api
        },
        ops: Ops { listen: ports.ops(node), token_file: Some(folder.operator_token_file()), ..usual.ops },
        peer: Peer {
            listen: ports.peer(node),
            advertise: Some(local(ports.peer(node))),
            ca_file: folder.ca_file(),
            cert_file: folder.cert_file(node),
            key_file: folder.key_file(node),
            ca_key_file: Some(folder.ca_key_file()),
            ..usual.peer
        },
        cluster: Cluster {
            cluster_id: plan.cluster_id,
            shards: Some(shard_count(plan.node_ids().count())),
            nodes: plan.node_ids().map(|id| Member { id, peer: local(ports.peer(id)), api: Some(url(id)) }).collect(),
            ..usual.cluster
        },
        secrets: Secrets { master_key_file: Some(folder.master_key_file()), ..Secrets::default() },
        network: network(plan),
        webhooks: Webhooks { allow_http: !args.strict, allow_loopback: !args.strict, ..usual.webhooks },
        limits: limits(&args.limits),
        auth: Auth { signup: true, verify_first: false, mail: Mail { to_log: true, ..Mail::default() }, ..usual.auth },
        drain: Drain { initial_wait: HumanDuration(Duration::ZERO) },
        ..usual
    }
}

/// The settings of the network. The test network accepts as many logins per second as the simulator.
fn network(plan: Plan) -> Network {
    let ports = plan.ports();
    let (address, whatsapp) = match plan.network {
        Driver::Simulated => (Some(HostPort::new(ports.network().ip().to_string(), ports.network().port())), None),
        #[cfg(feature = "testnet")]
        Driver::Whatsapp => {
            let endpoint = Some(format!("ws://{}/ws/chat", ports.network()));
            let media_endpoint = Some(format!("http://{}", ports.test_media()));
            (None, Some(Whatsapp { endpoint, media_endpoint, ..Whatsapp::default() }))
        }
        // Without the feature `testnet`, there is no network for these nodes, and they are not started.
        #[cfg(not(feature = "testnet"))]
        Driver::Whatsapp => (None, Some(Whatsapp::default())),
    };
    Network {
        driver: plan.network,
        address,
        phones: (plan.network == Driver::Simulated).then(|| format!("http://{}", ports.network_control())),
        session_starts_per_second: Some(Network::SESSION_STARTS_PER_SECOND),
        whatsapp,
        ..Network::default()
    }
}

fn limits(args: &LimitArgs) -> Limits {
    let over = |bucket: BucketRule, burst: Option<u32>, refill: Option<u32>| BucketRule {
        burst: burst.unwrap_or(bucket.burst),
        refill_per_second: refill.unwrap_or(bucket.refill_per_second),
    };
    let production = Limits::default();
    Limits {
        ip: over(production.ip, args.ip_burst, args.ip_refill),
        customer: over(production.customer, args.customer_burst, args.customer_refill),
        channel: over(production.channel, args.channel_burst, args.channel_refill),
        console: production.console,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::config::files;

    fn written(flags: &[&str]) -> (tempfile::TempDir, Config) {
        let temporary = tempfile::tempdir().unwrap();
        let line = ["gateway", "dev"].iter().chain(flags);
        let Command::Dev(dev) = Cli::try_parse_from(line).unwrap().command else { panic!("not dev") };
        let (folder, plan) =
            Folder::choose(&temporary.path().join("dev"), Some(3), None, dev.up.network, false).unwrap();
        folder.establish(plan).unwrap();
        write_all(&folder, plan, &dev.up).unwrap();
        let config = load::load(Some(&folder.config_file(2)), [], &[]).unwrap();
        (temporary, config)
    }

    #[test]
    fn a_development_node_passes_the_check_that_any_node_passes() {
        let (_folder, config) = written(&[]);
        validate::validate(&config).unwrap();
        files::check(&config).unwrap();
        assert_eq!(config.node.id, 2);
        assert_eq!(config.api.base_url, "http://127.0.0.1:8001");
        assert!(config.webhooks.allow_http && config.webhooks.allow_loopback);
        assert_eq!(config.drain.initial_wait.0, Duration::ZERO);
        assert_eq!(config.limits.customer, BucketRule { burst: 60, refill_per_second: 1 });
    }

    #[test]
    fn nodes_of_one_machine_have_one_and_a_half_shards_each() {
        assert_eq!([1, 2, 3, 4, 5, 9].map(shard_count), [2, 3, 4, 6, 7, 13]);
    }

    #[test]
    fn flags_reach_the_nodes() {
        let (_folder, config) = written(&["--strict", "--ip-burst=7", "--channel-refill=25", "--base-url=https://x"]);
        assert!(!config.webhooks.allow_http && !config.webhooks.allow_loopback);
        assert_eq!(config.limits.ip, BucketRule { burst: 7, refill_per_second: 30 });
        assert_eq!(config.limits.channel, BucketRule { burst: 60, refill_per_second: 25 });
        assert_eq!(config.api.base_url, "https://x");
    }

    #[test]
    fn keys_that_are_set_lie_over_everything_else() {
        let (_folder, config) = written(&["--set=node.zone=b", "--set", "webhooks.allow_http=false"]);
        assert_eq!(config.node.zone, "b");
        assert!(!config.webhooks.allow_http && config.webhooks.allow_loopback);
    }
}
