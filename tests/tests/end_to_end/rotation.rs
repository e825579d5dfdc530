//! Rotation of the cluster's own keys while it works: session token key, data keys, and the nodes' authority.

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, Stream};
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::grown::{Grown, MOVES};
use tests::http::{Api, string};
use tests::member::{Member, PASSWORD, login};
use tests::receiver::{Received, Receiver};
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

use crate::membership::certificate;

const SECRETS: &str = "/v1/admin/secrets";

/// A verifier that accepts any server; this test is not about the identity of peer ports.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        rustls::crypto::ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Presents a certificate to a peer port. A trusted client gets nothing until it sends something; others get an error.
fn is_trusted(address: &str, cert: &Path, key: &Path) -> Result<(), String> {
    let chain = vec![CertificateDer::from_pem_file(cert).unwrap()];
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap())
        .unwrap();
    let mut socket = TcpStream::connect(address).map_err(|error| format!("no connection: {error}"))?;
    socket.set_read_timeout(Some(seconds(2))).unwrap();
    let name = ServerName::try_from("node-0.gateway.internal").unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    match Stream::new(&mut connection, &mut socket).read(&mut [0; 16]) {
        // A node waits for the first message of a trusted peer, and closes the connection if there is none.
        Err(error)
            if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::UnexpectedEof) =>
        {
            Ok(())
        }
        Err(error) => Err(error.to_string()),
        Ok(read) => Err(format!("{read} bytes")),
    }
}

async fn actions(operator: &Api) -> Vec<String> {
    let log = operator.get("/v1/admin/audit-log?since=2020-01-01T00:00:00Z&limit=100").await.expect(200);
    log["data"].as_array().unwrap().iter().map(|entry| string(&entry["action"])).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_tokens_of_the_key_before_are_good_beside_those_of_the_new_one_while_nodes_restart() {
    let cluster = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&cluster).await;
    let member = Member::new(&tenant, "owner").await;
    let before = login(&tenant.api(1), &member.email, PASSWORD).await;
    let works = async |tokens: &Value| {
        for node in [1, 2, 3] {
            tenant.api(node).with_key(&string(&tokens["access_token"])).get("/v1/channels").await.expect(200);
        }
    };
    works(&before).await;
    let operator = cluster.operator(1, &tenant.client);
    assert_eq!(operator.get(SECRETS).await.expect(200)["session_key"]["rotated_at"], Value::Null);

    let said = cluster.command(&["secrets", "rotate", "session-key"]).await.succeeded().stdout;
    assert!(said.contains("tokens of the previous one work until"), "{said}");
    works(&before).await;
    let after = login(&tenant.api(2), &member.email, PASSWORD).await;
    works(&after).await;
    cluster.kill(2);
    cluster.restart(&[2]).await;
    works(&before).await;
    works(&after).await;
    let at_two = tenant.api(2).without_key();
    let refreshed = at_two.post("/v1/auth/refresh", json!({ "refresh_token": before["refresh_token"] })).await;
    works(&refreshed.expect(200)).await;

    // A third key is refused while tokens of the first are still valid.
    let again = operator.post("/v1/admin/secrets/session-key/rotate", json!({})).await;
    again.expect_error(400, "bad_request");
    assert!(again.text().contains("are good until"), "{}", again.text());
    let rotated = actions(&operator).await.into_iter().filter(|action| action == "secrets.session_key_rotated");
    assert_eq!(rotated.count(), 1);
}

const OWN: &str = "whsec_of-the-customer's-own";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_keys_are_exchanged_under_a_kill_and_nothing_that_the_former_ones_sealed_is_lost() {
    let cluster = Cluster::start(Options::default().arg("--set=secrets.keep_former_data_keys=0s")).await;
    let tenant = Tenant::new(&cluster).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/own"), &["message.sent"], json!({ "signing_secret": OWN })).await;
    let channels = [tenant.paired("Sealed").await, tenant.paired("Behind a proxy").await];
    let (to, proxy) = (number(), json!({ "proxy_url": "http://ann:sesame@proxy.example.com:3128" }));
    tenant.simulator().phone(&to, json!({})).await;
    tenant.any().patch(&channels[1].path("/settings"), proxy).await.expect(200);
    let send = async |node: u64, channel: &Paired| {
        let sent = tenant.api(node).post(&channel.path("/messages"), text(&to, "sealed")).await.expect(202);
        let wanted = string(&sent["message_id"]);
        let heard = receiver.wait_for("the message", seconds(60), move |request: &Received| {
            request.event() == "message.sent" && request.json()["data"]["message_id"] == wanted.as_str()
        });
        heard.await.verify(OWN);
    };
    send(1, &channels[0]).await;
    let operator = cluster.operator(1, &tenant.client);
    assert_eq!(operator.get(SECRETS).await.expect(200)["data_key_rotation"], Value::Null);
    let said = cluster.command(&["secrets", "rotate", "data-keys"]).await.succeeded().stdout;
    assert!(said.contains("data keys"), "{said}");
    operator.post("/v1/admin/secrets/data-keys/rotate", json!({})).await.expect_error(400, "bad_request");

    // Data that comes while both keys exist is sealed with the new one, whichever node owns the shard.
    cluster.kill(3);
    send(1, &channels[0]).await;
    cluster.restart(&[3]).await;
    tenant
        .any()
        .patch(&channels[1].path("/settings"), json!({ "send_delay_ms": { "min": 10, "max": 10 } }))
        .await
        .expect(200);
    let ended = eventually("the former keys are dropped", seconds(240), async || {
        let now = operator.get(SECRETS).await.expect(200)["data_key_rotation"].clone();
        check(now["state"] == "ended", now.to_string())?;
        Ok(now)
    });
    assert_eq!(ended.await["former_keys"], 0);
    let told = actions(&operator).await;
    for action in ["secrets.data_key_rotation_begun", "secrets.data_keys_rotated"] {
        assert_eq!(told.iter().filter(|told| *told == action).count(), 1, "{action}: {told:?}");
    }

    cluster.kill_all(&[1, 2, 3]);
    cluster.restart(&[1, 2, 3]).await;
    for (node, channel) in [1, 2].into_iter().zip(&channels) {
        wait_status(&tenant.api(node), &channel.id, "connected", CONNECT).await;
        send(node, channel).await;
    }
    let settings = tenant.any().get(&channels[1].path("/settings")).await.expect(200);
    assert_eq!(settings["proxy_url"], "http://ann:***@proxy.example.com:3128");
}

