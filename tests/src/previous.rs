//! The previous release, built from its commit, for clusters that are upgraded from it and downgraded to it.
//!
//! The build is kept below the target folder. It shares third-party crates with the present build, so that they are
//! compiled once for both; that is nearly all of the time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sources::checkout;

/// Version number and commit, after the comment lines of the file.
const RELEASE: &str = include_str!("../previous-release");

/// A release that has been built.
#[derive(Clone, Debug)]
pub struct Previous {
    pub number: String,
    pub binary: PathBuf,
}

impl Previous {
    /// Builds the release, unless it is built already; this takes about three minutes and blocks the thread. `None` in
    /// a source tree without git history, which has no older release.
    ///
    /// # Panics
    /// If the commit is missing and cannot be fetched, or the build fails.
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
        // Several test programs may build it at the same time.
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

/// Cargo's target folder, found from the running program.
fn target() -> PathBuf {
    let running = std::env::current_exe().expect("a program knows its own path");
    let deps = running.ancestors().find(|folder| folder.ends_with("deps")).expect("a test lies in cargo's folder");
    deps.ancestors().nth(2).expect("a profile lies in the target folder").to_owned()
}

/// Runs git for at most two minutes, without prompts, and returns whether it succeeded.
fn git(repository: &Path, args: &[&str]) -> bool {
    let mut git = Command::new("timeout");
    git.args(["120", "git", "-c"])
        // The clone may belong to another user, whose programs this user runs anyway.
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
    // A shallow clone lacks the commit. Servers that refuse single commits may still serve its tag.
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
    // Files get the current time (`-m`), so that cargo does not take them for those of another commit.
    let unpacked = Command::new("tar").arg("-xmf").arg(&archive).arg("-C").arg(to).status();
    assert!(unpacked.expect("tar can be started").success(), "the commit's files cannot be written");
    fs::remove_file(archive).expect("it was just made");
}

fn compile(repository: &Path, source: &Path, target: &Path, folder: &Path) {
    let mut cargo = Command::new("cargo");
    // Cargo's variables for this test do not apply to the other build; crates that read them would be recompiled.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") && !["CARGO_HOME", "CARGO_BUILD_JOBS"].contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    // Third-party crates that the present build has compiled with the same settings are reused.
    cargo.env("CARGO_TARGET_DIR", folder).env("CARGO_BUILD_BUILD_DIR", target);
    let manifest = source.join("Cargo.toml");
    let (own, _) = split_at_profile(&manifest);
    let (_, present) = split_at_profile(&repository.join("Cargo.toml"));
    fs::write(&manifest, own + &present).expect("the target folder can be written");
    let rocksdb = target.join("rocksdb/cargo.toml");
    if rocksdb.exists() {
        cargo.arg("--config").arg(rocksdb);
    }
    // Builds all members, so that crates get the same features as in the present build.
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--bin", "gateway"]).current_dir(source);
    let built = cargo.stdin(Stdio::null()).status().expect("cargo can be started");
    assert!(built.success(), "the release in {} cannot be built", source.display());
}

/// Splits a manifest before the profile for tests. The release's own profile would recompile everything.
fn split_at_profile(manifest: &Path) -> (String, String) {
    let text = fs::read_to_string(manifest).expect("the workspace has a manifest");
    let start = text.find("[profile.dev]").expect("the manifest has a profile for tests");
    (text[..start].to_owned(), text[start..].to_owned())
}
