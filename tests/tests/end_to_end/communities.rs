//! Communities: what a channel does with them through any node, what others do, and their groups.

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::string;
use tests::scene::{SOON, Scene, assert_has};
use tests::tenant::{address, number};
use tests::wait::eventually;

struct Community<'a> {
    scene: &'a Scene,
    id: String,
}

impl Community<'_> {
    async fn create(scene: &Scene) -> Community<'_> {
        let body = json!({ "subject": "Neighbours", "description": "Our street" });
        let made = scene.api.post(&scene.path("/communities"), body).await.expect(201);
        Community { scene, id: string(&made["id"]) }
    }

    fn path(&self, rest: &str) -> String {
        self.scene.path(&format!("/communities/{}{rest}", self.id))
    }

    /// Path of the community at the peer's phone.
    fn peers(&self, rest: &str) -> String {
        self.scene.phone_path(&format!("/communities/{}{rest}", self.id))
    }

    async fn show(&self) -> Value {
        self.scene.api.get(&self.path("")).await.expect(200)
    }

    /// The community's groups, by subject.
    async fn groups(&self) -> Vec<(String, Value)> {
        let groups = self.scene.api.get(&self.path("/groups")).await.expect(200);
        groups["data"].as_array().unwrap().iter().map(|group| (string(&group["subject"]), group.clone())).collect()
    }

    /// Waits until the channel's view of the community passes.
    async fn until(&self, what: &str, passes: impl Fn(&Value) -> bool) -> Value {
        eventually(what, SOON, async || {
            let answer = self.scene.api.get(&self.path("")).await;
            let shown = answer.json();
            if answer.status == 200 && passes(&shown) { Ok(shown) } else { Err(answer.text()) }
        })
        .await
    }
}

async fn new_group(scene: &Scene, subject: &str) -> String {
    let body = json!({ "subject": subject, "participants": [scene.peer] });
    string(&scene.api.post(&scene.path("/groups"), body).await.expect(201)["id"])
}

#[tokio::test]
async fn a_community_is_made_of_groups_changed_and_ended_through_any_node() {
    let scene = Scene::begin().await;
    let (api, own) = (&scene.api, scene.channel.address());
    let tools = new_group(&scene, "Tools").await;
    let body = json!({ "subject": "Neighbours", "description": "Our street", "group_ids": [tools] });
    let made = api.post(&scene.path("/communities"), body).await.expect(201);
    let community = Community { scene: &scene, id: string(&made["id"]) };
    let expected = json!({
        "subject": "Neighbours", "description": "Our street", "created_by": own, "group_count": 2,
        "participant_count": 2, "member_add_groups": false, "join_approval_mode": false,
    });
    assert_has(&made, &expected);
    assert_eq!(community.show().await, made);
    let list = api.get(&scene.path("/communities")).await.expect(200);
    assert_eq!(list, json!({ "data": [made] }));
    let groups = community.groups().await;
    assert_has(&groups[0].1, &json!({ "id": made["announcement_group_id"], "is_announcement": true, "joined": true }));
    assert_has(&groups[1].1, &json!({ "id": tools, "is_announcement": false, "participant_count": 2 }));
    // The announcement group is an ordinary group, in which only admins can send.
    let announcement = api.get(&scene.path(&format!("/groups/{}", string(&made["announcement_group_id"])))).await;
    assert_eq!(announcement.expect(200)["announce"], true);

    let changes = json!({ "subject": "Street", "member_add_groups": true, "join_approval_mode": true });
    let changed = api.patch(&community.path(""), changes.clone()).await.expect(200);
    assert_has(&changed, &changes);
    api.patch(&community.path(""), changes).await.expect_error(409, "no_op");
    let invite = api.get(&community.path("/invite")).await.expect(200);
    let code = string(&invite["invite_code"]);
    assert_eq!(invite["invite_url"], format!("https://chat.g.example/{code}"));
    assert_ne!(api.delete(&community.path("/invite")).await.expect(200)["invite_code"], code.as_str());

    assert_eq!(api.delete(&community.path("")).await.status, 204);
    let missing = api.get(&community.path("")).await.expect_error(404, "not_found");
    assert_eq!(missing, json!({ "resource": "community", "id": community.id }));
    assert_eq!(api.get(&scene.path(&format!("/groups/{tools}"))).await.expect(200)["subject"], "Tools");
}

