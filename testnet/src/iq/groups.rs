//! Queries about groups, and the notifications of members.

use wacore_binary::{Jid, Node, NodeRef};

use crate::groups::{
    CONFLICT, Description, FORBIDDEN, Group, GroupRefusal, MAX_GROUPS, Rank, UNKNOWN, WRONG, mint_invite, participant,
};
use crate::number::{DeviceAddress, Number};
use crate::stanza::{element, empty, error, jid, parent, text};
use crate::state::State;

/// Maximum number of participants in a query.
const MAX_NAMED: usize = 1_024;

pub type Answered = Result<Vec<Node>, GroupRefusal>;

impl State {
    pub(super) fn groups_query(&mut self, at: DeviceAddress, id: &str, stanza: &NodeRef<'_>) -> Node {
        let to = jid(stanza, "to").unwrap_or_default();
        let gets = text(stanza, "type").as_deref() == Some("get");
        let Some(asked) = stanza.children().and_then(<[_]>::first) else { return refused(id, WRONG) };
        let answered = if to.user.is_empty() {
            self.ask_of_all_groups(at, gets, asked)
        } else {
            self.ask_of_group(at, &to, gets, asked)
        };
        match answered {
            // Responses about a group come from the group's address.
            Ok(children) => {
                let from = if to.user.is_empty() { "g.us".to_owned() } else { to.to_string() };
                element("iq").attr("from", from).attr("type", "result").attr("id", id).children(children).build()
            }
            Err(refusal) => refused(id, refusal),
        }
    }

    /// A phone's query about one group or all groups.
    ///
    /// # Errors
    /// The network's refusal.
    pub fn ask_of_groups(&mut self, phone: Number, group: Option<&Jid>, gets: bool, asked: &Node) -> Answered {
        let (at, asked) = (phone.device(0), asked.as_node_ref());
        match group {
            Some(group) => self.ask_of_group(at, group, gets, &asked),
            None => self.ask_of_all_groups(at, gets, &asked),
        }
    }

    fn ask_of_all_groups(&mut self, at: DeviceAddress, gets: bool, asked: &NodeRef<'_>) -> Answered {
        let me = at.number;
        match (gets, asked.tag.as_ref()) {
            (true, "participating") => {
                let mine = self.groups.values().filter(|group| group.members.contains_key(&me));
                Ok(vec![parent("groups", mine.map(Group::node))])
            }
            (false, "create") => self.create_group(at, asked),
            (false, "leave") => {
                let groups = asked.get_children_by_tag("group").filter_map(|group| jid(group, "id"));
                let mut left = Vec::new();
                for jid in groups.take(MAX_NAMED).collect::<Vec<_>>() {
                    self.leave_group(at, &jid)?;
                    left.push(element("group").attr("id", jid).build());
                }
                Ok(vec![parent("leave", left)])
            }
            (gets, "invite") => {
                let code = text(asked, "code").unwrap_or_default();
                let found = self.groups.values().find(|group| group.invite == code).map(|group| group.jid.clone());
                let jid = found.ok_or(UNKNOWN)?;
                if gets { Ok(vec![self.group(&jid)?.node()]) } else { self.join_group(at, &jid) }
            }
            _ => Err(WRONG),
        }
    }

    fn create_group(&mut self, at: DeviceAddress, asked: &NodeRef<'_>) -> Answered {
        let me = at.number;
        let subject = text(asked, "subject").ok_or(WRONG)?;
        if self.groups.len() >= MAX_GROUPS {
            return Err(CONFLICT);
        }
        let now = self.now();
        let jid = Jid::group(format!("120363{:012}", self.next()));
        let mut group = Group::new(jid.clone(), &subject, me, now);
        let mut refused = Vec::new();
        for number in named(asked) {
            match group.cannot_add(number, self.accounts.contains_key(&number)) {
                None => {
                    group.members.insert(number, Rank::Member);
                }
                Some(_) if number == me => {}
                Some(code) => refused.push(with_error(number, code)),
            }
        }
        if let Some(body) = asked.get_optional_child("description").and_then(|description| body_of(description)) {
            group.description = Some(Description { id: mint_invite(), text: body, by: me, at: now });
        }
        let mut shown = group.node();
        if let Some(wacore_binary::NodeContent::Nodes(children)) = &mut shown.content {
            children.extend(refused);
        }
        let told = group.node();
        self.groups.insert(jid.user.to_string(), group);
        self.tell_group(at, &jid, parent("create", [told]), &[]);
        Ok(vec![shown])
    }

