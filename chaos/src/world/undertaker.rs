//! Cleans a world up when its runner ends, whichever way: a process that waits for the end of a pipe.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::Context;

use crate::commands::said;

/// Prefix of all runners' namespaces and bridges, followed by the runner's process id and a letter for each world.
const PREFIX: &str = "gwc";

/// Kills the processes of a folder, removes the namespaces and the bridge of a name, unmounts what is mounted below the
/// folder, and removes the folder or marks it as kept.
const SCRIPT: &str = r#"cat
mine() { ip netns list | cut -d' ' -f1 | grep "^$1-"; }
for n in $(mine "$2"); do ip netns pids "$n" | xargs -r kill -9; done
for f in "$1"/*.pid; do p=$(cat "$f") && [ "$(readlink "/proc/$p/cwd")" = "$1" ] && kill -9 "$p"; done
for n in $(mine "$2"); do ip netns del "$n"; done
ip link del "$2"
for m in $(cut -d' ' -f2 /proc/self/mounts | grep "^$1/"); do umount -l "$m"; done
if [ -n "$3" ]; then touch "$1/kept"; else rm -rf "$1"; fi"#;

/// The name of a world of this runner.
pub fn name(world: u8) -> String {
    format!("{PREFIX}{}{}", std::process::id(), char::from(b'a' + world % 26))
}

/// The folder of the world of this name.
pub fn folder(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("gateway-chaos-{name}"))
}

/// Cleans up when it is dropped, or when this process ends.
#[derive(Debug)]
pub struct Undertaker {
    child: Child,
}

impl Undertaker {
    /// Starts the process that will clean up.
    ///
    /// # Errors
    /// When no shell can be started.
    pub fn start(name: &str, keep: bool) -> anyhow::Result<Self> {
        use std::os::unix::process::CommandExt;
        let mut command = command(name, keep);
        // Ctrl-C ends the runner's process group; this process must outlive it.
        let child = command.stdin(Stdio::piped()).process_group(0).spawn().context("sh cannot be started")?;
        Ok(Self { child })
    }
}

impl Drop for Undertaker {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn command(name: &str, keep: bool) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]).arg(folder(name)).arg(name).args(keep.then_some("keep"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Cleans up after runners that were killed together with their undertakers.
///
/// # Errors
/// When namespaces, bridges or folders cannot be listed.
pub fn remove_leftovers() -> anyhow::Result<()> {
    let named = said("ip", &["netns", "list"])? + &said("ip", &["-brief", "link", "show", "type", "bridge"])?;
    let mut names: BTreeSet<String> = named.lines().filter_map(world_of).collect();
    for entry in std::fs::read_dir(std::env::temp_dir())?.flatten() {
        if entry.path().join("kept").exists() {
            continue;
        }
        names.extend(entry.file_name().to_str().and_then(|found| world_of(found.strip_prefix("gateway-chaos-")?)));
    }
    for name in names.into_iter().filter(|name| !is_alive(name)) {
        command(&name, false).status().context("sh cannot be started")?;
    }
    Ok(())
}

/// The name of the world that a namespace, bridge or folder belongs to.
fn world_of(found: &str) -> Option<String> {
    let rest = found.strip_prefix(PREFIX)?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)?;
    let letter = rest[digits..].chars().next().filter(char::is_ascii_lowercase)?;
    Some(format!("{PREFIX}{}{letter}", &rest[..digits]))
}

/// Whether the runner of a world still lives.
fn is_alive(name: &str) -> bool {
    let runner = name.trim_start_matches(PREFIX).trim_end_matches(|c: char| c.is_ascii_lowercase());
    Path::new("/proc").join(runner).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_runner_has_named_is_its_own() {
        assert_eq!(world_of("gwc123b-4 (id: 2)").as_deref(), Some("gwc123b"));
        assert_eq!(world_of("gwc123b            UP ").as_deref(), Some("gwc123b"));
        for other in ["gwc", "gwcb", "gwc123", "gateway", "docker0"] {
            assert_eq!(world_of(other), None, "{other}");
        }
        assert!(is_alive(&name(0)) && !is_alive("gwc4194999a"));
    }
}