#[tokio::test]
async fn groups_come_into_a_community_and_go_out_of_it() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let community = Community::create(&scene).await;
    let body = json!({ "subject": "Garden", "participants": [scene.peer] });
    let made = api.post(&community.path("/groups"), body).await.expect(201);
    assert_has(&made, &json!({ "subject": "Garden", "created_by": scene.channel.address() }));
    // Members of a group of the community are members of the community.
    community.until("two members", |shown| shown["participant_count"] == 2).await;
    assert_eq!(sim.get(&community.peers("")).await.expect(200)["group_count"], 2);

    let tools = new_group(&scene, "Tools").await;
    let group = community.path(&format!("/groups/{tools}"));
    let added = api.put(&group, json!({})).await.expect(200);
    assert_has(&added, &json!({ "id": tools, "subject": "Tools", "joined": true, "is_announcement": false }));
    api.put(&group, json!({})).await.expect_error(409, "no_op");
    assert_eq!(api.delete(&group).await.status, 204);
    api.delete(&group).await.expect_error(409, "no_op");
    let announcement = string(&community.show().await["announcement_group_id"]);
    let refused = api.delete(&community.path(&format!("/groups/{announcement}"))).await;
    assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);

    // A group without the channel, added by a member who may add groups.
    api.patch(&community.path(""), json!({ "member_add_groups": true })).await.expect(200);
    let made = sim.post(&community.peers("/groups"), json!({ "subject": "Dogs" })).await.expect(201);
    let dogs = string(&made["id"]);
    community.until("three groups", |shown| shown["group_count"] == 3).await;
    let seen = community.groups().await.into_iter().find(|(subject, _)| subject == "Dogs").unwrap().1;
    assert_has(&seen, &json!({ "id": dogs, "joined": false, "participant_count": 1 }));
    let join = community.path(&format!("/groups/{dogs}/join"));
    assert_eq!(api.act(&join).await.expect(200), json!({ "id": dogs, "status": "joined" }));
    api.act(&join).await.expect_error(409, "no_op");
    let told = scene.event("group.created", "joined", |data| data["group"]["id"] == dogs.as_str()).await;
    assert_eq!(told["origin"], "joined");
}

#[tokio::test]
async fn members_of_a_community_come_and_go_with_a_result_for_each() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let community = Community::create(&scene).await;
    let third = number();
    scene.simulator.phone(&third, json!({})).await;
    let (peer, own) = (address(&scene.peer), scene.channel.address());
    let act = async |action: &str, whom: &[&str]| {
        let body = json!({ "action": action, "participants": whom });
        let answer = api.post(&community.path("/participants"), body).await.expect(200);
        let results = answer["participants"].as_array().unwrap().clone();
        results.iter().map(|result| string(&result["status"])).collect::<Vec<_>>()
    };
    assert_eq!(act("add", &[&scene.peer, &third, "19999999999"]).await, ["ok", "ok", "not_found"]);
    assert_eq!(act("promote", &[&peer]).await, ["ok"]);
    let members = async |query: &str| api.get(&community.path(&format!("/participants{query}"))).await.expect(200);
    let all = members("").await;
    let ranks = |page: &Value| -> Vec<(String, String)> {
        let rows = page["data"].as_array().unwrap().iter();
        rows.map(|row| (string(&row["id"]), string(&row["rank"]))).collect()
    };
    let mut expected =
        vec![(own, "creator".to_owned()), (peer.clone(), "admin".into()), (address(&third), "member".into())];
    expected.sort();
    assert_eq!(ranks(&all), expected);
    assert_eq!(all["next_cursor"], Value::Null);
    let first = members("?limit=2").await;
    let second = members(&format!("?limit=2&cursor={}", string(&first["next_cursor"]))).await;
    assert_eq!([ranks(&first), ranks(&second)].concat(), expected);

    // Somebody who is removed from the community leaves its groups, too.
    let body = json!({ "subject": "Garden", "participants": [third] });
    let garden = string(&api.post(&community.path("/groups"), body).await.expect(201)["id"]);
    assert_eq!(act("remove", &[&third]).await, ["ok"]);
    let shown = api.get(&scene.path(&format!("/groups/{garden}"))).await.expect(200);
    assert_eq!(shown["participants"].as_array().unwrap().len(), 1);
    sim.get(&format!("/phones/{third}/communities/{}", community.id)).await.expect(404);
}