    fn ask_of_group(&mut self, at: DeviceAddress, to: &Jid, gets: bool, asked: &NodeRef<'_>) -> Answered {
        let me = at.number;
        if gets {
            let group = self.group(to)?;
            group.check(me, false)?;
            return match asked.tag.as_ref() {
                "query" => Ok(vec![group.node()]),
                "invite" => {
                    group.check(me, true)?;
                    Ok(vec![element("invite").attr("code", group.invite.as_str()).build()])
                }
                "membership_approval_requests" => {
                    group.check(me, true)?;
                    let requests = group.requests.iter().map(|(number, at)| {
                        element("membership_approval_request")
                            .attr("jid", number.pn())
                            .attr("request_time", at.unix_seconds())
                            .build()
                    });
                    Ok(vec![parent("membership_approval_requests", requests)])
                }
                _ => Err(WRONG),
            };
        }
        match asked.tag.as_ref() {
            "add" => self.add_to_group(at, to, asked),
            "remove" | "promote" | "demote" => self.change_members(at, to, asked),
            "membership_requests_action" => self.decide_requests(at, to, asked),
            "invite" => {
                self.group(to)?.check(me, true)?;
                let code = mint_invite();
                self.group_mut(to)?.invite.clone_from(&code);
                self.tell_group(at, to, element("revoke").build(), &[]);
                Ok(vec![element("invite").attr("code", code).build()])
            }
            _ => self.change_group(at, to, asked),
        }
    }

    /// Changes a group's subject, description or settings.
    fn change_group(&mut self, at: DeviceAddress, to: &Jid, asked: &NodeRef<'_>) -> Answered {
        let (me, now) = (at.number, self.now());
        let group = self.group_mut(to)?;
        let tag = asked.tag.as_ref();
        let of_all = matches!(tag, "subject" | "description" | "ephemeral" | "not_ephemeral");
        group.check(me, !of_all || group.locked)?;
        let notice = match tag {
            "subject" => {
                let subject = asked.content_as_string().ok_or(WRONG)?;
                group.subject = subject.to_string();
                (group.subject_by, group.subject_at) = (me, now);
                element("subject")
                    .attr("subject", group.subject.as_str())
                    .attr("s_o", me.pn())
                    .attr("s_t", now.unix_seconds())
                    .build()
            }
            "description" => {
                let before = group.description.as_ref().map(|description| description.id.clone());
                if text(asked, "prev") != before {
                    return Err(CONFLICT);
                }
                let id = text(asked, "id").ok_or(WRONG)?;
                let body = body_of(asked);
                let shown = element("description").attr("id", id.as_str());
                let notice = match &body {
                    Some(body) => shown.children([element("body").string_content(body.as_str()).build()]).build(),
                    None => shown.children([empty("delete")]).build(),
                };
                group.description = body.map(|text| Description { id, text, by: me, at: now });
                notice
            }
            "locked" | "unlocked" => {
                group.locked = tag == "locked";
                empty(if group.locked { "locked" } else { "unlocked" })
            }
            "announcement" | "not_announcement" => {
                group.announcement = tag == "announcement";
                empty(if group.announcement { "announcement" } else { "not_announcement" })
            }
            "ephemeral" => {
                let seconds = text(asked, "expiration").and_then(|seconds| seconds.parse().ok()).ok_or(WRONG)?;
                group.ephemeral_seconds = Some(seconds);
                element("ephemeral").attr("expiration", seconds).build()
            }
            "not_ephemeral" => {
                group.ephemeral_seconds = None;
                empty("not_ephemeral")
            }
            "membership_approval_mode" => {
                let state = asked.get_optional_child("group_join").and_then(|join| text(join, "state"));
                group.approval = state.as_deref() == Some("on");
                let state = if group.approval { "on" } else { "off" };
                parent("membership_approval_mode", [element("group_join").attr("state", state).build()])
            }
            "member_add_mode" => {
                group.admin_add = asked.content_as_string().as_deref() == Some("admin_add");
                element("member_add_mode").string_content(group.add_mode()).build()
            }
            _ => return Err(WRONG),
        };
        self.tell_group(at, to, notice, &[]);
        Ok(Vec::new())
    }

    fn add_to_group(&mut self, at: DeviceAddress, to: &Jid, asked: &NodeRef<'_>) -> Answered {
        let group = self.group(to)?;
        group.check(at.number, group.admin_add)?;
        let (mut added, mut shown) = (Vec::new(), Vec::new());
        for number in named(asked) {
            let registered = self.accounts.contains_key(&number);
            let group = self.group_mut(to)?;
            match group.cannot_add(number, registered) {
                Some(code) => shown.push(with_error(number, code)),
                None => {
                    group.members.insert(number, Rank::Member);
                    group.requests.remove(&number);
                    added.push(participant(number, None));
                    shown.push(participant(number, None));
                }
            }
        }
        if !added.is_empty() {
            self.tell_group(at, to, parent("add", added), &[]);
        }
        Ok(vec![parent("add", shown)])
    }

