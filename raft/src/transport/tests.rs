//! Peers over real sockets on loopback.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::BytesMut;

use super::admission::Admission;
use super::*;
use crate::testing::{Authority, peers_config};

struct Echo;

#[async_trait::async_trait]
impl Handler for Echo {
    async fn handle(&self, from: NodeId, body: Bytes) -> Bytes {
        let mut out = from.to_string().into_bytes();
        out.push(b':');
        out.extend_from_slice(&body);
        Bytes::from(out)
    }
}

struct Silent(AtomicUsize);

#[async_trait::async_trait]
impl Handler for Silent {
    async fn handle(&self, _: NodeId, _: Bytes) -> Bytes {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

type Addresses = Arc<Mutex<HashMap<NodeId, String>>>;

async fn peers(authority: &Authority, node: NodeId, addresses: &Addresses) -> Arc<Peers> {
    let known = addresses.clone();
    let config =
        PeersConfig { lookup: Arc::new(move |node| known.lock().get(&node).cloned()), ..peers_config(authority, node) };
    let peers = Peers::start(config).await.unwrap();
    addresses.lock().insert(node, peers.local_addr().to_string());
    peers
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(5)
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_reach_a_peer_and_this_node_itself() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let call = |peers: Arc<Peers>, body: &'static [u8]| async move {
        peers.call(2, Class::Call, 300, Bytes::from_static(body), soon()).await
    };
    assert_eq!(call(one.clone(), b"hello").await.unwrap(), "1:hello");
    assert_eq!(call(two.clone(), b"self").await.unwrap(), "2:self");
    let large = Bytes::from(vec![7; 3 << 20]);
    assert_eq!(one.call(2, Class::Call, 300, large.clone(), soon()).await.unwrap().len(), large.len() + 2);
    let unknown = one.call(2, Class::Call, 301, Bytes::new(), soon()).await;
    assert!(matches!(unknown, Err(PeerError::Unreachable(_))), "it may be served yet: {unknown:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_is_gone_fails_calls_at_once_and_is_found_again_when_it_returns() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    let silent = Arc::new(Silent(AtomicUsize::new(0)));
    two.serve(300, silent.clone());
    let waiting = {
        let one = one.clone();
        tokio::spawn(async move { one.call(2, Class::Call, 300, Bytes::new(), soon()).await })
    };
    while silent.0.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    two.shutdown().await;
    drop(two);
    let started = Instant::now();
    assert!(matches!(waiting.await.unwrap(), Err(PeerError::Unreachable(_))));
    assert!(matches!(one.call(2, Class::Call, 300, Bytes::new(), soon()).await, Err(PeerError::Unreachable(_))));
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());

    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let deadline = soon();
    loop {
        match one.call(2, Class::Call, 300, Bytes::new(), soon()).await {
            Ok(answer) => break assert_eq!(answer, "1:"),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_too_long_times_out() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Silent(AtomicUsize::new(0))));
    let deadline = Instant::now() + Duration::from_millis(100);
    assert_eq!(one.call(2, Class::Call, 300, Bytes::new(), deadline).await, Err(PeerError::TimedOut));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewed_certificate_is_shown_from_the_next_connection_on() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let known = addresses.clone();
    let config = PeersConfig {
        tls: authority.issue_until(1, 2001),
        lookup: Arc::new(move |node| known.lock().get(&node).cloned()),
        ..peers_config(&authority, 1)
    };
    let one = Peers::start(config).await.unwrap();
    let call = async || one.call(2, Class::Call, 300, Bytes::new(), soon()).await;
    assert!(call().await.is_err(), "it has expired");
    assert!(one.renew_certificate(&authority.issue(3)).is_err(), "another node's");
    let mixed = PeerTls { key_pem: authority.issue(1).key_pem, ..authority.issue(1) };
    assert!(one.renew_certificate(&mixed).is_err(), "another key");
    assert!(call().await.is_err());
    one.renew_certificate(&authority.issue(1)).unwrap();
    let deadline = soon();
    while let Err(error) = call().await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_with_a_reason() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let call = |config: PeersConfig| {
        let known = addresses.clone();
        async move {
            let config = PeersConfig { lookup: Arc::new(move |node| known.lock().get(&node).cloned()), ..config };
            let peers = Peers::start(config).await.unwrap();
            peers.call(2, Class::Call, 300, Bytes::new(), soon()).await.unwrap_err()
        }
    };

    let mut config = peers_config(&authority, 3);
    config.identity.cluster_id = Uuid::from_u128(99);
    let error = call(config).await;
    assert!(matches!(&error, PeerError::Refused(reason) if reason.contains("cluster")), "{error}");

    let mut config = peers_config(&authority, 4);
    config.admit = Arc::new(|node, _, _, _| Err(format!("node {node} left")));
    let error = call(config).await;
    assert_eq!(error, PeerError::Refused("node 2 left".into()));

    let config = PeersConfig { election_min: Duration::from_millis(1500), ..peers_config(&authority, 9) };
    let error = call(config).await;
    let reason = "node 9 has another cluster.timing: its shortest election takes 1500 ms, not 300";
    assert_eq!(error, PeerError::Refused(reason.into()));

    // Another CA: the handshake fails before the hello.
    let error = call(peers_config(&Authority::new(), 5)).await;
    assert!(matches!(error, PeerError::Unreachable(_)), "{error}");

    // An expired certificate is treated like a foreign one.
    let config = PeersConfig { tls: authority.issue_until(8, 2001), ..peers_config(&authority, 8) };
    let error = call(config).await;
    assert!(matches!(error, PeerError::Unreachable(_)), "{error}");

    // A node refuses to start with a certificate for another node.
    let mut config = peers_config(&authority, 6);
    config.node = 7;
    assert!(matches!(Peers::start(config).await, Err(PeersError::Tls(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_was_let_in_is_cut_off_on_both_sides_when_it_is_found_to_be_foreign() {
    for way in [Way::Accepted, Way::Dialed] {
        let (authority, addresses) = (Authority::new(), Addresses::default());
        let is_foreign = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let judging = is_foreign.clone();
        let judge: Admit = Arc::new(move |node, _, _, seen| match judging.load(Ordering::SeqCst) && seen == way {
            true => Err(format!("node {node} is foreign")),
            false => Ok(()),
        });
        let two = peers(&authority, 2, &addresses).await;
        two.serve(300, Arc::new(Echo));
        let known = addresses.clone();
        let lookup: Lookup = Arc::new(move |node| known.lock().get(&node).cloned());
        // The node that judges is the accepting one or the dialing one.
        let judged = PeersConfig { lookup: lookup.clone(), admit: judge, ..peers_config(&authority, 1) };
        let judging = Peers::start(judged).await.unwrap();
        addresses.lock().insert(1, judging.local_addr().to_string());
        judging.serve(300, Arc::new(Echo));
        let (from, to) = if way == Way::Dialed { (&judging, 2) } else { (&two, 1) };
        from.call(to, Class::Call, 300, Bytes::new(), soon()).await.unwrap();
        is_foreign.store(true, Ordering::SeqCst);
        let deadline = soon();
        while from.call(to, Class::Call, 300, Bytes::new(), soon()).await.is_ok() {
            assert!(Instant::now() < deadline, "{way:?}: it is still spoken with");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_answers_for_another_is_not_believed() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    addresses.lock().insert(9, two.local_addr().to_string());
    let error = one.call(9, Class::Call, 300, Bytes::new(), soon()).await.unwrap_err();
    assert!(matches!(error, PeerError::Unreachable(_)), "{error}");
}

struct Gate;

#[async_trait::async_trait]
impl UnauthenticatedHandler for Gate {
    async fn answer(&self, question: Bytes, _: std::net::IpAddr) -> Bytes {
        Bytes::from([b"asked: ", &question[..]].concat())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_is_answered_and_believes_the_authority_that_it_knows_alone() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let two = peers(&authority, 2, &addresses).await;
    two.serve_unauthenticated(Arc::new(Gate));
    let address = two.local_addr().to_string();
    let known = unauthenticated::authority_hash(&authority.issue(2).ca_pem).unwrap();
    assert_eq!(unauthenticated::ask(&address, known, b"let me in", soon()).await.unwrap(), "asked: let me in");

    let other = unauthenticated::authority_hash(&Authority::new().issue(2).ca_pem).unwrap();
    let error = unauthenticated::ask(&address, other, b"let me in", soon()).await.unwrap_err();
    assert!(matches!(error, unauthenticated::UnauthenticatedError::NotTheCluster(_)), "{error}");
}

/// Counts the questions, and answers none.
struct Mute(AtomicUsize);

#[async_trait::async_trait]
impl UnauthenticatedHandler for Mute {
    async fn answer(&self, _: Bytes, _: std::net::IpAddr) -> Bytes {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_strangers_are_served_at_once_than_may_be_however_often_one_gives_way_to_another() {
    let authority = Authority::new();
    let of_one = Port::new("peer", Admission { most_per_address: 1, ..Admission::default() });
    let two = Peers::start(PeersConfig { port: of_one, ..peers_config(&authority, 2) }).await.unwrap();
    let mute = Arc::new(Mute(AtomicUsize::new(0)));
    two.serve_unauthenticated(mute.clone());
    let address = two.local_addr().to_string();
    let known = unauthenticated::authority_hash(&authority.issue(2).ca_pem).unwrap();
    for asked in 1..=unauthenticated::AT_ONCE {
        // Each takes the place of the previous one at the port.
        let address = address.clone();
        tokio::spawn(async move { unauthenticated::ask(&address, known, b"hello", soon()).await });
        let deadline = soon();
        while mute.0.load(Ordering::SeqCst) < asked {
            assert!(Instant::now() < deadline, "{asked} have asked");
            tokio::task::yield_now().await;
        }
    }
    let turned_away = unauthenticated::ask(&address, known, b"hello", soon()).await;
    assert!(matches!(turned_away, Err(unauthenticated::UnauthenticatedError::Unreachable(_))), "{turned_away:?}");
    assert_eq!(mute.0.load(Ordering::SeqCst), unauthenticated::AT_ONCE);
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_that_say_nothing_keep_nobody_from_asking() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let two = peers(&authority, 2, &addresses).await;
    two.serve_unauthenticated(Arc::new(Gate));
    let address = two.local_addr().to_string();
    let known = unauthenticated::authority_hash(&authority.issue(2).ca_pem).unwrap();
    let mut silent = Vec::new();
    for _ in 0..2 * unauthenticated::AT_ONCE {
        silent.push(unauthenticated::connect(&address, known).await.unwrap());
    }
    let answer = unauthenticated::ask(&address, known, b"let me in", soon()).await;
    assert_eq!(answer.unwrap(), "asked: let me in");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_comes_in_while_strangers_hold_silent_connections() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let mut silent = Vec::new();
    // Many more than the number of handshakes that an earlier version allowed at once.
    for _ in 0..400 {
        silent.push(tokio::net::TcpStream::connect(two.local_addr()).await.unwrap());
    }
    // The first attempt must succeed: a retry would get in after the silent connections are gone.
    let answer = one.call(2, Class::Call, 300, Bytes::from_static(b"x"), soon()).await;
    assert_eq!(answer.unwrap(), "1:x");
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_shows_no_certificate_reaches_no_service() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let (authority, addresses) = (Authority::new(), Addresses::default());
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let mut plain = tokio::net::TcpStream::connect(two.local_addr()).await.unwrap();
    plain.write_all(b"GET /v1/account HTTP/1.1\r\nAuthorization: Bearer zpk_key\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    // An alert or a reset: nothing that an HTTP client would take for an answer.
    let _ = tokio::time::timeout_at(soon().into(), plain.read_to_end(&mut answer)).await.unwrap();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");

    let known = unauthenticated::authority_hash(&authority.issue(2).ca_pem).unwrap();
    let error = unauthenticated::ask(&two.local_addr().to_string(), known, b"hello", soon()).await.unwrap_err();
    assert!(
        matches!(error, unauthenticated::UnauthenticatedError::Unreachable(_)),
        "nobody answers strangers here: {error}"
    );
}

/// Answers with as many bytes as requested.
struct Bulk;

#[async_trait::async_trait]
impl Handler for Bulk {
    async fn handle(&self, _: NodeId, body: Bytes) -> Bytes {
        let size = u64::from_be_bytes(body[..].try_into().unwrap());
        Bytes::from(vec![0; usize::try_from(size).unwrap()])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_fails_its_own_call_alone() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Bulk));
    let silent = Arc::new(Silent(AtomicUsize::new(0)));
    two.serve(301, silent.clone());
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut waiting = std::pin::pin!(one.call(2, Class::Call, 301, Bytes::new(), deadline));
    while silent.0.load(Ordering::SeqCst) == 0 {
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        tokio::task::yield_now().await;
    }
    let ask = |size: usize| one.call(2, Class::Call, 300, Bytes::from((size as u64).to_be_bytes().to_vec()), deadline);
    assert_eq!(ask(MAX_BODY).await.unwrap().len(), MAX_BODY);
    let error = ask(MAX_BODY + 1).await.unwrap_err();
    assert!(matches!(&error, PeerError::Refused(reason) if reason.contains("33554433 bytes")), "{error}");
    assert!(futures::poll!(waiting.as_mut()).is_pending(), "the connection goes on, and what waits on it");
}

/// Proxies bytes from a port of its own to `to`: the first bytes after `first`, and slowly once the handshake may be
/// over. Returns its address.
async fn slow_way(to: std::net::SocketAddr, first: Duration) -> std::net::SocketAddr {
    use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
    async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, first: Duration) {
        let (mut passed, mut buffer) = (0, vec![0; 16 << 10]);
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            match passed {
                0 => tokio::time::sleep(first).await,
                1..=0x8000 => {}
                _ => tokio::time::sleep(Duration::from_millis(30)).await,
            }
            passed += count;
            if to.write_all(&buffer[..count]).await.is_err() {
                return;
            }
        }
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let (from_near, to_near) = near.into_split();
            let (from_far, to_far) = tokio::net::TcpStream::connect(to).await.unwrap().into_split();
            tokio::spawn(pass(from_near, to_far, first));
            tokio::spawn(pass(from_far, to_near, first));
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_whose_handshake_takes_longer_than_connecting_may_is_no_dead_one() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let way = slow_way(two.local_addr(), peers_config(&authority, 1).election_min * 2 / 3).await;
    addresses.lock().insert(2, way.to_string());
    assert_eq!(one.call(2, Class::Control, 300, Bytes::new(), soon()).await.unwrap(), "1:");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_crosses_a_slow_link_for_longer_than_the_limit_of_silence_does_not_close_it() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Echo));
    let way = slow_way(two.local_addr(), Duration::ZERO).await;
    addresses.lock().insert(2, way.to_string());
    // Two seconds in each direction, where one second of silence ends a connection.
    let body = Bytes::from(vec![7; 1 << 20]);
    let deadline = Instant::now() + Duration::from_secs(60);
    let answer = one.call(2, Class::Log, 300, body.clone(), deadline).await.unwrap();
    assert_eq!(answer.len(), body.len() + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_is_not_sent_any_more() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    let silent = Arc::new(Silent(AtomicUsize::new(0)));
    two.serve(300, Arc::new(Echo));
    two.serve(301, silent.clone());
    // Enqueued before there is a connection: the first call makes it, and the others wait for it.
    let first = one.begin(2, Class::Call, 300, Bytes::new(), Duration::ZERO).unwrap();
    drop(one.begin(2, Class::Call, 301, Bytes::new(), Duration::ZERO).unwrap());
    let last = one.begin(2, Class::Call, 300, Bytes::new(), Duration::ZERO).unwrap();
    assert_eq!((first.await.unwrap(), last.await.unwrap()), (Bytes::from("1:"), Bytes::from("1:")));
    assert_eq!(silent.0.load(Ordering::SeqCst), 0);
}

struct Where;

#[async_trait::async_trait]
impl Handler for Where {
    async fn handle(&self, _: NodeId, _: Bytes) -> Bytes {
        Bytes::from(std::thread::current().name().unwrap_or_default().to_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_must_not_wait_for_other_calls_is_worked_on_apart_from_them() {
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    two.serve(300, Arc::new(Where));
    let at = async |class: Class| one.call(2, class, 300, Bytes::new(), soon()).await.unwrap();
    assert_eq!(at(Class::Control).await, "raft");
    assert_ne!(at(Class::Call).await, "raft");
}

struct Stuck(AtomicUsize);

impl RaftService for Stuck {
    fn handle(&self, _: NodeId, _: Class, _: Bytes) -> BoxFuture<'static, Bytes> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::pending())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_has_so_many_raft_requests_in_flight_and_not_one_more() {
    const ROUND: usize = MOST_RAFT_REQUESTS / 8;
    let (authority, addresses) = (Authority::new(), Addresses::default());
    let one = peers(&authority, 1, &addresses).await;
    let two = peers(&authority, 2, &addresses).await;
    let stuck = Arc::new(Stuck(AtomicUsize::new(0)));
    two.serve_raft(30, stuck.clone());
    let mut answers = Vec::new();
    while answers.len() < MOST_RAFT_REQUESTS {
        let begin = || one.begin(2, Class::Log, 30, Bytes::new(), Duration::ZERO).unwrap();
        answers.extend(std::iter::repeat_with(begin).take(ROUND));
        // The outbound queue cannot hold all requests at once: wait for each round to arrive.
        let deadline = Instant::now() + Duration::from_secs(20);
        while stuck.0.load(Ordering::SeqCst) < answers.len() {
            assert!(Instant::now() < deadline, "{} have arrived", stuck.0.load(Ordering::SeqCst));
            tokio::task::yield_now().await;
        }
    }
    let refused = one.begin(2, Class::Log, 30, Bytes::new(), Duration::ZERO).unwrap().await;
    assert_eq!(refused, Err(PeerError::Busy));
}

#[tokio::test]
async fn messages_that_no_frame_can_carry_together_go_in_two() {
    let (queue, mut waiting) = tokio::sync::mpsc::channel(4);
    let sizes = [100 << 10, MAX_APPEND, 1];
    for (id, size) in (0..).zip(sizes) {
        let body = Bytes::from(vec![0; size]);
        queue.try_send(stream::Outgoing::new(frame::Kind::Request, id, 3, body, Duration::ZERO)).ok().unwrap();
    }
    drop(queue);
    let mut written = Vec::new();
    stream::write(Class::Log, &mut written, None, &mut waiting, |_| true).await.unwrap();
    let (mut written, mut buffer) = (&written[..], BytesMut::new());
    let mut read = Vec::new();
    while let Ok(mut frame) = frame::read(&mut written, &mut buffer, || {}).await {
        while let Some(message) = frame::next(&mut frame) {
            read.push(message.unwrap().body.len());
        }
    }
    assert_eq!(read, sizes);
}

/// Enqueues a message without a body.
fn hand_in(queue: &tokio::sync::mpsc::Sender<stream::Outgoing>, id: u64) {
    queue.try_send(stream::Outgoing::new(frame::Kind::Request, id, 3, Bytes::new(), Duration::ZERO)).ok().unwrap();
}

#[tokio::test]
async fn a_call_takes_those_along_that_ready_tasks_hand_in_and_an_append_waits_for_none() {
    for (class, expected) in [(Class::Call, 1), (Class::Log, 2)] {
        let (queue, mut waiting) = tokio::sync::mpsc::channel(4);
        let writing = tokio::spawn(async move {
            let mut written = Vec::new();
            stream::write(class, &mut written, None, &mut waiting, |_| true).await.unwrap();
            written
        });
        tokio::spawn(async move {
            hand_in(&queue, 1);
            // Runs after the writer, which the first message has woken.
            tokio::spawn(async move { hand_in(&queue, 2) });
        });
        let written = writing.await.unwrap();
        let (mut written, mut buffer, mut frames) = (&written[..], BytesMut::new(), 0);
        while frame::read(&mut written, &mut buffer, || {}).await.is_ok() {
            frames += 1;
        }
        assert_eq!(frames, expected, "{class:?}");
    }
}
