//! Stored records of shards and of the directory. The kind of a row is in its key alone, so each input is parsed as
//! every kind.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::address::Address;
use model::blacklist::Blocked;
use model::business::{Collection, Order, Product};
use model::community::KnownCommunity;
use model::customer::{Limits, Plan, StorageLimits};
use model::event::{EventId, EventName};
use model::format::Format;
use model::group::Group;
use model::id::{
    AuditId, ChannelId, CustomerId, DeliveryId, EndpointId, KeyId, MediaId, MessageId, RowId, SessionId, TicketId,
    TicketMessageId, UserId,
};
use model::label::KnownLabel;
use model::limit::BucketRule;
use model::member::Role;
use model::message::{Content, Surroundings};
use model::newsletter::Newsletter;
use model::payload::{ChatType, ChatTypeFilter};
use model::presence::PresenceState;
use model::privacy::Privacy;
use model::profile::ChannelProfile;
use model::seal::{DataKey, MasterKey, WrappedKey};
use model::status::{Reason, Status};
use model::ticket::{Author, Category, Priority, TicketStatus};
use model::webhook::{DeliveryState, EventFilter, Outcome};
use network::driver::ReceiptStatus;
use raft::directory::authority::{AuthorityRotation, AuthorityStep};
use raft::directory::health::EndpointHealth;
use raft::directory::layout::{LayoutRecord, MoveRecord, MoveState};
use raft::directory::members::{AuthorityRecord, JoinToken, NodeState, RemovedNode};
use raft::directory::records::{
    AuditActor, AuditEntry, AuditTarget, ChannelRecord, ClusterRecord, CustomerRecord, DisabledReason, EndpointRecord,
    KeyOrigin, KeyRecord, NodeRecord, PlacementRecord, SealedKey, StreamedRecord,
};
use raft::directory::secrets::{DataKeyRotation, FormerSessionKey, MasterExchange, SessionKey};
use raft::directory::support::{TicketBook, TicketMessage, TicketRecord};
use raft::directory::users::{PasswordHash, SessionRecord, UserRecord, Verification};
use raft::record::{encode, read as read_record};
use serde::Serialize;
use serde::de::DeserializeOwned;
use shard::deliveries::command::{BulkAction, BulkOperation};
use shard::history::{Direction, MessageStatus, Source};
use shard::media::record::{MediaDirection, MediaRow};
use shard::projection::chats::{ChatRow, LastInbound, LastOutbound};
use shard::projection::contacts::ContactRow;
use shard::projection::labels::Association;
use shard::projection::presences::Watched;
use shard::projection::{BusinessAccount, OrderPlace, PostedStory, StoryView};
use shard::records::{
    AttemptRow, AttemptTrigger, BegunAttempt, ChannelRow, DeliveryRow, EventRow, Failure, GroupProgress, LastAttempt,
    LidRow, Manual, MessagePointer, MessageRow, MessageState, OutboxEntry, ReceiptRow, StatusChange,
};
use shard::settings::SettingsRow;
use shard::stream::ring::RingExtent;
use shard::stream::{StreamedEvent, Ticket};
use shard::usage::UsageRow;
use uuid::Uuid;

use super::targets::NOW;

/// Parses a row as one kind. A parsed row must survive being encoded and parsed again.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    if let Ok(row) = read_record::<T>(bytes) {
        let again = encode(&row);
        let row: T = read_record(&again).expect("what was written can be read");
        assert_eq!(encode(&row), again, "a row is written as it was read");
    }
}

