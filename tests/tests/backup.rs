//! A backup of a running cluster, and a new cluster of another size out of it.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tests::binary::{self, Finished};
use tests::cluster::{Cluster, Options};
use tests::grown::Grown;
use tests::http::string;
use tests::media::{fetch, path, png, upload};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};

const SECRET: &str = "whsec_of-a-cluster-that-is-gone";

/// Runs a command that needs no cluster.
async fn gateway(folder: &Path, args: &[&str]) -> Finished {
    let (folder, args) = (folder.to_owned(), args.iter().map(|arg| (*arg).to_owned()).collect::<Vec<_>>());
    let running = move || binary::run(&args, &folder, Duration::from_secs(120));
    tokio::task::spawn_blocking(running).await.unwrap()
}

async fn send(tenant: &Tenant, node: u64, channel: &Paired, to: &str, words: &str) -> String {
    let answer = tenant.api(node).post(&channel.path("/messages"), text(to, words)).await;
    assert_eq!(answer.status, 202, "{words}: {}", answer.text());
    string(&answer.json()["message_id"])
}

/// The ids of all messages of a channel.
async fn history(tenant: &Tenant, node: u64, channel: &Paired) -> Vec<String> {
    let page = tenant.api(node).get(&channel.path("/messages?limit=100")).await.expect(200);
    page["data"].as_array().unwrap().iter().map(|row| string(&row["message_id"])).collect()
}