async fn authority(grown: &Grown, node: u64) -> Value {
    grown.operator(node).get(SECRETS).await.expect(200)["authority"].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authority_is_exchanged_under_a_kill_and_what_the_former_signed_opens_nothing() {
    let mut grown = Grown::start().await;
    grown.join(1, 2).await;
    grown.join(1, 3).await;
    grown.settled(1, 3, &[]).await;
    let tenant = Tenant::new(&grown.cluster).await;
    // This is what an attacker with the authority's key could make.
    let (cert, key) = certificate(&grown, 2, 2100);
    let peers = |grown: &Grown| [1, 2, 3].map(|node| grown.cluster.node(node).peer);
    for peer in peers(&grown) {
        assert_eq!(is_trusted(&peer, &cert, &key), Ok(()), "{peer}");
    }
    let former = authority(&grown, 1).await;
    assert_eq!((&former["state"], &former["rotated_at"]), (&json!("settled"), &Value::Null), "{former}");

    // A node that is down during the rotation would be cut off for good.
    grown.kill(3);
    let refused = grown.command(1, &["secrets", "rotate", "authority"]).await;
    assert!(refused.code() != Some(0) && refused.stderr.contains("node 3 does not answer"), "{refused:?}");
    grown.run(3, 3);
    grown.cluster.wait_ready(3, &grown.client).await;

    let early = grown.token(1).await;
    let begun = grown.command(1, &["secrets", "rotate", "authority", "--detach", "--json"]).await.succeeded();
    let begun: Value = serde_json::from_str(&begun.stdout).unwrap();
    assert_ne!(begun["authority"]["state"], "settled", "{begun}");
    let twice = grown.operator(1).post("/v1/admin/secrets/authority/rotate", json!({})).await;
    twice.expect_error(400, "bad_request");
    grown.kill(2);
    // The rotation waits for nodes that are down, however long.
    eventually("it waits for the node that was killed", seconds(30), async || {
        let now = authority(&grown, 1).await;
        check(now["waits_for"] == json!([2]) && now["state"] != "wanted", now.to_string())
    })
    .await;
    let checks = grown.operator(1).get("/v1/admin/check").await.expect(200).to_string();
    assert!(checks.contains("is being rotated"), "{checks}");
    grown.run(2, 2);
    let over = eventually("the former is trusted no more", MOVES, async || {
        let now = authority(&grown, 3).await;
        check(now["state"] == "settled", now.to_string())?;
        Ok(now)
    });
    let over = over.await;
    assert!(over["id"] != former["id"] && !over["rotated_at"].is_null(), "{over}");
    for peer in peers(&grown) {
        eventually("the former's certificate is refused", seconds(20), async || match is_trusted(&peer, &cert, &key) {
            Err(reason) if reason.contains("fatal alert") => Ok(()),
            other => Err(format!("{peer}: {other:?}")),
        })
        .await;
    }
    let told = actions(&grown.operator(1)).await;
    for action in ["secrets.authority_rotation_begun", "secrets.authority_rotated"] {
        assert_eq!(told.iter().filter(|told| *told == action).count(), 1, "{action}: {told:?}");
    }

    // After a restart of all nodes at once they trust each other by the new authority, and it signs joining nodes.
    for node in [1, 2, 3] {
        grown.kill(node);
    }
    for (place, node) in [(1, 1), (2, 2), (3, 3)] {
        grown.run(place, node);
    }
    for node in [1, 2, 3] {
        grown.cluster.wait_ready(node, &grown.client).await;
    }
    tenant.api(2).get("/v1/channels").await.expect(200);
    let (_, refused) = grown.try_join(&early, 1, &[]).await;
    assert!(refused.code() != Some(0) && refused.stderr.contains("not of the cluster"), "{}", refused.stderr);
    let token = grown.token(1).await;
    let (place, joined) = grown.try_join(&token, 1, &[]).await;
    assert!(joined.succeeded().stdout.contains("node 4 of a cluster"));
    grown.run(place, 4);
    grown.cluster.wait_ready(4, &grown.client).await;
}
