//! Helpers that build and read stanzas.

use wacore_binary::builder::NodeBuilder;
use wacore_binary::{Jid, Node, NodeRef};

/// Sender of everything that no account has sent.
pub const SERVER: &str = "s.whatsapp.net";

pub fn text(node: &NodeRef<'_>, name: &str) -> Option<String> {
    node.get_attr(name).map(|value| value.as_str().into_owned())
}

pub fn jid(node: &NodeRef<'_>, name: &str) -> Option<Jid> {
    node.get_attr(name).and_then(wacore_binary::node::ValueRef::to_jid)
}

/// A big-endian number of at most four bytes.
pub fn uint(node: &NodeRef<'_>) -> Option<u32> {
    uint_of(node.content_bytes()?)
}

pub fn uint_of(bytes: &[u8]) -> Option<u32> {
    if bytes.is_empty() || bytes.len() > 4 {
        return None;
    }
    Some(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// A public key.
pub fn key(node: &NodeRef<'_>) -> Option<[u8; 32]> {
    node.content_bytes()?.try_into().ok()
}

pub fn element(tag: &'static str) -> NodeBuilder {
    NodeBuilder::new(tag)
}

pub fn empty(tag: &'static str) -> Node {
    NodeBuilder::new(tag).build()
}

pub fn bytes(tag: &'static str, bytes: impl Into<Vec<u8>>) -> Node {
    NodeBuilder::new(tag).bytes(bytes).build()
}

pub fn parent(tag: &'static str, children: impl IntoIterator<Item = Node>) -> Node {
    NodeBuilder::new(tag).children(children).build()
}

/// The response to a query.
pub fn result(id: &str) -> NodeBuilder {
    NodeBuilder::new("iq").attr("from", SERVER).attr("type", "result").attr("id", id)
}

pub fn error(id: &str, code: u16, text: &str) -> Node {
    let error = NodeBuilder::new("error").attr("code", code).attr("text", text).build();
    NodeBuilder::new("iq").attr("from", SERVER).attr("type", "error").attr("id", id).children([error]).build()
}

pub fn stream_error(code: &str) -> Node {
    let error = NodeBuilder::new("stream:error").attr("code", code);
    match code {
        "409" => error.children([conflict("replaced")]),
        "401" => error.children([conflict("device_removed")]),
        _ => error,
    }
    .build()
}

fn conflict(kind: &str) -> Node {
    NodeBuilder::new("conflict").attr("type", kind).build()
}