/// Every kind of row in a shard's state, except plain numbers and keys.
const SHARD: &[fn(&[u8])] = &[
    read::<ChannelRow>,
    read::<MessageRow>,
    read::<MessageState>,
    read::<MessagePointer>,
    read::<ReceiptRow>,
    read::<OutboxEntry>,
    read::<StatusChange>,
    read::<LidRow>,
    read::<Address>,
    read::<EventRow>,
    read::<DeliveryRow>,
    read::<BegunAttempt>,
    read::<AttemptRow>,
    read::<BulkOperation>,
    read::<MediaRow>,
    read::<UsageRow>,
    read::<i64>,
    read::<StreamedEvent>,
    read::<RingExtent>,
    read::<u64>,
    read::<Ticket>,
    // Rows of the projection.
    read::<Group>,
    read::<KnownCommunity>,
    read::<Newsletter>,
    read::<ChatRow>,
    read::<LastInbound>,
    read::<LastOutbound>,
    read::<ContactRow>,
    read::<Blocked>,
    read::<PresenceState>,
    read::<Watched>,
    read::<ChannelProfile>,
    read::<Privacy>,
    read::<PostedStory>,
    read::<StoryView>,
    read::<BusinessAccount>,
    read::<Product>,
    read::<Collection>,
    read::<Order>,
    read::<OrderPlace>,
    read::<KnownLabel>,
    read::<Association>,
    read::<SettingsRow>,
];

/// Every kind of record in the directory, except the replies kept for repeated proposals.
const DIRECTORY: &[fn(&[u8])] = &[
    read::<ClusterRecord>,
    read::<NodeRecord>,
    read::<RemovedNode>,
    read::<JoinToken>,
    read::<AuthorityRecord>,
    read::<PlacementRecord>,
    read::<LayoutRecord>,
    read::<CustomerRecord>,
    read::<KeyRecord>,
    read::<EndpointRecord>,
    read::<ChannelRecord>,
    read::<UserRecord>,
    read::<SessionRecord>,
    read::<StreamedRecord>,
    read::<AuditEntry>,
    read::<TicketRecord>,
    read::<TicketMessage>,
    read::<TicketBook>,
];

/// A row of a shard's state.
pub(super) fn shard(bytes: &[u8]) {
    SHARD.iter().for_each(|read| read(bytes));
}

/// A record of the directory.
pub(super) fn directory(bytes: &[u8]) {
    DIRECTORY.iter().for_each(|read| read(bytes));
}

const CHANNEL: [u8; 16] = [1; 16];
const CUSTOMER: [u8; 16] = [2; 16];
const ENDPOINT: [u8; 16] = [3; 16];
const ROW: [u8; 16] = [4; 16];

fn channel() -> ChannelId {
    ChannelId::from_bytes(CHANNEL)
}

fn customer() -> CustomerId {
    CustomerId::from_bytes(CUSTOMER)
}

fn endpoint() -> EndpointId {
    EndpointId::from_bytes(ENDPOINT)
}

fn phone(text: &str) -> Address {
    Address::parse(text).expect("an address")
}

fn alice() -> Address {
    phone("15551234567@s.example")
}

fn bob() -> Address {
    phone("15557654321@s.example")
}

/// An outbound text message.
pub(super) fn message() -> MessageRow {
    MessageRow {
        id: RowId::from_bytes(ROW),
        message_id: MessageId::mint([1; 18]),
        channel: channel(),
        direction: Direction::Outbound,
        source: Source::Api,
        chat: bob(),
        is_group: false,
        from: alice(),
        from_resolved: true,
        from_lid: None,
        from_phone: Some(alice()),
        to: bob(),
        participant: None,
        push_name: Some("Alice".to_owned()),
        content: Content::Text { text: "hi".into() },
        around: Surroundings::default(),
        client_ref: Some("order 7".to_owned()),
        request_id: None,
        correlation_id: "c-1".to_owned(),
        occurred_at: NOW,
        created_at: NOW,
    }
}

