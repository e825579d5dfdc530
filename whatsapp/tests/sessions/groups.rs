//! Groups: what the channel does with them and writes to them, and what others do.

use model::address::Address;
use model::group::{GroupChanges, GroupOrigin, ParticipantAction, ParticipantStatus, RemovedReason};
use model::message::Content;
use model::time::Timestamp;
use network::driver::{InboundItem, InboundKind, Purpose, SessionEvent};
use network::notice::{GroupNews, News};
use network::operation::groups::{GroupAnswer, GroupOperation};
use network::operation::{Answer, Operation, RefusedKind};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::world::{CHANNEL, FRIEND, Line, World, friend, until};

const OTHER: &str = "15550000003";
const THIRD: &str = "15550000004";

fn person(number: &str) -> Address {
    Address::parse(&format!("{number}@s.whatsapp.net")).unwrap()
}

/// The news of groups, and the items that brought them.
fn news(event: &SessionEvent) -> Option<(InboundItem, GroupNews)> {
    let SessionEvent::Inbound(item) = event else { return None };
    let InboundKind::Notice(notice) = &item.kind else { return None };
    let News::Group { news, .. } = &notice.news else { return None };
    Some(((**item).clone(), news.clone()))
}

async fn ask(line: &mut Line, operation: GroupOperation) -> (Vec<GroupNews>, GroupAnswer) {
    let (told, answer) = line.ask(Uuid::new_v4(), Operation::Groups(operation)).await;
    let told = told.iter().filter_map(|event| news(event).map(|(_, news)| news)).collect();
    match answer.unwrap() {
        Answer::Groups(answer) => (told, answer),
        other => panic!("{other:?}"),
    }
}

pub async fn make(line: &mut Line, members: &[&str]) -> Address {
    let participants = members.iter().map(|number| person(number)).collect();
    let (told, answer) = ask(line, GroupOperation::Create { subject: "Friends".into(), participants }).await;
    let GroupAnswer::Created { group, participants_result } = answer else { panic!("{answer:?}") };
    assert_eq!(group.participants.len(), 1 + members.len());
    assert!(participants_result.iter().all(|result| result.status == ParticipantStatus::Ok), "{participants_result:?}");
    // It is told of before its caller is answered.
    let entered = GroupNews::Entered { group: Box::new(group.clone()), origin: GroupOrigin::Created };
    assert_eq!(told, [entered]);
    group.id
}

async fn people(world: &World) {
    for number in [OTHER, THIRD] {
        world.post("/phones", json!({ "number": number })).await;
    }
}

