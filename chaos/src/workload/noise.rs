//! Further load of a loud tenant on nodes: connections with little or no traffic, a picture that is larger than it
//! looks, receivers that never answer. None of it is recorded as a call, except the endpoints. All clients share the
//! processors with the nodes, so there is only as much of each as shows how nodes handle it.

use std::io::{self, ErrorKind};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use ::tests::http::{Api, try_answer};
use ::tests::media::bare;
use futures::future::{join, join_all};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::cast::Neighbours;
use super::client::{ApiRequest, Client, Shared, made, nothing};
use super::hooks::{SECRET, hook};
use super::threads;
use crate::history::record::{Channel, Manner};
use crate::history::{Answer, Op, Outcome};
use crate::world::map::Place;

/// Uploads at each node: more than a node accepts at once from one account (32).
const UPLOADS: usize = 40;
/// Silent connections to each of a node's three ports. Together with the uploads they stay below the limit of open
/// files on most systems (1,024).
const SILENT: usize = 24;
/// Timeout for opening a connection.
const OPENS: Duration = Duration::from_secs(1);
/// Pause between two pieces of an upload: far slower than the 8 KiB per second required after ten seconds.
const DRIPS: Duration = Duration::from_secs(1);
const PIECE: [u8; 512] = [b'.'; 512];

/// Number of endpoints that accept requests, and never answer.
const HANGING: usize = 2;

/// Width and height of the picture: 49 of the 50 megapixels that are permitted.
const SIDE: u32 = 7_000;
/// Pause between two pictures.
const SHOWS: Duration = Duration::from_secs(1);
/// Encoded once.
static PICTURE: LazyLock<Vec<u8>> = LazyLock::new(picture);

/// Begins everything. It goes on until `ended` is cancelled.
pub fn begin(
    shared: &Arc<Shared>,
    neighbours: &Neighbours,
    receiver: &str,
    ended: &CancellationToken,
    clients: &mut JoinSet<()>,
) {
    let Neighbours { loud, loud_channel: channel, .. } = neighbours;
    let threads = threads::loud();
    for node in shared.map().nodes {
        clients.spawn_on(crowd(node, begun_upload(&channel.id, &loud.key), ended.clone()), threads.handle());
    }
    clients.spawn_on(show_pictures(threads.client(shared, loud), channel.clone(), ended.clone()), threads.handle());
    for _ in 0..HANGING {
        clients.spawn_on(
            leave_hanging(threads.client(shared, loud), receiver.to_owned(), ended.clone()),
            threads.handle(),
        );
    }
}

/// Holds connections to all ports of a node.
async fn crowd(node: Place, upload: String, ended: CancellationToken) {
    let [api, ops] = [&node.api, &node.ops].map(|url| url.trim_start_matches("http://").trim_end_matches('/'));
    let silent = [api, ops, node.peer.as_str()].map(|port| hold(port, SILENT, "", &ended));
    join(hold(api, UPLOADS, &upload, &ended), join_all(silent)).await;
}

/// The head of an upload with a long body.
fn begun_upload(channel: &str, key: &str) -> String {
    format!(
        "POST /v1/channels/{channel}/media HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {key}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: 10000000\r\n\r\n"
    )
}

/// Keeps `most` connections to an address open. Each begins with `head`, and slowly sends more if `head` is not empty.
/// A connection that the server closes is replaced.
async fn hold(address: &str, most: usize, head: &str, ended: &CancellationToken) {
    let mut held: Vec<TcpStream> = Vec::new();
    while !ended.is_cancelled() {
        held.retain(is_open);
        while held.len() < most && !ended.is_cancelled() {
            // The node is down.
            let Some(stream) = opened(address, head).await else { break };
            held.push(stream);
        }
        for stream in held.iter().filter(|_| !head.is_empty()) {
            // An error means that the connection is full, or that the next round will find it closed.
            let _ = stream.try_write(&PIECE);
        }
        ended.run_until_cancelled(tokio::time::sleep(DRIPS)).await;
    }
}

async fn opened(address: &str, head: &str) -> Option<TcpStream> {
    let opening = async {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(head.as_bytes()).await?;
        Ok::<_, io::Error>(stream)
    };
    tokio::time::timeout(OPENS, opening).await.ok()?.ok()
}

