//! `/v1/admin/backup`: what `gateway backup` reads from a running cluster, through any node; and backups that a node
//! takes itself.

use model::error::{CallError, ErrorCode};
use model::field::{Body, rule};
use model::format::Format;
use model::id::ShardId;
use model::media::{LARGEST_MEDIA, Sha256Hex};
use raft::directory::command::Command;
use raft::directory::records::BACKUP_TAKEN;
use salvo::http::header::CONTENT_LENGTH;
use salvo::http::{HeaderValue, StatusCode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use shard::assessment::DIRECTORY;
use uuid::Uuid;

use crate::audit::Target;
use crate::backups::BackupJob;
use crate::query::Query;
use crate::reply::{Outcome, Reply};
use crate::request_context::OperatorCall;
use crate::route::{GET, POST, Route};

/// The longest path of a folder, or of a bucket with a prefix, in characters.
const LONGEST_PLACE: usize = 1024;

const BYTES: &str = "application/octet-stream";

pub fn routes() -> Vec<Route> {
    vec![
        Route::operator(GET, "/v1/admin/backup", show)
            .doc("describe_backup", "Get the contents of a backup of the cluster")
            .ok::<BackupView>(),
        Route::operator(POST, "/v1/admin/backup", begin)
            .doc("take_backup", "Have this node take a backup of the cluster")
            .about(
                "Into an empty folder of the node, or under a prefix of a bucket at the service of its `media.s3`. If \
                 the node stops meanwhile, there is no backup.",
            )
            .body(parse_place, json!({ "to": "s3://backups/gateway/2026-11-21" }))
            .accepted::<BackupJob>(),
        Route::operator(GET, "/v1/admin/backup/jobs/{id}", job)
            .doc("get_backup_job", "Get the state of a backup, from the node that takes it")
            .ok::<BackupJob>(),
        Route::operator(GET, "/v1/admin/backup/groups/{group}", group)
            .hands_out()
            .doc("export_group", "Read the state of a Raft group from the running cluster")
            .about(
                "The state at one moment after the call. For a backup, read the shards first and the directory, number \
                 0, last; that adds an audit entry. Secrets in it are encrypted; everything else is not.",
            )
            .content(BYTES),
        Route::operator(GET, "/v1/admin/backup/media/{shard}/{sha256}", media)
            .hands_out()
            .doc("export_media", "Read stored bytes by their hash")
            .query(size)
            .content(BYTES)
            .errors(&[ErrorCode::MediaGone]),
    ]
}

fn parse_place(body: &Body) -> Result<String, CallError> {
    body.read(|fields| fields.required("to", rule::text(1..=LONGEST_PLACE)))
}

async fn begin(call: &mut OperatorCall) -> Outcome {
    let to = parse_place(&call.object().await?)?;
    let job = call.app.config.backups.begin(&to).map_err(CallError::bad_request)?;
    Ok(Reply::accepted(&job))
}

async fn job(call: &mut OperatorCall) -> Outcome {
    let id: Option<Uuid> = call.id("id");
    let job = id.and_then(|id| call.app.config.backups.job(id));
    Ok(Reply::ok(&job.ok_or_else(|| CallError::not_found("backup_job", call.parameter("id")))?))
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Backup")]
pub struct BackupView {
    /// Id of the cluster.
    #[schemars(with = "String")]
    pub cluster_id: Uuid,
    /// The release of the node that answers.
    pub version: String,
    /// Format of the cluster: which records it may contain.
    // Release 0.1.0 does not send this field.
    #[serde(default)]
    #[schemars(!default)]
    pub format: Format,
    /// Number of shards. The groups to read are the shards, from 1, and the directory, 0.
    pub shards: ShardId,
}

async fn show(call: &mut OperatorCall) -> Outcome {
    let cluster = call.directory().read(|state| state.cluster.clone()).ok_or_else(CallError::no_leader)?;
    let version = env!("CARGO_PKG_VERSION");
    let (cluster_id, shards, format) = (cluster.cluster_id, cluster.shard_count, cluster.format);
    Ok(Reply::ok(&BackupView { cluster_id, version: version.to_owned(), format, shards }))
}

/// The group that the path names: a shard of this cluster, or the directory.
fn known_group(call: &OperatorCall, name: &str) -> Result<ShardId, CallError> {
    let shards = call.directory().read(|state| state.cluster.as_ref().map_or(0, |each| each.shard_count));
    let asked: Option<ShardId> = call.id(name);
    asked
        .filter(|group| *group == DIRECTORY || *group <= shards)
        .ok_or_else(|| CallError::not_found(name, call.parameter(name)))
}

async fn group(call: &mut OperatorCall) -> Outcome {
    let group = known_group(call, "group")?;
    if group == DIRECTORY {
        // The directory is the last part of a backup, so a reader of it may have all of it. The audit entry is written
        // before anything is sent.
        let entry = call.audited_of_cluster(BACKUP_TAKEN, Target::new("cluster", "", "cluster"));
        call.update(Command::Audit, vec![entry]).await?;
    }
    let bytes = call.cluster().exports().open(group).await?;
    Ok(Reply::stream(StatusCode::OK, HeaderValue::from_static(BYTES), bytes))
}

/// Reads the number of bytes, as the row of the media says it.
fn size(query: &Query<'_>) -> u64 {
    query.number("size_bytes", 0, LARGEST_MEDIA as usize).unwrap_or(0) as u64
}

async fn media(call: &mut OperatorCall) -> Outcome {
    let shard = known_group(call, "shard")?;
    let size = call.asked(size)?;
    let sha256: Sha256Hex = Sha256Hex(call.parameter("sha256").to_owned());
    if !sha256.is_well_formed() {
        return Err(CallError::not_found("media", &sha256.0));
    }
    let bytes = call.cluster().media().open_bytes(shard, &sha256, size).await?;
    Ok(Reply::stream(StatusCode::OK, HeaderValue::from_static(BYTES), bytes).with(CONTENT_LENGTH, size.into()))
}
