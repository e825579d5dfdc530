//! `[media]`: where media bytes are stored, and for how long.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use shard::bucket::BucketConfig;

use super::values::sections;
use super::{HumanDuration, Secret};

sections! {
    /// `[media]`: storage and retention of media.
    Media {
        store: MediaStore = MediaStore::Local,
        /// Days for which bytes are kept after they were received, 1 to 365.
        retention_days: u16 = 14,
        /// Replaces `retention_days`, for times under a day; used by tests.
        retention: Option<HumanDuration> = None,
        /// How long a media link is valid.
        link_life: HumanDuration = HumanDuration::of_seconds(86_400),
        /// How often a node looks for bytes that it is missing, and for bytes that nothing refers to.
        sweep_interval: HumanDuration = HumanDuration::of_seconds(600),
        /// How long bytes that nothing refers to are kept.
        orphan_grace: HumanDuration = HumanDuration::of_seconds(3600),
        s3: Option<MediaBucket> = None,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MediaStore {
    /// A folder on each replica.
    Local,
    /// The bucket of `[media.s3]`.
    S3,
}

/// `[media.s3]`: a bucket of an S3-compatible service.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct MediaBucket {
    pub endpoint: String,
    pub bucket: String,
    #[serde(default = "region")]
    pub region: String,
    pub access_key_id: String,
    pub secret_access_key: Option<Secret>,
    pub secret_access_key_file: Option<PathBuf>,
    /// Prefix of all object keys.
    #[serde(default = "prefix")]
    pub prefix: String,
    /// Puts the bucket into the URL's path instead of its host name, as most services other than Amazon's require.
    #[serde(default = "super::defaults::on")]
    pub path_style: bool,
    #[serde(default)]
    pub allow_http: bool,
}

impl MediaBucket {
    /// The service's settings for the given bucket, prefix and secret key, which may differ from the configured ones.
    pub fn service(&self, bucket: &str, prefix: &str, secret_access_key: String) -> BucketConfig {
        BucketConfig {
            endpoint: self.endpoint.clone(),
            bucket: bucket.to_owned(),
            region: self.region.clone(),
            access_key_id: self.access_key_id.clone(),
            secret_access_key,
            prefix: prefix.to_owned(),
            path_style: self.path_style,
            allow_http: self.allow_http,
        }
    }
}

fn region() -> String {
    "us-east-1".to_owned()
}

fn prefix() -> String {
    "gateway".to_owned()
}

impl Media {
    /// How long bytes are kept.
    pub fn retention(&self) -> Duration {
        self.retention.map_or(Duration::from_secs(u64::from(self.retention_days) * 86_400), |retention| retention.0)
    }

    /// The bucket, when bytes are kept in one.
    pub fn bucket(&self) -> Option<&MediaBucket> {
        self.s3.as_ref().filter(|_| self.store == MediaStore::S3)
    }
}
