//! The previous release, built from its commit, for clusters that are upgraded from it and go back to it.
//!
//! It lies below the target folder from then on. The crates of others are those of the present build: they are compiled
//! once for both, which is nearly all of the time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sources::checkout;

/// Number and commit, below the lines of its comment.
const RELEASE: &str = include_str!("../previous-release");

/// A release that is built.
#[derive(Clone, Debug)]
pub struct Previous {
    pub number: String,
    pub binary: PathBuf,
}

impl Previous {
    /// Builds it, unless that was done before; some three minutes. Blocks the thread. `None` in a tree that was unpacked
    /// without its history, which has no older release.
    ///
    /// # Panics
    /// When its commit is not there and cannot be fetched, or it cannot be built.
    pub fn build() -> Option<Self> {
        let line = RELEASE.lines().find(|line| !line.starts_with('#')).expect("a release is named");
        let (number, commit) = line.split_once(' ').expect("a number and a commit");
        let repository = checkout();
        if !repository.join(".git").exists() {
            return None;
        }
        let target = target();
        let folder = target.join("previous").join(commit);
        fs::create_dir_all(&folder).expect("the target folder can be written");
        // Several test programs may want it at the same time.
        let lock = File::create(folder.join("lock")).expect("the target folder can be written");
        lock.lock().expect("the file can be locked");
        let binary = folder.join("gateway");
        if !binary.exists() {
            let source = folder.join("source");
            unpack(&repository, number, commit, &source);
            compile(&repository, &source, &target, &folder);
            fs::rename(folder.join("debug/gateway"), &binary).expect("cargo has built it");
            fs::remove_dir_all(&source).expect("it was just made");
        }
        Some(Self { number: number.to_owned(), binary })
    }
}

/// The folder that cargo has put the running program into.
fn target() -> PathBuf {
    let running = std::env::current_exe().expect("a program knows its own path");
    let deps = running.ancestors().find(|folder| folder.ends_with("deps")).expect("a test lies in cargo's folder");
    deps.ancestors().nth(2).expect("a profile lies in the target folder").to_owned()
}

/// Whether git did it, within two minutes and without a question to anybody.
fn git(repository: &Path, args: &[&str]) -> bool {
    let mut git = Command::new("timeout");
    git.args(["120", "git", "-c"])
        // The clone may be another user's, who let this one run what lies in it.
        .arg("safe.directory=*")
        .arg("-C")
        .arg(repository)
        .args(args)
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null());
    git.status().expect("timeout can be started").success()
}

fn unpack(repository: &Path, number: &str, commit: &str, to: &Path) {
    let is_there = || git(repository, &["cat-file", "-e", &format!("{commit}^{{commit}}")]);
    // A clone of the last commits alone has not this one; its tag may be there where single commits are not given out.
    let fetched = |what: &str| git(repository, &["fetch", "--quiet", "--depth=1", "origin", what]) && is_there();
    assert!(
        is_there() || fetched(commit) || fetched(&format!("refs/tags/v{number}")),
        "release {number} is commit {commit}, which {} has not and cannot fetch from its origin: give it all history, \
         with `git fetch --unshallow` or a clone without --depth",
        repository.display()
    );
    let _ = fs::remove_dir_all(to);
    fs::create_dir_all(to).expect("the target folder can be written");
    let archive = to.with_extension("tar");
    let archived = git(repository, &["archive", "--output", &archive.display().to_string(), commit]);
    assert!(archived, "the commit cannot be read");
    // As of now: cargo goes by the times of files, and must not take them for those of another commit.
    let unpacked = Command::new("tar").arg("-xmf").arg(&archive).arg("-C").arg(to).status();
    assert!(unpacked.expect("tar can be started").success(), "the commit's files cannot be written");
    fs::remove_file(archive).expect("it was just made");
}

fn compile(repository: &Path, source: &Path, target: &Path, folder: &Path) {
    let mut cargo = Command::new("cargo");
    // What cargo has told this test is not for the other build; with it, crates that look at it are compiled again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") && !["CARGO_HOME", "CARGO_BUILD_JOBS"].contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    // Crates of others that the present build has compiled in the same way are there already.
    cargo.env("CARGO_TARGET_DIR", folder).env("CARGO_BUILD_BUILD_DIR", target);
    let manifest = source.join("Cargo.toml");
    let (own, _) = split_at_profile(&manifest);
    let (_, present) = split_at_profile(&repository.join("Cargo.toml"));
    fs::write(&manifest, own + &present).expect("the target folder can be written");
    let rocksdb = target.join("rocksdb/cargo.toml");
    if rocksdb.exists() {
        cargo.arg("--config").arg(rocksdb);
    }
    // All members, so that crates have the features that the present build has given them.
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--bin", "gateway"]).current_dir(source);
    let built = cargo.stdin(Stdio::null()).status().expect("cargo can be started");
    assert!(built.success(), "the release in {} cannot be built", source.display());
}

/// A workspace's manifest up to the profile for tests, and from there on. With the release's own profile, everything would be
/// compiled anew.
fn split_at_profile(manifest: &Path) -> (String, String) {
    let text = fs::read_to_string(manifest).expect("the workspace has a manifest");
    let start = text.find("[profile.dev]").expect("the manifest has a profile for tests");
    (text[..start].to_owned(), text[start..].to_owned())
}
