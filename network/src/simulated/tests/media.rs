//! Tests of media transfers over the connection that also carries messages.

use bytes::Bytes;
use futures::{StreamExt, stream};
use model::media::{LARGEST_MEDIA, MediaHandle, MediaKind};

use super::*;
use crate::driver::{ByteStream, MEDIA_PIECE, MediaError, Uploaded};

const OTHER: &str = "15550000003";

/// Bytes that depend on their position.
fn pattern(size: usize) -> Vec<u8> {
    (0..size).map(|n| (n * 31 + n / 251) as u8).collect()
}

/// A byte stream in chunks of the given size.
fn source(bytes: &[u8], chunk: usize) -> ByteStream {
    let chunks: Vec<_> = bytes.chunks(chunk).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
    stream::iter(chunks).boxed()
}

async fn upload(line: &Line, bytes: &[u8]) -> Result<Uploaded, MediaError> {
    line.session.upload(MediaKind::Image, "image/png", bytes.len() as u64, source(bytes, 50_000)).await
}

async fn download(line: &Line, handle: &MediaHandle) -> Result<Vec<u8>, MediaError> {
    let mut pieces = line.session.download(handle).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| MediaError::Source(error.to_string()))?;
        assert!(piece.len() <= MEDIA_PIECE);
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn faults(world: &World, json: &str) {
    world.simulator.act(|engine, now| engine.change_faults(now, serde_json::from_str(json).unwrap())).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_stored_comes_back_as_it_was() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    for size in [0, 1, MEDIA_PIECE - 1, MEDIA_PIECE, 9 * MEDIA_PIECE + 5] {
        let bytes = pattern(size);
        let stored = upload(&line, &bytes).await.unwrap();
        assert!(stored.expires_at > model::time::Timestamp::now());
        assert!(download(&line, &stored.handle).await.unwrap() == bytes, "{size}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_pass_while_uploads_and_downloads_run() {
    let world = World::new().await;
    let network = world.network(1);
    let mut line = world.pair(&network, &fence(1)).await;
    let large = pattern(20 * 1024 * 1024);
    let stored = upload(&line, &large).await.unwrap();
    // An upload whose source stalls in the middle, and a download that is not read.
    let head = pattern(3 * MEDIA_PIECE);
    let stuck = source(&head, MEDIA_PIECE).chain(stream::pending()).boxed();
    let session = Arc::clone(&line.session);
    let stuck = tokio::spawn(async move { session.upload(MediaKind::Image, "image/png", LARGEST_MEDIA, stuck).await });
    let unread = line.session.download(&stored.handle).await.unwrap();
    let session = Arc::clone(&line.session);
    let running = tokio::spawn(async move {
        session.upload(MediaKind::Image, "image/png", large.len() as u64, source(&large, 1 << 20)).await
    });
    for n in 0..200 {
        line.send(&format!("M{n}")).await.unwrap();
        loop {
            match line.next().await {
                SessionEvent::Accepted { id, .. } => {
                    assert_eq!(id.0, format!("M{n}"));
                    break;
                }
                SessionEvent::Inbound(item) => line.session.acknowledge(item.id).await.unwrap(),
                other => panic!("{other:?}"),
            }
        }
    }
    running.await.unwrap().unwrap();
    stuck.abort();
    drop(unread);
    // Neither the unread download nor the abandoned upload blocks later transfers.
    upload(&line, b"after").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_over_25_mb_is_refused_before_it_is_read() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    let refused =
        line.session.upload(MediaKind::Video, "video/mp4", LARGEST_MEDIA + 1, stream::pending().boxed()).await;
    assert!(matches!(refused, Err(MediaError::Refused { code: 413, .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_fails_or_lies_about_its_size_stores_nothing() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    let failing = source(&pattern(100), 10).chain(stream::iter([Err(std::io::ErrorKind::BrokenPipe.into())])).boxed();
    for (size, bytes) in [(10, source(&pattern(11), 4)), (12, source(&pattern(11), 4)), (200, failing)] {
        let lost = line.session.upload(MediaKind::Image, "image/png", size, bytes).await;
        assert!(matches!(lost, Err(MediaError::Source(_))), "{lost:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_expire_and_faults_refuse_or_break_transfers() {
    let world = World::new().await;
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    let bytes = pattern(5 * MEDIA_PIECE);
    let stored = upload(&line, &bytes).await.unwrap();
    let gone = download(&line, &MediaHandle("unknown".into())).await;
    assert!(matches!(gone, Err(MediaError::Gone)), "{gone:?}");

    faults(&world, r#"{ "media_ttl_ms": 0 }"#);
    assert!(matches!(download(&line, &stored.handle).await, Err(MediaError::Gone)));
    faults(&world, r#"{ "media_ttl_ms": null, "media_fail": "refuse" }"#);
    assert!(matches!(download(&line, &stored.handle).await, Err(MediaError::Refused { code: 403, .. })));
    assert!(matches!(upload(&line, &bytes).await, Err(MediaError::Refused { code: 403, .. })));
    faults(&world, r#"{ "media_fail": "break" }"#);
    let broken = download(&line, &stored.handle).await;
    assert!(matches!(&broken, Err(MediaError::Source(why)) if why.contains("fault")), "{broken:?}");
    let broken = upload(&line, &bytes).await;
    assert!(matches!(broken, Err(MediaError::Session(SessionError::Unreachable(_)))), "{broken:?}");
    faults(&world, r#"{ "media_fail": false, "media_delay_ms": 1 }"#);
    assert!(download(&line, &stored.handle).await.unwrap() == bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_ends_takes_its_transfers_with_it_and_no_others() {
    let world = World::new().await;
    world.register(OTHER, PhoneSettings::default());
    let network = world.network(1);
    let line = world.pair(&network, &fence(1)).await;
    let bytes = pattern(8 * MEDIA_PIECE);
    let stored = upload(&line, &bytes).await.unwrap();
    let first = Arc::clone(&line.session);
    let waiting =
        tokio::spawn(
            async move { first.upload(MediaKind::Image, "image/png", 1_000, stream::pending().boxed()).await },
        );
    let mut unread = line.session.download(&stored.handle).await.unwrap();
    assert!(unread.next().await.unwrap().is_ok());
    line.session.kill();
    assert!(matches!(waiting.await.unwrap(), Err(MediaError::Session(_))));
    let mut rest = unread.collect::<Vec<_>>().await;
    assert!(rest.pop().unwrap().is_err());
    assert!(matches!(upload(&line, &bytes).await, Err(MediaError::Session(SessionError::Ended))));

    let again = world.login(&network, &fence(2)).await;
    assert!(download(&again, &stored.handle).await.unwrap() == bytes);
}
