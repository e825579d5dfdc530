//! Entry points for fuzzing the parsers of frames between node and simulator. A panic is a finding, and so is a frame
//! that changes when it is encoded and decoded again.

use bytes::Bytes;
use futures::FutureExt;
use model::address::Address;
use model::id::MessageId;
use model::message::{Content, Surroundings};
use model::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::driver::{EndReason, InboundItem, InboundKind, InboundMessage, ItemId, Outbound};
use crate::wire::transfer::NodeTransfer;
use crate::wire::{FrameReader, NetworkFrame, NodeFrame, SessionFrame, WIRE_VERSION, encode};

/// Parses bytes as frames of either direction.
pub fn frames(bytes: &[u8]) {
    read::<NodeFrame>(bytes);
    read::<NetworkFrame>(bytes);
}

/// Decodes all frames. Reading from memory never waits.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let mut reader = FrameReader::new(bytes);
    while let Some(Ok(Some(frame))) = reader.next::<T>().now_or_never() {
        // Compare encoded bytes, because NaN does not equal itself.
        let written = encode(&frame).expect("what was read can be written");
        let again = FrameReader::new(&written[..]).next::<T>().now_or_never();
        let again = again.expect("it is there").expect("what was written can be read").expect("it is whole");
        assert_eq!(encode(&again).expect("what was read can be written"), written);
    }
}

/// Sample frames of both directions, as a seed corpus.
///
/// # Panics
/// Never: all of them can be encoded.
pub fn examples() -> Vec<Vec<u8>> {
    let address = |digits: &str| Address::parse(&format!("{digits}@s.example")).expect("digits are an address");
    let (chat, to) = (address("1555"), address("1666"));
    let content = Content::Text { text: "grüß dich 🌍".into() };
    let outbound = Outbound {
        id: MessageId::mint([1; 18]),
        to: to.clone(),
        content: content.clone(),
        around: Surroundings::default(),
    };
    let nodes = [
        NodeFrame::Hello { version: WIRE_VERSION, node: 3 },
        NodeFrame::Login { session: 1, epoch: 9, credentials: Bytes::from_static(&[0, 255, 7]) },
        NodeFrame::send(1, outbound),
        NodeFrame::Acknowledge { session: 1, item: ItemId("a-1".into()) },
        NodeFrame::Transfer { session: 1, transfer: 2, frame: NodeTransfer::Piece(Bytes::from_static(&[1, 2, 3])) },
    ];
    let message = InboundMessage {
        id: MessageId::mint([2; 18]),
        from: chat.clone(),
        chat,
        from_phone: None,
        to,
        push_name: Some("Ann".into()),
        content,
        around: Surroundings { forwarded: true, ephemeral_expiration: Some(5), ..Surroundings::default() },
    };
    let item = InboundItem { id: ItemId("a-2".into()), at: Timestamp(5), kind: InboundKind::Message(message) };
    let sessions = [
        SessionFrame::Accepted { id: MessageId::mint([1; 18]), at: Timestamp(5), recipients: Some(3) },
        SessionFrame::Inbound(Box::new(item)),
        SessionFrame::Ended(EndReason::Banned { until: Some(Timestamp(7)) }),
    ];
    let network = sessions.map(|frame| NetworkFrame::Session { session: 4, frame });
    let nodes = nodes.iter().map(|frame| encode(frame).expect("it is small"));
    let network = network.iter().map(|frame| encode(frame).expect("it is small"));
    nodes.chain(network).map(|bytes| bytes.to_vec()).collect()
}
