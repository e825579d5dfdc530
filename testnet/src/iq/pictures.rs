//! Pictures of groups. Accounts have none here.

use bytes::Bytes;
use wacore_binary::{JidExt, Node, NodeRef};

use crate::groups::{GroupRefusal, Picture, UNKNOWN, WRONG};
use crate::number::DeviceAddress;
use crate::stanza::{element, error, jid, result, text};
use crate::state::State;

const JPEG: &[u8] = b"\xFF\xD8";

/// Size limit of a picture.
const MAX_PICTURE: usize = 1024 * 1024;

impl State {
    pub(super) fn picture_query(&mut self, at: DeviceAddress, id: &str, stanza: &NodeRef<'_>) -> Node {
        let Some(group) = jid(stanza, "target").filter(wacore_binary::Jid::is_group) else { return result(id).build() };
        let answered = if text(stanza, "type").as_deref() == Some("get") {
            self.picture_of(at, &group)
        } else {
            self.set_picture(at, &group, stanza.get_optional_child("picture").and_then(NodeRef::content_bytes))
        };
        match answered {
            Ok(Some(picture)) => result(id).children([picture]).build(),
            Ok(None) => result(id).build(),
            Err(refusal) => error(id, refusal.code, refusal.text),
        }
    }

    fn picture_of(&self, at: DeviceAddress, group: &wacore_binary::Jid) -> Result<Option<Node>, GroupRefusal> {
        let group = self.group(group)?;
        group.check(at.number, false)?;
        let Picture { id, path } = group.picture.as_ref().ok_or(UNKNOWN)?;
        let shown = element("picture").attr("id", *id).attr("type", "image").attr("direct_path", path.as_str());
        Ok(Some(shown.attr("url", self.picture_url(*id)).build()))
    }

    fn set_picture(
        &mut self,
        at: DeviceAddress,
        group: &wacore_binary::Jid,
        picture: Option<&[u8]>,
    ) -> Result<Option<Node>, GroupRefusal> {
        let found = self.group(group)?;
        found.check(at.number, found.locked)?;
        let picture = match picture {
            None => None,
            Some(jpeg) if jpeg.starts_with(JPEG) && jpeg.len() <= MAX_PICTURE => Some(jpeg),
            Some(_) => return Err(WRONG),
        };
        let picture = picture.map(|jpeg| self.keep_picture(Bytes::copy_from_slice(jpeg)));
        let shown = picture.as_ref().map(|picture| element("picture").attr("id", picture.id).build());
        self.group_mut(group)?.picture = picture;
        Ok(shown)
    }

    pub fn keep_picture(&mut self, bytes: Bytes) -> Picture {
        Picture { id: self.next(), path: self.files.keep(bytes) }
    }

    /// The URL of a picture.
    pub fn picture_url(&self, id: u64) -> String {
        format!("http://{}/pictures/{id}", self.control_host)
    }

    /// Content type and bytes of a group's picture.
    pub fn picture(&self, id: u64) -> Option<(&'static str, Bytes)> {
        let pictures = self.groups.values().filter_map(|group| group.picture.as_ref());
        let bytes = self.files.file(&pictures.into_iter().find(|picture| picture.id == id)?.path)?;
        Some((if bytes.starts_with(JPEG) { "image/jpeg" } else { "image/png" }, bytes))
    }
}
