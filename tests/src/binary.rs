//! The program under test.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::network;

/// The `gateway` program: `GATEWAY_BIN`, else the one that cargo put beside the running test.
pub fn gateway() -> PathBuf {
    if let Some(path) = std::env::var_os("GATEWAY_BIN") {
        return path.into();
    }
    beside(network::program())
}

/// Another program of this workspace, which lies beside the tests as the gateway does.
///
/// # Panics
/// When it is not there.
pub fn beside(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a program knows its own path");
    // target/debug/deps/main_job-0123 or target/debug/gateway-bench
    let found = running.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name} near {}: build it, or name a gateway in GATEWAY_BIN", running.display()))
}

/// What a command that ran to its end left.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code; a command ended by a signal has none.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// # Panics
    /// With both outputs, when the command failed.
    pub fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.stdout, self.stderr);
        self
    }
}

/// Runs `gateway` with these arguments to its end.
///
/// Its output goes through files: a detached node may keep a pipe of its starter open for as long as it lives.
///
/// # Panics
/// When it has not ended within `within`; it is killed then.
pub fn run<S: AsRef<OsStr>>(args: &[S], folder: &Path, within: Duration) -> Finished {
    run_with(args, folder, within, &[])
}

/// As [`run`], with more environment.
pub fn run_with<S: AsRef<OsStr>>(
    args: &[S],
    folder: &Path,
    within: Duration,
    environment: &[(&str, &str)],
) -> Finished {
    run_program(&gateway(), args, folder, within, environment)
}

/// As [`run_with`], of another release, say.
pub fn run_program<S: AsRef<OsStr>>(
    program: &Path,
    args: &[S],
    folder: &Path,
    within: Duration,
    environment: &[(&str, &str)],
) -> Finished {
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let (out, err) = (folder.join(format!("{unique}.out")), folder.join(format!("{unique}.err")));
    let mut child = Command::new(program)
        .args(args)
        .envs(environment.iter().copied())
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(File::create(&out).expect("the folder can be written"))
        .stderr(File::create(&err).expect("the folder can be written"))
        .spawn()
        .expect("gateway can be started");
    let read = |path: &Path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Finished { status, stdout: read(&out), stderr: read(&err) };
        }
        if start.elapsed() > within {
            let _ = child.kill();
            let _ = child.wait();
            let line: Vec<_> = args.iter().map(|arg| arg.as_ref().to_string_lossy()).collect();
            panic!("not ended within {within:?}: gateway {}\n{}\n{}", line.join(" "), read(&out), read(&err));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
