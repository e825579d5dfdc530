//! Arguments of `gateway backup` and `gateway restore`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use super::joining::{NewClusterArgs, NodeArgs};
use super::operator::OperatorArgs;

/// Location of a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    Folder(PathBuf),
    Bucket { bucket: String, prefix: String },
}

impl FromStr for Location {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(rest) = text.strip_prefix("s3://") else {
            return match text.split_once("://") {
                Some((scheme, _)) => Err(format!("{scheme}:// is not supported; give a folder, or s3://BUCKET/PREFIX")),
                None => Ok(Self::Folder(text.into())),
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if bucket.is_empty() || prefix.is_empty() {
            return Err("give each backup its own prefix in the bucket: s3://BUCKET/PREFIX".to_owned());
        }
        Ok(Self::Bucket { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Bucket { bucket, prefix } => write!(f, "s3://{bucket}/{prefix}"),
        }
    }
}

/// The service that s3:// stands for.
#[derive(Args, Clone, Debug, Default)]
pub struct BucketArgs {
    /// The URL of the S3-compatible service
    #[arg(long, value_name = "URL", env = "GATEWAY_S3_ENDPOINT", help_heading = "Bucket")]
    pub s3_endpoint: Option<String>,
    /// Its region
    #[arg(long, value_name = "NAME", env = "GATEWAY_S3_REGION", default_value = "us-east-1", help_heading = "Bucket")]
    pub s3_region: String,
    /// The access key id
    #[arg(long, value_name = "ID", env = "GATEWAY_S3_ACCESS_KEY_ID", help_heading = "Bucket")]
    pub s3_access_key_id: Option<String>,
    /// The file that holds the secret access key
    #[arg(long, value_name = "FILE", env = "GATEWAY_S3_SECRET_ACCESS_KEY_FILE", help_heading = "Bucket")]
    pub s3_secret_access_key_file: Option<PathBuf>,
    /// Put the bucket into the host name instead of the path, as Amazon's service requires
    #[arg(long, help_heading = "Bucket")]
    pub s3_virtual_hosts: bool,
    /// Allow http://
    #[arg(long, help_heading = "Bucket")]
    pub s3_allow_http: bool,
}

#[derive(Args, Debug)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "The cluster keeps running. Secrets stay encrypted: keep the master key apart from the backup.\n\n\
        Examples:\n  \
        gateway backup --to /backup/2026-11-21\n  \
        gateway backup verify /backup/2026-11-21\n  \
        export GATEWAY_S3_ENDPOINT=https://s3.example.com\n  \
        export GATEWAY_S3_ACCESS_KEY_ID=gateway\n  \
        export GATEWAY_S3_SECRET_ACCESS_KEY_FILE=/etc/gateway/s3.key\n  \
        gateway backup --to s3://backups/gateway/2026-11-21"
)]
pub struct BackupArgs {
    #[command(subcommand)]
    pub command: Option<BackupCommand>,
    /// An empty folder, which is created if needed, or s3://BUCKET/PREFIX with nothing under it
    #[arg(long, value_name = "PLACE", required = true)]
    pub to: Option<Location>,
    #[command(flatten)]
    pub bucket: BucketArgs,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Read a whole backup and say whether it is complete
    #[command(after_help = "Example:\n  gateway backup verify /backup/2026-11-21")]
    Verify {
        /// The folder, or s3://BUCKET/PREFIX
        #[arg(value_name = "PLACE")]
        place: Location,
        #[command(flatten)]
        bucket: BucketArgs,
        /// Print JSON for programs
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Creates a new cluster of one node; add others with `gateway join`. No channel starts by itself: each \
        waits for a `connect`, by which you confirm that the old cluster no longer holds its session.\n\n\
        Example:\n  \
        gateway restore --from /backup/2026-11-21 --master-key-file master.key \\\n      \
        --advertise node-1.lan:8082 --network simulator.lan:8091 \\\n      \
        --base-url https://gateway.example.com\n  \
        gateway run --config /etc/gateway/gateway.toml"
)]
pub struct RestoreArgs {
    /// The backup: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    pub from: Location,
    #[command(flatten)]
    pub bucket: BucketArgs,
    /// The master key of the cluster that was backed up
    #[arg(long, value_name = "FILE")]
    pub master_key_file: PathBuf,
    /// The previous master key, if the backup was taken while the two were exchanged
    #[arg(long, value_name = "FILE")]
    pub previous_master_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub cluster: NewClusterArgs,
    /// Print JSON for programs
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_folder_or_a_prefix_in_a_bucket() {
        assert_eq!("/backup/x".parse(), Ok(Location::Folder("/backup/x".into())));
        let parsed: Result<Location, _> = "s3://backups/gateway/2026/".parse();
        assert_eq!(parsed, Ok(Location::Bucket { bucket: "backups".to_owned(), prefix: "gateway/2026".to_owned() }));
        assert_eq!(parsed.map(|place| place.to_string()), Ok("s3://backups/gateway/2026".to_owned()));
        for wrong in ["s3://", "s3://backups", "s3://backups/", "s3:///x", "https://backups/x"] {
            assert!(wrong.parse::<Location>().is_err(), "{wrong}");
        }
    }
}
