//! Media survives the loss of a node, is repaired where it is missing or damaged, expires, and may be in a bucket.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::StreamExt;
use reqwest::Body;
use serde_json::json;
use tests::cluster::{Cluster, Options};
use tests::http::{string, time, try_answer};
use tests::media::{bare, fetch, noise, path, sha256, upload};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

/// The file of some bytes on a node.
fn file(cluster: &Cluster, node: u64, bytes: &[u8]) -> PathBuf {
    let hash = sha256(bytes);
    cluster.node(node).data.join("blobs").join(&hash[..2]).join(hash)
}

fn files_under(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| if entry.path().is_dir() { files_under(&entry.path()) } else { 1 }).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn media_outlives_the_node_that_took_it_in_and_reaches_one_that_was_down() {
    let cluster = Cluster::start(Options::default().arg("--set=media.sweep_interval=1s")).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Pictures").await;
    cluster.kill(3);
    let bytes = noise(700_000, 6);
    let made = upload(&tenant.api(1), &channel, "a/b", bytes.clone()).await;
    // An upload is on the disks of a quorum when it is answered.
    assert!(file(&cluster, 1, &bytes).is_file() && file(&cluster, 2, &bytes).is_file());
    cluster.kill(1);
    cluster.restart(&[3]).await;
    eventually("the node that was down has the bytes", seconds(60), async || {
        check(file(&cluster, 3, &bytes).is_file(), "no file")
    })
    .await;
    for node in [2, 3] {
        let got = fetch(&tenant.api(node), &path(&made), &[]).await;
        assert!(got.status == 200 && got.body == bytes, "node {node}: {}", got.status);
    }
    // Each running node has a copy, and any one of them suffices.
    cluster.restart(&[1]).await;
    std::fs::write(file(&cluster, 2, &bytes), noise(700_000, 7)).unwrap();
    std::fs::remove_file(file(&cluster, 3, &bytes)).unwrap();
    for node in [3, 2, 1] {
        let got = fetch(&tenant.api(node), &path(&made), &[("range", "bytes=600000-")]).await;
        assert!(got.status == 206 && got.body == bytes[600_000..], "node {node}: {}", got.status);
    }
    eventually("what was damaged and what was lost is repaired", seconds(30), async || {
        let whole = |node| std::fs::read(file(&cluster, node, &bytes)).is_ok_and(|found| found == bytes);
        check(whole(2) && whole(3), "not yet")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_end_with_their_retention_and_damaged_ones_are_never_served() {
    let options = Options::nodes(1).arg("--set=media.retention=3s").arg("--set=media.sweep_interval=500ms");
    let cluster = Cluster::start(options.arg("--set=media.orphan_grace=1s").arg("--set=media.link_life=8s")).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Pictures").await;
    let api = tenant.any();
    let bytes = noise(100_000, 8);
    let made = upload(&api, &channel, "a/b", bytes.clone()).await;
    let link = path(&made);
    assert_eq!(fetch(&api, &link, &[]).await.status, 200);
    let details = eventually("the bytes are gone", seconds(20), async || {
        let got = fetch(&api, &link, &[]).await;
        if got.status == 410 { Ok(got.expect_error(410, "media_gone")) } else { Err(got.status.to_string()) }
    })
    .await;
    assert_eq!(details["expired_at"], made["expires_at"]);
    assert!(chrono::Utc::now() >= time(&made["expires_at"]));
    let own = format!("/v1/channels/{channel}/media/{}", string(&made["id"]));
    api.get(&own).await.expect_error(410, "media_gone");
    assert_eq!(api.get(&format!("/v1/channels/{channel}/media")).await.expect(200)["data"], json!([]));
    eventually("the file is swept", seconds(20), async || check(!file(&cluster, 1, &bytes).exists(), "a file")).await;
    eventually("the link has ended", seconds(20), async || {
        let got = fetch(&api, &link, &[]).await;
        check(got.status == 401, got.status.to_string())
    })
    .await;
    fetch(&api, &link, &[]).await.expect_error(401, "media_token_expired");

    // Nobody else has a copy, so the response is that the media is gone; the damaged bytes are not served.
    let made = upload(&api, &channel, "a/b", bytes.clone()).await;
    std::fs::write(file(&cluster, 1, &bytes), noise(100_000, 9)).unwrap();
    fetch(&api, &path(&made), &[]).await.expect_error(410, "media_gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_goes_away_in_the_middle_leaves_no_file() {
    let cluster = Cluster::start(Options::nodes(1)).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Pictures").await;
    let temporary = cluster.node(1).data.join("blobs/tmp");
    let started = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(noise(200_000, 10)))]);
    let request = bare(&tenant.any(), &channel, "a/b", Vec::new());
    let request = request.body(Body::wrap_stream(started.chain(futures::stream::pending())));
    let client = tokio::spawn(try_answer(request));
    eventually("the upload has begun", seconds(20), async || check(files_under(&temporary) == 1, "no file")).await;
    client.abort();
    eventually("the file is gone", seconds(20), async || check(files_under(&temporary) == 0, "a file")).await;
    // A crash does not leave a temporary file for long either.
    let started = futures::stream::iter([Ok::<_, std::io::Error>(Bytes::from(noise(200_000, 11)))]);
    let request = bare(&tenant.any(), &channel, "a/b", Vec::new());
    let client = tokio::spawn(try_answer(request.body(Body::wrap_stream(started.chain(futures::stream::pending())))));
    eventually("the upload has begun", seconds(20), async || check(files_under(&temporary) == 1, "no file")).await;
    cluster.kill(1);
    client.abort();
    assert_eq!(files_under(&temporary), 1);
    cluster.restart(&[1]).await;
    assert_eq!(files_under(&temporary), 0);
}
