//! Valid configurations, and the refusals of invalid ones.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use model::scope::Access;
use tempfile::TempDir;

use super::{
    ApiTls, Auth, Config, Driver, EXAMPLE, LogFormat, OpsToken, Peer, Secret, Support, Timing, files, load, validate,
};
use crate::key_files::write_private;
use crate::pki::Authority;
use crate::refusal::Refusal;

/// Loads and validates the example after replacing one text of it, with variables and flags on top.
fn judge(from: &str, to: &str, variables: &[(&str, &str)], flags: &[&str]) -> Result<Config, Refusal> {
    assert!(EXAMPLE.contains(from), "{from:?} is not in the example");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.toml");
    fs::write(&path, EXAMPLE.replacen(from, to, 1)).unwrap();
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let config = load::load(Some(&path), variables, &flags)?;
    validate::validate(&config)?;
    Ok(config)
}

#[test]
fn the_example_is_valid_and_shows_the_defaults() {
    let config = judge("", "", &[], &[]).unwrap();
    let uncommented: String = EXAMPLE.lines().map(|line| format!("{}\n", uncomment(line))).collect();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("all.toml");
    fs::write(&path, uncommented).unwrap();
    let mut all = load::load(Some(&path), [], &[]).unwrap();
    validate::validate(&all).unwrap();
    // These optional keys have no default that the file could state.
    all.ops.tokens_file = None;
    all.peer.advertise = None;
    all.cluster.shards = None;
    all.peer.ca_key_file = None;
    all.secrets.previous_master_key_file = None;
    all.secrets.keep_former_data_keys = None;
    all.webhooks.ca_file = None;
    all.media.s3 = None;
    all.auth = Auth::default();
    all.support = Support::default();
    assert_eq!(toml::to_string(&all).unwrap(), toml::to_string(&config).unwrap());
}

/// Turns `# key = value` and `# [table]` into TOML; prose stays a comment.
fn uncomment(line: &str) -> &str {
    match line.strip_prefix("# ") {
        Some(rest) if rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) => rest,
        Some(rest) if rest.starts_with('[') => rest,
        _ => line,
    }
}

