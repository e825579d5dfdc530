//! Groups with their members, ranks and settings. Their queries are in [`crate::iq`], their messages in
//! [`crate::route`].

use std::collections::BTreeMap;

use model::time::Timestamp;
use wacore_binary::{Jid, Node};

use crate::number::Number;
use crate::stanza::{element, empty, parent};

/// Maximum number of members of a group.
pub const MAX_MEMBERS: usize = 1_024;

/// Maximum number of groups.
pub const MAX_GROUPS: usize = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    Member,
    Admin,
    Creator,
}

impl Rank {
    fn wire_name(self) -> Option<&'static str> {
        match self {
            Self::Member => None,
            Self::Admin => Some("admin"),
            Self::Creator => Some("superadmin"),
        }
    }
}

pub struct Description {
    pub id: String,
    pub text: String,
    pub by: Number,
    pub at: Timestamp,
}

/// A group's picture: its id, and the path of its bytes in the media files.
pub struct Picture {
    pub id: u64,
    pub path: String,
}

pub struct Group {
    pub jid: Jid,
    pub subject: String,
    pub subject_by: Number,
    pub subject_at: Timestamp,
    pub description: Option<Description>,
    pub created_by: Number,
    pub created_at: Timestamp,
    pub members: BTreeMap<Number, Rank>,
    /// Only admins may write.
    pub announcement: bool,
    /// Only admins may change the subject and other group information.
    pub locked: bool,
    pub ephemeral_seconds: Option<u32>,
    /// Members who join by invite need the approval of an admin.
    pub approval: bool,
    /// Only admins may add members.
    pub admin_add: bool,
    pub invite: String,
    pub requests: BTreeMap<Number, Timestamp>,
    pub picture: Option<Picture>,
}

/// Reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupRefusal {
    pub code: u16,
    pub text: &'static str,
}

pub const FORBIDDEN: GroupRefusal = GroupRefusal { code: 403, text: "forbidden" };
pub const UNKNOWN: GroupRefusal = GroupRefusal { code: 404, text: "item-not-found" };
pub const CONFLICT: GroupRefusal = GroupRefusal { code: 409, text: "conflict" };
pub const WRONG: GroupRefusal = GroupRefusal { code: 400, text: "bad-request" };

/// A random invite code, in the form of invite links.
pub fn mint_invite() -> String {
    hex::encode(rand::random::<[u8; 11]>())
}

impl Group {
    pub fn new(jid: Jid, subject: &str, creator: Number, at: Timestamp) -> Self {
        Self {
            jid,
            subject: subject.to_owned(),
            subject_by: creator,
            subject_at: at,
            description: None,
            created_by: creator,
            created_at: at,
            members: BTreeMap::from([(creator, Rank::Creator)]),
            announcement: false,
            locked: false,
            ephemeral_seconds: None,
            approval: false,
            admin_add: false,
            invite: mint_invite(),
            requests: BTreeMap::new(),
            picture: None,
        }
    }

    pub fn is_admin(&self, number: Number) -> bool {
        self.members.get(&number).is_some_and(|rank| *rank >= Rank::Admin)
    }

    /// Checks that a member may act, with the rank of an admin if `needs_admin`.
    pub fn check(&self, number: Number, needs_admin: bool) -> Result<(), GroupRefusal> {
        if !self.members.contains_key(&number) || (needs_admin && !self.is_admin(number)) {
            return Err(FORBIDDEN);
        }
        Ok(())
    }

    /// The error code if a participant cannot be added.
    pub fn cannot_add(&self, number: Number, registered: bool) -> Option<u16> {
        if !registered {
            Some(404)
        } else if self.members.contains_key(&number) {
            Some(409)
        } else if self.members.len() >= MAX_MEMBERS {
            Some(419)
        } else {
            None
        }
    }

    /// Removes a member. If no admin is left, the member with the lowest number becomes one.
    pub fn remove(&mut self, number: Number) -> bool {
        let was = self.members.remove(&number).is_some();
        if was
            && !self.members.values().any(|rank| *rank >= Rank::Admin)
            && let Some(rank) = self.members.values_mut().next()
        {
            *rank = Rank::Admin;
        }
        was
    }

    pub fn node(&self) -> Node {
        let mut children: Vec<Node> =
            self.members.iter().map(|(number, rank)| participant(*number, Some(*rank))).collect();
        for (there, tag) in [(self.locked, "locked"), (self.announcement, "announcement")] {
            if there {
                children.push(empty(tag));
            }
        }
        if let Some(seconds) = self.ephemeral_seconds {
            children.push(element("ephemeral").attr("expiration", seconds).build());
        }
        if self.approval {
            children.push(parent("membership_approval_mode", [element("group_join").attr("state", "on").build()]));
        }
        children.push(element("member_add_mode").string_content(self.add_mode()).build());
        if let Some(description) = &self.description {
            children.push(
                element("description")
                    .attr("id", description.id.as_str())
                    .attr("participant", description.by.pn())
                    .attr("t", description.at.unix_seconds())
                    .children([element("body").string_content(description.text.as_str()).build()])
                    .build(),
            );
        }
        element("group")
            .attr("id", self.jid.user.as_str())
            .attr("subject", self.subject.as_str())
            .attr("s_o", self.subject_by.pn())
            .attr("s_t", self.subject_at.unix_seconds())
            .attr("creator", self.created_by.pn())
            .attr("creation", self.created_at.unix_seconds())
            .attr("addressing_mode", "pn")
            .attr("size", self.members.len())
            .children(children)
            .build()
    }

    pub fn add_mode(&self) -> &'static str {
        if self.admin_add { "admin_add" } else { "all_member_add" }
    }
}

/// A participant element, with its rank if known.
pub fn participant(number: Number, rank: Option<Rank>) -> Node {
    let participant = element("participant").attr("jid", number.pn()).attr("lid", number.lid());
    match rank.and_then(Rank::wire_name) {
        Some(rank) => participant.attr("type", rank).build(),
        None => participant.build(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn number(digits: &str) -> Number {
        Number::parse(digits).unwrap()
    }

    #[test]
    fn when_the_last_admin_goes_another_member_becomes_one() {
        let mut group = Group::new(Jid::group("120363000000000001"), "Us", number("1111"), Timestamp(0));
        group.members.insert(number("2222"), Rank::Member);
        assert_eq!(group.check(number("2222"), true), Err(FORBIDDEN));
        assert!(group.remove(number("1111")));
        assert_eq!(group.check(number("2222"), true), Ok(()));
        assert_eq!(group.check(number("1111"), false), Err(FORBIDDEN));
    }
}
