//! Finds the address and the token of the operators' port: in flags, the environment, the configuration of a node on
//! this machine, or the folder of `gateway dev`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::cli::operator::OperatorArgs;
use crate::config::{self, Ops, Secret};
use crate::dev::description::Description;
use crate::refusal::{Refusal, ensure};
use crate::trust::Trust;

/// Configuration file of an installed package.
const USUAL_CONFIG: &str = "/etc/gateway/gateway.toml";

/// Default folder of `gateway dev`.
pub const USUAL_DEV: &str = ".gateway-dev";

/// Address and credentials of a cluster.
#[derive(Clone, Debug)]
pub struct Access {
    /// Base URLs without a trailing slash, in the order in which they are tried.
    pub nodes: Vec<String>,
    pub token: Secret,
    /// How the nodes' certificates are verified.
    pub trust: Trust,
    /// The folder of the cluster, if it is one of `gateway dev`.
    pub dev: Option<PathBuf>,
}

impl Access {
    /// Access to a node on this machine that listens as `ops` says.
    pub fn at(ops: &Ops, token: Secret) -> Self {
        let (scheme, trust) = match &ops.tls {
            Some(tls) => ("https", Trust::Same(tls.cert_file.clone())),
            None => ("http", Trust::System),
        };
        Self { nodes: vec![format!("{scheme}://{}", reachable(ops.listen))], token, trust, dev: None }
    }

    /// Finds address and token: flags and environment take precedence over files.
    ///
    /// # Errors
    /// A [`Refusal`] that says what to specify, or which file cannot be read.
    pub fn find(args: &OperatorArgs) -> Result<Self, Refusal> {
        let in_environment = std::env::var("GATEWAY_OPERATOR_TOKEN").ok();
        let given_token = given_secret("--token", args.token.as_deref(), args.token_file.as_deref(), in_environment)?;
        let given_token = given_token.map(Secret);
        let given_trust = args.ca_file.clone().map(Trust::Authorities);
        if let (Some(token), false) = (&given_token, args.ops.is_empty()) {
            let trust = given_trust.unwrap_or_default();
            return Ok(Self { nodes: args.ops.clone(), token: token.clone(), trust, dev: None });
        }
        let Some(known) = known(args)? else {
            let (subject, problem, remedy) = match args.ops.is_empty() {
                true => (
                    "the operators' port",
                    "is not known",
                    "name a node with --ops or GATEWAY_OPS, its configuration with --config, or the folder of gateway dev \
                     with --data",
                ),
                false => (
                    "the operator's token",
                    "is missing",
                    "give it with --token-file, GATEWAY_OPERATOR_TOKEN_FILE or GATEWAY_OPERATOR_TOKEN",
                ),
            };
            return Err(Refusal::new(subject, problem, remedy));
        };
        // The certificate of this machine's node says nothing about other nodes.
        let (nodes, trust, dev) = match args.ops.is_empty() {
            true => (known.nodes, known.trust, known.dev),
            false => (args.ops.clone(), Trust::System, None),
        };
        Ok(Self { nodes, token: given_token.unwrap_or(known.token), trust: given_trust.unwrap_or(trust), dev })
    }
}

/// Remedy when no node of a `gateway dev` cluster answers.
pub fn how_dev_starts(folder: &Path) -> String {
    format!("check that the cluster is running: gateway dev --data {} starts it", folder.display())
}

/// A secret from a flag, from the file that another flag names, or from the environment, which can stand for either
/// flag. A file takes precedence over the environment's secret.
///
/// # Errors
/// A [`Refusal`] when the file cannot be read, or the secret is not valid in an HTTP header.
pub fn given_secret(
    flag: &str,
    given: Option<&str>,
    file: Option<&Path>,
    in_environment: Option<String>,
) -> Result<Option<String>, Refusal> {
    let outright = given.filter(|secret| file.is_none() || in_environment.as_deref() != Some(*secret));
    let (subject, text) = match (outright, file) {
        (Some(secret), _) => (flag.to_owned(), secret.to_owned()),
        (None, Some(path)) => {
            let subject = format!("{flag}-file ({})", path.display());
            let text = std::fs::read_to_string(path)
                .map_err(|error| Refusal::new(&subject, error, "name a file that you can read"))?;
            (subject, text)
        }
        (None, None) => return Ok(None),
    };
    let secret = text.trim();
    let is_line = !secret.is_empty() && secret.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    ensure(is_line, subject, "is empty, or not one line of ASCII", "give only the secret")?;
    Ok(Some(secret.to_owned()))
}