#[test]
fn the_environment_wins_over_the_file_and_flags_over_both() {
    let variables = [
        ("GATEWAY__NODE__ZONE", "b"),
        ("GATEWAY__NODE__WEIGHT", "2"),
        ("GATEWAY__API__TRUSTED_PROXIES", r#"["10.0.0.0/8"]"#),
        ("GATEWAY__CLUSTER__TIMING__HEARTBEAT", "50ms"),
        ("GATEWAY__CLUSTER__TIMING__ELECTION_MIN", "200ms"),
        ("GATEWAY__CLUSTER__TIMING__ELECTION_MAX", "300ms"),
        ("GATEWAY__LIMITS__IP__BURST", "5"),
        ("GATEWAY__LIMITS__IP__REFILL_PER_SECOND", "5"),
        ("GATEWAY_CONFIG", "not a key"),
        ("PATH", "/bin"),
    ];
    let config = judge("", "", &variables, &["node.weight=3", "log.format=json"]).unwrap();
    assert_eq!((config.node.zone.as_str(), config.node.weight), ("b", 3));
    assert_eq!(config.api.trusted_proxies.len(), 1);
    assert_eq!(config.limits.ip.burst, 5);
    assert_eq!((config.log.format, config.network.driver), (LogFormat::Json, Driver::Simulated));
    let Timing::Custom(timing) = config.cluster.timing else { panic!("{:?}", config.cluster.timing) };
    assert_eq!(timing.heartbeat.0.as_millis(), 50);
}

#[test]
fn the_real_network_is_refused_where_the_build_cannot_reach_it_or_is_told_of_another() {
    let address = "address = \"127.0.0.1:8091\"";
    let judged = |with: &str| judge(address, &format!("driver = \"whatsapp\"\n{with}"), &[], &[]);
    if !cfg!(feature = "whatsapp") {
        let refusal = judged("").unwrap_err().to_string();
        assert!(refusal.contains("network.driver") && refusal.contains("--features whatsapp"), "{refusal}");
        return;
    }
    let config = judged("").unwrap();
    assert_eq!((config.network.session_starts(), config.network.suffixes().group.as_str()), (50, "g.us"));
    for (with, key) in [
        ("phone_suffix = \"s.example\"", "network.phone_suffix"),
        (address, "network.address"),
        ("whatsapp = { sessions_max = 0 }", "network.whatsapp.sessions_max"),
        ("whatsapp = { version = \"2.3000\" }", "network.whatsapp.version"),
        ("whatsapp = { endpint = \"\" }", "network.whatsapp.endpint"),
    ] {
        let refusal = judged(with).unwrap_err().to_string();
        assert!(refusal.contains(key), "{refusal}");
    }
    // Only builds with the test network know these keys, and they accept loopback addresses only.
    let test = [
        ("endpoint", "ws://127.0.0.1:1", "ws://192.0.2.1:1"),
        ("media_endpoint", "http://[::1]:1", "http://a.example"),
    ];
    for (key, near, far) in test {
        let named =
            |url: &str| judged(&format!("whatsapp = {{ {key} = \"{url}\" }}")).map_err(|error| error.to_string());
        let refusal = named(far).unwrap_err();
        assert!(refusal.contains(&format!("network.whatsapp.{key}")), "{refusal}");
        assert_eq!(named(near).is_ok(), cfg!(feature = "testnet"), "{key}");
    }
}

#[test]
fn a_text_that_looks_like_a_number_is_a_text_where_one_belongs() {
    let config = judge("", "", &[("GATEWAY__NODE__ZONE", "3")], &[]).unwrap();
    assert_eq!(config.node.zone, "3");
    let token =
        judge("token_file = \"/etc/gateway/operator.token\"", "", &[("GATEWAY__OPS__TOKEN", "1234567890123456")], &[]);
    assert_eq!(token.unwrap().ops.token.unwrap().0, "1234567890123456");
}

#[test]
fn what_is_wrong_is_named_in_one_line_with_what_to_do() {
    let listen = "listen = \"0.0.0.0:8080\"";
    let base_url = "base_url = \"https://gateway.example.com\"";
    let member = "peer = \"node-2.lan:8082\"";
    // A text of the example, its replacement, and what the refusal must contain.
    let cases: &[(&str, &str, &[&str])] = &[
        ("id = 1 ", "id = = 1", &["gateway.toml:6", "TOML"]),
        ("id = 1 ", "idd = 1", &["node.idd", "did you mean \"id\""]),
        ("[webhooks]", "[webhooks]\nallow_htp = true", &["webhooks.allow_htp", "did you mean \"allow_http\""]),
        ("[webhooks]", "[webhoks]", &["webhoks", "did you mean \"webhooks\""]),
        ("[drain]", "[drain]\nzzz = 1", &["drain.zzz", "known here: initial_wait"]),
        ("id = 1 ", "", &["node.id", "missing", "GATEWAY__NODE__ID"]),
        ("id = 1 ", "id = \"one\"", &["node.id", "invalid type"]),
        ("id = 1 ", "id = 0", &["node.id"]),
        ("id = 1 ", "id = 7", &["cluster.nodes", "id 7"]),
        ("id = 1 ", "id = 1\nweight = 0", &["node.weight"]),
        ("id = 1 ", "id = 1\nmax_channels = 0", &["node.max_channels"]),
        (listen, "listen = \"localhost\"", &["api.listen", "socket address", "as in 0.0.0.0:8080"]),
        (listen, "listen = \"0.0.0.0:0\"", &["api.listen", "port 0"]),
        (listen, "listen = \"0.0.0.0:8081\"", &["ops.listen", "another listener"]),
        (base_url, "base_url = \"gateway\"", &["api.base_url", "http"]),
        (base_url, "base_url = \"https://ann:pw@gateway.example.com\"", &["api.base_url", "a user"]),
        (base_url, "base_url = \"https://gateway.example.com/?a=b\"", &["api.base_url", "a query"]),
        (listen, "listen = \"0.0.0.0:8080\"\ntrusted_proxies = [\"10.0.0.0/64\"]", &["api.trusted_proxies"]),
        ("# proxy_protocol = false", "proxy_protocol = true", &["api.proxy_protocol", "trusted_proxies"]),
        ("# cors_origins = []", "cors_origins = [\"app.example.com\"]", &["api.cors_origins", "app.example.com"]),
        ("# cors_origins = []", "cors_origins = [\"https://app.example.com/\"]", &["api.cors_origins"]),
        (
            "# cors_origins = []",
            "console_frame_ancestors = [\"https://a.example/x\"]",
            &["api.console_frame_ancestors"],
        ),
        ("# cors_origins = []", "cors_origins = [\"*\", \"https://app.example.com\"]", &["api.cors_origins", "alone"]),
        ("# forward_url = ", "forward_url = \"helpdesk\" #", &["support.forward_url", "https://"]),
        ("# forward_url = ", "email = \"help@example.com\" #", &["support.email", "auth.mail.host"]),
        ("# forward_url = ", "email = \"help\" #", &["support.email", "no e-mail address"]),
        ("# deletion_grace = ", "deletion_grace = \"0s\" #", &["account.deletion_grace"]),
        ("token_file = \"/etc/gateway/operator.token\"", "token = \"short\"", &["ops.token", "16"]),
        ("token_file = \"/etc/gateway/operator.token\"", "", &["ops.token"]),
        ("cluster_id = \"6f1f", "cluster_id = \"zzzz", &["cluster.cluster_id"]),
        ("# shards = ", "shards = 0 #", &["cluster.shards"]),
        ("# timing = \"lan\"", "timing = \"van\" #", &["cluster.timing", "\"lan\", \"wan\" or"]),
        (
            "# timing = \"lan\"",
            "timing = { heartbeat = \"80ms\", election_min = \"100ms\", election_max = \"200ms\" } #",
            &["cluster.timing.election_min", "three heartbeats"],
        ),
        (member, "peer = \"node-1.lan:8082\"", &["cluster.nodes[1].peer", "twice"]),
        (member, "peer = \"0.0.0.0:8082\"", &["cluster.nodes[1].peer", "other machines"]),
        (member, "peer = \"[::]:8082\"", &["cluster.nodes[1].peer", "other machines"]),
        (member, "peer = \"node-2.lan\"", &["cluster.nodes[1].peer", "host:port"]),
        ("id = 2", "id = 1", &["cluster.nodes[1].id", "twice"]),
        (
            "master_key_file = \"/etc/gateway/master.key\"",
            "master_key = \"ab\"",
            &["secrets.master_key", "openssl rand"],
        ),
        ("master_key_file = \"/etc/gateway/master.key\"", "", &["secrets.master_key"]),
        (
            "# previous_master_key_file",
            "previous_master_key = \"ab\" #",
            &["secrets.previous_master_key", "openssl rand"],
        ),
        ("[network]", "[network]\ndriver = \"pigeon\"", &["network.driver", "simulated"]),
        ("address = \"127.0.0.1:8091\"", "", &["network.address", "missing"]),
        ("[network]", "[network]\nwhatsapp = {}", &["network.whatsapp", "driver"]),
        ("[network]", "[network]\nphones = \"http://10.0.0.7:8090\"", &["network.phones", "this machine"]),
        ("[network]", "[network]\nphone_suffix = \"@s\"", &["network.phone_suffix"]),
        ("[network]", "[network]\ngroup_suffix = \"lid\"", &["network.group_suffix"]),
        ("[network]", "[network]\nsession_starts_per_second = 0", &["network.session_starts_per_second"]),
        ("[webhooks]", "[webhooks]\nschedule = []", &["webhooks.schedule"]),
        ("[webhooks]", "[webhooks]\nschedule = [\"soon\"]", &["webhooks.schedule[0]"]),
        ("[webhooks]", "[webhooks]\nallow_cidrs = [\"private\"]", &["webhooks.allow_cidrs[0]"]),
        ("# ip = {", "ip = { burst = 0, refill_per_second = 1 } #", &["limits.ip.burst"]),
        ("# ip = {", "ip = { burst = 1, refill_per_second = 0 } #", &["limits.ip.refill_per_second"]),
        ("# ip = {", "ip = { burst = 1 } #", &["limits.ip.refill_per_second", "missing"]),
        ("[drain]", "[drain]\ninitial_wait = \"1h\"", &["drain.initial_wait"]),
        ("[drain]", "[drain]\ninitial_wait = 10", &["drain.initial_wait", "as in 10s"]),
        ("[disk]", "[disk]\nlow = \"1GiB\" #", &["disk.low", "expected a table"]),
        ("# retention_days = 30", "retention_days = 400 #", &["history.retention_days", "365"]),
        ("# retention_days = 30", "retention = \"366d\" #", &["history.retention", "365"]),
        ("# keep_lids = ", "keep_lids = \"1h\" #", &["history.keep_lids", "365d"]),
        ("# most_lids = ", "most_lids = 999 #", &["history.most_lids", "1000"]),
        ("# keep_deleted_channels = ", "keep_deleted_channels = \"59s\" #", &["history.keep_deleted_channels"]),
        ("# trim_every = ", "trim_every = \"1ms\" #", &["history.trim_every", "100 ms"]),
        ("# buffer_bytes = ", "buffer_bytes = 1 #", &["raft.buffer_bytes", "64 KiB"]),
        ("# keep_delivered = ", "keep_delivered = \"400d\" #", &["webhooks.keep_delivered", "365"]),
        ("# format = \"text\"", "format = \"xml\" #", &["log.format"]),
        ("# filter = ", "filter = \"shard=loud\" #", &["log.filter"]),
    ];
    for (from, to, expected) in cases {
        let line = judge(from, to, &[], &[]).expect_err(to).to_string();
        assert!(!line.contains('\n'), "{line:?}");
        for part in *expected {
            assert!(line.contains(part), "{to:?} answered {line:?}, without {part:?}");
        }
    }
}

#[test]
fn a_wrong_variable_or_flag_is_named_as_the_operator_knows_it() {
    let line = |variables: &[(&str, &str)], flags: &[&str]| judge("", "", variables, flags).unwrap_err().to_string();
    assert!(line(&[("GATEWAY__NODE__ID", "one")], &[]).contains("GATEWAY__NODE__ID"));
    let unknown = line(&[("GATEWAY__NODE__IDD", "1")], &[]);
    assert!(unknown.contains("node.idd") && unknown.contains("GATEWAY__NODE__IDD"), "{unknown}");
    assert!(line(&[], &["node.id"]).contains("--set node.id"));
    assert!(line(&[], &["node.id=x"]).contains("--set node.id=x"));
    assert!(line(&[], &["node.id.deep=1"]).contains("\"id\" is a value"));
    let unknown = line(&[], &["nodes.id=1"]);
    assert!(unknown.contains("--set nodes.id=1") && unknown.contains("did you mean \"node\""), "{unknown}");
    for nameless in ["=1", "node.=1", ".id=1"] {
        assert!(line(&[], &[nameless]).contains(&format!("--set {nameless}: names no key")), "{nameless}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let line = load::load(Some(&PathBuf::from("/nowhere/gateway.toml")), [], &[]).unwrap_err().to_string();
    assert!(line.starts_with("/nowhere/gateway.toml:"), "{line}");
}

/// A folder with all files that a node's configuration names.
fn complete() -> (TempDir, Config, Authority) {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::create().unwrap();
    let own = authority.issue(1, Peer::CERTIFICATE_LIFE).unwrap();
    let mut config = judge("", "", &[], &[]).unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_private(&path, text).unwrap();
        path
    };
    config.node.data_dir = folder.path().join("data");
    config.peer.ca_file = write("ca.pem", &authority.pair.certificate);
    config.peer.cert_file = write("node.pem", &own.certificate);
    config.peer.key_file = write("node.key", &own.key);
    config.ops.token_file = Some(write("token", "0123456789abcdef\n"));
    config.secrets.master_key_file = Some(write("master.key", &"ab".repeat(32)));
    (folder, config, authority)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A certificate for the public port that expired in 2020.
fn expired(config: &Config) -> ApiTls {
    let mut params = rcgen::CertificateParams::new(vec!["gateway.example.com".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let files = ["api.pem", "api.key"].map(|name| config.peer.key_file.with_file_name(name));
    write_private(&files[0], &certificate.pem()).unwrap();
    write_private(&files[1], &key.serialize_pem()).unwrap();
    let [cert_file, key_file] = files;
    ApiTls { cert_file, key_file }
}

#[test]
fn files_that_are_in_order_pass() {
    let (_folder, config, _) = complete();
    files::check(&config).unwrap();
    assert!(!config.node.data_dir.exists(), "a check leaves nothing");
    // Kubernetes mounts secrets readable for the pod's group.
    set_mode(&config.peer.key_file, 0o440);
    files::check(&config).unwrap();
    assert_eq!(files::keyring(&config).unwrap().current.as_bytes(), &[0xab; 32]);
    assert_eq!(files::operator_token(&config).unwrap().0, "0123456789abcdef");
}

#[test]
fn files_that_are_not_in_order_are_named() {
    type Damage = fn(&mut Config, &Authority);
    let cases: &[(Damage, &[&str])] = &[
        (|config, _| config.peer.ca_file = "/nowhere/ca.pem".into(), &["peer.ca_file (/nowhere/ca.pem)"]),
        (|config, _| fs::write(&config.peer.cert_file, "junk").unwrap(), &["peer.cert_file", "no PEM certificate"]),
        (|config, _| fs::write(&config.peer.key_file, "junk").unwrap(), &["peer.key_file", "no PEM private key"]),
        (
            |config, authority| {
                fs::write(&config.peer.key_file, authority.issue(1, Peer::CERTIFICATE_LIFE).unwrap().key).unwrap()
            },
            &["peer.key_file", "not the key of"],
        ),
        (
            |config, authority| {
                let other = authority.issue(2, Peer::CERTIFICATE_LIFE).unwrap();
                fs::write(&config.peer.cert_file, other.certificate).unwrap();
                fs::write(&config.peer.key_file, other.key).unwrap();
            },
            &["peer.cert_file", "node-1.gateway.internal"],
        ),
        (
            |config, _| fs::write(&config.peer.ca_file, Authority::create().unwrap().pair.certificate).unwrap(),
            &["peer.cert_file", "peer.ca_file"],
        ),
        (|config, _| fs::write(config.ops.token_file.as_ref().unwrap(), "short").unwrap(), &["ops.token_file"]),
        (
            |config, _| fs::write(config.secrets.master_key_file.as_ref().unwrap(), "x").unwrap(),
            &["secrets.master_key_file"],
        ),
        (
            |config, _| config.secrets.previous_master_key_file.clone_from(&config.secrets.master_key_file),
            &["secrets.previous_master_key_file", "same key"],
        ),
        (
            |config, _| set_mode(config.secrets.master_key_file.as_ref().unwrap(), 0o644),
            &["master_key_file", "chmod o="],
        ),
        (|config, _| set_mode(&config.peer.key_file, 0o604), &["peer.key_file", "0604"]),
        (|config, _| config.api.tls = Some(expired(config)), &["api.tls.cert_file", "expired at 2020-01-01"]),
        (|config, _| config.webhooks.ca_file = Some("/nowhere/x.pem".into()), &["webhooks.ca_file"]),
        (|config, _| config.node.data_dir = "/proc/gateway".into(), &["node.data_dir (/proc/gateway)"]),
    ];
    for (damage, expected) in cases {
        let (_folder, mut config, authority) = complete();
        damage(&mut config, &authority);
        let line = files::check(&config).expect_err(expected[0]).to_string();
        assert!(!line.contains('\n'), "{line:?}");
        for part in *expected {
            assert!(line.contains(part), "{line:?} without {part:?}");
        }
    }
}

#[test]
fn a_certificate_that_has_expired_takes_no_others_place() {
    let (_folder, config, _) = complete();
    let tls = expired(&config);
    files::certified(files::API_TLS, &tls).unwrap();
    let refusal = files::renewed(files::API_TLS, &tls).map(drop).unwrap_err();
    assert!(refusal.to_string().contains("expired at 2020-01-01"), "{refusal}");
}

#[test]
fn operators_tokens_come_from_the_configuration_and_from_its_file() {
    let (folder, mut config, _) = complete();
    let (ann, bob) = ("a1".repeat(32), "B2".repeat(32));
    config.ops.tokens = vec![OpsToken { name: "ann".to_owned(), sha256: ann, role: Access::Read }];
    let path = folder.path().join("operators");
    config.ops.tokens_file = Some(path.clone());
    let read = |text: &str| {
        fs::write(&path, text).unwrap();
        let tokens = files::operator_tokens(&config, &Secret("0123456789abcdef".to_owned()));
        tokens.map_err(|refusal| refusal.to_string())
    };
    validate::validate(&config).unwrap();
    let tokens = read(&format!("# whoever is on call\n\n  bob\twrite {bob}\n")).unwrap();
    let shown: Vec<_> = tokens.iter().map(|token| (token.operator.name.as_deref(), token.operator.access)).collect();
    assert_eq!(shown, [(None, Access::Write), (Some("ann"), Access::Read), (Some("bob"), Access::Write)]);
    assert_eq!((tokens[1].hash, tokens[2].hash), ([0xa1; 32], [0xb2; 32]));
    for (text, expected) in [
        (format!("bob write {bob}\nbob read {bob}"), ":2"),
        (format!("ann write {bob}"), "twice"),
        (format!("bob reader {bob}"), "not a role"),
        ("bob write 0123".to_owned(), "64 hex digits"),
        (format!("bob {bob}"), "NAME ROLE SHA256"),
    ] {
        let refused = read(&text).unwrap_err();
        assert!(refused.contains(expected) && refused.contains("ops.tokens_file"), "{text}: {refused}");
    }
    for (name, sha256, expected) in [("ann", "0123", "ops.tokens[1].sha256"), ("a n", &bob, "ops.tokens[1].name")] {
        let mut config = config.clone();
        let token = OpsToken { name: name.to_owned(), sha256: sha256.to_owned(), role: Access::Read };
        config.ops.tokens = vec![config.ops.tokens[0].clone(), token];
        if name == "ann" {
            config.ops.tokens[0].name = "other".to_owned();
        }
        assert!(validate::validate(&config).unwrap_err().to_string().contains(expected));
    }
}

#[test]
fn secrets_do_not_show_in_debug_output() {
    let (_folder, mut config, _) = complete();
    config.ops.token = Some(Secret("0123456789abcdef".to_owned()));
    assert!(!format!("{config:?}").contains("0123456789abcdef"));
    assert!(!format!("{:?}", files::peer_identity(&config).unwrap()).contains("PRIVATE KEY"));
}
