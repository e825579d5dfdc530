//! Data folders that were restored from an older copy.

use std::fs;

use super::*;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

impl Cluster {
    fn folder(&self, node: NodeId) -> &Path {
        self.folders[&node].path()
    }

    /// The file in which a node keeps another node's sync position.
    fn heard(&self, node: NodeId, of: NodeId) -> Vec<u8> {
        let entries = fs::read_dir(self.folder(node).join("heard")).unwrap().map(|entry| entry.unwrap().path());
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let file = entries.into_iter().find(|path| name(path).starts_with(&format!("{of}-")));
        file.map_or_else(Vec::new, |file| fs::read(file).unwrap())
    }

    /// Why a node stopped, if it did, within the time that it needs to take part.
    async fn given_up(&self, node: NodeId) -> Option<String> {
        let peers = self.peers(node).await;
        let reason = Arc::new(Mutex::new(None));
        let told = reason.clone();
        let fatal: Fatal = Arc::new(move |reason| *told.lock() = Some(reason));
        let host = start_host_with(self.folder(node), &peers, self.limits, self.timing, fatal).await.unwrap();
        let reason = reason.lock().take();
        peers.shutdown().await;
        host.shutdown().await;
        reason
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_put_back_from_an_older_copy_is_refused_by_whoever_leads() {
    let mut cluster = Cluster::start_group(DIRECTORY_GROUP, Timing::LAN, &[1, 2, 3], LogLimits::default()).await;
    cluster.put("a", "1").await;
    cluster.stop(3).await;
    let older = tempfile::tempdir().unwrap();
    copy(cluster.folder(3), older.path());

    cluster.run(3).await;
    cluster.put("b", "2").await;
    let deadline = soon();
    while cluster.group(3).reader().get(b"key/b").is_none() {
        assert!(Instant::now() < deadline, "node 3 does not follow");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The first update may date from the node's start and say no more than the copy has; the second one says more.
    for key in ["d", "e"] {
        let before = cluster.heard(1, 3);
        cluster.put(key, "4").await;
        while cluster.heard(1, 3) == before {
            assert!(Instant::now() < deadline, "node 3 does not say how far it has synced");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    cluster.stop(3).await;
    let newest = tempfile::tempdir().unwrap();
    copy(cluster.folder(3), newest.path());
    // The newest folder is accepted, whether or not the other nodes run.
    assert_eq!(cluster.given_up(3).await, None);

    // From here on, no leader remembers in memory what node 3 had acknowledged.
    for node in [1, 2] {
        cluster.stop(node).await;
    }
    for node in [1, 2] {
        cluster.run(node).await;
    }
    cluster.put("c", "3").await;
    for (folder, refused) in [(&older, true), (&newest, false)] {
        fs::remove_dir_all(cluster.folder(3)).unwrap();
        copy(folder.path(), cluster.folder(3));
        let reason = cluster.given_up(3).await;
        assert_eq!(reason.is_some(), refused, "{reason:?}");
        assert!(reason.is_none_or(|reason| reason.contains("put back from an older copy")));
    }
    cluster.shutdown().await;
}
