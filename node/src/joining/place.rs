//! Where `gateway init` and `gateway join` put a node's files: one folder, and its data in another.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::config::Config;
use crate::config::files::PeerIdentity;
use crate::config::{Ops, Peer, Secrets};
use crate::key_files::{sync_folder, write_atomically, write_private};
use crate::refusal::Refusal;

/// The folder of a node's configuration, certificates and keys.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// A folder that holds no node yet. Makes it, for its owner alone.
    ///
    /// # Errors
    /// A [`Refusal`] when it holds one, or cannot be made.
    pub fn choose(folder: &Path) -> Result<Self, Refusal> {
        let subject = format!("--dir {}", folder.display());
        let unusable = |error: std::io::Error| {
            Refusal::new(&subject, error.to_string(), "name a folder that this process may write")
        };
        let folder = std::path::absolute(folder).map_err(unusable)?;
        let place = Self { folder };
        if place.config_file().exists() {
            let problem = "holds a node's configuration already (gateway.toml)";
            return Err(Refusal::new(&subject, problem, "name another folder, or remove that node's files first"));
        }
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&place.folder).map_err(unusable)?;
        Ok(place)
    }

    pub fn config_file(&self) -> PathBuf {
        self.folder.join("gateway.toml")
    }

    pub fn ca_key_file(&self) -> PathBuf {
        self.folder.join("ca.key")
    }

    pub fn operator_token_file(&self) -> PathBuf {
        self.folder.join("operator.token")
    }

    pub fn master_key_file(&self) -> PathBuf {
        self.folder.join("master.key")
    }

    /// A file that the folder keeps while a node joins.
    pub fn asking_file(&self) -> PathBuf {
        self.folder.join("joining.json")
    }

    /// Writes what a node needs, its configuration last: where that stands, all else does.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn write(
        &self,
        identity: &PeerIdentity,
        master_key: &str,
        operator_token: &str,
        mut config: Config,
    ) -> anyhow::Result<()> {
        let peer = Peer {
            ca_file: self.folder.join("ca.pem"),
            cert_file: self.folder.join("node.pem"),
            key_file: self.folder.join("node.key"),
            ..config.peer
        };
        let public = |path: &Path, text: &str| {
            write_atomically(path, text.as_bytes(), 0o644).with_context(|| path.display().to_string())
        };
        public(&peer.ca_file, &identity.ca_pem)?;
        public(&peer.cert_file, &identity.cert_pem)?;
        write_private(&peer.key_file, &identity.key_pem.0)?;
        write_private(&self.master_key_file(), master_key)?;
        write_private(&self.operator_token_file(), operator_token)?;
        config.peer = peer;
        config.ops = Ops { token: None, token_file: Some(self.operator_token_file()), ..config.ops };
        config.secrets = Secrets { master_key: None, master_key_file: Some(self.master_key_file()) };
        sync_folder(&self.folder).context("syncing the folder")?;
        write_private(&self.config_file(), &toml::to_string(&config).context("writing a configuration")?)?;
        sync_folder(&self.folder).context("syncing the folder")
    }
}
