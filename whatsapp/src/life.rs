//! The life of a session on its thread: open, pair, log in, live, end.

use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hyper::header::{HeaderName, HeaderValue};
use model::id::NodeId;
use network::driver::{AuthError, EndReason, Identity, InboundKind, Outbound, Purpose, RESTORED, SessionEvent};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use wacore::store::DevicePropsOverride;
use wacore::store::commands::DeviceCommand;
use wacore::store::traits::LidPnMappingEntry;
use waproto::whatsapp::device_props::PlatformType;
use whatsapp_rust::cache_config::{CacheConfig, CacheEntryConfig};
use whatsapp_rust::store::persistence_manager::PersistenceManager;
use whatsapp_rust::{Client, NodeFilter};

use crate::inbound::events::{Events, Pairing};
use crate::inbound::hook::Hook;
use crate::inbound::message;
use crate::line::{Line, end_of};
use crate::operations::Operations;
use crate::outbound::Outgoing;
use crate::state::backend::{Backend, THINNED_ABOVE, THINNED_TO};
use crate::state::keys;
use crate::telemetry::{self, Living};
use crate::threads::SessionRuntime;
use crate::verdict;
use crate::version::{self, ClientVersion, Versions};
use crate::wire::dial::{Endpoint, Way};
use crate::wire::http::Http;
use crate::wire::transport::Dialler;

/// How often the library's background saver checks for a changed device. Sending bytes stores the device before that.
const SAVE_EVERY: Duration = Duration::from_secs(30);

/// How long group receipts wait for the acceptance of a message that an earlier session may have sent. The outbox
/// resends unaccepted messages right after the login, and the network answers.
const SETTLED_AFTER: Duration = Duration::from_secs(10);

/// How often a live session checks itself.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// Every how many checks a session's memory is measured, and above how many bytes it logs in again with empty caches.
const WEIGHED_EVERY: u32 = 10;
const LARGEST_SESSION: u64 = 16 << 20;

/// The first check that may end a session for its memory, after an hour: its working set is cached again soon, and the
/// customer sees each end.
const RENEWED_AFTER: u32 = 120;

/// By how much both prekey watermarks rise at least after a restore: an id must never be uploaded with two keys.
const PREKEYS_AHEAD: u32 = 20_000;

/// Range of the random part of that rise: if the same backup is restored twice, each restore offers other keys.
const PREKEYS_APART: u32 = 1_000_000;
const HIGHEST_PREKEY: u32 = 16_777_215;

/// How long a session that ended by itself waits for its last state to be stored.
const STORED_WITHIN: Duration = Duration::from_secs(2);

/// How long the network may take to send the first QR text.
const QR_WITHIN: Duration = Duration::from_secs(60);

/// A refused login so soon after the pairing means that the network never completed the pairing.
const FRESH: Duration = Duration::from_secs(60);

/// The parts that a session is made of.
pub struct Birth {
    pub line: Arc<Line>,
    pub node: NodeId,
    pub purpose: Purpose,
    pub endpoint: Endpoint,
    /// The route of all traffic of the session.
    pub way: Way,
    pub versions: Arc<Versions>,
    pub runtime: SessionRuntime,
    pub outgoing: Arc<Outgoing>,
    pub messages: mpsc::Receiver<Box<Outbound>>,
    pub operations: Arc<Operations>,
    /// Publishes the client, which the owner's calls use.
    pub clients: tokio::sync::watch::Sender<Option<Arc<Client>>>,
}

/// Runs a session to its end. On return its state log and its line are closed.
pub async fn live(birth: Birth) {
    let line = Arc::clone(&birth.line);
    let _living = Living::begin();
    line.log().live_here();
    let writer = tokio::spawn(Arc::clone(line.log()).write());
    let clients = birth.clients.clone();
    let (versions, endpoint) = (Arc::clone(&birth.versions), birth.endpoint.clone());
    let version = versions.now();
    let lived = tokio::select! {
        lived = run(birth, version) => lived,
        () = line.stopped().cancelled() => Ok(()),
        error = line.log().poisoned() => Err(end_of(error)),
    };
    let lived_well = lived.is_ok();
    let end = lived.err().unwrap_or_else(|| EndReason::Transport("the connection ended".into()));
    line.note_end(end.clone());
    // A session with a stored device could have logged in: this counts as a failed login.
    if !line.is_logged_in() && line.log().has(keys::DEVICE) {
        telemetry::not_logged_in(line.end().as_ref());
    }
    if line.is_outdated() {
        let newest = Box::pin(version::newest(&endpoint));
        tokio::select! {
            is_known = versions.is_later_known(version, newest) => if is_known { line.soften_outdated() },
            () = line.stopped().cancelled() => {}
        }
    }
    if lived_well {
        // Stores what the end itself has written. A session that was cut has nothing more to store.
        let _ = tokio::time::timeout(STORED_WITHIN, line.log().flush()).await;
    }
    line.cut(end);
    line.close_events();
    // The owner's handle outlives the session, and must not keep the client alive.
    if let Some(client) = clients.send_replace(None) {
        client.signal_shutdown_sync();
    }
    // The writer ends when the log is closed.
    let _ = writer.await;
}

