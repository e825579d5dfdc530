//! The simulated network through its control port: what phones send each other, and what is refused. A channel in a
//! group shows that the gateway handles all of it.

use std::process::Stdio;

use serde_json::{Value, json};
use tests::binary::gateway;
use tests::cluster::Cluster;
use tests::http::{Api, string};
use tests::tenant::{Tenant, address, number, text};
use tests::wait::{check, eventually, seconds};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

/// Sends from a phone, and returns the message id.
async fn write(simulator: &Api, from: &str, body: Value) -> String {
    let answer = simulator.post(&format!("/phones/{from}/messages"), body).await.expect(201);
    string(&answer["ids"][0])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn phones_send_each_other_every_type_and_see_it_in_the_words_of_the_send_body() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let simulator = tenant.simulator();
    let (ann, ben) = (number(), number());
    for phone in [&ann, &ben] {
        simulator.phone(phone, json!({})).await;
    }
    let api = simulator.api();
    let question = write(api, &ann, json!({ "to": ben, "type": "text", "text": "why?" })).await;
    let bodies = [
        json!({ "type": "text", "text": "because", "quoted": { "id": question } }),
        json!({ "type": "image", "media": { "mime_type": "image/png", "size": 1000 }, "caption": "c" }),
        json!({ "type": "video", "media": { "size": 100 }, "view_once": true }),
        json!({ "type": "audio", "media": { "size": 100, "voice": true } }),
        json!({ "type": "document", "media": { "mime_type": "text/plain", "base64": "aGk=", "filename": "hi.txt" } }),
        json!({ "type": "sticker", "media": { "mime_type": "image/webp", "size": 100 } }),
        json!({ "type": "location", "latitude": 1.5, "longitude": 2.5, "name": "Here" }),
        json!({ "type": "contact", "contacts": [{ "name": "Cem", "phones": ["15551234567"] }] }),
        json!({ "type": "poll", "name": "?", "options": ["a", "b"] }),
        json!({ "type": "reaction", "message_key": { "id": question, "from_me": true, "remote_jid": address(&ben) },
            "emoji": "👍" }),
        json!({ "type": "edit", "message_key": { "id": question }, "text": "how?" }),
        json!({ "type": "delete", "message_key": { "id": question } }),
    ];
    for mut body in bodies.clone() {
        body["to"] = json!(address(&ben));
        write(api, &ann, body).await;
    }
    let rows = simulator.inbox(&ben).await;
    assert_eq!(rows.len(), bodies.len() + 1);
    for (row, body) in rows[1..].iter().zip(&bodies) {
        assert_eq!((&row["type"], &row["from"]), (&body["type"], &json!(address(&ann))), "{row}");
        for field in ["text", "caption", "emoji", "latitude", "name", "options"] {
            assert!(body[field].is_null() || row[field] == body[field], "{field}: {row}");
        }
    }
    assert_eq!(rows[1]["quoted"]["message_id"], question.as_str());
    assert_eq!((&rows[2]["media"]["size"], &rows[2]["media"]["mime_type"]), (&json!(1000), &json!("image/png")));
    assert_eq!(rows[5]["media"]["filename"], "hi.txt");
    assert_eq!(rows[10]["message_key"], json!({ "id": question, "from_me": false, "remote_jid": address(&ann) }));
    assert_eq!(rows[0]["text"], "why?", "an edit changes no row");

    let post = async |path: String, body: Value| api.post(&path, body).await.status;
    assert_eq!(post(format!("/phones/{ben}/react"), json!({ "id": question, "emoji": "x" })).await, 204);
    assert_eq!(post(format!("/phones/{ben}/react"), json!({ "id": "nothing", "emoji": "x" })).await, 404);
    assert_eq!(post(format!("/phones/{ben}/play"), json!({ "id": rows[4]["id"] })).await, 204);
    assert_eq!(post(format!("/phones/{ben}/play"), json!({ "id": question })).await, 400);
    let edit = json!({ "type": "edit", "message_key": { "id": question }, "text": "x" });
    assert_eq!(post(format!("/phones/{ben}/messages"), edit).await, 400, "not his own");
    let large = json!({ "to": ben, "type": "document", "media": { "size": 25 * 1024 * 1024 + 1 } });
    assert_eq!(post(format!("/phones/{ann}/messages"), large).await, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_writes_to_a_group_and_a_newsletter_that_phones_made() {
    let tenant = Tenant::new(&Cluster::shared().await).await;
    let simulator = tenant.simulator();
    let channel = tenant.paired("Sales").await;
    let (ann, ben) = (number(), number());
    for phone in [&ann, &ben] {
        simulator.phone(phone, json!({})).await;
    }
    let api = simulator.api();
    let new = json!({ "subject": "Friends", "participants": [channel.number, ben] });
    let group = api.post(&format!("/phones/{ann}/groups"), new).await.expect(201);
    assert_eq!(group["participants"].as_array().unwrap().len(), 3, "{group}");
    let id = string(&group["id"]);
    let path = channel.path("/messages");
    tenant.any().post(&path, text(&id, "all")).await.expect(202);
    for phone in [&ann, &ben] {
        eventually("the group's members have it", seconds(20), async || {
            let rows = simulator.inbox(phone).await;
            check(rows.iter().any(|row| row["to"] == id.as_str() && row["text"] == "all"), format!("{rows:?}"))
        })
        .await;
    }

    let settings = format!("/phones/{ann}/groups/{}/settings", id.replace('@', "%40"));
    assert_eq!(api.patch(&settings, json!({ "announce": true })).await.expect(200)["announce"], true);
    let details = tenant.any().post(&path, text(&id, "hush")).await.expect_error(422, "other");
    assert_eq!(details["upstream_code"], 403);
    let promote = json!({ "action": "promote", "participants": [channel.number] });
    let promoted = api.post(&format!("/phones/{ann}/groups/{id}/participants"), promote).await.expect(200);
    assert_eq!(promoted["participants"][0]["status"], "ok");
    tenant.any().post(&path, text(&id, "as an admin")).await.expect(202);
    let left = api.act(&format!("/phones/{}/groups/{id}/leave", channel.number)).await;
    assert_eq!(left.status, 204);
    assert_eq!(api.get(&format!("/phones/{ann}/groups")).await.expect(200)["total"], 1);
    let unknown = tenant.any().post(&path, text("120363025246125486@g.example", "x")).await;
    assert_eq!(unknown.expect_error(422, "other")["upstream_code"], 404);

    let news = api.post(&format!("/phones/{ann}/newsletters"), json!({ "name": "News" })).await.expect(201);
    let id = string(&news["id"]);
    let subscription = format!("/phones/{}/newsletters/{id}/subscription", channel.number);
    assert_eq!(api.act(&subscription).await.expect(200)["role"], "subscriber");
    let details = tenant.any().post(&path, text(&id, "x")).await.expect_error(422, "other");
    assert_eq!(details["upstream_code"], 403);
    let admin = format!("/phones/{ann}/newsletters/{id}/admins/{}", channel.number);
    api.act(&admin).await.expect(202);
    let accept = format!("/phones/{}/newsletters/{id}/admins/accept", channel.number);
    api.act(&accept).await.expect(200);
    tenant.any().post(&path, text(&id, "today")).await.expect(202);
    eventually("the owner reads it", seconds(20), async || {
        let rows = simulator.inbox(&ann).await;
        check(rows.iter().any(|row| row["to"] == id.as_str()), format!("{rows:?}"))
    })
    .await;
}

/// The log output of a simulator on a terminal, which `script` provides.
async fn logged_on_a_terminal(no_color: &str) -> String {
    let simulator = format!("{} simulator --control 127.0.0.1:0 --network 127.0.0.1:0", gateway().display());
    let mut terminal = Command::new("script")
        .args(["--quiet", "--flush", "--command", &simulator, "/dev/null"])
        .env("NO_COLOR", no_color)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(terminal.stdout.take().unwrap()).lines();
    let said = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains("the simulator runs") {
                return line;
            }
        }
        panic!("it has ended")
    };
    tokio::time::timeout(seconds(30), said).await.expect("it runs in time")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_on_a_terminal_has_colours_unless_its_owner_minds_them() {
    assert!(logged_on_a_terminal("").await.contains('\u{1b}'));
    let plain = logged_on_a_terminal("1").await;
    assert!(!plain.contains('\u{1b}'), "{plain:?}");
}