pub(super) fn shard_examples() -> Vec<Vec<u8>> {
    let (alice, bob, message) = (alice(), bob(), message());
    let (message_id, event_id) = (message.message_id.clone(), EventId::mint(NOW, [5; 10]));
    let state = MessageState {
        status: MessageStatus::Failed,
        status_at: NOW,
        error: Some(Failure::new("recipient_not_found", "nobody has this number")),
        group: Some(GroupProgress { members: Some(5), delivered: 3, read: 2, played: 0 }),
    };
    let delivery = DeliveryRow {
        id: DeliveryId::from_bytes(ROW),
        endpoint: endpoint(),
        customer: customer(),
        channel: channel(),
        event: EventName::MessageReceived,
        event_id: event_id.clone(),
        message_id: Some(message_id.clone()),
        correlation_id: None,
        chat: Some(bob.clone()),
        url: "https://hooks.example/in".to_owned(),
        state: DeliveryState::Retrying,
        attempt_count: 2,
        scheduled: 1,
        next_attempt_at: Some(NOW),
        delivered_at: None,
        created_at: NOW,
        last: Some(LastAttempt { started_at: NOW, outcome: Outcome::Http, http_status: Some(500), latency_ms: 12 }),
        manual: Some(Manual { resume_at: Some(NOW) }),
    };
    let attempt = AttemptRow {
        number: 2,
        trigger: AttemptTrigger::Manual,
        started_at: NOW,
        latency_ms: 12,
        elapsed_ms: 20,
        outcome: Outcome::Timeout,
        http_status: None,
        response_headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
        response_body: Some("no".to_owned()),
        remote_ip: Some("192.0.2.1".to_owned()),
        error: None,
    };
    let bulk = BulkOperation {
        id: Uuid::from_u128(6),
        customer: customer(),
        endpoint: endpoint(),
        work: BulkAction::Recover { since: NOW, events: vec![EventName::MessageReceived] },
        states: vec![DeliveryState::Exhausted],
        until: NOW,
        reached: Some(Bytes::from_static(b"key")),
    };
    let media = MediaRow::new(
        MediaId::new(),
        customer(),
        channel(),
        MediaDirection::Upload,
        "image/png",
        NOW,
        std::time::Duration::ZERO,
    );
    let change = StatusChange {
        from: Status::Pending,
        to: Status::Qr,
        reason: Reason::Created,
        at: NOW,
        node_id: 1,
        epoch: 3,
        details: None,
    };
    let streamed = StreamedEvent {
        customer: customer(),
        id: event_id,
        name: EventName::MessageReceived,
        channel: channel(),
        chat: ChatType::Direct,
        at: NOW,
        body: Bytes::from_static(b"{}"),
    };
    vec![
        encode(&ChannelRow::new(channel(), customer())),
        encode(&OutboxEntry::whole(&message)),
        encode(&OutboxEntry::stored(message_id)),
        encode(&EventRow { body: "{}".into(), deliveries: 2 }),
        message.encode().to_vec(),
        encode(&message),
        encode(&state),
        encode(&MessagePointer { occurred_at: NOW, row: RowId::from_bytes(ROW), outbox: Some(7) }),
        encode(&ReceiptRow { member: bob.clone(), status: ReceiptStatus::Read, at: NOW }),
        encode(&change),
        encode(&LidRow { phone: alice.clone(), first_seen_at: NOW }),
        encode(&delivery),
        encode(&BegunAttempt { due: NOW, trigger: AttemptTrigger::Scheduled, started_at: NOW }),
        encode(&attempt),
        encode(&bulk),
        // A fixed id, since a new row draws a random one.
        encode(&MediaRow { id: MediaId::from_bytes(ROW), ..media }),
        encode(&UsageRow::default()),
        encode(&streamed),
        encode(&RingExtent { first: 1, next: 9 }),
        encode(&Ticket { grant: Bytes::from_static(b"grant"), expires_at: NOW }),
        encode(&LastInbound { chat: bob.clone(), at: NOW }),
        encode(&Watched { id: bob, used_at: NOW }),
        encode(&OrderPlace { order: "7".to_owned(), row: "r".to_owned() }),
        encode(&SettingsRow::default()),
    ]
}