async fn read_by(world: &World, number: &str) -> Vec<String> {
    let inbox = world.get(&format!("/phones/{number}/inbox?limit=1000")).await;
    inbox["data"].as_array().unwrap().iter().map(|row| row["text"].as_str().unwrap_or_default().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn members_read_what_a_channel_writes_to_their_group_and_the_next_owner_writes_on() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND, OTHER]).await;
    let text = |text: &str| Content::Text { text: text.into() };
    line.send_to(group.clone(), "3EB0A1", text("to all")).await;
    let recipients = |event: &SessionEvent| match event {
        SessionEvent::Accepted { id, recipients, .. } if id.as_str() == "3EB0A1" => Some(*recipients),
        SessionEvent::Refused { refused, .. } => panic!("{refused:?}"),
        _ => None,
    };
    assert_eq!(line.until(recipients).await, Some(2));
    let body = json!({ "type": "text", "to": group, "text": "to you" });
    world.post(&format!("/phones/{FRIEND}/messages"), body).await;
    let (item, said) = line.message().await;
    let InboundKind::Message(message) = item.kind else { panic!("{item:?}") };
    assert_eq!((message.chat, message.from, said.as_str()), (group.clone(), friend(), "to you"));

    let mut line = world.take_over(line).await;
    // One that is new reads from here on; one that has gone reads no more.
    let add = |action, number| {
        let participants = vec![person(number)];
        GroupOperation::Participants { group: group.clone(), action, participants }
    };
    ask(&mut line, add(ParticipantAction::Add, THIRD)).await;
    ask(&mut line, add(ParticipantAction::Remove, OTHER)).await;
    line.send_to(group.clone(), "3EB0A2", text("of the next owner")).await;
    line.accepted("3EB0A2").await;
    until("the members read it", async || {
        let read = (read_by(&world, FRIEND).await, read_by(&world, THIRD).await);
        (read.0 == ["to all", "of the next owner"] && read.1 == ["of the next owner"]).then_some(())
    })
    .await;
    assert_eq!(read_by(&world, OTHER).await, ["to all", "to you"]);
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_read_a_groups_first_message_though_the_network_refused_or_lost_it_at_first() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let text = |text: &str| Content::Text { text: text.into() };
    let faults = [json!({ "nack": { "code": 503, "pct": 100.0 } }), json!({ "drop_before_accept_pct": 100.0 })];
    for (round, fault) in faults.into_iter().enumerate() {
        let group = make(&mut line, &[FRIEND, OTHER]).await;
        let raw = world.get("/stats").await["raw_sends"].as_u64();
        assert_eq!(world.call("PUT", "/faults", Some(fault)).await.0, 200);
        let (first, second) = (format!("3EB0{round}1"), format!("3EB0{round}2"));
        line.send_to(group.clone(), &first, text("first")).await;
        let went = async || (world.get("/stats").await["raw_sends"].as_u64() > raw).then_some(());
        until("it has left", went).await;
        assert_eq!(world.call("DELETE", "/faults", None).await.0, 200);
        // The outbox does so where the network is silent.
        line.send_to(group.clone(), &first, text("first")).await;
        line.send_to(group, &second, text("second")).await;
        line.accepted(&first).await;
        line.accepted(&second).await;
    }
    for member in [FRIEND, OTHER] {
        let all = ["first", "second", "first", "second"];
        until("the members read it", async || (read_by(&world, member).await == all).then_some(())).await;
    }
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_writes_for_the_first_time_as_the_channel_does_is_read_on() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND, OTHER]).await;
    // The channel begins a session with each member, of which none of them hears.
    let raw = world.get("/stats").await["raw_sends"].as_u64();
    assert_eq!(world.call("PUT", "/faults", Some(json!({ "drop_before_accept_pct": 100.0 }))).await.0, 200);
    line.send_to(group, "3EB0A1", Content::Text { text: "lost on its way".into() }).await;
    let went = async || (world.get("/stats").await["raw_sends"].as_u64() > raw).then_some(());
    until("it has left", went).await;
    assert_eq!(world.call("DELETE", "/faults", None).await.0, 200);
    // One of them begins another, and goes on in that until it is answered.
    for words in ["one", "two", "three"] {
        let body = json!({ "type": "text", "to": CHANNEL, "text": words });
        world.post(&format!("/phones/{FRIEND}/messages"), body).await;
        assert_eq!(line.message().await.1, words);
    }
    assert_eq!(world.get("/crypto").await["retry_receipts"], json!(0), "nothing had to come again");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn receipts_of_a_group_are_told_after_the_acceptance_of_what_an_earlier_owner_sent() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND, OTHER]).await;
    // The network takes the message and does not say so; what it tells stays with it.
    let faults = json!({ "drop_after_accept_pct": 100, "hold_inbound_acks": true });
    world.call("PUT", "/faults", Some(faults)).await;
    let said = || Content::Text { text: "said".into() };
    line.send_to(group.clone(), "3EB0A1", said()).await;
    for member in [FRIEND, OTHER] {
        until("the members have it", async || (read_by(&world, member).await.len() == 1).then_some(())).await;
    }
    let mut line = world.take_over(line).await;
    world.call("DELETE", "/faults", None).await;
    line.send_to(group, "3EB0A1", said()).await;
    let mut told = Vec::new();
    while told.iter().filter(|told| **told == "receipt").count() < 2 {
        let next = line.until(|event| match event {
            SessionEvent::Accepted { recipients: Some(2), .. } => Some("accepted"),
            SessionEvent::Inbound(item) if matches!(item.kind, InboundKind::Receipt(_)) => Some("receipt"),
            _ => None,
        });
        told.push(next.await);
    }
    assert_eq!(told[0], "accepted", "{told:?}");
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_could_not_read_a_group_s_new_key_asks_for_one_message_and_reads_the_next_ones() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND, OTHER]).await;
    let text = |text: &str| Content::Text { text: text.into() };
    line.send_to(group.clone(), "3EB0A1", text("under the first key")).await;
    line.accepted("3EB0A1").await;
    until("the members read it", async || (read_by(&world, FRIEND).await.len() == 1).then_some(())).await;
    // The next key comes in a session that the phone has lost.
    world.post(&format!("/phones/{FRIEND}/forget-session"), json!({ "with": CHANNEL })).await;
    let participants = vec![person(OTHER)];
    let remove = GroupOperation::Participants { group: group.clone(), action: ParticipantAction::Remove, participants };
    ask(&mut line, remove).await;
    line.send_to(group.clone(), "3EB0A2", text("asked for")).await;
    line.accepted("3EB0A2").await;
    until("it comes again", async || (read_by(&world, FRIEND).await.len() == 2).then_some(())).await;
    line.send_to(group.clone(), "3EB0A3", text("read at once")).await;
    line.accepted("3EB0A3").await;
    line.send_to(group, "3EB0A4", text("and on")).await;
    line.accepted("3EB0A4").await;
    let all = ["under the first key", "asked for", "read at once", "and on"];
    until("it reads on", async || (read_by(&world, FRIEND).await == all).then_some(())).await;
    // What it has asked for once is no finding; what it cannot read after that is one.
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_dies_amid_messages_to_a_group_loses_and_doubles_none_and_uses_no_key_twice() {
    const KILLS: usize = 6;
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND, OTHER]).await;
    let mut sent = Vec::new();
    for kill in 0..KILLS {
        let open: Vec<String> = (0..5).map(|n| format!("3EB0{kill:02}{n:02}")).collect();
        for id in &open {
            line.send_to(group.clone(), id, Content::Text { text: id.clone() }).await;
        }
        // Now here, now there in the middle of it.
        tokio::time::sleep(std::time::Duration::from_millis(9 * kill as u64)).await;
        line = world.take_over(line).await;
        for id in &open {
            line.send_to(group.clone(), id, Content::Text { text: id.clone() }).await;
        }
        let last = open.last().unwrap().clone();
        sent.extend(open);
        line.accepted(&last).await;
    }
    for member in [FRIEND, OTHER] {
        until("the members have all of it", async || (read_by(&world, member).await.len() >= sent.len()).then_some(()))
            .await;
        assert_eq!(read_by(&world, member).await, sent, "each once, and in order");
    }
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_changed_and_its_members_and_invites_are() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    let changes = GroupChanges {
        subject: Some("Others".into()),
        description: Some("What for".into()),
        announce: Some(true),
        restrict: Some(true),
        member_add_mode: Some(false),
        join_approval_mode: Some(true),
        ephemeral: Some(86_400),
    };
    let (told, answer) =
        ask(&mut line, GroupOperation::Change { group: group.clone(), changes: changes.clone() }).await;
    assert_eq!(told.len(), 1, "one thing was done: {told:?}");
    let GroupAnswer::Group(now) = answer else { panic!("{answer:?}") };
    let mut as_asked = now.clone();
    assert!(as_asked.change(changes).is_empty(), "{now:?}");
    let cleared = GroupChanges { description: Some(String::new()), ephemeral: Some(0), ..GroupChanges::default() };
    let (_, answer) = ask(&mut line, GroupOperation::Change { group: group.clone(), changes: cleared }).await;
    let GroupAnswer::Group(now) = answer else { panic!("{answer:?}") };
    assert_eq!((now.description, now.ephemeral), (None, 0));

    let act = |action, numbers: &[&str]| {
        let participants = numbers.iter().map(|number| person(number)).collect();
        GroupOperation::Participants { group: group.clone(), action, participants }
    };
    let (told, answer) = ask(&mut line, act(ParticipantAction::Add, &[OTHER, FRIEND, "15550009999"])).await;
    let GroupAnswer::Participants(results) = answer else { panic!("{answer:?}") };
    let statuses: Vec<_> = results.iter().map(|result| result.status).collect();
    use ParticipantStatus::{AlreadyMember, NotFound, Ok as Done};
    assert_eq!(statuses, [Done, AlreadyMember, NotFound]);
    assert!(
        matches!(&told[..], [GroupNews::Added { participants, .. }] if *participants == [person(OTHER)]),
        "{told:?}"
    );
    let (told, _) = ask(&mut line, act(ParticipantAction::Promote, &[OTHER])).await;
    assert!(matches!(&told[..], [GroupNews::Promoted { .. }]), "{told:?}");
    let (told, _) = ask(&mut line, act(ParticipantAction::Demote, &[OTHER])).await;
    assert!(matches!(&told[..], [GroupNews::Demoted { .. }]), "{told:?}");

    let invite = |answer| match answer {
        GroupAnswer::Invite { invite_code } => invite_code,
        other => panic!("{other:?}"),
    };
    let first = invite(ask(&mut line, GroupOperation::Invite { group: group.clone() }).await.1);
    let second = invite(ask(&mut line, GroupOperation::RevokeInvite { group: group.clone() }).await.1);
    assert_ne!(first, second);
    let (_, answer) = ask(&mut line, GroupOperation::Preview { invite_code: second.clone() }).await;
    assert!(matches!(answer, GroupAnswer::Preview(shown) if shown.id == group && shown.size == 3));
    world.post(&format!("/phones/{THIRD}/groups/join"), json!({ "invite_code": second })).await;
    let (_, answer) = ask(&mut line, GroupOperation::JoinRequests { group: group.clone() }).await;
    assert!(matches!(&answer, GroupAnswer::JoinRequests(waiting) if waiting[0].id == person(THIRD)), "{answer:?}");
    let decide =
        GroupOperation::DecideRequests { group: group.clone(), approve: true, participants: vec![person(THIRD)] };
    let (told, _) = ask(&mut line, decide).await;
    assert!(matches!(&told[..], [GroupNews::Added { .. }]), "{told:?}");
    let (_, answer) = ask(&mut line, GroupOperation::List).await;
    assert!(
        matches!(&answer, GroupAnswer::Groups(all) if all.len() == 1 && all[0].participants.len() == 4),
        "{answer:?}"
    );
    let (told, _) = ask(&mut line, GroupOperation::Leave { group: group.clone() }).await;
    assert!(matches!(&told[..], [GroupNews::Removed { reason: RemovedReason::Left, .. }]), "{told:?}");
    line.send_to(group, "3EB0A1", Content::Text { text: "from outside".into() }).await;
    let refused = |event: &SessionEvent| match event {
        SessionEvent::Refused { refused, .. } => Some(refused.kind),
        _ => None,
    };
    assert_eq!(line.until(refused).await, RefusedKind::Recipient);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_do_with_groups_is_told_and_again_to_the_next_owner_until_it_is_acknowledged() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let made = json!({ "subject": "Of others", "participants": [OTHER, CHANNEL] });
    let made = world.post(&format!("/phones/{FRIEND}/groups"), made).await;
    let group = Address::parse(made["id"].as_str().unwrap()).unwrap();
    // The first owner does not acknowledge the news.
    let first = loop {
        if let Some((item, news)) = news(&line.next().await) {
            break (item.id, news);
        }
    };
    let mut line = world.take_over(line).await;
    let (item, again) = line.until(news).await;
    assert_eq!((item.id, &again), (first.0, &first.1));
    let GroupNews::Entered { group: entered, origin: GroupOrigin::Added } = again else { panic!("{again:?}") };
    assert_eq!((entered.id, entered.subject.as_str(), entered.participants.len()), (group.clone(), "Of others", 3));

    let at = format!("/phones/{FRIEND}/groups/{group}");
    let (status, _) = world.call("PUT", &format!("{at}/subject"), Some(json!({ "subject": "Renamed" }))).await;
    assert!(status < 300, "{status}");
    let renamed = GroupChanges { subject: Some("Renamed".into()), ..GroupChanges::default() };
    assert_eq!(line.until(news).await.1, GroupNews::Changed(renamed));
    let act = |action: &str, number: &str| json!({ "action": action, "participants": [number] });
    world.post(&format!("{at}/participants"), act("add", THIRD)).await;
    let told = line.until(news).await.1;
    assert!(matches!(&told, GroupNews::Added { participants, .. } if *participants == [person(THIRD)]), "{told:?}");
    world.post(&format!("/phones/{THIRD}/groups/{group}/leave"), Value::Null).await;
    let told = line.until(news).await.1;
    assert!(matches!(&told, GroupNews::Removed { reason: RemovedReason::Left, .. }), "{told:?}");
    world.post(&format!("{at}/participants"), act("remove", CHANNEL)).await;
    let told = line.until(news).await.1;
    assert!(matches!(&told, GroupNews::Removed { participants, .. } if *participants == [person(CHANNEL)]), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_asked_for_twice_under_one_id_is_made_once() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    for round in 0..4 {
        let id = Uuid::new_v4();
        let create = GroupOperation::Create { subject: format!("Round {round}"), participants: vec![friend()] };
        let made = async || {
            let groups = world.get(&format!("/phones/{FRIEND}/groups")).await;
            groups["total"].as_u64().filter(|total| *total == round + 1)
        };
        line.session.operate(id, Operation::Groups(create.clone())).await.unwrap();
        until("the group is made", made).await;
        // Whether its owner has heard of it or not.
        if round % 2 == 1 {
            line.until(|event| matches!(event, SessionEvent::Operated { .. }).then_some(())).await;
        }
        line = world.take_over(line).await;
        let (_, answer) = line.ask(id, Operation::Groups(create)).await;
        let answer = answer.unwrap();
        let subject = format!("Round {round}");
        assert!(matches!(&answer, Answer::Groups(GroupAnswer::Created { group, .. }) if group.subject == subject));
        let groups = world.get(&format!("/phones/{FRIEND}/groups")).await;
        assert_eq!(groups["total"], json!(round + 1), "{groups}");
    }
}

