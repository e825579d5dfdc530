//! A node with damaged files, or files that cannot grow, stops and names them; the others go on, and the node can
//! return.
//! - [`wiped_folder`]: a node that returns with an empty folder.

mod wiped_folder;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;
use tests::binary::{self, Finished};
use tests::cluster::{Cluster, Options};
use tests::http::{Api, client};
use tests::wait::{check, eventually};

/// How long a node may take to notice damaged files on a busy machine.
const NOTICED: Duration = Duration::from_secs(90);
const VICTIM: u64 = 3;

/// The files in a folder with this extension, the largest first.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == ending)).collect();
    found.sort_by_key(|path| std::cmp::Reverse(fs::metadata(path).unwrap().len()));
    assert!(!found.is_empty(), "no .{ending} in {}", folder.display());
    found
}

fn flip(file: &Path, at: usize) {
    let mut bytes = fs::read(file).unwrap();
    bytes[at] ^= 0x10;
    fs::write(file, bytes).unwrap();
}

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

fn replace(folder: &Path, by: &Path) {
    fs::remove_dir_all(folder).unwrap();
    copy(by, folder);
}

/// Runs the victim until it exits by itself.
async fn run(cluster: &Cluster) -> Finished {
    let folder = cluster.data().to_owned();
    let config = folder.join(format!("node-{VICTIM}.toml"));
    let args = vec!["run".to_owned(), format!("--config={}", config.display())];
    tokio::task::spawn_blocking(move || binary::run(&args, &folder, NOTICED)).await.unwrap()
}

/// The bytes that a node has recorded of the victim's log.
fn heard(cluster: &Cluster, node: u64) -> Vec<u8> {
    let entries = fs::read_dir(cluster.node(node).data.join("heard")).unwrap().map(|entry| entry.unwrap().path());
    let of_victim = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(&format!("{VICTIM}-"));
    entries.into_iter().find(of_victim).map_or_else(Vec::new, |path| fs::read(path).unwrap())
}

fn customer(cluster: &Cluster, node: u64) -> Api {
    Api::new(client(), &cluster.node(node).api, Some(&cluster.dev().api_key))
}

