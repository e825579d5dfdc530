//! Queries of clients. Unknown queries get an empty result, since tests rarely need more.
//!
//! - [`groups`]: groups, [`pictures`]: their pictures. [`keys`]: prekeys; [`usync`]: accounts and their devices.

mod groups;
mod keys;
mod pictures;
mod usync;

use network::simulator::answers::LoginEnd;
use wacore_binary::{Node, NodeRef};

use crate::number::DeviceAddress;
use crate::stanza::{element, empty, error, jid, parent, result, text};
use crate::state::{ConnectionId, State, Timer};

impl State {
    pub fn take_query(&mut self, connection: ConnectionId, at: DeviceAddress, stanza: &NodeRef<'_>) {
        let asks = matches!(text(stanza, "type").as_deref(), Some("get" | "set"));
        let (Some(id), true) = (text(stanza, "id"), asks) else { return };
        let namespace = text(stanza, "xmlns").unwrap_or_default();
        let child = stanza.children().and_then(<[_]>::first);
        let asked = child.map(|child| child.tag.as_ref()).unwrap_or_default();
        let answer = match (namespace.as_str(), asked) {
            ("passive", "active") => {
                self.write(connection, result(&id).build());
                self.activate(connection, at);
                return;
            }
            ("encrypt", _) => self.keys_query(at, &id, stanza),
            ("usync", _) => self.usync_query(at, &id, stanza),
            ("md", "remove-companion-device") => {
                self.write(connection, result(&id).build());
                let device = child.and_then(|child| jid(child, "jid")).map_or(at.device, |jid| jid.device);
                self.unlink_device(at.number.device(device));
                return;
            }
            ("w:sync:app:state", _) => app_state(&id, stanza),
            ("abt" | "w", _) => {
                let props =
                    element("props").attr("protocol", 1).attr("ab_key", "").attr("hash", "").attr("refresh", 86_400);
                result(&id).children([props.build()]).build()
            }
            ("privacy", _) => result(&id).children([empty("privacy")]).build(),
            ("blocklist", _) => result(&id).children([element("list").attr("dhash", 0).build()]).build(),
            ("w:m", _) => result(&id).children([self.media_connection()]).build(),
            ("w:profile:picture", _) => self.picture_query(at, &id, stanza),
            ("w:p", _) => result(&id).attr("t", self.seconds()).build(),
            ("w:g2", _) => {
                let (answer, delay) = (self.groups_query(at, &id, stanza), self.faults.groups_delay());
                if !delay.is_zero() {
                    return self.later(delay, Timer::Answer { connection, stanza: answer });
                }
                answer
            }
            ("newsletter" | "w:mex", _) => error(&id, 501, "feature-not-implemented"),
            (namespace, asked) => {
                tracing::debug!(namespace, asked, "a query without an answer of its own");
                result(&id).build()
            }
        };
        self.write(connection, answer);
    }

    fn media_connection(&self) -> Node {
        let host = element("host").attr("hostname", self.media_host.as_str()).attr("type", "primary").build();
        element("media_conn")
            .attr("auth", self.files.auth())
            .attr("ttl", 3_600)
            .attr("auth_ttl", 21_600)
            .attr("max_buckets", 12)
            .children([host])
            .build()
    }

    /// Removes a device from its account.
    pub fn unlink_device(&mut self, at: DeviceAddress) -> bool {
        let removed = self.accounts.get_mut(&at.number).and_then(|account| account.devices.remove(&at.device));
        let Some(device) = removed else { return false };
        if let Some(connection) = device.connection {
            self.end(connection, Some("401"), LoginEnd::Closed);
        }
        self.tell_of_devices(at);
        true
    }
}

/// Responds that all app state collections are empty.
fn app_state(id: &str, stanza: &NodeRef<'_>) -> Node {
    let asked = stanza.get_optional_child("sync").and_then(NodeRef::children).unwrap_or_default();
    let collections = asked
        .iter()
        .filter_map(|collection| text(collection, "name"))
        .map(|name| element("collection").attr("name", name).attr("version", 0).attr("type", "result").build());
    result(id).children([parent("sync", collections)]).build()
}
