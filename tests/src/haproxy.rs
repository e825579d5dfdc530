//! HAProxy in front of a cluster, with the configuration from `deploy`.

use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::cluster::Cluster;
use crate::sources::checkout;

/// How long HAProxy may take until it listens.
const START: Duration = Duration::from_secs(10);

/// A running HAProxy, which is stopped on drop.
#[derive(Debug)]
pub struct Haproxy {
    /// The port on which it listens.
    pub port: u16,
    child: Child,
    _folder: TempDir,
}

impl Haproxy {
    /// Starts HAProxy with the configuration in `deploy/haproxy`, for the addresses of this cluster and machine.
    ///
    /// # Panics
    /// If HAProxy is not installed.
    pub fn start(cluster: &Cluster) -> Self {
        let path = checkout().join("deploy/haproxy/haproxy.cfg");
        let mut text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for node in cluster.dev().nodes {
            let (deployed, own) = (format!("10.0.0.{}:8080", node.id), node.api.replace("http://", ""));
            assert!(text.contains(&deployed), "{deployed} is in {}", path.display());
            text = text.replace(&deployed, &own);
        }
        assert!(text.contains("bind :8080\n") && text.contains("maxconn 20000\n"), "{text}");
        let user = "    user haproxy\n    group haproxy\n";
        assert!(text.contains(user), "{text}");
        // Tests may run without root, so HAProxy cannot change its user.
        let text = text.replace(user, "");
        // Each connection takes two file descriptors, and a test may not be allowed to raise its limit.
        let text = text.replace("maxconn 20000\n", "maxconn 1000\n");
        Self::run(|port| text.replace("bind :8080\n", &format!("bind 127.0.0.1:{port}\n")))
    }

    /// Starts HAProxy with a configuration for a free port, and returns when it listens.
    ///
    /// # Panics
    /// If HAProxy is not installed, or does not listen in time.
    pub fn run(configuration: impl FnOnce(u16) -> String) -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
        let port = free.expect("a port is free").port();
        let file = folder.path().join("haproxy.cfg");
        std::fs::write(&file, configuration(port)).expect("the folder can be written");
        let log = File::create(folder.path().join("haproxy.log")).expect("the folder can be written");
        let mut child = Command::new("haproxy")
            .arg("-db")
            .arg("-f")
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("haproxy can be started: make deps installs it");
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = child.try_wait().expect("a child can be waited for");
            if ended.is_some() || started.elapsed() > START {
                let log = std::fs::read_to_string(folder.path().join("haproxy.log")).unwrap_or_default();
                panic!("haproxy does not listen ({ended:?}): {log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Self { port, child, _folder: folder }
    }
}

impl Drop for Haproxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