async fn run(birth: Birth, version: ClientVersion) -> Result<(), EndReason> {
    let Birth { line, node, purpose, endpoint, way, runtime, outgoing, messages, operations, clients, .. } = birth;
    let pairs = matches!(purpose, Purpose::Pair { .. });
    let backend = Arc::new(backend(&line));
    if pairs && !line.log().has(keys::DEVICE) {
        backend.forget_all().map_err(end_of_store)?;
    }
    let is_restored = line.log().has(RESTORED);
    if is_restored {
        backend.begin_anew().map_err(end_of_store)?;
    }
    line.inbox().take_up().map_err(end_of)?;
    let is_open = operations.take_up().map_err(end_of)?;
    if !pairs && !line.log().has(keys::DEVICE) {
        return Err(EndReason::AuthState("no credentials are stored".into()));
    }
    let devices = Arc::new(PersistenceManager::new(backend.clone()).await.map_err(end_of_store)?);
    if is_open {
        backend.forget_groups().map_err(end_of_store)?;
    }
    backend.thin(THINNED_ABOVE, THINNED_TO).map_err(end_of_store)?;
    let way = Arc::new(way);
    let dialler = Arc::new(Dialler {
        line: Arc::clone(&line),
        backend: Arc::clone(&backend),
        devices: Arc::clone(&devices),
        endpoint,
        way: Arc::clone(&way),
        headers: headers(node, line.epoch()),
        dials: AtomicU32::new(if pairs { 2 } else { 1 }),
    });
    let http = Http::new(way, tokio::runtime::Handle::current());
    let built = Client::builder()
        .with_runtime(runtime)
        .with_persistence_manager(Arc::clone(&devices))
        .with_transport_factory_arc(dialler)
        .with_http_client(http)
        .with_version_override(version.parts())
        .with_cache_config(caches())
        .with_skip_history_sync(true)
        .with_background_saver_interval(SAVE_EVERY)
        .with_inbound_durability_hook(Hook { line: Arc::clone(&line), backend: Arc::clone(&backend) })
        .build()
        .await
        .map_err(|error| EndReason::AuthState(error.to_string()))?;
    let client = built.into_client();
    client.enable_auto_reconnect.store(false, Ordering::Relaxed);
    line.ratchets().are_of(&client);
    let events = Arc::new(Events {
        line: Arc::clone(&line),
        backend: Arc::clone(&backend),
        outgoing: Arc::clone(&outgoing),
        pairing: Pairing::default(),
        backlog: Mutex::default(),
        client: Arc::downgrade(&client),
    });
    client.subscribe_handler(events).detach();
    if let Purpose::Pair { device_name, full_history } = purpose {
        let props = DevicePropsOverride::new().with_os(device_name).with_platform_type(PlatformType::CHROME);
        client.set_device_props(DevicePropsOverride { require_full_sync: Some(full_history), ..props }).await;
    }
    if is_restored {
        raise_prekeys(&devices).await;
    }
    clients.send_replace(Some(Arc::clone(&client)));
    let _beside = Beside::start(&line, &client, &backend, &outgoing, messages, &devices);

    if pairs {
        if !line.log().has(keys::DEVICE) {
            line.pairs_for(QR_WITHIN);
            tokio::select! {
                () = client.run() => {}
                () = line.pairing_stalls() => {
                    if line.pairs() && !line.log().has(keys::DEVICE) {
                        line.note_last(SessionEvent::QrTimeout);
                    }
                    return Err(EndReason::Transport("the network does not go on with the pairing".into()));
                }
            }
            if !line.log().has(keys::DEVICE) {
                return Ok(());
            }
        }
        // A stored device can log in, whether the network has heard so or not. An earlier session may have stored it
        // and died before reporting it.
        line.log().barrier().await.map_err(end_of)?;
        line.set_pairs(false);
        line.forget_end();
        line.report(SessionEvent::Paired(Box::new(identity(&client))));
    }
    let paired_at = pairs.then(Instant::now);
    let greeting = client.wait_for_node(NodeFilter::tag("success"));
    let greeted = async {
        if greeting.await.is_ok() {
            line.logged_in();
            telemetry::logged_in();
            line.report(SessionEvent::LoggedIn(Box::new(identity(&client))));
            line.inbox().open();
            outgoing.open();
            let settled = async {
                tokio::time::sleep(SETTLED_AFTER).await;
                line.inbox().settle();
            };
            let declared = async {
                if is_restored && let Err(error) = declare_prekeys(&client, &backend).await {
                    tracing::warn!(%error, "the prekeys of a restored channel could not be declared");
                }
            };
            tokio::join!(settled, declared);
        }
        std::future::pending::<()>().await;
    };
    // The library has no event for this refusal.
    let mut refused = client.wait_for_node(NodeFilter::tag("stream:error").attr("code", verdict::TOO_MANY.to_string()));
    let is_too_many = tokio::select! {
        () = client.run() => matches!(refused.try_recv(), Ok(Some(_))),
        Ok(_) = &mut refused => true,
        () = greeted => false,
    };
    if is_too_many {
        line.note_too_many_logins();
    }
    if paired_at.is_some_and(|at| at.elapsed() < FRESH) && !line.is_logged_in() {
        line.soften_unlinked();
    }
    Ok(())
}

