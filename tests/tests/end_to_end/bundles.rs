//! Moves a channel to another cluster of the same network, with its session in a file.

use std::fs;

use reqwest::Method;
use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::grown::Grown;
use tests::http::{Answer, Api, answer, string};
use tests::tenant::{CONNECT, Tenant, address, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

const PASSPHRASE: &str = "correct horse battery staple";

async fn export(operator: &Api, channel: &str) -> Answer {
    operator.post(&format!("/v1/admin/channels/{channel}/export"), json!({ "passphrase": PASSPHRASE })).await
}

async fn import(operator: &Api, channel: &str, passphrase: &str, bundle: &[u8]) -> Answer {
    let request = operator.request(Method::POST, &format!("/v1/admin/channels/{channel}/import"));
    answer(request.header("x-passphrase", passphrase).body(bundle.to_vec())).await
}

/// The entries of a cluster's audit log with an action.
async fn audited(operator: &Api, action: &str) -> Vec<Value> {
    let log = operator.get("/v1/admin/audit-log?since=2020-01-01T00:00:00Z&limit=100").await.expect(200);
    let entries = log["data"].as_array().unwrap().iter().filter(|entry| entry["action"] == action);
    entries.cloned().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_moves_to_another_cluster_without_a_new_qr_and_the_first_does_not_log_in_again() {
    let source = Cluster::start(Options::nodes(1)).await;
    let here = Tenant::new(&source).await;
    let channel = here.paired("Sales").await;
    let operator = source.operator(1, &here.client);
    let peer = number();
    here.simulator().phone(&peer, json!({})).await;
    let checked = here.any().post(&channel.path("/contacts/check"), json!({ "phones": [peer] })).await.expect(200);
    let lid = string(&checked["data"][0]["lid"]);
    eventually("the LID is known", seconds(20), async || {
        let known = here.any().get(&channel.path(&format!("/contacts/lids/{lid}"))).await;
        check(known.status == 200, known.text())
    })
    .await;

    // A live session is not exported, and neither is a channel without one.
    export(&operator, &channel.id).await.expect_error(409, "invalid_lifecycle_transition");
    let unpaired = here.channel("Never paired").await;
    here.any().post(&format!("/v1/channels/{unpaired}/disable"), json!({})).await.expect(202);
    export(&operator, &unpaired).await.expect_error(409, "invalid_lifecycle_transition");
    let short = json!({ "passphrase": "short" });
    let refused = operator.post(&format!("/v1/admin/channels/{}/export", channel.id), short).await;
    refused.expect_issue(&json!(["passphrase"]), "too_short");
    assert_eq!(audited(&operator, "channel.exported").await.len(), 0);

    let folder = tempfile::tempdir().unwrap();
    let (file, secret) = (folder.path().join("sales.bundle"), folder.path().join("passphrase"));
    fs::write(&secret, format!("{PASSPHRASE}\n")).unwrap();
    let (file, secret) = (file.display().to_string(), secret.display().to_string());
    source.command(&["channel", "disable", &channel.id, "--reason", "moves"]).await.succeeded();
    let command = ["channel", "export", &channel.id, "--to", &file, "--passphrase-file", &secret];
    let said = source.command(&command).await.succeeded().stdout;
    assert!(said.contains(&file), "{said}");
    let again = source.command(&command).await;
    assert!(again.code() == Some(2) && again.stderr.contains("already exists"), "{again:?}");
    let bundle = fs::read(&file).unwrap();
    let exported = export(&operator, &channel.id).await;
    assert_eq!((exported.status, exported.content_type()), (200, Some("application/octet-stream")));
    assert_ne!(exported.body, bundle, "each is sealed anew");
    assert_eq!(audited(&operator, "channel.exported").await.len(), 2);

    // A bundle that does not decrypt, or another file, changes nothing.
    let target = Grown::beside(&source).await;
    let there = Tenant::new(&target.cluster).await;
    let moved = there.channel("Sales").await;
    let admin = target.operator(1);
    let mut changed = bundle.clone();
    *changed.last_mut().unwrap() ^= 1;
    let table = [
        ("another passphrase", &bundle[..], "passphrase"),
        (PASSPHRASE, &changed[..], "changed"),
        (PASSPHRASE, &bundle[..bundle.len() - 1], "incomplete"),
        (PASSPHRASE, &b"{}"[..], "not a bundle"),
    ];
    for (passphrase, bytes, why) in table {
        let refused = import(&admin, &moved, passphrase, bytes).await;
        refused.expect_error(400, "bad_request");
        assert!(refused.text().contains(why), "{why}: {}", refused.text());
    }
    import(&admin, &moved, "short", &bundle).await.expect_issue(&json!(["X-Passphrase"]), "too_short");
    let row = there.any().get(&format!("/v1/channels/{moved}")).await.expect(200);
    assert_eq!(row["status"], "pending", "{row}");

    target.command(1, &["channel", "import", &moved, "--from", &file, "--passphrase-file", &secret]).await.succeeded();
    let row = admin.get(&format!("/v1/admin/channels/{moved}")).await.expect(200);
    assert_eq!(
        (&row["status"], &row["status_reason"], &row["phone_number"]),
        (&json!("stopped_by_user"), &json!("restored"), &json!(channel.number))
    );
    import(&admin, &moved, PASSPHRASE, &bundle).await.expect_error(409, "invalid_lifecycle_transition");
    let imported = audited(&admin, "channel.imported").await;
    assert_eq!((imported.len(), &imported[0]["details"]["exported_as"]), (1, &json!(channel.id)), "{imported:?}");
    let known = there.any().get(&format!("/v1/channels/{moved}/contacts/lids/{lid}")).await.expect(200);
    assert_eq!(known["phone_jid"], json!(address(&peer)), "{known}");

    // The imported channel logs in on `connect`, without a QR code; the channel of the first cluster cannot.
    there.any().act(&format!("/v1/channels/{moved}/connect")).await.expect(202);
    wait_status(&there.any(), &moved, "connected", CONNECT).await;
    let sent = there.any().post(&format!("/v1/channels/{moved}/messages"), text(&peer, "from there")).await.expect(202);
    eventually("it has arrived", seconds(30), async || {
        let inbox = here.simulator().inbox(&peer).await;
        check(inbox.iter().any(|row| row["id"] == sent["message_id"]), format!("{inbox:?}"))
    })
    .await;
    here.any().act(&channel.path("/connect")).await.expect_error(409, "channel_unavailable");
    let row = here.any().get(&format!("/v1/channels/{}", channel.id)).await.expect(200);
    assert_eq!(row["status"], "disabled_by_admin", "{row}");
    assert_eq!(here.simulator().stat("conflicts").await, 0);

    // A logged-out channel has no session either, and can import one again.
    there.any().act(&format!("/v1/channels/{moved}/disconnect")).await.expect(202);
    wait_status(&there.any(), &moved, "stopped_by_user", CONNECT).await;
    let later = export(&admin, &moved).await;
    assert_eq!(later.status, 200, "{}", later.text());
    there.any().act(&format!("/v1/channels/{moved}/logout")).await.expect(202);
    wait_status(&there.any(), &moved, "logged_out", CONNECT).await;
    export(&admin, &moved).await.expect_error(409, "invalid_lifecycle_transition");
    let row = import(&admin, &moved, PASSPHRASE, &later.body).await.expect(200);
    assert_eq!(row["status"], "stopped_by_user", "{row}");
}
