//! Storage of a backup: a folder, or a prefix in a bucket. Its parts are streamed.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytes::{Buf, Bytes};
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use reqwest::Response;
use shard::bucket::{Bucket, BucketConfig, BucketError};
use tokio::io::AsyncWriteExt;
use tokio::runtime::Handle;
use url::Url;

use crate::cli::backup::{BucketArgs, Location};
use crate::config::{Media, files, validate};
use crate::key_files::{is_empty_folder, sync_folder, write_atomically};
use crate::refusal::{Refusal, ensure};

/// Timeout of the next piece of a part.
const PIECE: Duration = Duration::from_secs(60);

/// Size of one range request to a bucket.
const RANGE: u64 = 8 << 20;

/// The storage of one backup.
#[derive(Clone)]
pub struct Depot {
    place: Place,
    /// The location as the operator named it.
    location: Location,
}

#[derive(Clone)]
enum Place {
    Folder(PathBuf),
    Bucket(Bucket),
}

impl Depot {
    /// Opens a location without accessing it; `settings` returns the settings of a bucket and prefix.
    ///
    /// # Errors
    /// A [`Refusal`] when a bucket's settings are missing or invalid.
    pub fn at(
        location: &Location,
        settings: impl FnOnce(&str, &str) -> Result<BucketConfig, Refusal>,
    ) -> Result<Self, Refusal> {
        let place = match location {
            Location::Folder(folder) => Place::Folder(folder.clone()),
            Location::Bucket { bucket, prefix } => {
                let config = settings(bucket, prefix)?;
                let opened = Bucket::open(&config)
                    .map_err(|error| Refusal::new("--s3-endpoint", error, "correct the bucket's settings"))?;
                Place::Bucket(opened)
            }
        };
        Ok(Self { place, location: location.clone() })
    }

    /// Path or URL of a part, for messages.
    pub fn shown(&self, name: &str) -> String {
        match &self.place {
            Place::Folder(folder) => folder.join(name).display().to_string(),
            Place::Bucket(_) => format!("{}/{name}", self.location),
        }
    }

    /// Makes sure that the location is empty; creates a folder if it is missing.
    ///
    /// # Errors
    /// A [`Refusal`] when the location is not empty or cannot be used.
    pub async fn begin(&self) -> Result<(), Refusal> {
        let subject = format!("--to {}", self.location);
        let is_empty = match &self.place {
            Place::Folder(folder) => usable(folder),
            Place::Bucket(bucket) => {
                bucket.list("").next().await.transpose().map(|found| found.is_none()).map_err(io::Error::from)
            }
        };
        match is_empty {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::new(&subject, "is not empty", "name an empty place; each backup needs its own")),
            Err(error) => Err(Refusal::new(&subject, error, "name a place that this process can write to")),
        }
    }

    /// Writes the body of a response as a part, and replaces an existing one.
    ///
    /// # Errors
    /// The body is cut off or cannot be written; the part may then be incomplete.
    pub async fn keep(&self, name: &str, answer: Response) -> anyhow::Result<()> {
        let mut pieces = bounded(answer);
        match &self.place {
            Place::Folder(folder) => write_file(&folder.join(name), pieces).await,
            Place::Bucket(bucket) => bucket.put(name, &mut pieces).await.map_err(anyhow::Error::from),
        }
        .with_context(|| self.shown(name))
    }

    /// Removes these parts if they exist, and the folders that are empty afterwards.
    ///
    /// # Errors
    /// A part cannot be removed.
    pub async fn remove(&self, names: impl Iterator<Item = String>) -> anyhow::Result<()> {
        for name in names {
            match &self.place {
                Place::Folder(folder) => remove_file(folder, &name).with_context(|| self.shown(&name))?,
                Place::Bucket(bucket) => match bucket.delete(&name).await {
                    Ok(()) | Err(BucketError::Missing) => {}
                    Err(error) => return Err(error).with_context(|| self.shown(&name)),
                },
            }
        }
        Ok(())
    }

    /// Syncs everything that was written, then writes the part that marks the backup as complete.
    ///
    /// # Errors
    /// Something cannot be written.
    pub async fn conclude(&self, name: &str, text: Vec<u8>) -> anyhow::Result<()> {
        match &self.place {
            Place::Folder(folder) => {
                sync_all(folder).context("syncing the backup")?;
                write_atomically(&folder.join(name), &text, 0o600).with_context(|| self.shown(name))?;
                sync_folder(folder).context("syncing the backup")
            }
            Place::Bucket(bucket) => {
                let whole = stream::iter([Ok(Bytes::from(text))]);
                bucket.put(name, whole).await.with_context(|| self.shown(name))
            }
        }
    }

    /// Opens a part for reading. Blocks; for a bucket, it must run on a blocking thread within a runtime.
    ///
    /// # Errors
    /// The part is missing or cannot be read.
    pub fn open(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        match &self.place {
            Place::Folder(folder) => Ok(Box::new(BufReader::with_capacity(1 << 20, File::open(folder.join(name))?))),
            Place::Bucket(bucket) => {
                let runtime = Handle::current();
                let size = runtime.block_on(bucket.size(name))?;
                let (bucket, name) = (bucket.clone(), name.to_owned());
                Ok(Box::new(Object { runtime, bucket, name, read_up_to: 0, size, left: Bytes::new() }))
            }
        }
    }
}