/// Maps a failure of the library's store. If the store below is unreachable, the stored state is not at fault.
fn end_of_store(error: impl Error + 'static) -> EndReason {
    let mut cause: Option<&(dyn Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        if let Some(below) = error.downcast_ref::<AuthError>() {
            return end_of(below.clone());
        }
        cause = error.source();
    }
    EndReason::AuthState(error.to_string())
}

/// Creates the store, which reports each new pair of a LID and a phone number.
fn backend(line: &Arc<Line>) -> Backend {
    let told: Weak<Line> = Arc::downgrade(line);
    let on_pair = move |pair: &LidPnMappingEntry| {
        let lid = message::address(&wacore_binary::Jid::lid(pair.lid.as_str()));
        let phone = message::address(&wacore_binary::Jid::pn(pair.phone_number.as_str()));
        if let (Some(line), Some(lid), Some(phone)) = (told.upgrade(), lid, phone) {
            line.keep(None, model::time::Timestamp::now(), InboundKind::LidDisclosed { lid, phone });
        }
    };
    Backend::new(Arc::clone(line.log()), Box::new(on_pair))
}

fn identity(client: &Client) -> Identity {
    Identity {
        phone_number: client.pn().map(|pn| pn.user.to_string()).unwrap_or_default(),
        lid: client.lid().and_then(|lid| message::address(&lid)),
        push_name: Some(client.push_name()).filter(|name| !name.is_empty()),
    }
}

async fn raise_prekeys(devices: &PersistenceManager) {
    let next = devices.get_device_snapshot().next_pre_key_id;
    let ahead = (next + PREKEYS_AHEAD + rand::random_range(0..PREKEYS_APART)) % HIGHEST_PREKEY + 1;
    let command = DeviceCommand::SetPreKeyWatermarks { next_pre_key_id: ahead, first_unupload_pre_key_id: ahead };
    devices.process_command(command).await;
}

/// Uploads prekeys that a restored channel can use, in addition to those uploaded after its backup. If the session ends
/// before, the next one repeats the restore and the upload.
async fn declare_prekeys(client: &Client, backend: &Backend) -> anyhow::Result<()> {
    client.refresh_pre_keys().await?;
    Ok(backend.has_begun_anew()?)
}

/// Headers that name the owner of the session, for the ledger of a test network. The real network gets none.
fn headers(node: NodeId, epoch: u64) -> Vec<(HeaderName, HeaderValue)> {
    if cfg!(feature = "testnet") {
        return vec![
            (HeaderName::from_static("x-gateway-node"), HeaderValue::from(node)),
            (HeaderName::from_static("x-gateway-epoch"), HeaderValue::from(epoch)),
        ];
    }
    Vec::new()
}

