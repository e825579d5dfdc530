//! Files that `gateway init` and `gateway join` write for a node, except its data: one folder.

use std::path::{Path, PathBuf};

use anyhow::Context;
use model::seal::{Keyring, MasterKey};

use crate::config::files::PeerIdentity;
use crate::config::{Config, Ops, Peer, Secret, Secrets};
use crate::key_files::{make_private_folder, sync_folder, write_atomically, write_private};
use crate::refusal::{Refusal, ensure};

/// Master keys as written to files: hex, one line each.
#[derive(Clone, Debug)]
pub struct MasterKeys {
    pub current: Secret,
    /// The previous master key, while the operator replaces it.
    pub previous: Option<Secret>,
}

impl MasterKeys {
    pub fn of(keyring: &Keyring) -> Self {
        let line = |key: &MasterKey| Secret(format!("{}\n", hex::encode(key.as_bytes())));
        Self { current: line(&keyring.current), previous: keyring.previous.as_ref().map(line) }
    }
}

/// Folder of a node's configuration, certificates and keys.
#[derive(Clone, Debug)]
pub struct Place {
    folder: PathBuf,
}

impl Place {
    /// A folder without a node; it need not exist.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder holds a node's configuration.
    pub fn choose(folder: &Path) -> Result<Self, Refusal> {
        let place = Self { folder: std::path::absolute(folder).map_err(|error| unusable(folder, error))? };
        let problem = "holds a node's configuration already (gateway.toml)";
        let remedy = "name another folder, or remove that node's files first";
        ensure(!place.config_file().exists(), subject(folder), problem, remedy)?;
        Ok(place)
    }

    /// Creates the folder, accessible only to its owner.
    ///
    /// # Errors
    /// A [`Refusal`] when the folder cannot be created.
    pub fn make(&self) -> Result<(), Refusal> {
        make_private_folder(&self.folder).map_err(|error| unusable(&self.folder, error))
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

    pub fn previous_master_key_file(&self) -> PathBuf {
        self.folder.join("master.previous.key")
    }

    /// File that exists while a node is joining.
    pub fn asking_file(&self) -> PathBuf {
        self.folder.join("joining.json")
    }

    /// Makes sure that the folder holds no other master key, which might be the only copy.
    ///
    /// # Errors
    /// A [`Refusal`] when it does, or when the file cannot be read.
    pub fn accepts(&self, keys: &MasterKeys) -> Result<(), Refusal> {
        let file = self.master_key_file();
        let subject = file.display().to_string();
        match std::fs::read_to_string(&file) {
            Ok(kept) if kept.trim() == keys.current.0.trim() => Ok(()),
            Ok(_) => {
                let problem = "is another cluster's master key, perhaps the only copy";
                Err(Refusal::new(subject, problem, "move it away, or name another folder with --dir"))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Refusal::new(subject, error, "name another folder with --dir")),
        }
    }

    /// Writes all files of a node. The configuration is last: if it exists, everything else does.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn write(
        &self,
        identity: &PeerIdentity,
        keys: &MasterKeys,
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
        write_private(&self.master_key_file(), &keys.current.0)?;
        let mut secrets = Secrets { master_key_file: Some(self.master_key_file()), ..Secrets::default() };
        if let Some(previous) = &keys.previous {
            write_private(&self.previous_master_key_file(), &previous.0)?;
            secrets.previous_master_key_file = Some(self.previous_master_key_file());
        }
        write_private(&self.operator_token_file(), operator_token)?;
        config.peer = peer;
        config.ops = Ops { token: None, token_file: Some(self.operator_token_file()), ..config.ops };
        config.secrets = secrets;
        sync_folder(&self.folder).context("syncing the folder")?;
        write_private(&self.config_file(), &toml::to_string(&config).context("writing a configuration")?)?;
        sync_folder(&self.folder).context("syncing the folder")
    }
}

fn subject(folder: &Path) -> String {
    format!("--dir {}", folder.display())
}

fn unusable(folder: &Path, error: std::io::Error) -> Refusal {
    Refusal::new(subject(folder), error, "name a folder that this process can write to")
}