/// A bucket of the service that the flags describe.
///
/// # Errors
/// A [`Refusal`] that names the flag.
pub fn by_flags(bucket: &str, prefix: &str, args: &BucketArgs) -> Result<BucketConfig, Refusal> {
    fn given<T: Clone>(flag: &str, value: &Option<T>) -> Result<T, Refusal> {
        value.clone().ok_or_else(|| Refusal::new(flag, "is missing", "give it, or set its variable (see --help)"))
    }
    let endpoint = given("--s3-endpoint", &args.s3_endpoint)?;
    let url =
        Url::parse(&endpoint).map_err(|error| Refusal::new("--s3-endpoint", error, "give an http or https URL"))?;
    let is_allowed = url.scheme() == "https" || (url.scheme() == "http" && args.s3_allow_http);
    ensure(is_allowed, "--s3-endpoint", "is not https", "use https, or give --s3-allow-http")?;
    let flag = "--s3-secret-access-key-file";
    let path = given(flag, &args.s3_secret_access_key_file)?;
    let secret = fs::read_to_string(&path).map_err(|error| {
        Refusal::new(format!("{flag} {}", path.display()), error, "name a file that this process can read")
    })?;
    Ok(BucketConfig {
        endpoint,
        bucket: bucket.to_owned(),
        region: args.s3_region.clone(),
        access_key_id: given("--s3-access-key-id", &args.s3_access_key_id)?,
        secret_access_key: secret.trim().to_owned(),
        prefix: prefix.to_owned(),
        path_style: !args.s3_virtual_hosts,
        allow_http: args.s3_allow_http,
    })
}

/// A bucket of the service configured for media, whether or not media is stored there.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn by_config(bucket: &str, prefix: &str, media: &Media) -> Result<BucketConfig, Refusal> {
    let remedy = "describe the service there, also where media do not lie in it";
    let s3 = media.s3.as_ref().ok_or_else(|| Refusal::new("media.s3", "is missing", remedy))?;
    validate::bucket(s3)?;
    Ok(s3.service(bucket, prefix, files::bucket_secret(s3)?.0))
}

/// The body of a response as a stream, which fails when a piece takes longer than [`PIECE`].
fn bounded(answer: Response) -> BoxStream<'static, io::Result<Bytes>> {
    let next = |mut answer: Response| async move {
        match tokio::time::timeout(PIECE, answer.chunk()).await {
            Ok(Ok(piece)) => Ok(piece.map(|piece| (piece, answer))),
            Ok(Err(error)) => Err(io::Error::other(error)),
            Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("nothing came for {PIECE:?}"))),
        }
    };
    stream::try_unfold(answer, next).boxed()
}

/// Writes a file that only its owner may read.
async fn write_file(path: &Path, mut pieces: BoxStream<'static, io::Result<Bytes>>) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut options = tokio::fs::File::options();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path).await?;
    while let Some(piece) = pieces.try_next().await? {
        file.write_all(&piece).await?;
    }
    Ok(file.flush().await?)
}

/// Removes a file, and its parent folders below `root` that are empty afterwards.
fn remove_file(root: &Path, name: &str) -> io::Result<()> {
    match fs::remove_file(root.join(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed?,
    }
    for folder in Path::new(name).ancestors().skip(1).filter(|folder| !folder.as_os_str().is_empty()) {
        match fs::remove_dir(root.join(folder)) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty) => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// Syncs the files of a folder, recursively.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            sync_all(&path)?;
        }
    }
    sync_folder(folder)
}

/// Reads an object from start to end, one range at a time.
struct Object {
    runtime: Handle,
    bucket: Bucket,
    name: String,
    read_up_to: u64,
    size: u64,
    left: Bytes,
}

impl Read for Object {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.left.is_empty() && self.read_up_to < self.size {
            let to = (self.read_up_to + RANGE).min(self.size);
            let read = self.runtime.block_on(self.bucket.read(&self.name, self.read_up_to..to));
            self.left = read.map_err(|error: BucketError| io::Error::from(error))?;
            self.read_up_to = to;
        }
        let count = into.len().min(self.left.len());
        self.left.copy_to_slice(&mut into[..count]);
        Ok(count)
    }
}

/// Creates a folder and returns whether it is empty. Writes a probe, so that a read-only folder is found before the
/// first part.
fn usable(folder: &Path) -> io::Result<bool> {
    fs::create_dir_all(folder)?;
    let is_empty = is_empty_folder(folder)?;
    if is_empty {
        let probe = folder.join(".probe");
        fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe))?;
    }
    Ok(is_empty)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_written_is_removed_with_its_folders_and_nothing_else() {
        let root = tempfile::tempdir().unwrap();
        let depot = Depot { place: Place::Folder(root.path().into()), location: Location::Folder(root.path().into()) };
        fs::create_dir_all(root.path().join("media/ab")).unwrap();
        for name in ["group-0001.state", "media/ab/abcd", "notes.txt"] {
            fs::write(root.path().join(name), "x").unwrap();
        }
        let names = ["group-0000.state", "group-0001.state", "media/ab/abcd", "media/cd/cdef"];
        depot.remove(names.into_iter().map(str::to_owned)).await.unwrap();
        let left: Vec<_> = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["notes.txt"]);
    }
}
