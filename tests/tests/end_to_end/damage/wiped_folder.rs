//! A node returns with an empty data folder, next to one that was down and lacks acknowledged writes. The vote of the
//! empty node does not count, so no acknowledged write is lost.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::json;
use tests::cluster::{Cluster, Options, wait_gone};
use tests::http::{Api, client, string};
use tests::wait::{check, eventually};

/// How long a wiped node may take until all have told it that it may not take part, and it exits.
const ENDED: Duration = Duration::from_secs(90);
const WITHIN: Duration = Duration::from_secs(60);

struct Story {
    cluster: Cluster,
    /// Paths of the created resources (201), all of them in the directory.
    made: Vec<String>,
}

impl Story {
    fn customer(&self, node: u64) -> Api {
        Api::new(client(), &self.cluster.node(node).api, Some(&self.cluster.dev().api_key))
    }

    async fn write(&mut self, node: u64) {
        let api = self.customer(node);
        for n in 0..4 {
            let (path, body) = match n {
                0 => ("/v1/channels", json!({ "name": "kept" })),
                _ => ("/v1/api-keys", json!({ "name": format!("key {n}"), "scopes": ["messages.read"] })),
            };
            // The directory may first have to elect a leader.
            let made = eventually("it is answered 201", WITHIN, async || {
                let made = api.post(path, body.clone()).await;
                if made.status == 201 { Ok(made.json()) } else { Err(made.text()) }
            });
            self.made.push(format!("{path}/{}", string(&made.await["id"])));
        }
    }

    async fn start(&self, node: u64) {
        self.cluster.command(&["dev", "start", &node.to_string()]).await.succeeded();
    }

    /// `away` is down while the others accept writes. Then all die, `wiped` loses its folder, and they start in
    /// `order`.
    async fn happens(&mut self, away: u64, wiped: u64, writer: u64, order: &[&[u64]]) {
        let what = format!("{away} was away, {wiped} is wiped, {writer} wrote; started {order:?}");
        println!("{what}");
        self.cluster.kill(away);
        self.write(writer).await;
        self.cluster.kill_all(&[writer, wiped]);
        let folder = self.cluster.node(wiped).data;
        let aside = folder.with_extension("aside");
        fs::rename(&folder, &aside).unwrap();

        for at_once in order {
            join_all(at_once.iter().map(|node| self.start(*node))).await;
        }
        for node in [away, writer] {
            self.cluster.wait_ready(node, &client()).await;
            let api = self.customer(node);
            for path in &self.made {
                let asked = format!("{what}: node {node} answers for {path}");
                let found = eventually(&asked, WITHIN, async || {
                    let found = api.get(path).await;
                    if found.status == 503 { Err(found.text()) } else { Ok(found) }
                })
                .await;
                assert_eq!(found.status, 200, "{what}: node {node} has lost {path}: {}", found.text());
            }
        }
        self.are_equal([away, writer]).await;

        // The wiped node is told why it may not take part, and exits.
        wait_gone(self.cluster.node(wiped).pid, ENDED);
        let log = fs::read_to_string(self.cluster.node(wiped).log).unwrap();
        assert!(log.contains("it was wiped or exchanged"), "{what}: node {wiped} does not say why it ended");
        fs::remove_dir_all(&folder).unwrap();
        fs::rename(&aside, &folder).unwrap();
        self.cluster.restart(&[wiped]).await;
    }

    /// Waits until the nodes' directories have the same position and hash.
    async fn are_equal(&self, nodes: [u64; 2]) {
        eventually("the directories are equal", WITHIN, async || {
            let mut hashes: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            for node in nodes {
                let answer = self.cluster.operator(node, &client()).get("/v1/admin/replicas").await.expect(200);
                let rows = answer["data"].as_array().cloned().unwrap_or_default();
                let row = rows.into_iter().find(|row| row["shard"] == 0).unwrap_or_default();
                let applied = row["applied"].as_u64().unwrap_or_default();
                hashes.entry(applied).or_default().push(string(&row["state_hash"]));
            }
            for (applied, hashes) in &hashes {
                assert!(
                    hashes.iter().all(|hash| *hash == hashes[0]),
                    "the directories differ at {applied}: {hashes:?}"
                );
            }
            check(hashes.len() == 1, format!("{hashes:?}"))
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_when_a_node_comes_back_wiped_beside_one_that_was_away() {
    let mut story = Story { cluster: Cluster::start(Options::default()).await, made: Vec::new() };
    story.happens(2, 3, 1, &[&[2, 3], &[1]]).await;
    let seed: u64 = rand::random();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    for at_once in [3, 2] {
        let mut nodes = [1, 2, 3];
        nodes.shuffle(&mut random);
        let [away, wiped, writer] = nodes;
        nodes.shuffle(&mut random);
        let (first, rest) = nodes.split_at(at_once);
        story.happens(away, wiped, writer, &[first, rest]).await;
    }
}