    fn change_members(&mut self, at: DeviceAddress, to: &Jid, asked: &NodeRef<'_>) -> Answered {
        self.group(to)?.check(at.number, true)?;
        let action: &'static str = match asked.tag.as_ref() {
            "remove" => "remove",
            "promote" => "promote",
            _ => "demote",
        };
        let (mut changed, mut shown, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for number in named(asked) {
            let group = self.group_mut(to)?;
            match group.members.get_mut(&number) {
                None => {
                    shown.push(with_error(number, 404));
                    continue;
                }
                Some(Rank::Creator) => {
                    shown.push(with_error(number, 403));
                    continue;
                }
                Some(rank) if action == "promote" => *rank = Rank::Admin,
                Some(rank) if action == "demote" => *rank = Rank::Member,
                Some(_) => {
                    group.remove(number);
                    gone.push(number);
                }
            }
            changed.push(participant(number, None));
            shown.push(participant(number, None));
        }
        if !changed.is_empty() {
            self.tell_group(at, to, parent(action, changed), &gone);
        }
        Ok(vec![parent(action, shown)])
    }

    fn decide_requests(&mut self, at: DeviceAddress, to: &Jid, asked: &NodeRef<'_>) -> Answered {
        self.group(to)?.check(at.number, true)?;
        let decided = asked.children().and_then(<[_]>::first).ok_or(WRONG)?;
        let approves = decided.tag.as_ref() == "approve";
        let (mut added, mut shown) = (Vec::new(), Vec::new());
        for number in named(decided) {
            let group = self.group_mut(to)?;
            if group.requests.remove(&number).is_none() {
                shown.push(with_error(number, 404));
                continue;
            }
            if approves {
                group.members.insert(number, Rank::Member);
                added.push(participant(number, None));
            }
            shown.push(participant(number, None));
        }
        if !added.is_empty() {
            self.tell_group(at, to, parent("add", added), &[]);
        }
        Ok(vec![parent("membership_requests_action", [parent(if approves { "approve" } else { "reject" }, shown)])])
    }

    fn leave_group(&mut self, at: DeviceAddress, to: &Jid) -> Result<(), GroupRefusal> {
        self.group(to)?.check(at.number, false)?;
        self.group_mut(to)?.remove(at.number);
        self.tell_group(at, to, parent("remove", [participant(at.number, None)]), &[at.number]);
        Ok(())
    }

    fn join_group(&mut self, at: DeviceAddress, to: &Jid) -> Answered {
        let (me, now) = (at.number, self.now());
        let group = self.group_mut(to)?;
        if let Some(code) = group.cannot_add(me, true) {
            return Err(if code == 409 { CONFLICT } else { FORBIDDEN });
        }
        if group.approval {
            group.requests.insert(me, now);
            return Ok(vec![element("membership_approval_request").attr("jid", to.clone()).build()]);
        }
        group.members.insert(me, Rank::Member);
        self.tell_group(at, to, element("add").attr("reason", "invite").children([participant(me, None)]).build(), &[]);
        Ok(vec![element("group").attr("jid", to.clone()).build()])
    }

    pub fn group(&self, jid: &Jid) -> Result<&Group, GroupRefusal> {
        self.groups.get(jid.user.as_str()).ok_or(UNKNOWN)
    }

    pub fn group_mut(&mut self, jid: &Jid) -> Result<&mut Group, GroupRefusal> {
        self.groups.get_mut(jid.user.as_str()).ok_or(UNKNOWN)
    }

    /// Notifies the devices of all members, except the acting one, and those of removed members.
    fn tell_group(&mut self, by: DeviceAddress, jid: &Jid, what: Node, gone: &[Number]) {
        let Ok(group) = self.group(jid) else { return };
        let told: Vec<Number> = group.members.keys().chain(gone).copied().collect();
        let id = format!("group-{}", self.next());
        let notice = element("notification")
            .attr("from", jid.clone())
            .attr("participant", by.number.pn())
            .attr("id", id.as_str())
            .attr("type", "w:gp2")
            .attr("t", self.seconds())
            .attr("addressing_mode", "pn")
            .children([what])
            .build();
        let group = jid.to_string();
        for number in told {
            // A removed member must not be able to read further messages.
            if !gone.is_empty()
                && let Some(account) = self.accounts.get_mut(&number)
            {
                account.phone.signal().forget_sender_key(&group, number.device(0));
            }
            let devices: Vec<u16> =
                self.accounts.get(&number).map(|account| account.devices.keys().copied().collect()).unwrap_or_default();
            for device in devices.into_iter().map(|device| number.device(device)).filter(|device| *device != by) {
                self.enqueue(device, "notification", &id, notice.clone());
            }
        }
    }
}

fn refused(id: &str, refusal: GroupRefusal) -> Node {
    error(id, refusal.code, refusal.text)
}

fn named(asked: &NodeRef<'_>) -> Vec<Number> {
    let named = asked.get_children_by_tag("participant").take(MAX_NAMED).filter_map(|node| jid(node, "jid"));
    named.filter_map(|jid| Number::of_jid(&jid)).collect()
}

fn with_error(number: Number, code: u16) -> Node {
    element("participant").attr("jid", number.pn()).attr("error", code).build()
}

fn body_of(description: &NodeRef<'_>) -> Option<String> {
    description.get_optional_child("body")?.content_as_string().map(|body| body.to_string())
}