/// Whether a connection is open. Received data is dropped.
fn is_open(stream: &TcpStream) -> bool {
    match stream.try_read(&mut [0; 512]) {
        Ok(read) => read > 0,
        Err(error) => error.kind() == ErrorKind::WouldBlock,
    }
}

/// Makes nodes create a profile picture of the same small file again and again.
async fn show_pictures(mut client: Client, channel: Channel, ended: CancellationToken) {
    let showing = async {
        let path = format!("/v1/channels/{}/profile", channel.id);
        let Ok(picture) = tokio::task::spawn_blocking(|| PICTURE.clone()).await else { return };
        let upload = bare(&somewhere(&mut client), &channel.id, "image/png", picture);
        let Ok(stored) = try_answer(upload).await else { return };
        let stored: Value = serde_json::from_slice(&stored.body).unwrap_or_default();
        let body = json!({ "picture_url": stored["url"] });
        loop {
            let request = somewhere(&mut client).request(Method::PATCH, &path).json(&body);
            // How long this takes is not checked: picture processing has the lowest priority.
            let _ = try_answer(request).await;
            tokio::time::sleep(SHOWS).await;
        }
    };
    ended.run_until_cancelled(showing).await;
}

/// A client of the tenant at any node.
fn somewhere(client: &mut Client) -> Api {
    let node = client.any_node();
    node.customer(&client.http, &client.tenant.key)
}

/// A PNG of some KiB that takes 147 MB when decoded: each of its bits is a colour of three bytes.
fn picture() -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIDE, SIDE);
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::One);
    encoder.set_palette(vec![0_u8, 0, 0, 255, 255, 255]);
    let pixels = vec![0_u8; SIDE.div_ceil(8) as usize * SIDE as usize];
    let mut writer = encoder.write_header().expect("memory takes it");
    writer.write_image_data(&pixels).expect("memory takes it");
    writer.finish().expect("it is whole");
    bytes
}

/// Keeps an endpoint that never answers while there is noise.
async fn leave_hanging(mut client: Client, receiver: String, ended: CancellationToken) {
    let (hook, node) = (hook(Manner::Hangs, &format!("loud/{}", client.id)), client.any_node());
    let url = format!("{receiver}{hook}");
    let body = json!({ "url": url, "events": ["message.sent"], "signing_secret": SECRET });
    let asked = ApiRequest::post("/v1/webhook-endpoints", body);
    let Outcome::Done(Answer::Made { id }) = client.call(&node, Op::CreateEndpoint { hook }, asked, made).await else {
        return;
    };
    ended.cancelled().await;
    let (node, asked) = (client.any_node(), ApiRequest::delete(format!("/v1/webhook-endpoints/{id}")));
    client.call(&node, Op::DeleteEndpoint { endpoint: id }, asked, nothing).await;
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn the_picture_is_small_and_within_what_is_decoded() {
        let bytes = &*PICTURE;
        assert!(bytes.len() < 64 << 10, "{}", bytes.len());
        let sides = [&bytes[16..20], &bytes[20..24]].map(|side| u32::from_be_bytes(side.try_into().unwrap()));
        assert_eq!(sides, [SIDE, SIDE]);
        assert!((48_000_000..50_000_000).contains(&(SIDE * SIDE)));
    }

    #[tokio::test]
    async fn as_many_connections_are_held_as_there_are_to_be_until_it_ends() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let (address, ended) = (listener.local_addr().unwrap().to_string(), CancellationToken::new());
        let holding = hold(&address, 2, "head", &ended);
        let serving = async {
            let (closed, _) = listener.accept().await.unwrap();
            let (mut kept, _) = listener.accept().await.unwrap();
            let mut said = [0; 8];
            kept.read_exact(&mut said).await.unwrap();
            assert_eq!(&said, b"head....");
            drop(closed);
            // Another connection replaces the closed one.
            let _again = listener.accept().await.unwrap();
            ended.cancel();
            let mut rest = Vec::new();
            kept.read_to_end(&mut rest).await.unwrap();
        };
        tokio::time::timeout(Duration::from_secs(20), join(holding, serving)).await.unwrap();
    }
}
