//! A backup of a running cluster, and a restore to a cluster of another size.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bucket::{ACCESS_KEY_ID, SECRET_ACCESS_KEY, serve};
use serde_json::{Value, json};
use tests::binary::{self, Finished};
use tests::cluster::{Cluster, Options, SHARDS};
use tests::grown::Grown;
use tests::http::string;
use tests::media::{fetch, noise, path, png, upload};
use tests::receiver::Receiver;
use tests::tenant::{CONNECT, Paired, Tenant, number, text, wait_status};
use tests::wait::{check, eventually, seconds};
use tokio::sync::Mutex;

const SECRET: &str = "whsec_of-a-cluster-that-is-gone";

/// Each test takes room for two clusters, and the machine has no more: two concurrent tests would wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

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
    let _turn = ONE_AT_A_TIME.lock().await;
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

    // Sends continue during the backup, through a node other than the one that takes it.
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
    assert_eq!((&manifest["shards"], &manifest["media_gone"]), (&json!(SHARDS), &json!(0)), "{manifest}");
    assert_eq!(manifest["groups"].as_array().unwrap().len(), SHARDS + 1);
    assert_eq!(manifest["groups"][SHARDS]["group"], 0, "the directory is the youngest");
    assert_eq!(manifest["media"], json!([{ "sha256": media["sha256"], "bytes": 200_000 }]));

    let again = source.command(&["backup", "--to", &to_folder]).await;
    assert!(again.code() == Some(2) && again.stderr.contains("is not empty"), "{again:?}");
    let verified = gateway(folder.path(), &["backup", "verify", &to_folder]).await.succeeded();
    assert!(verified.stdout.starts_with("whole: "), "{}", verified.stdout);

    // The cluster does not return. Its simulator is the network, and keeps running.
    let logins = |number: String| {
        let simulator = tenant.simulator();
        async move { simulator.logins(&number).await.len() }
    };
    let logged_in = logins(first.number.clone()).await;
    let master_key = source.data().join("master.key");
    source.kill_all(&[1, 2, 3]);

    // A damaged backup, or one sealed with another key, is refused before anything is written.
    let damaged = copy_of(&backup, "damaged");
    let file = damaged.join("group-0000.state");
    let mut content = fs::read(&file).unwrap();
    let middle = content.len() / 2;
    content[middle] ^= 1;
    fs::write(&file, content).unwrap();
    let (_, refused) = Grown::restore(&damaged.display().to_string(), &master_key, &source, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("group-0000.state"), "{refused:?}");
    let short = copy_of(&backup, "short");
    let file = fs::File::options().write(true).open(short.join("group-0003.state")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    let refused = gateway(folder.path(), &["backup", "verify", &short.display().to_string()]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("group-0003.state: ends before"), "{refused:?}");
    fs::remove_file(short.join("manifest.json")).unwrap();
    let refused = gateway(folder.path(), &["backup", "verify", &short.display().to_string()]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("manifest.json: is missing"), "{refused:?}");
    let changed = copy_of(&backup, "changed");
    let text = fs::read_to_string(changed.join("manifest.json")).unwrap();
    let cluster_id = manifest["cluster_id"].as_str().unwrap();
    let text = text.replace(cluster_id, &uuid::Uuid::new_v4().to_string());
    fs::write(changed.join("manifest.json"), text).unwrap();
    let refused = gateway(folder.path(), &["backup", "verify", &changed.display().to_string()]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("manifest.json: is damaged"), "{refused:?}");
    let other_key = folder.path().join("other.key");
    fs::write(&other_key, "ab".repeat(32)).unwrap();
    let (other, refused) = Grown::restore(&to_folder, &other_key, &source, &[]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("another master key"), "{refused:?}");
    assert!(!other.dir(1).join("data").exists() && !other.dir(1).join("gateway.toml").exists());
    drop(other);

    let (mut restored, said) = Grown::restore(&to_folder, &master_key, &source, &[]).await;
    let said = said.succeeded().stdout;
    assert!(said.contains("channels that wait for `connect`: 2"), "{said}");
    for done in ["read", "written"] {
        assert!(said.contains(&format!("  media {done}: 1 of 1 files, 195.3 KiB of 195.3 KiB\n")), "{said}");
    }
    restored.run(1, 1);
    restored.cluster.wait_ready(1, &restored.client).await;
    let tenant = Tenant {
        cluster: restored.cluster.clone(),
        client: restored.client.clone(),
        customer_id: tenant.customer_id.clone(),
        key: tenant.key.clone(),
    };

    // The restored cluster has everything, under the old keys and links.
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

    // The restored node is joined by others, and still no channel logs in.
    restored.join(1, 2).await;
    restored.join(2, 3).await;
    restored.settled(3, 3, &[]).await;
    assert_eq!(logins(first.number.clone()).await, logged_in);
    let got = fetch(&tenant.api(3), &path(&media), &[]).await;
    assert!(got.status == 200 && got.body == bytes, "{}", got.status);

    // The audit log has the backup and the restore; the entry of the backup is part of the backup.
    let log = restored.operator(3).get("/v1/admin/audit-log?since=2020-01-01T00:00:00Z&limit=100").await.expect(200);
    for action in ["backup.taken", "cluster.restored"] {
        assert!(log["data"].as_array().unwrap().iter().any(|entry| entry["action"] == action), "{action}: {log}");
    }

    // Channels connect only on request.
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_in_a_bucket_is_verified_and_restored_from_there() {
    let _turn = ONE_AT_A_TIME.lock().await;
    let source = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&source).await;
    let channel = tenant.channel("Pictures").await;
    // Large enough for a multipart upload to the bucket.
    let bytes = noise(6_000_000, 3);
    let media = upload(&tenant.any(), &channel, "a/b", bytes.clone()).await;

    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("backups")).unwrap();
    let secret = folder.path().join("s3.key");
    fs::write(&secret, format!("{SECRET_ACCESS_KEY}\n")).unwrap();
    let (endpoint, secret) = (format!("--s3-endpoint={}", serve(folder.path()).await), secret.display().to_string());
    let secret = format!("--s3-secret-access-key-file={secret}");
    let id = format!("--s3-access-key-id={ACCESS_KEY_ID}");
    let settings = [endpoint.as_str(), id.as_str(), secret.as_str(), "--s3-allow-http"];
    let place = "s3://backups/of/today";
    fn with<'a>(args: &[&'a str], settings: &[&'a str]) -> Vec<&'a str> {
        [args, settings].concat()
    }

    let refused = source.command(&["backup", "--to", place]).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("--s3-endpoint"), "{refused:?}");
    source.command(&with(&["backup", "--to", place], &settings)).await.succeeded();
    let again = source.command(&with(&["backup", "--to", place], &settings)).await;
    assert!(again.code() == Some(2) && again.stderr.contains("is not empty"), "{again:?}");
    let verified = gateway(folder.path(), &with(&["backup", "verify", place], &settings)).await.succeeded();
    assert!(verified.stdout.starts_with("whole: "), "{}", verified.stdout);

    // Data from a bucket is verified like data from a disk.
    let object = folder.path().join("backups/of/today/group-0001.state");
    let whole = fs::read(&object).unwrap();
    let mut damaged = whole.clone();
    *damaged.last_mut().unwrap() ^= 1;
    fs::write(&object, damaged).unwrap();
    let refused = gateway(folder.path(), &with(&["backup", "verify", place], &settings)).await;
    assert!(refused.code() == Some(2) && refused.stderr.contains("today/group-0001.state"), "{refused:?}");
    fs::write(&object, whole).unwrap();

    // A node also takes a backup by an operator's request.
    let operator = source.operator(1, &tenant.client);
    let own = folder.path().join("own").display().to_string();
    for wrong in ["own", "s3://backups/of/tomorrow"] {
        let refused = operator.post("/v1/admin/backup", json!({ "to": wrong })).await;
        refused.expect_error(400, "bad_request");
    }
    let begun = operator.post("/v1/admin/backup", json!({ "to": own })).await.expect(202);
    let path_of_job = format!("/v1/admin/backup/jobs/{}", string(&begun["job_id"]));
    eventually("the job is done", seconds(60), async || {
        let job = operator.get(&path_of_job).await.expect(200);
        check(job["state"] == "done", job.to_string())
    })
    .await;
    gateway(folder.path(), &["backup", "verify", &own]).await.succeeded();

    let master_key = source.data().join("master.key");
    let node = source.node_ids()[0];
    source.kill(node);
    let (mut restored, said) = Grown::restore(place, &master_key, &source, &with(&["--json"], &settings)).await;
    let said: Value = serde_json::from_str(&said.succeeded().stdout).expect("one JSON value and nothing besides");
    assert!(
        said["node"] == 1 && said["channels_stopped"].is_u64() && said["operator_token_file"].is_string(),
        "{said}"
    );
    restored.run(1, 1);
    restored.cluster.wait_ready(1, &restored.client).await;
    let api = restored.cluster.api(1, &restored.client).with_key(&tenant.key);
    let got = fetch(&api, &path(&media), &[]).await;
    assert!(got.status == 200 && got.body == bytes, "{}", got.status);
}
