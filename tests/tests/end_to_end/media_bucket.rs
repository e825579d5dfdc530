//! Media in an S3-compatible bucket, on a real server that the test starts.

use std::path::Path;

use crate::bucket::{ACCESS_KEY_ID, SECRET_ACCESS_KEY, serve};
use serde_json::json;
use tests::cluster::{Cluster, Options, SHARDS};
use tests::http::string;
use tests::media::{fetch, noise, path, upload};
use tests::tenant::Tenant;
use tests::wait::{check, eventually, seconds};

fn objects(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.path().is_dir() {
            found.extend(objects(&entry.path()));
        } else if name.len() == 64 {
            found.push(name);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bucket_keeps_media_in_place_of_the_replicas() {
    let folder = tempfile::tempdir().unwrap();
    // Foreign objects among a shard's objects in the bucket do no harm.
    for shard in 1..=SHARDS {
        let foreign = folder.path().join(format!("media/of/the/test/{shard}/00"));
        std::fs::create_dir_all(&foreign).unwrap();
        std::fs::write(foreign.join("notes.txt"), "of somebody else").unwrap();
    }
    let endpoint = serve(folder.path()).await;
    let options = Options::default()
        .arg("--set=media.store=s3")
        .arg(&format!("--set=media.s3.endpoint={endpoint}"))
        .arg("--set=media.s3.bucket=media")
        .arg(&format!("--set=media.s3.access_key_id={ACCESS_KEY_ID}"))
        .arg(&format!("--set=media.s3.secret_access_key={SECRET_ACCESS_KEY}"))
        .arg("--set=media.s3.prefix=of/the/test")
        .arg("--set=media.s3.allow_http=true")
        .arg("--set=media.sweep_interval=1s")
        .arg("--set=media.orphan_grace=2s");
    let cluster = Cluster::start(options).await;
    let tenant = Tenant::new(&cluster).await;
    let channel = tenant.channel("Pictures").await;

    // One upload in a single request, one in parts.
    for length in [100_000, 12_000_000] {
        let bytes = noise(length, length as u64);
        let made = upload(&tenant.api(1), &channel, "a/b", bytes.clone()).await;
        let bucket = folder.path().join("media/of/the/test");
        assert_eq!(objects(&bucket), [string(&made["sha256"])]);
        let got = fetch(&tenant.api(2), &path(&made), &[]).await;
        assert!(got.status == 200 && got.body == bytes, "{}", got.status);
        let got = fetch(&tenant.api(3), &path(&made), &[("range", "bytes=50000-50009")]).await;
        assert!(got.status == 206 && got.body == bytes[50_000..50_010], "{}", got.status);

        // A second upload of the same bytes adds a reference; the object stays until both are deleted.
        let again = upload(&tenant.api(3), &channel, "a/b", bytes.clone()).await;
        let media = |made: &serde_json::Value| format!("/v1/channels/{channel}/media/{}", string(&made["id"]));
        assert_eq!(tenant.any().delete(&media(&made)).await.status, 204);
        assert!(fetch(&tenant.api(2), &path(&again), &[]).await.body == bytes);
        assert_eq!(tenant.any().delete(&media(&again)).await.status, 204);
        eventually("the object is swept", seconds(40), async || check(objects(&bucket).is_empty(), "an object")).await;
        fetch(&tenant.api(2), &path(&again), &[]).await.expect_error(410, "media_gone");
    }
    assert_eq!(tenant.any().get(&format!("/v1/channels/{channel}/media")).await.expect(200)["data"], json!([]));
}