fn sealed_key() -> SealedKey {
    SealedKey { wrapped_by: wrapped(), sealed: vec![9; 40] }
}

fn wrapped() -> WrappedKey {
    MasterKey::new([7; 32]).wrap(&DataKey::new([8; 32]), customer(), [0; 24])
}

pub(super) fn directory_examples() -> Vec<Vec<u8>> {
    [cluster_examples(), account_examples(), ticket_examples()].concat()
}

/// Records of the cluster and its nodes.
fn cluster_examples() -> Vec<Vec<u8>> {
    let storage = Uuid::from_u128(7);
    let cluster = ClusterRecord {
        cluster_id: Uuid::from_u128(5),
        shard_count: 3,
        slots: vec![1, 2, 3],
        deployment_key: sealed_key(),
        formed_at: NOW,
        format: Format::SECOND,
        exchange: Some(MasterExchange { from: MasterKey::new([6; 32]).id(), began_at: NOW, ended_at: None }),
        data_keys: Some(DataKeyRotation {
            began_at: NOW,
            changed_at: Some(NOW),
            resealed: [1, 3].into(),
            resealed_at: None,
            ended_at: None,
        }),
        session_key: Some(SessionKey { sealed: vec![7; 9], since: NOW, former: FormerSessionKey::Derived }),
    };
    let node = NodeRecord {
        id: 1,
        storage_id: storage,
        peer: "127.0.0.1:8201".to_owned(),
        zone: Some("a".to_owned()),
        weight: 2,
        max_channels: 1_000,
        registered_at: NOW,
        state: NodeState::Draining,
        configured_weight: 1,
    };
    let place = PlacementRecord { shard: 2, replicas: vec![1, 2, 3], leader: 2, formed: true, settled: false };
    let step = MoveRecord { state: MoveState::Running, ..MoveRecord::waiting(&place, vec![2, 3, 4], 3) };
    let layout = LayoutRecord {
        number: 4,
        moves: vec![step],
        at_once: 2,
        automatic: false,
        began_at: NOW,
        ended_at: None,
        cancelled_at: Some(NOW),
    };
    vec![
        encode(&ClusterRecord {
            format: Format::FIRST,
            exchange: None,
            session_key: None,
            data_keys: None,
            ..cluster.clone()
        }),
        encode(&cluster),
        encode(&node),
        encode(&RemovedNode { id: 4, storage_id: storage, removed_at: NOW }),
        encode(&JoinToken {
            hash: [3; 32],
            created_at: NOW,
            expires_at: NOW,
            used_by: Some(storage),
            asked_again: true,
        }),
        encode(&AuthorityRecord {
            certificate: "-----BEGIN CERTIFICATE-----".to_owned(),
            key: sealed_key(),
            rotated_at: Some(NOW),
            rotation: Some(AuthorityRotation {
                began_at: NOW,
                step: AuthorityStep::Overlapping { former: "-----BEGIN CERTIFICATE-----".to_owned() },
            }),
        }),
        encode(&place),
        encode(&layout),
    ]
}

