//! Media of every kind, up and down.

use bytes::Bytes;
use futures::{StreamExt, stream};
use model::media::{LARGEST_MEDIA, Media, MediaHandle, MediaKind};
use model::message::Content;
use network::driver::{InboundKind, MEDIA_PIECE, MediaError, SessionEvent};
use serde_json::{Value, json};

use crate::world::{CHANNEL, FRIEND, Line, World, friend, until};

pub async fn upload(line: &Line, kind: MediaKind, bytes: &[u8]) -> MediaHandle {
    let pieces: Vec<_> = bytes.chunks(MEDIA_PIECE).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
    let stored = line.session.upload(kind, "image/png", bytes.len() as u64, stream::iter(pieces).boxed()).await;
    stored.unwrap().handle
}

pub async fn download(line: &Line, handle: &MediaHandle) -> Result<Vec<u8>, MediaError> {
    let mut pieces = line.session.download(handle).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.unwrap());
    }
    Ok(bytes)
}

pub fn content(kind: MediaKind, handle: MediaHandle) -> Content {
    let media = Media { handle: Some(handle), filename: Some("name.bin".into()), ..Media::of_type("image/png") };
    let caption = Some("look".to_owned());
    match kind {
        MediaKind::Image => Content::Image { media, caption },
        MediaKind::Video => Content::Video { media, caption, gif: false, note: false },
        MediaKind::Audio => Content::Audio { media: Media { voice: true, ..media } },
        MediaKind::Document => Content::Document { media, caption },
        MediaKind::Sticker => Content::Sticker { media, animated: false },
    }
}

const KINDS: [MediaKind; 5] =
    [MediaKind::Image, MediaKind::Video, MediaKind::Audio, MediaKind::Document, MediaKind::Sticker];

#[tokio::test(flavor = "multi_thread")]
async fn a_phone_opens_media_of_each_kind_and_the_same_bytes_serve_one_kind() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for (n, kind) in KINDS.into_iter().enumerate() {
        let handle = upload(&line, kind, b"the same bytes").await;
        let others: Vec<_> = KINDS.into_iter().filter(|other| line.session.shows_as(&handle, *other)).collect();
        assert_eq!(others, [kind]);
        assert_eq!(download(&line, &handle).await.unwrap(), b"the same bytes");
        line.send_to(friend(), &format!("3EB0M{n}"), content(kind, handle)).await;
        line.accepted(&format!("3EB0M{n}")).await;
    }
    let rows = until("the phone has all", async || {
        let inbox = world.get(&format!("/phones/{FRIEND}/inbox")).await;
        let rows = inbox["data"].as_array().unwrap().clone();
        (rows.len() == KINDS.len()).then_some(rows)
    })
    .await;
    let shown: Vec<_> = rows.iter().map(|row| row["type"].as_str().unwrap()).collect();
    assert_eq!(shown, ["image", "video", "audio", "document", "sticker"]);
    assert!(rows.iter().all(|row| row["media"]["intact"] == true && row["media"]["size"] == 14), "{rows:?}");
    assert_eq!((&rows[0]["caption"], &rows[2]["ptt"]), (&json!("look"), &json!(true)));
    assert_eq!(rows[3]["filename"], "name.bin");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn media_of_a_phone_is_had_and_what_network_and_phone_have_lost_is_gone() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for (kind, name) in KINDS.into_iter().zip(["image", "video", "audio", "document", "sticker"]) {
        // "look here"
        let body = json!({ "type": name, "to": CHANNEL, "media": { "base64": "bG9vayBoZXJl" } });
        let ids: Value = world.post(&format!("/phones/{FRIEND}/messages"), body).await;
        let id = ids["ids"][0].as_str().unwrap().to_owned();
        let said = line
            .until(|event| match event {
                SessionEvent::Inbound(item) => match &item.kind {
                    InboundKind::Message(message) if message.id.as_str() == id => Some(message.content.clone()),
                    _ => None,
                },
                _ => None,
            })
            .await;
        assert_eq!(said.media_kind(), Some(kind));
        let media = said.media().unwrap();
        assert_eq!(media.size_bytes, Some(9));
        let handle = media.handle.clone().unwrap();
        assert_eq!(download(&line, &handle).await.unwrap(), b"look here");
        if kind == MediaKind::Sticker {
            // The channel's phone uploads it again, as long as it has it.
            world.call("DELETE", "/media", None).await;
            assert_eq!(download(&line, &handle).await.unwrap(), b"look here");
            world.call("DELETE", "/media?everywhere=true", None).await;
            assert!(matches!(download(&line, &handle).await, Err(MediaError::Gone)));
        }
    }
    assert!(matches!(download(&line, &MediaHandle("of another network".into())).await, Err(MediaError::Gone)));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_media_goes_up_and_down_in_pieces() {
    let mut world = World::new().await;
    let line = world.pair().await;
    let bytes: Vec<u8> = (0..LARGEST_MEDIA).map(|n| (n % 251) as u8).collect();
    let handle = upload(&line, MediaKind::Document, &bytes).await;
    assert!(download(&line, &handle).await.unwrap() == bytes, "what came back is what went");
}