/// A copy of a backup that a test may damage.
fn copy_of(backup: &Path, name: &str) -> PathBuf {
    let copy = backup.with_file_name(name);
    fs::create_dir(&copy).unwrap();
    for entry in fs::read_dir(backup).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, copy.join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_of_three_is_restored_into_one_node_and_grows_and_a_person_connects_its_channels() {
    let source = Cluster::start(Options::default()).await;
    let tenant = Tenant::new(&source).await;
    let receiver = Receiver::start().await;
    tenant.endpoint(&receiver.url("/hook"), &["message.sent"], json!({ "signing_secret": SECRET })).await;
    let (first, second) = (tenant.paired("First").await, tenant.paired("Second").await);
    let never_paired = tenant.channel("Never paired").await;
    let to = number();
    tenant.simulator().phone(&to, json!({})).await;
    let mut before = Vec::new();
    for turn in 0..6 {
        before.push(send(&tenant, turn % 3 + 1, &first, &to, &format!("before {turn}")).await);
    }
    let bytes = png(200_000, 7);
    let media = upload(&tenant.any(), &first.id, "image/png", bytes.clone()).await;

    // Sends go on meanwhile, through another node than the one that is asked.
    let folder = tempfile::tempdir().unwrap();
    let backup = folder.path().join("backup");
    let to_folder = backup.display().to_string();
    let mut meanwhile = Vec::new();
    let command = ["backup", "--to", &to_folder, "--json"];
    let taking = source.command(&command);
    tokio::pin!(taking);
    let taken = loop {
        tokio::select! {
            taken = &mut taking => break taken.succeeded(),
            sent = send(&tenant, 2, &second, &to, "meanwhile") => meanwhile.push(sent),
        }
    };
    assert!(!meanwhile.is_empty());
    let manifest: Value = serde_json::from_str(&taken.stdout).unwrap();
    assert_eq!((&manifest["shards"], &manifest["media_gone"]), (&json!(16), &json!(0)), "{manifest}");
    assert_eq!(manifest["groups"].as_array().unwrap().len(), 17);
    assert_eq!(manifest["groups"][16]["group"], 0, "the directory is the youngest");
    assert_eq!(manifest["media"], json!([{ "sha256": media["sha256"], "bytes": 200_000 }]));

    let again = source.command(&["backup", "--to", &to_folder]).await;
    assert!(again.code() == Some(2) && again.stderr.contains("is not empty"), "{again:?}");
    let verified = gateway(folder.path(), &["backup", "verify", &to_folder]).await.succeeded();
    assert!(verified.stdout.starts_with("whole: "), "{}", verified.stdout);

    // The cluster is gone for good. Its simulator is the network, which lives on.
    let logins = |number: String| {
        let simulator = tenant.simulator();
        async move { simulator.logins(&number).await.len() }
    };
    let logged_in = logins(first.number.clone()).await;
    let master_key = source.data().join("master.key");
    source.kill_all(&[1, 2, 3]);

    // What is not whole, and what another key has sealed, is refused before anything is written.
    let damaged = copy_of(&backup, "damaged");
    let file = damaged.join("group-0000.state");
    let mut content = fs::read(&file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&file, content).unwrap();
    let (_, refused) = Grown::restore(&damaged, &master_key, &source).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("group-0000.state"), "{refused:?}");
    let short = copy_of(&backup, "short");
    let file = fs::File::options().write(true).open(short.join("group-0003.state")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let refused = gateway(folder.path(), &["backup", "verify", &short.display().to_string()]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("group-0003.state: ends before"), "{refused:?}");
    fs::remove_file(short.join("manifest.json")).unwrap();
    let refused = gateway(folder.path(), &["backup", "verify", &short.display().to_string()]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("manifest.json: is missing"), "{refused:?}");
    let other_key = folder.path().join("other.key");
    fs::write(&other_key, "ab".repeat(32)).unwrap();
    let (other, refused) = Grown::restore(&backup, &other_key, &source).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("another master key"), "{refused:?}");
    assert!(!other.dir(1).join("data").exists() && !other.dir(1).join("gateway.toml").exists());
    drop(other);

    let (mut restored, said) = Grown::restore(&backup, &master_key, &source).await;
    let said = said.succeeded().stdout;
    assert!(said.contains("channels that wait for `connect`: 2"), "{said}");
    restored.run(1, 1);
    restored.cluster.wait_ready(1, &restored.client).await;
    let tenant = Tenant {
        cluster: restored.cluster.clone(),
        client: restored.client.clone(),
        customer_id: tenant.customer_id.clone(),
        key: tenant.key.clone(),
    };

    // Everything that was there is there, under the old keys and links.
    let known = history(&tenant, 1, &first).await;
    assert!(before.iter().all(|id| known.contains(id)), "{before:?} {known:?}");
    let got = fetch(&tenant.api(1), &path(&media), &[]).await;
    assert!(got.status == 200 && got.body == bytes, "{}", got.status);
    for channel in [&first, &second] {
        let row = tenant.api(1).get(&format!("/v1/channels/{}", channel.id)).await.expect(200);
        assert_eq!(row["status"], "stopped_by_user", "{row}");
        let changes = tenant.api(1).get(&channel.path("/status-history?limit=1")).await.expect(200);
        assert_eq!(
            (&changes["data"][0]["from"], &changes["data"][0]["reason"]),
            (&json!("connected"), &json!("restored"))
        );
    }
    let row = tenant.api(1).get(&format!("/v1/channels/{never_paired}")).await.expect(200);
    assert_eq!(row["status"], "pending");

    // It grows into a cluster of another size, and still nobody logs in.
    restored.join(1, 2).await;
    restored.settled(2, 2, &[]).await;
    assert_eq!(logins(first.number.clone()).await, logged_in);
    let got = fetch(&tenant.api(2), &path(&media), &[]).await;
    assert!(got.status == 200 && got.body == bytes, "{}", got.status);

    // A person decides.
    tenant.api(2).act(&first.path("/connect")).await.expect(202);
    wait_status(&tenant.api(1), &first.id, "connected", CONNECT).await;
    let sent = send(&tenant, 2, &first, &to, "after the restore").await;
    eventually("it has arrived once", seconds(30), async || {
        let inbox = tenant.simulator().inbox(&to).await;
        let copies = |id: &String| inbox.iter().filter(|row| row["id"] == json!(id)).count();
        check(copies(&sent) == 1 && before.iter().all(|id| copies(id) == 1), format!("{inbox:?}"))
    })
    .await;
    let heard = receiver.wait_message("message.sent", &sent, seconds(30)).await;
    heard.verify(SECRET);
    assert_eq!(tenant.simulator().stat("conflicts").await, 0);
    let row = tenant.api(1).get(&format!("/v1/channels/{}", second.id)).await.expect(200);
    assert_eq!(row["status"], "stopped_by_user", "{row}");
}
