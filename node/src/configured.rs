//! The first step of a node's life: everything that the operator provided is read and checked.

use std::net::{SocketAddr, TcpListener};

use api::OperatorToken;
use metrics_exporter_prometheus::PrometheusHandle;
use model::seal::Keyring;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use raft::failpoint;
use url::{Host, Url};

use crate::certificate::ApiCertificate;
use crate::config::files::{self, PeerIdentity};
use crate::config::{Config, Secret, is_loopback};
use crate::data_folder::DataFolder;
use crate::peer_certificate;
use crate::refusal::Refusal;
use crate::telemetry;

/// The checked inputs of a node; none of them can be at fault afterwards.
pub struct Configured {
    pub config: Config,
    pub folder: DataFolder,
    pub identity: PeerIdentity,
    pub operator_token: Secret,
    pub operator_tokens: Vec<OperatorToken>,
    pub keyring: Keyring,
    pub webhook_authorities: Option<String>,
    pub media_secret: Option<Secret>,
    pub certificate: Option<ApiCertificate>,
    pub operators_certificate: Option<ApiCertificate>,
    pub metrics: PrometheusHandle,
}

impl Configured {
    /// Reads the files, opens the data folder, and makes sure that the ports are free.
    ///
    /// # Errors
    /// A [`Refusal`] that names what is wrong.
    pub fn prepare(config: Config) -> anyhow::Result<Self> {
        telemetry::init_logs(&config.log)?;
        let armed = arm_failpoints(&config, std::env::var(failpoint::VARIABLE).ok().as_deref())?;
        let operator_token = files::operator_token(&config)?;
        let keyring = files::keyring(&config)?;
        let identity = files::peer_identity(&config);
        let identity =
            identity.or_else(|refusal| peer_certificate::rescue(&config, &keyring, &refusal).ok_or(refusal))?;
        let webhook_authorities = files::webhook_authorities(&config)?;
        let media_secret = files::media_secret(&config)?;
        let operator_tokens = files::operator_tokens(&config, &operator_token)?;
        let certificate = ApiCertificate::open(files::API_TLS, config.api.tls.as_ref())?;
        let operators_certificate = ApiCertificate::open(files::OPS_TLS, config.ops.tls.as_ref())?;
        let open = if config.is_alone() { DataFolder::open_given } else { DataFolder::open };
        let folder = open(&config.node.data_dir, config.cluster.cluster_id, config.node.id)?;
        free("peer.listen", config.peer.listen)?;
        free("ops.listen", config.ops.listen)?;
        free("api.listen", config.api.listen)?;
        if failpoint::COMPILED {
            tracing::warn!(armed, "this build has failpoints: it is for tests, and must not serve customers");
        }
        raise_file_limit();
        let metrics = telemetry::init_metrics()?;
        Ok(Self {
            config,
            folder,
            identity,
            operator_token,
            operator_tokens,
            keyring,
            webhook_authorities,
            media_secret,
            certificate,
            operators_certificate,
            metrics,
        })
    }
}

/// Arms the failpoints that the environment names, and returns their number.
///
/// A build with failpoints is for tests only: a node that other machines can reach starts only when the variable is
/// set, possibly empty, which confirms that it is in a test.
fn arm_failpoints(config: &Config, wanted: Option<&str>) -> Result<usize, Refusal> {
    if let (true, None, Some(subject)) = (failpoint::COMPILED, wanted, reached_by_others(config)) {
        return Err(Refusal::new(
            subject,
            "others can reach it, and this is a build for tests, which can be told to fail",
            format!("run what `cargo build --release` makes; a test sets {}, which may be empty", failpoint::VARIABLE),
        ));
    }
    let change = "arm failpoints of GET /v1/admin/failpoints, or unset the variable";
    wanted.map_or(Ok(0), failpoint::arm_all).map_err(|error| Refusal::new(failpoint::VARIABLE, error, change))
}

/// The key and value that make this node reachable from other machines: a listener that is not on loopback, or, when a
/// load balancer on this machine is in front of all listeners, the address that customers call.
fn reached_by_others(config: &Config) -> Option<String> {
    let listeners =
        [("api.listen", config.api.listen), ("ops.listen", config.ops.listen), ("peer.listen", config.peer.listen)];
    let listener = listeners.into_iter().find(|(_, address)| !address.ip().is_loopback());
    let base_url = &config.api.base_url;
    let named = (!is_of_this_machine(base_url)).then(|| format!("api.base_url ({base_url})"));
    listener.map(|(key, address)| format!("{key} ({address})")).or(named)
}

fn is_of_this_machine(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| match url.host() {
        Some(Host::Domain(name)) if name.ends_with(".localhost") => true,
        host => host.is_some_and(is_loopback),
    })
}

/// Each socket of a customer, a receiver or a peer is a file. The soft limit of most systems is 1,024.
fn raise_file_limit() {
    let raised =
        getrlimit(Resource::RLIMIT_NOFILE).and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(error) = raised {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

fn free(key: &str, address: SocketAddr) -> Result<(), Refusal> {
    TcpListener::bind(address).map(drop).map_err(|error| {
        Refusal::new(format!("{key} ({address})"), error, "stop what listens there, or choose another port")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::config::{EXAMPLE, load};

    #[test]
    fn what_others_reach_is_told_from_what_is_of_this_machine() {
        let local = EXAMPLE
            .replace("\"0.0.0.0:", "\"127.0.0.1:")
            .replace("https://gateway.example.com\"", "http://127.0.0.1:8080\"");
        let told = |from: &str, to: &str| {
            assert!(local.contains(from), "{from}");
            reached_by_others(&load::parse(&local.replacen(from, to, 1), "example").unwrap()).unwrap_or_default()
        };
        for url in ["http://127.0.0.1:8080", "http://localhost:8080", "https://[::1]", "http://node-1.localhost"] {
            assert_eq!(told("http://127.0.0.1:8080", url), "", "{url}");
        }
        for url in ["https://gateway.example.com", "http://10.0.0.1", "https://localhost.example.com"] {
            assert_eq!(told("http://127.0.0.1:8080", url), format!("api.base_url ({url})"));
        }
        assert!(told("listen = \"127.0.0.1:8081\"", "listen = \"0.0.0.0:8081\"").starts_with("ops.listen"));
    }
}