#[tokio::test]
async fn a_community_of_others_is_seen_and_its_rules_are_theirs() {
    let scene = Scene::begin().await;
    let (api, sim) = (&scene.api, scene.simulator.api());
    let made = sim.post(&scene.phone_path("/communities"), json!({ "subject": "Theirs" })).await.expect(201);
    let community = Community { scene: &scene, id: string(&made["id"]) };
    api.get(&community.path("")).await.expect_error(404, "not_found");
    let body = json!({ "action": "add", "participants": [scene.channel.number] });
    sim.post(&community.peers("/participants"), body).await.expect(200);
    let shown = community.until("the channel is in", |shown| shown["subject"] == "Theirs").await;
    assert_eq!(shown["created_by"], address(&scene.peer));
    for refused in [
        api.patch(&community.path(""), json!({ "subject": "Ours" })).await,
        api.post(&community.path("/groups"), json!({ "subject": "Ours" })).await,
        api.get(&community.path("/invite")).await,
        api.delete(&community.path("")).await,
    ] {
        assert_eq!(refused.expect_error(422, "other")["upstream_code"], 403);
    }
    let body = json!({ "action": "remove", "participants": [scene.channel.number] });
    sim.post(&community.peers("/participants"), body).await.expect(200);
    eventually("the channel is out", SOON, async || {
        let answer = api.get(&community.path("")).await;
        if answer.status == 404 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
}

#[tokio::test]
async fn bad_bodies_and_unknown_communities_are_refused_by_name() {
    let scene = Scene::begin().await;
    let (api, path) = (&scene.api, scene.path("/communities"));
    let table = [
        (json!({}), json!(["subject"]), "required"),
        (json!({ "subject": "" }), json!(["subject"]), "too_short"),
        (json!({ "subject": "x", "description": "x".repeat(2049) }), json!(["description"]), "too_long"),
        (json!({ "subject": "x", "group_ids": vec!["1@g.example"; 51] }), json!(["group_ids"]), "too_many"),
        (json!({ "subject": "x", "group_ids": [7] }), json!(["group_ids", 0]), "type"),
    ];
    for (body, place, code) in table {
        api.post(&path, body).await.expect_issue(&place, code);
    }
    let unknown = api.post(&path, json!({ "subject": "x", "group_ids": ["12@g.example"] })).await;
    assert_eq!(unknown.expect_error(404, "not_found")["resource"], "group");
    let one = format!("{path}/12@g.example");
    api.patch(&one, json!({})).await.expect_issue(&json!([]), "empty");
    api.patch(&one, json!({ "subject": "x" })).await.expect_error(404, "not_found");
    api.get(&format!("{one}/groups")).await.expect_error(404, "not_found");
    api.get(&format!("{one}/participants?limit=0")).await.expect_issue(&json!(["limit"]), "format");
    api.get(&format!("{path}?refresh=perhaps")).await.expect_issue(&json!(["refresh"]), "format");
}

#[tokio::test]
async fn communities_are_read_in_every_status_and_survive_their_owner() {
    let cluster = Cluster::start(Options::default()).await;
    let scene = Scene::on(&cluster, json!({})).await;
    let community = Community::create(&scene).await;
    let before = community.show().await;
    assert_eq!(scene.api.get(&scene.path("/communities?refresh=true")).await.expect(200), json!({ "data": [before] }));
    let owner = scene.tenant.owner(cluster.running_node(), &scene.channel.id).await.node;
    cluster.kill(owner);
    eventually("another owner", SOON, async || {
        let answer = scene.api.get(&community.path("")).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    assert_eq!(community.show().await, before);
    eventually("the network is asked again", SOON, async || {
        let answer = scene.api.patch(&community.path(""), json!({ "subject": "Still here" })).await;
        if answer.status == 200 { Ok(()) } else { Err(answer.text()) }
    })
    .await;
    scene.api.act(&scene.path("/disconnect")).await.expect(202);
    assert_eq!(community.show().await["subject"], "Still here");
    let refused = scene.api.get(&community.path("?refresh=true")).await;
    refused.expect_error(409, "channel_unavailable");
}
