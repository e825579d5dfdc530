//! The words of `gateway backup` and `gateway restore`.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Subcommand};

use super::joining::{NewClusterArgs, NodeArgs};
use super::operator::OperatorArgs;

/// Where a backup lies.
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
                Some((scheme, _)) => Err(format!("{scheme}:// is not known; give a folder, or s3://BUCKET/PREFIX")),
                None => Ok(Self::Folder(text.into())),
            };
        };
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        if bucket.is_empty() || prefix.is_empty() {
            return Err("a backup has a prefix of its own in its bucket: s3://BUCKET/PREFIX".to_owned());
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
    /// Who writes or reads
    #[arg(long, value_name = "ID", env = "GATEWAY_S3_ACCESS_KEY_ID", help_heading = "Bucket")]
    pub s3_access_key_id: Option<String>,
    /// The file that holds its secret
    #[arg(long, value_name = "FILE", env = "GATEWAY_S3_SECRET_ACCESS_KEY_FILE", help_heading = "Bucket")]
    pub s3_secret_access_key_file: Option<PathBuf>,
    /// Put the bucket into the host name and not into the path, as Amazon's service wants it
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
    after_help = "The cluster runs on meanwhile. What is secret stays sealed: keep the master key apart from the backup.\n\n\
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
    /// An empty folder, which is made if it is not there, or s3://BUCKET/PREFIX with nothing under it
    #[arg(long, value_name = "PLACE", required = true)]
    pub to: Option<Location>,
    #[command(flatten)]
    pub bucket: BucketArgs,
    #[command(flatten)]
    pub operator: OperatorArgs,
}

#[derive(Debug, Subcommand)]
pub enum BackupCommand {
    /// Read a backup through and say whether it is whole
    #[command(after_help = "Example:\n  gateway backup verify /backup/2026-11-21")]
    Verify {
        /// The folder, or s3://BUCKET/PREFIX
        #[arg(value_name = "PLACE")]
        place: Location,
        #[command(flatten)]
        bucket: BucketArgs,
        /// JSON for programs, instead of lines
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args, Clone, Debug)]
#[command(
    after_help = "Makes a new cluster of one node; let others in with `gateway join`. No channel starts by itself: each \
        waits for a `connect`, which says that the old cluster does not hold its session any more.\n\n\
        Example:\n  \
        gateway restore --from /backup/2026-11-21 --master-key-file master.key \\\n      \
        --advertise node-1.lan:8082 --network simulator.lan:8091 \\\n      \
        --base-url https://gateway.example.com\n  \
        gateway run --config /etc/gateway/gateway.toml"
)]
pub struct RestoreArgs {
    /// What `gateway backup` made: a folder, or s3://BUCKET/PREFIX
    #[arg(long, value_name = "PLACE")]
    pub from: Location,
    #[command(flatten)]
    pub bucket: BucketArgs,
    /// The master key of the cluster that the backup is of
    #[arg(long, value_name = "FILE")]
    pub master_key_file: PathBuf,
    /// The one before it, when the backup was taken while the two were exchanged
    #[arg(long, value_name = "FILE")]
    pub previous_master_key_file: Option<PathBuf>,
    #[command(flatten)]
    pub node: NodeArgs,
    #[command(flatten)]
    pub cluster: NewClusterArgs,
    /// JSON for programs, instead of lines
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
