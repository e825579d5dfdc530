//! The program and the tools around it accept the files in `deploy`.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};
use tests::binary;
use tests::cluster::Cluster;
use tests::sources::checkout;
use tests::wait::seconds;

fn folder() -> PathBuf {
    checkout().join("deploy")
}

/// All files below a folder with one of these extensions.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn run(program: &str, args: &[&str]) -> Output {
    let started = Command::new(program).args(args).output();
    started.unwrap_or_else(|error| panic!("{program}: {error}; make deps installs it"))
}

/// Asserts that a program accepts its arguments.
///
/// # Panics
/// If the program fails, with its output.
fn likes(program: &str, args: &[&str]) {
    let said = run(program, args);
    let told = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{program} {args:?}: {told}");
}

#[test]
fn every_yaml_file_can_be_read() {
    let read = "import sys, yaml; [list(yaml.safe_load_all(open(path))) for path in sys.argv[1:]]";
    let all = files(&folder(), &["yml", "yaml"]);
    // Helm's templates are YAML only after they are rendered.
    let plain: Vec<&str> = all
        .iter()
        .filter(|path| !path.iter().any(|part| part == "templates"))
        .map(|path| path.to_str().unwrap())
        .collect();
    assert!(plain.len() >= 6, "{plain:?}");
    likes("/usr/bin/python3", &[&["-c", read], &plain[..]].concat());
}

#[test]
fn haproxy_takes_its_configurations() {
    let all = files(&folder(), &["cfg"]);
    assert!(!all.is_empty());
    for path in all {
        // Container names resolve only among containers.
        likes("haproxy", &["-c", "-f", path.to_str().unwrap()]);
    }
}