/// Records of customers.
fn account_examples() -> Vec<Vec<u8>> {
    let account = CustomerRecord {
        id: customer(),
        name: "Acme".to_owned(),
        email: Some("ops@acme.example".to_owned()),
        timezone: "Europe/Vienna".to_owned(),
        plan: Plan { channel_limit: Some(3), ..Plan::default() },
        limits: Limits {
            customer: Some(BucketRule { burst: 5, refill_per_second: 1 }),
            channel: None,
            storage: StorageLimits { keys: Some(2_000), ..StorageLimits::default() },
        },
        data_key: wrapped(),
        former_data_key: Some(Box::new(wrapped())),
        created_at: NOW,
        deleted_at: None,
    };
    let key = KeyRecord {
        id: KeyId::from_bytes(ROW),
        customer_id: customer(),
        name: "Default".to_owned(),
        prefix: "gw_abcd".to_owned(),
        hash: [3; 32],
        channel_id: Some(channel()),
        scopes: vec!["messages:write".to_owned()],
        created_at: NOW,
        expires_at: None,
        last_used_at: Some(NOW),
        revoked_at: None,
        created_by: KeyOrigin::Signup,
        created_by_key_id: None,
    };
    let hook = EndpointRecord {
        id: endpoint(),
        customer_id: customer(),
        channel_id: None,
        url: "https://hooks.example/in".to_owned(),
        events: EventFilter::Only(vec![EventName::MessageReceived]),
        enabled: false,
        secret: Some(vec![1; 60]),
        chat_type_filter: ChatTypeFilter::GroupsOnly,
        disabled_reason: Some(DisabledReason::Failing),
        header_names: vec!["x-token".to_owned()],
        sealed_headers: Some(vec![1; 60]),
        health: EndpointHealth { failing_since: Some(NOW), failures: 20, last_success_at: None },
        created_at: NOW,
        updated_at: NOW,
    };
    let named = ChannelRecord {
        id: channel(),
        customer_id: customer(),
        name: "Front desk".to_owned(),
        metadata: "{}".to_owned(),
        created_at: NOW,
        updated_at: NOW,
        deleted_at: Some(NOW),
    };
    let user = UserRecord {
        id: UserId::from_bytes(ROW),
        customer_id: customer(),
        email: "alice@acme.example".to_owned(),
        password: PasswordHash("$argon2id$v=19$m=8,t=1,p=1$c2FsdA$aGFzaA".to_owned()),
        role: Role::Owner,
        email_verified: false,
        verification: Some(Verification { hash: [4; 32], expires_at: NOW }),
        created_at: NOW,
        last_login_at: None,
    };
    let session = SessionRecord {
        id: SessionId::from_bytes(ROW),
        customer_id: customer(),
        user_id: user.id,
        family: [5; 32],
        token: [6; 32],
        created_at: NOW,
        refreshed_at: NOW,
        expires_at: NOW,
        revoked_at: None,
    };
    let audit = AuditEntry {
        id: AuditId::from_bytes(ROW),
        customer_id: Some(customer()),
        action: "channel.created".to_owned(),
        actor: AuditActor { kind: "api_key".to_owned(), id: Some("k".to_owned()), prefix: None, email: None },
        target: Some(AuditTarget { kind: "channel".to_owned(), id: "c".to_owned(), label: "Front desk".to_owned() }),
        ip: Some("192.0.2.1".to_owned()),
        user_agent: None,
        request_id: Some("req_1".to_owned()),
        success: true,
        created_at: NOW,
        details: BTreeMap::from([("code".to_owned(), "invalid_api_key".to_owned())]),
    };
    vec![
        encode(&account),
        encode(&key),
        encode(&hook),
        encode(&EndpointRecord { events: EventFilter::Every, ..hook }),
        encode(&named),
        encode(&user),
        encode(&session),
        encode(&StreamedRecord { customer: customer(), until: NOW }),
        encode(&audit),
    ]
}

fn ticket_examples() -> Vec<Vec<u8>> {
    let ticket = TicketRecord {
        id: TicketId::from_bytes(ROW),
        customer_id: customer(),
        number: 1,
        subject: "No webhooks".to_owned(),
        category: Category::Webhooks,
        priority: Priority::Urgent,
        status: TicketStatus::Open,
        channel_id: Some(channel()),
        request_id: None,
        created_by: "alice@acme.example".to_owned(),
        created_at: NOW,
        updated_at: NOW,
        messages: 1,
    };
    let message = TicketMessage {
        id: TicketMessageId::from_bytes(ROW),
        author: Author::Customer,
        message: "Since noon.".to_owned(),
        created_at: NOW,
    };
    vec![encode(&ticket), encode(&message), encode(&TicketBook { number: 1, day: 20_454, of_day: 1, open: Some(1) })]
}