/// Sizes of the library's caches, for a thousand sessions in a process.
fn caches() -> CacheConfig {
    const HOUR: Option<Duration> = Some(Duration::from_secs(3_600));
    CacheConfig {
        group_cache: CacheEntryConfig::new(HOUR, 64),
        device_registry_cache: CacheEntryConfig::new(HOUR, 512),
        recent_messages: CacheEntryConfig::new(HOUR, 0),
        // The rows record who has a group's key. The library's cache would forget a device under only one of its names.
        sender_key_devices_cache: CacheEntryConfig::new(HOUR, 0),
        session_locks_capacity: 2_000,
        // Each lane takes about 30 KiB, used or not. Busy lanes may exceed this capacity.
        chat_lanes_capacity: 32,
        resend_rate_limiter_capacity: 256,
        sent_message_ttl_secs: 7 * 86_400,
        seed_msg_secrets_from_history: false,
        ..CacheConfig::default()
    }
}

/// Background tasks that live as long as the session.
struct Beside(Vec<tokio::task::JoinHandle<()>>);

impl Beside {
    fn start(
        line: &Arc<Line>,
        client: &Arc<Client>,
        backend: &Arc<Backend>,
        outgoing: &Arc<Outgoing>,
        messages: mpsc::Receiver<Box<Outbound>>,
        devices: &Arc<PersistenceManager>,
    ) -> Self {
        let (pumped, asked, weighed) = (Arc::clone(line), Arc::clone(client), Arc::clone(client));
        let pump = tokio::spawn(async move { pumped.inbox().pump(&pumped, &asked).await });
        let (outgoing, client, backend) = (Arc::clone(outgoing), Arc::clone(client), Arc::clone(backend));
        let write = tokio::spawn(async move { outgoing.write(&client, &backend, messages).await });
        let (line, devices) = (Arc::clone(line), Arc::clone(devices));
        let look = tokio::spawn(async move {
            for look in 1_u32.. {
                tokio::time::sleep(LOOK_EVERY).await;
                if devices.is_saver_halted() {
                    line.cut(EndReason::AuthState("the device could not be stored".into()));
                }
                if look.is_multiple_of(WEIGHED_EVERY) {
                    weigh(&line, &weighed, look).await;
                }
            }
        });
        Self(vec![pump, write, look])
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Records a session's memory as the library reports it. Above the limit it logs in again, once no item waits.
async fn weigh(line: &Line, client: &Arc<Client>, look: u32) {
    let report = Box::pin(client.memory_report()).await;
    metrics::histogram!("gateway_whatsapp_session_bytes").record(report.total_estimated_bytes() as f64);
    // LIDs do not count: each login reads them again.
    let lids = report.lid_pn_lid_entries.bytes + report.lid_pn_pn_entries.bytes;
    let bytes = report.total_estimated_bytes().saturating_sub(lids);
    if is_to_begin_anew(look, bytes) && line.is_logged_in() && !line.is_behind() {
        tracing::warn!(bytes, "a session uses too much memory, and logs in again");
        // Disconnecting ends the session, and with it this task; so it runs in a task of its own.
        let client = Arc::clone(client);
        tokio::spawn(async move { client.disconnect().await });
    }
}

fn is_to_begin_anew(look: u32, bytes: u64) -> bool {
    look >= RENEWED_AFTER && bytes > LARGEST_SESSION
}

#[cfg(test)]
mod tests {
    use wacore::store::error::StoreError;

    use super::*;

    #[test]
    fn a_store_that_cannot_be_reached_says_nothing_of_what_is_stored() {
        let failed = |error: AuthError| end_of_store(StoreError::Database(Box::new(error)));
        assert_eq!(failed(AuthError::Fenced), EndReason::Fenced);
        assert!(matches!(failed(AuthError::Unavailable("for now".into())), EndReason::Transport(_)));
        assert!(matches!(failed(AuthError::Unreadable("damaged".into())), EndReason::AuthState(_)));
        assert!(matches!(end_of_store(StoreError::Validation("damaged".into())), EndReason::AuthState(_)));
    }

    #[test]
    fn a_session_that_is_large_by_nature_logs_in_anew_once_an_hour_and_not_at_each_look() {
        let mut weighed = (1_u32..).filter(|look| look.is_multiple_of(WEIGHED_EVERY));
        let first = weighed.find(|look| is_to_begin_anew(*look, LARGEST_SESSION + 1));
        assert_eq!(first.map(|look| LOOK_EVERY * look), Some(Duration::from_secs(3_600)));
        assert!(!is_to_begin_anew(u32::MAX, LARGEST_SESSION));
    }
}
