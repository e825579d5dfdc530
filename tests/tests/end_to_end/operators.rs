//! Operators with their own tokens, over HTTPS, and node certificates that renew themselves.

use std::net::Ipv4Addr;
use std::path::Path;

use rcgen::{CertificateParams, KeyPair};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, client, client_from, client_of};
use tests::wait::{check, eventually, seconds};

const READER: &str = "a token of ann that nobody guesses";
const WRITER: &str = "a token of bob that nobody guesses";

fn line(name: &str, role: &str, token: &str) -> String {
    format!("{name} {role} {}\n", hex::encode(Sha256::digest(token)))
}

/// Writes a certificate for the operator port, which names no address of this machine.
fn write_certificate(folder: &Path) -> reqwest::Certificate {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    std::fs::write(folder.join("ops.key"), key.serialize_pem()).unwrap();
    std::fs::write(folder.join("ops.pem"), certificate.pem()).unwrap();
    reqwest::Certificate::from_pem(certificate.pem().as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_have_tokens_and_roles_of_their_own_over_https_and_wrong_tokens_are_limited_and_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(file("operators"), line("ann", "read", READER) + &line("bob", "write", WRITER)).unwrap();
    let options = Options::nodes(1)
        .arg(&format!("--set=ops.tls.cert_file={}", file("ops.pem")))
        .arg(&format!("--set=ops.tls.key_file={}", file("ops.key")))
        .arg(&format!("--set=ops.tokens_file={}", file("operators")));
    let cluster = Cluster::start(options).await;
    let port = cluster.node(1).ops.rsplit(':').next().unwrap().to_owned();
    let shared = cluster.dev().operator_token;
    let secure = client_of(&certificate);
    let operator = |token: &str| Api::new(secure.clone(), &format!("https://localhost:{port}"), Some(token));

    // The command line finds the port in its file.
    let said = cluster.command(&["status"]).await;
    assert!(said.code() != Some(2) && said.stdout.contains("node"), "{said:?}");
    assert!(
        client().get(format!("http://localhost:{port}/healthz")).send().await.is_err(),
        "plain HTTP is not answered"
    );

    // One operator who may read, and one who may write.
    let (ann, bob) = (operator(READER), operator(WRITER));
    let seen = ann.get("/v1/admin/customers").await;
    seen.expect(200);
    assert_eq!(seen.header("strict-transport-security"), Some("max-age=31536000"));
    assert_eq!(seen.header("x-content-type-options"), Some("nosniff"));
    ann.post("/v1/admin/layout/plan", json!({})).await.expect(200);
    for (who, name, access) in
        [(&ann, json!("ann"), "read"), (&bob, json!("bob"), "write"), (&operator(&shared), Value::Null, "write")]
    {
        let status = who.get("/v1/admin/status").await.expect(200);
        assert_eq!((&status["operator"], &status["access"]), (&name, &json!(access)));
    }
    let new = json!({ "name": "Acme" });
    let refused = ann.post("/v1/admin/customers", new.clone()).await.expect_error(403, "insufficient_scope");
    assert_eq!(refused["required"], json!(["write"]));
    ann.get("/v1/admin/backup/groups/0").await.expect_error(403, "insufficient_scope");
    let session = "/v1/admin/channels/00000000-0000-4000-8000-000000000000/export";
    let sealed = json!({ "passphrase": "correct horse battery" });
    ann.post(session, sealed.clone()).await.expect_error(403, "insufficient_scope");
    bob.post(session, sealed).await.expect_error(404, "channel_not_found");
    let customer = bob.post("/v1/admin/customers", new.clone()).await.expect(201);
    operator(&shared).post("/v1/admin/customers", new).await.expect(201);
    let id = customer["id"].as_str().unwrap();
    let suspended = json!({ "plan": { "overdue_since": "2026-01-01T00:00:00Z" } });
    for _ in 0..2 {
        bob.patch(&format!("/v1/admin/customers/{id}"), suspended.clone()).await.expect(200);
    }
    let log = ann.get(&format!("/v1/admin/audit-log?customer_id={id}")).await.expect(200);
    let entries = log["data"].as_array().unwrap();
    assert!(entries.iter().all(|entry| entry["actor"]["id"] == "bob"), "{log}");
    let changes: Vec<&Value> = entries.iter().filter(|entry| entry["action"] == "customer.updated").collect();
    assert_eq!(changes.len(), 1, "what changes nothing is no entry: {log}");
    assert_eq!(changes[0]["details"]["changed"], "plan");

    // The page's policy allows only scripts of its own.
    let page = ann.without_key().get("/docs").await;
    assert_eq!((page.status, page.header("x-frame-options")), (200, Some("DENY")));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.contains("script-src 'self';") && policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(!page.text().contains("<script>"), "{}", page.text());
    for name in ["cross-origin-opener-policy", "cross-origin-resource-policy"] {
        assert_eq!(page.header(name), Some("same-origin"), "{name}");
    }
    assert!(page.header("permissions-policy").is_some_and(|rules| rules.contains("camera=()")));
    assert_eq!(ann.without_key().get("/docs/page.js").await.status, 200);

    // A token that is removed from the file is invalid.
    std::fs::write(file("operators"), line("bob", "write", WRITER)).unwrap();
    eventually("ann's token is worthless", seconds(20), async || {
        let answer = ann.get("/v1/admin/customers").await;
        check(answer.status == 401, answer.text())
    })
    .await;
    bob.get("/v1/admin/customers").await.expect(200);

    // Wrong tokens are rate limited, and share one entry in the audit log.
    let mut wrong = 0;
    loop {
        let answer = operator(&format!("a wrong token number {wrong}")).get("/v1/admin/customers").await;
        wrong += 1;
        if answer.status == 429 {
            answer.expect_error(429, "rate_limited");
            break;
        }
        answer.expect_error(401, "auth_invalid");
        assert!(wrong < 500, "guesses pass without end");
    }
    let failed = eventually("the failures are written", seconds(20), async || {
        let log = bob.get("/v1/admin/audit-log?action=auth.failed").await.expect(200);
        let rows = log["data"].as_array().unwrap().clone();
        check(rows.iter().any(|row| row["details"]["code"] == "auth_invalid"), log.to_string()).map(|()| rows)
    })
    .await;
    let of = |code: &str| failed.iter().filter(|row| row["details"]["code"] == code).collect::<Vec<_>>();
    // A new hour may have begun meanwhile.
    assert!((1..=2).contains(&of("auth_invalid").len()), "{failed:?}");
    assert_eq!(of("auth_invalid")[0]["details"]["port"], "operators");
    assert!(!format!("{failed:?}").contains("wrong token number"), "no token is kept");
    let logged = std::fs::read_to_string(cluster.node(1).log).unwrap();
    assert!(logged.contains("an operator's token was refused"), "{logged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invented_keys_leave_one_entry_for_an_address_and_an_hour() {
    let cluster = Cluster::shared().await;
    let (address, own) = (Ipv4Addr::new(127, 0, 0, 78), client());
    let client = client_from(address);
    let strangers = async |round: u32| {
        for n in 0..40 {
            let node = cluster.node_ids()[n % cluster.node_ids().len()];
            let key = format!("zpk_{round:04}{n:04}{}", "0".repeat(16));
            cluster.api(node, &client).with_key(&key).get("/v1/channels").await.expect_error(401, "auth_invalid");
        }
    };
    let entries = async || {
        let operator = cluster.operator(cluster.running_node(), &own);
        let log = operator.get("/v1/admin/audit-log?action=auth.failed&limit=100").await.expect(200);
        let rows = log["data"].as_array().unwrap().clone();
        let of_stranger = |row: &&Value| row["ip"] == json!(address.to_string()) && row["customer_id"].is_null();
        rows.iter().filter(of_stranger).count()
    };
    strangers(1).await;
    eventually("a failure is written", seconds(10), async || check(entries().await > 0, "none".to_owned())).await;
    strangers(2).await;
    // This entry is written later, so all earlier ones are written by then.
    let tenant = tests::tenant::Tenant::new(&cluster).await;
    let near =
        format!("{}{}", &tenant.key[..tenant.key.len() - 2], if tenant.key.ends_with("AA") { "BB" } else { "AA" });
    for node in cluster.node_ids() {
        cluster.api(node, &client).with_key(&near).get("/v1/channels").await.expect_error(401, "auth_invalid");
    }
    let log = format!("/v1/account/audit-log?action=auth.failed&actor={}", &tenant.key[..12]);
    eventually("the guess is written", seconds(10), async || {
        let log = tenant.any().get(&log).await.expect(200);
        check(log["data"][0].is_object(), log.to_string())
    })
    .await;
    // One entry for each node, or two if a new hour has begun meanwhile.
    assert!(entries().await <= 2 * cluster.node_ids().len(), "80 invented keys left more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_of_nodes_live_for_a_while_and_renew_themselves() {
    let cluster = Cluster::start(Options::nodes(3).arg("--set=peer.certificate_life=12s")).await;
    let client = client();
    let kept = |node: u64| cluster.node(node).data.join("peer.pem");
    let read = |node: u64| std::fs::read_to_string(kept(node)).ok().filter(|pem| pem.contains("PRIVATE KEY"));
    let changed = async |before: &[Option<String>]| {
        eventually("every node has made itself another certificate", seconds(60), async || {
            let now: Vec<_> = (1..=3).map(read).collect();
            let all = now.iter().zip(before).all(|(now, before)| now.is_some() && now != before);
            check(all, format!("{:?}", now.iter().map(Option::is_some).collect::<Vec<_>>())).map(|()| now)
        })
        .await
    };
    let first = changed(&[None, None, None]).await;
    let second = changed(&first).await;
    let third = changed(&second).await;
    // By now the first certificates have expired; new connections use their successors.
    cluster.kill(3);
    cluster.restart(&[3]).await;
    changed(&third).await;
    for node in 1..=3 {
        cluster.wait_ready(node, &client).await;
    }
    let tenant = tests::tenant::Tenant::new(&cluster).await;
    for node in 1..=3 {
        tenant.api(node).get("/v1/channels").await.expect(200);
    }
}