#[test]
fn systemd_takes_the_unit() {
    let verify = run("systemd-analyze", &["--version"]);
    assert!(verify.status.success(), "{verify:?}");
    let temporary = tempfile::tempdir().unwrap();
    let text = std::fs::read_to_string(folder().join("systemd/gateway.service")).unwrap();
    let unit = temporary.path().join("gateway.service");
    std::fs::write(&unit, text.replace("/usr/bin/gateway", binary::gateway().to_str().unwrap())).unwrap();
    let said = run("systemd-analyze", &["verify", "--man=no", unit.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success() && !told.contains("gateway.service"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_guide_ends_with_a_message_that_arrives() {
    let guides = std::fs::read_to_string(checkout().join("docs/operate/install.md")).unwrap();
    for guide in ["## Three machines", "## Docker", "## Kubernetes"] {
        let (_, rest) = guides.split_once(guide).unwrap_or_else(|| panic!("no {guide}"));
        let own = rest.split("\n## ").next().unwrap();
        assert!(own.contains("deploy/first-message.sh http"), "{guide}: {own}");
    }
    let cluster = Cluster::shared().await;
    let (door, simulator) = (cluster.node(1).api, cluster.dev().simulator);
    let made = cluster.command(&["customer", "create", "First", "--json"]).await.succeeded().stdout;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let key = made["api_key"]["secret"].as_str().unwrap().to_owned();
    let script = folder().join("first-message.sh");
    let running = move |key: String, door: String| {
        let (script, simulator) = (script.clone(), simulator.clone());
        tokio::task::spawn_blocking(move || {
            Command::new(script).args([&door, &simulator]).env("KEY", key).output().expect("bash is there")
        })
    };
    let said = running(key, door.clone()).await.unwrap();
    let told = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && told.ends_with("arrived\n"), "{told}");
    let refused = running("zpk_of-nobody-at-all-0000".to_owned(), door).await.unwrap();
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && told.contains("answered 401"), "{told}");
}

/// Creates the files that a configuration names, so that it can be checked as on a machine.
fn machine(root: &Path) {
    let etc = root.join("etc");
    std::fs::create_dir_all(&etc).unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap();
    let issuer = Issuer::new(params, key);
    let own = KeyPair::generate().unwrap();
    let node = CertificateParams::new(vec!["node-1.gateway.internal".to_owned()]).unwrap();
    let node = node.signed_by(&own, &issuer).unwrap();
    let written = [
        ("ca.pem", authority.pem()),
        ("node.pem", node.pem()),
        ("node.key", own.serialize_pem()),
        ("master.key", "7".repeat(64)),
        ("operator.token", "only-for-this-test".to_owned()),
    ];
    for (name, text) in written {
        let path = etc.join(name);
        std::fs::write(&path, text).unwrap();
        if !name.ends_with(".pem") {
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        }
    }
}

#[test]
fn every_example_of_a_configuration_passes_the_check() {
    let all = files(&folder(), &["toml"]);
    assert!(!all.is_empty());
    for path in all {
        let temporary = tempfile::tempdir().unwrap();
        machine(temporary.path());
        let (etc, data) = (temporary.path().join("etc"), temporary.path().join("data"));
        let text = std::fs::read_to_string(&path).unwrap();
        let text =
            text.replace("/etc/gateway", etc.to_str().unwrap()).replace("/var/lib/gateway", data.to_str().unwrap());
        let config = temporary.path().join("gateway.toml");
        std::fs::write(&config, text).unwrap();
        let args = ["config", "check", "--config", config.to_str().unwrap()];
        let finished = binary::run(&args, temporary.path(), seconds(20));
        assert_eq!(finished.stdout.trim(), "ok", "{}: {finished:?}", path.display());
        assert!(!data.exists(), "a check leaves nothing");
        std::fs::set_permissions(etc.join("master.key"), Permissions::from_mode(0o644)).unwrap();
        let refused = binary::run(&args, temporary.path(), seconds(20));
        assert!(refused.code() == Some(2) && refused.stderr.contains("master.key"), "{refused:?}");
    }
}

/// The chart is not rendered here: this reads the lines of its templates, and its values.
#[test]
fn the_chart_trusts_no_range_by_default_and_closes_the_peers_port_to_others() {
    let chart = folder().join("helm/gateway");
    let values = chart.join("values.yaml");
    let read = "import sys, json, yaml; json.dump(yaml.safe_load(open(sys.argv[1])), sys.stdout)";
    let said = run("/usr/bin/python3", &["-c", read, values.to_str().unwrap()]);
    let values: Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!(values["trustedProxies"], json!([]));
    assert_eq!(values["networkPolicy"]["enabled"], json!(true));
    assert_eq!(values["networkPolicy"]["operatorsFrom"], json!([]));
    let port = values["network"]["address"].as_str().unwrap().rsplit(':').next().unwrap();
    assert_eq!(values["network"]["port"].to_string(), port, "the policy opens the port of the address");

    // Without its conditions and insertions, the policy is YAML.
    let policy = std::fs::read_to_string(chart.join("templates/networkpolicy.yaml")).unwrap();
    let policy: String = policy
        .lines()
        .filter(|line| !line.trim_start().starts_with("{{-") && !line.contains("toYaml"))
        .map(|line| {
            format!("{}\n", line.replace("{{ .Release.Name }}", "gateway").replace("{{ .Values.network.port }}", port))
        })
        .collect();
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("policy.yaml");
    std::fs::write(&path, policy).unwrap();
    let said = run("/usr/bin/python3", &["-c", read, path.to_str().unwrap()]);
    let policy: Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|error| panic!("{error}: {said:?}"));
    let own = json!([{ "podSelector": { "matchLabels": policy["spec"]["podSelector"]["matchLabels"] } }]);
    for rule in policy["spec"]["ingress"].as_array().unwrap() {
        let ports: Vec<u64> =
            rule["ports"].as_array().unwrap().iter().map(|port| port["port"].as_u64().unwrap()).collect();
        assert!(!ports.contains(&8082) || rule["from"] == own, "{rule}");
    }
    let egress = policy["spec"]["egress"].to_string();
    assert!(egress.contains("10.0.0.0/8") && egress.contains("169.254.0.0/16"), "{egress}");
}