/// What an owner notes of a question before it asks, as it stands where no answer is known.
fn unanswered() -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Asked {
        at: Timestamp,
        answer: Option<()>,
    }
    let mut row = vec![1_u8];
    rmp_serde::encode::write_named(&mut row, &Asked { at: Timestamp::now(), answer: None }).unwrap();
    row
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_let_in_is_in_for_the_next_owner_too_where_the_answer_was_lost() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    let changes = GroupChanges { join_approval_mode: Some(true), ..GroupChanges::default() };
    ask(&mut line, GroupOperation::Change { group: group.clone(), changes }).await;
    let (_, answer) = ask(&mut line, GroupOperation::Invite { group: group.clone() }).await;
    let GroupAnswer::Invite { invite_code } = answer else { panic!("{answer:?}") };
    world.post(&format!("/phones/{THIRD}/groups/join"), json!({ "invite_code": invite_code })).await;
    let decide = GroupOperation::DecideRequests { group, approve: true, participants: vec![person(THIRD)] };
    let id = Uuid::new_v4();
    line.ask(id, Operation::Groups(decide.clone())).await.1.unwrap();
    line.session.drain().await;
    world.store.rows.lock().insert(format!("o/{id}"), unanswered());
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    let (_, answer) = line.ask(id, Operation::Groups(decide)).await;
    let Ok(Answer::Groups(GroupAnswer::Participants(results))) = answer else { panic!("{answer:?}") };
    assert_eq!(results[0].status, ParticipantStatus::Ok);
}

