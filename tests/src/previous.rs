//! The previous release, built from its commit, for clusters that are upgraded from it and go back to it.
//!
//! Its sources lie below the target folder, and so does what is compiled of them. The crates of others are those of the
//! present build, linked and not copied: they are compiled once for both, which is nearly all of the time.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sources::checkout;

/// Number and commit, below the lines of its comment.
const RELEASE: &str = include_str!("../previous-release");

/// This repository's own crates: the two releases share none of them.
const OWN: [&str; 8] = ["model", "network", "raft", "shard", "api", "node", "tests", "chaos"];

/// A release that is built.
#[derive(Clone, Debug)]
pub struct Previous {
    pub number: String,
    pub binary: PathBuf,
}

impl Previous {
    /// Builds it, unless that was done before; some three minutes the first time. Blocks the thread. `None` in a tree that
    /// was unpacked without its history, which has no older release.
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
        let present = present_build();
        let target = present.parent().expect("a profile lies in the target folder").join("previous");
        fs::create_dir_all(&target).expect("the target folder can be written");
        // Several test programs may want it at the same time.
        let lock = File::create(target.join("lock")).expect("the target folder can be written");
        lock.lock().expect("the file can be locked");
        let (source, marker) = (target.join("source"), target.join("commit"));
        if fs::read_to_string(&marker).is_ok_and(|unpacked| unpacked == commit) {
            assert!(source.is_dir(), "{} names what is not there: remove it", marker.display());
        } else {
            let _ = fs::remove_file(&marker);
            unpack(&repository, number, commit, &source);
            fs::write(&marker, commit).expect("the target folder can be written");
        }
        link_all(&present, &target.join("debug")).expect("what is compiled can be linked");
        compile(&source, &target);
        Some(Self { number: number.to_owned(), binary: target.join("debug/gateway") })
    }
}

/// The folder that cargo has put the running program's crates in.
fn present_build() -> PathBuf {
    let running = std::env::current_exe().expect("a program knows its own path");
    let deps = running.ancestors().find(|folder| folder.ends_with("deps")).expect("a test lies in cargo's folder");
    deps.parent().expect("deps lies in a profile").to_owned()
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

/// Links what is compiled of other people's crates into another build, where it is not yet.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    let mut shared = HashSet::new();
    for unit in fs::read_dir(from.join(".fingerprint"))? {
        let name = unit?.file_name().into_string().unwrap_or_default();
        let Some((package, hash)) = name.rsplit_once('-') else { continue };
        if OWN.contains(&package) {
            continue;
        }
        shared.insert(hash.to_owned());
        link_folder(&from.join("build").join(&name), &to.join("build").join(&name))?;
        link_folder(&from.join(".fingerprint").join(&name), &to.join(".fingerprint").join(&name))?;
    }
    fs::create_dir_all(to.join("deps"))?;
    for file in fs::read_dir(from.join("deps"))? {
        let file = file?;
        let name = file.file_name().into_string().unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        if stem.rsplit_once('-').is_some_and(|(_, hash)| shared.contains(hash)) {
            link(&file.path(), &to.join("deps").join(&name))?;
        }
    }
    Ok(())
}

/// A folder that is there is left alone: cargo has done with it what it wanted.
fn link_folder(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() || to.is_dir() {
        return Ok(());
    }
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => link_folder(&entry.path(), &target)?,
            false => link(&entry.path(), &target)?,
        }
    }
    Ok(())
}

fn link(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        linked => linked,
    }
}

fn compile(source: &Path, target: &Path) {
    let mut cargo = Command::new("cargo");
    // What cargo has told this test is not for the other build; with it, crates that look at it are compiled again.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if name.starts_with("CARGO_") && !["CARGO_HOME", "CARGO_BUILD_JOBS"].contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    // It has to run, and not to be fast.
    cargo.env("CARGO_PROFILE_DEV_OPT_LEVEL", "0").env("CARGO_TARGET_DIR", target);
    // As the present build has it, whatever that release said: another level would compile RocksDB once more.
    cargo.args(["--config", "profile.dev.package.librocksdb-sys.opt-level=1"]);
    // All members, so that crates have the features that the present build has given them.
    cargo.args(["build", "--quiet", "--locked", "--workspace", "--bin", "gateway"]).current_dir(source);
    let built = cargo.stdin(Stdio::null()).status().expect("cargo can be started");
    assert!(built.success(), "the release in {} cannot be built", source.display());
}