/// Writes to the directory through this API.
async fn writes(api: &Api, count: usize) {
    for n in 0..count {
        let made = api.post("/v1/api-keys", json!({ "name": format!("key {n}"), "scopes": ["messages.read"] })).await;
        assert_eq!(made.status, 201, "{}", made.text());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_damaged_files_refuses_them_by_name_and_comes_back_with_whole_ones() {
    let cluster = Cluster::start(Options::default()).await;
    let api = customer(&cluster, 1);
    writes(&api, 5).await;
    // Data that is in write-ahead files at a kill is moved to tables at the next start.
    cluster.kill(VICTIM);
    cluster.restart(&[VICTIM]).await;
    writes(&api, 5).await;
    cluster.kill(VICTIM);

    let folder = cluster.node(VICTIM).data;
    let whole = cluster.data().join("whole");
    copy(&folder, &whole);
    type Damage = fn(&Path) -> PathBuf;
    let damages: [(&str, Damage); 6] = [
        ("a bit of the log's write-ahead file", |folder| {
            let file = files(&folder.join("raft"), "log").remove(0);
            flip(&file, fs::metadata(&file).unwrap().len() as usize / 2);
            file
        }),
        ("the log's write-ahead file cut in half", |folder| {
            let file = files(&folder.join("raft"), "log").remove(0);
            let length = fs::metadata(&file).unwrap().len();
            fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
            file
        }),
        ("the log is gone", |folder| {
            fs::remove_dir_all(folder.join("raft")).unwrap();
            folder.join("raft")
        }),
        ("a bit in the log's tables", |folder| {
            files(&folder.join("raft"), "sst").iter().for_each(|file| flip(file, 20));
            folder.join("raft")
        }),
        ("a bit in the state's tables", |folder| {
            files(&folder.join("data"), "sst").iter().for_each(|file| flip(file, 20));
            folder.join("data")
        }),
        ("a table of the state is missing", |folder| {
            let file = files(&folder.join("data"), "sst").remove(0);
            fs::remove_file(&file).unwrap();
            folder.join("data").join(file.file_name().unwrap())
        }),
    ];
    for (what, damage) in damages {
        replace(&folder, &whole);
        let file = damage(&folder);
        let refused = run(&cluster).await;
        let told = format!("{}{}", refused.stdout, refused.stderr);
        assert!(matches!(refused.code(), Some(2 | 3)), "{what}: {:?}\n{told}", refused.code());
        let file = file.strip_prefix(&folder).unwrap().display().to_string();
        assert!(told.contains(&file), "{what}: {file} is not named\n{told}");
        writes(&api, 2).await;
    }
    replace(&folder, &whole);
    cluster.restart(&[VICTIM]).await;
    writes(&customer(&cluster, VICTIM), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_put_back_from_an_older_copy_is_refused() {
    let cluster = Cluster::start(Options::default()).await;
    let api = customer(&cluster, 1);
    // From here on another node leads the directory, and knows how far this one has synced.
    cluster.kill(VICTIM);
    let folder = cluster.node(VICTIM).data;
    let older = cluster.data().join("older");
    copy(&folder, &older);
    cluster.restart(&[VICTIM]).await;
    // At its start it reported the state that the copy has, too.
    let heard = heard(&cluster, 1);
    writes(&api, 20).await;
    eventually("the others have heard how far it has synced", NOTICED, async || {
        check(heard != self::heard(&cluster, 1), "nothing new")
    })
    .await;
    cluster.kill(VICTIM);

    let newest = cluster.data().join("newest");
    copy(&folder, &newest);
    replace(&folder, &older);
    let refused = run(&cluster).await;
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert_eq!(refused.code(), Some(3), "{told}");
    assert!(told.contains("put back from an older copy"), "{told}");
    writes(&api, 2).await;

    // The next leader has never heard from the node; the recorded position convicts the copy.
    cluster.kill_all(&[1, 2]);
    replace(&folder, &older);
    cluster.restart(&[1, 2]).await;
    let refused = run(&cluster).await;
    let told = format!("{}{}", refused.stdout, refused.stderr);
    assert_eq!(refused.code(), Some(3), "{told}");
    assert!(told.contains("put back from an older copy") && told.contains("knows that this node had synced"), "{told}");

    replace(&folder, &newest);
    cluster.restart(&[VICTIM]).await;
    writes(&customer(&cluster, VICTIM), 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_whose_disk_takes_no_more_stops_names_the_file_and_catches_up_later() {
    let cluster = Cluster::start(Options::default()).await;
    cluster.kill(VICTIM);
    // No file of the node can grow beyond 200 KiB: later writes fail as on a full disk.
    let script = r#"trap "" XFSZ; ulimit -f 400; exec "$0" run --config="$1""#;
    let config = cluster.data().join(format!("node-{VICTIM}.toml"));
    let log = cluster.data().join("full.log");
    let mut node = Command::new("sh")
        .args(["-c", script])
        .arg(binary::gateway())
        .arg(config)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let api = customer(&cluster, 1);
    let end = Instant::now() + NOTICED;
    let status = loop {
        writes(&api, 5).await;
        if let Some(status) = node.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < end, "it still runs");
    };
    let told = fs::read_to_string(&log).unwrap();
    assert_eq!(status.code(), Some(3), "{told}");
    assert!(told.contains("File too large") && told.contains(&format!("node-{VICTIM}/")), "{told}");
    writes(&api, 5).await;
    cluster.restart(&[VICTIM]).await;
    let keys = customer(&cluster, 1).get("/v1/api-keys").await.json();
    assert_eq!(customer(&cluster, VICTIM).get("/v1/api-keys").await.json(), keys);
}