/// Adds or removes somebody, as an admin's phone does.
async fn change(world: &World, group: &Address, action: &str, number: &str) {
    let body = json!({ "action": action, "participants": [number] });
    world.post(&format!("/phones/{FRIEND}/groups/{group}/participants"), body).await;
}

/// Writes to a group; whom `reads` names reads that and nothing before it.
async fn write_to(world: &World, line: &mut Line, group: &Address, id: &str, reads: Option<&str>) {
    line.send_to(group.clone(), id, Content::Text { text: id.into() }).await;
    line.accepted(id).await;
    let Some(reader) = reads else { return };
    until("the new member reads it", async || (read_by(world, reader).await == [id]).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_let_in_reads_what_is_written_next() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    // From here on its members are known.
    write_to(&world, &mut line, &group, "3EB0A1", None).await;
    let changes = GroupChanges { join_approval_mode: Some(true), ..GroupChanges::default() };
    ask(&mut line, GroupOperation::Change { group: group.clone(), changes }).await;
    let (_, answer) = ask(&mut line, GroupOperation::Invite { group: group.clone() }).await;
    let GroupAnswer::Invite { invite_code } = answer else { panic!("{answer:?}") };
    world.post(&format!("/phones/{THIRD}/groups/join"), json!({ "invite_code": invite_code })).await;
    let decide =
        GroupOperation::DecideRequests { group: group.clone(), approve: true, participants: vec![person(THIRD)] };
    ask(&mut line, decide).await;
    write_to(&world, &mut line, &group, "3EB0A2", Some(THIRD)).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_the_channel_added_is_told_of_and_reads_what_is_written_next_though_the_network_answered_late() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    // From here on its members are known.
    write_to(&world, &mut line, &group, "3EB0A1", None).await;
    // The owner waits for 20 s.
    let (status, _) = world.call("PUT", "/faults", Some(json!({ "groups_delay_ms": 21_000 }))).await;
    assert_eq!(status, 200);
    let (id, participants) = (Uuid::new_v4(), vec![person(THIRD)]);
    let add = GroupOperation::Participants { group: group.clone(), action: ParticipantAction::Add, participants };
    line.session.operate(id, Operation::Groups(add)).await.unwrap();
    let is_in = async || {
        let groups = world.get(&format!("/phones/{THIRD}/groups")).await;
        (groups["total"] == json!(1)).then_some(())
    };
    until("the network has added somebody", is_in).await;
    assert_eq!(world.call("DELETE", "/faults", None).await.0, 200);
    let told = line.until(news).await.1;
    assert!(matches!(&told, GroupNews::Added { participants, .. } if *participants == [person(THIRD)]), "{told:?}");
    write_to(&world, &mut line, &group, "3EB0A2", Some(THIRD)).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_came_into_a_group_while_the_channel_was_out_of_it_reads_what_it_writes_then() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let made = json!({ "subject": "Of others", "participants": [OTHER, CHANNEL] });
    let made = world.post(&format!("/phones/{FRIEND}/groups"), made).await;
    let group = Address::parse(made["id"].as_str().unwrap()).unwrap();
    line.until(news).await;
    write_to(&world, &mut line, &group, "3EB0A1", None).await;
    change(&world, &group, "remove", CHANNEL).await;
    let told = line.until(news).await.1;
    assert!(matches!(told, GroupNews::Removed { .. }), "{told:?}");
    change(&world, &group, "add", THIRD).await;
    change(&world, &group, "add", CHANNEL).await;
    let told = line.until(news).await.1;
    assert!(matches!(&told, GroupNews::Entered { group, .. } if group.participants.len() == 4), "{told:?}");
    write_to(&world, &mut line, &group, "3EB0A2", Some(THIRD)).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_an_owner_added_that_died_before_it_was_answered_reads_what_the_next_one_writes() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    write_to(&world, &mut line, &group, "3EB0A1", None).await;
    let members = format!("g/{group}");
    let before = world.store.rows.lock().get(&members).cloned().unwrap();
    let (id, participants) = (Uuid::new_v4(), vec![person(THIRD)]);
    let add = GroupOperation::Participants { group: group.clone(), action: ParticipantAction::Add, participants };
    line.ask(id, Operation::Groups(add)).await.1.unwrap();
    line.session.drain().await;
    {
        let mut rows = world.store.rows.lock();
        assert!(rows.insert(members, before.clone()) != Some(before), "the members of the group are not kept");
        rows.insert(format!("o/{id}"), unanswered());
    }
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    // Its caller has gone, and asks no more.
    write_to(&world, &mut line, &group, "3EB0A2", Some(THIRD)).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_of_a_group_that_has_changed_read_what_follows_a_message_that_the_network_has_had_before() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let made = json!({ "subject": "Of others", "participants": [OTHER, CHANNEL] });
    let made = world.post(&format!("/phones/{FRIEND}/groups"), made).await;
    let group = Address::parse(made["id"].as_str().unwrap()).unwrap();
    line.until(news).await;
    // The network takes the message and does not say so.
    world.call("PUT", "/faults", Some(json!({ "drop_after_accept_pct": 100 }))).await;
    let said = || Content::Text { text: "3EB0A1".into() };
    line.send_to(group.clone(), "3EB0A1", said()).await;
    until("the members have it", async || (read_by(&world, OTHER).await.len() == 1).then_some(())).await;
    // One that goes has the next owner begin a key, and one that comes is told it: by what the network throws away.
    change(&world, &group, "add", THIRD).await;
    change(&world, &group, "remove", OTHER).await;
    let mut line = world.take_over(line).await;
    world.call("DELETE", "/faults", None).await;
    line.send_to(group.clone(), "3EB0A1", said()).await;
    line.accepted("3EB0A1").await;
    write_to(&world, &mut line, &group, "3EB0A2", Some(THIRD)).await;
    until("the friend reads on", async || (read_by(&world, FRIEND).await == ["3EB0A1", "3EB0A2"]).then_some(())).await;
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_came_while_the_channel_was_away_is_among_the_recipients_of_what_it_writes_at_once() {
    let mut world = World::new().await;
    people(&world).await;
    let mut line = world.pair().await;
    let made = json!({ "subject": "Of others", "participants": [OTHER, CHANNEL] });
    let made = world.post(&format!("/phones/{FRIEND}/groups"), made).await;
    let group = Address::parse(made["id"].as_str().unwrap()).unwrap();
    line.until(news).await;
    write_to(&world, &mut line, &group, "3EB0A1", None).await;
    line.session.drain().await;
    change(&world, &group, "add", THIRD).await;
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    line.send_to(group, "3EB0A2", Content::Text { text: "at once".into() }).await;
    let recipients = |event: &SessionEvent| match event {
        SessionEvent::Accepted { recipients, .. } => Some(*recipients),
        _ => None,
    };
    assert_eq!(line.until(recipients).await, Some(3));
    world.assert_clean().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invite_is_revoked_by_the_next_owner_where_the_first_one_died_before_it_asked() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    let invite = |answer: GroupAnswer| match answer {
        GroupAnswer::Invite { invite_code } => invite_code,
        other => panic!("{other:?}"),
    };
    let first = invite(ask(&mut line, GroupOperation::Invite { group: group.clone() }).await.1);
    line.session.drain().await;
    let id = Uuid::new_v4();
    world.store.rows.lock().insert(format!("o/{id}"), unanswered());
    let mut line = world.open(Purpose::Login).await;
    line.logged_in().await;
    let (_, answer) = line.ask(id, Operation::Groups(GroupOperation::RevokeInvite { group: group.clone() })).await;
    let Answer::Groups(answer) = answer.unwrap() else { panic!("no answer about groups") };
    let second = invite(answer);
    assert_ne!(first, second);
    assert_eq!(invite(ask(&mut line, GroupOperation::Invite { group }).await.1), second);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receipt_that_comes_before_the_network_s_word_says_that_it_has_the_message() {
    let mut world = World::new().await;
    let mut line = world.pair().await;
    let group = make(&mut line, &[FRIEND]).await;
    let (status, _) = world.call("PUT", "/faults", Some(json!({ "accept_delay_ms": 500 }))).await;
    assert_eq!(status, 200);
    line.send_to(group, "3EB0A1", Content::Text { text: "to all".into() }).await;
    // What is told of a message before it is known to be out counts for nothing.
    let first = line
        .until(|event| match event {
            SessionEvent::Accepted { recipients, .. } => Some(Ok(*recipients)),
            SessionEvent::Inbound(item) => match &item.kind {
                InboundKind::Receipt(receipt) => Some(Err(receipt.clone())),
                _ => None,
            },
            _ => None,
        })
        .await;
    assert_eq!(first, Ok(Some(1)));
}