/// A source of both address and token: explicitly named ones take precedence over default locations, and a development
/// cluster in the current folder over the node of this machine.
fn known(args: &OperatorArgs) -> Result<Option<Access>, Refusal> {
    if let Some(folder) = &args.data {
        return of_dev(folder).map(Some);
    }
    if let Some(path) = &args.config {
        return of_config(path).map(Some);
    }
    let usual = Path::new(USUAL_DEV);
    if Description::file_in(usual).exists() {
        return of_dev(usual).map(Some);
    }
    let usual = Path::new(USUAL_CONFIG);
    match usual.try_exists() {
        Ok(true) => of_config(usual).map(Some),
        Ok(false) => Ok(None),
        // With a node and a token from elsewhere, no file is needed.
        Err(_) if !args.ops.is_empty() => Ok(None),
        Err(error) => {
            let remedy = "run this as a user who can read it, or name a node with --ops and a token with --token-file";
            Err(Refusal::new(usual.display(), error, remedy))
        }
    }
}

fn of_config(path: &Path) -> Result<Access, Refusal> {
    let config = config::load::load(Some(path), std::env::vars(), &[])?;
    Ok(Access::at(&config.ops, config::files::operator_token(&config)?))
}

/// Replaces a wildcard address by loopback.
fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

fn of_dev(folder: &Path) -> Result<Access, Refusal> {
    let dev = Description::find(folder)?;
    let trust = dev.operators_trust();
    let nodes = dev.nodes.into_iter().map(|node| node.ops).collect();
    Ok(Access { nodes, token: Secret(dev.operator_token), trust, dev: Some(folder.to_owned()) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::json;

    use super::*;

    fn dev(folder: &Path) -> OperatorArgs {
        let node = |id: u64| {
            json!({
                "id": id, "api": "http://a", "ops": format!("http://ops-{id}"), "peer": "p", "pid": 1,
                "data": "/d", "log": "/l",
            })
        };
        let description = json!({
            "simulator": "http://s", "simulator_pid": 1, "nodes": [node(1), node(2)], "customer_id": "c",
            "api_key": "k", "operator_token": "of the file",
        });
        std::fs::write(folder.join("dev.json"), description.to_string()).unwrap();
        OperatorArgs { data: Some(folder.to_owned()), ..OperatorArgs::default() }
    }

    #[test]
    fn a_file_knows_both_and_what_is_given_goes_before_it() {
        let temporary = tempfile::tempdir().unwrap();
        let args = dev(temporary.path());
        let known = Access::find(&args).unwrap();
        assert_eq!(known.dev, args.data);
        assert_eq!(
            (known.nodes, known.token.0.as_str()),
            (vec!["http://ops-1".into(), "http://ops-2".into()], "of the file")
        );

        let elsewhere = OperatorArgs { ops: vec!["http://there".to_owned()], ..args.clone() };
        let known = Access::find(&elsewhere).unwrap();
        assert_eq!(known.dev, None, "a node elsewhere is not of that folder");
        assert_eq!((known.nodes, known.token.0.as_str()), (vec!["http://there".into()], "of the file"));

        let file = temporary.path().join("token");
        std::fs::write(&file, "of another file\n").unwrap();
        let known = Access::find(&OperatorArgs { token_file: Some(file), ..args }).unwrap();
        assert_eq!((known.nodes.len(), known.token.0.as_str()), (2, "of another file"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let temporary = tempfile::tempdir().unwrap();
        let data = Some(temporary.path().join("nothing"));
        let refusal = Access::find(&OperatorArgs { data, ..OperatorArgs::default() }).unwrap_err();
        assert!(refusal.to_string().contains("dev.json"), "{refusal}");
        let token_file = Some(temporary.path().join("nothing"));
        let refusal = Access::find(&OperatorArgs { token_file, ..OperatorArgs::default() }).unwrap_err();
        assert!(refusal.to_string().starts_with("--token-file"), "{refusal}");
    }

    #[test]
    fn a_file_goes_before_the_environment_and_a_flag_before_a_file() {
        let temporary = tempfile::tempdir().unwrap();
        let file = temporary.path().join("token");
        std::fs::write(&file, " of the file\n").unwrap();
        let (flag, path) = ("of the flag", Some(file.as_path()));
        let is_given = |given: Option<&str>, file: Option<&Path>, environment: Option<&str>, expected: Option<&str>| {
            let found = given_secret("--token", given, file, environment.map(str::to_owned));
            assert_eq!(found, Ok(expected.map(str::to_owned)));
        };
        is_given(None, None, None, None);
        is_given(Some(flag), path, None, Some(flag));
        is_given(Some(flag), path, Some(flag), Some("of the file"));
        is_given(Some(flag), None, Some(flag), Some(flag));
        for wrong in ["", "one\ntwo", "gr\u{fc}n"] {
            std::fs::write(&file, wrong).unwrap();
            let refused = given_secret("--token", None, path, None);
            assert!(refused.is_err_and(|refusal| refusal.subject.starts_with("--token-file (")), "{wrong:?}");
        }
    }

    #[test]
    fn a_node_on_all_addresses_is_reached_on_the_loopback() {
        let table = [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.7:3", "10.0.0.7:3")];
        for (listen, expected) in table {
            assert_eq!(reachable(listen.parse().unwrap()).to_string(), expected);
        }
    }
}
