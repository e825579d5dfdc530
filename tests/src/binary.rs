//! Runs the program under test.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::network;

/// Path of the `gateway` program: `GATEWAY_BIN` if set, else the one that cargo built next to the running test.
pub fn gateway() -> PathBuf {
    if let Some(path) = std::env::var_os("GATEWAY_BIN") {
        return path.into();
    }
    beside(network::program())
}

/// Path of another program of this workspace, which is in the same folder as the gateway.
///
/// # Panics
/// If the program does not exist.
pub fn beside(name: &str) -> PathBuf {
    let running = std::env::current_exe().expect("a program knows its own path");
    // The test runs from target/debug/deps/main_job-0123 or as target/debug/gateway-bench.
    let found = running.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("no {name} near {}: build it, or name a gateway in GATEWAY_BIN", running.display()))
}

/// Exit status and output of a finished command.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code; `None` if a signal ended the command.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// # Panics
    /// If the command failed, with its output.
    pub fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}\n--- stdout\n{}\n--- stderr\n{}", self.status, self.stdout, self.stderr);
        self
    }
}

/// Runs `gateway` with these arguments until it ends.
///
/// Output goes to files, since a detached node may hold a pipe of its starter open for its whole life.
///
/// # Panics
/// If the command does not end within `within`; it is killed then.
pub fn run<S: AsRef<OsStr>>(args: &[S], folder: &Path, within: Duration) -> Finished {
    run_with(args, folder, within, &[])
}

/// Like [`run`], with additional environment variables.
pub fn run_with<S: AsRef<OsStr>>(
    args: &[S],
    folder: &Path,
    within: Duration,
    environment: &[(&str, &str)],
) -> Finished {
    run_program(&gateway(), args, folder, within, environment)
}

/// Like [`run_with`], for another program, such as one of another release.
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
