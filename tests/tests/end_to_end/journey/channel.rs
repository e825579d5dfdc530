//! The life of a channel: created, linked, renamed, stopped, started, logged out, deleted.

use std::collections::BTreeSet;

use base64::Engine;
use reqwest::Method;
use serde_json::{Value, json};
use tests::http::{answer, string, time, uuid};
use tests::tenant::{CONNECT, text, wait_status};
use tests::wait::{check, eventually, seconds};

use super::Journey;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";
const CHANNEL_FIELDS: [&str; 9] =
    ["id", "customer_id", "name", "phone_number", "status", "last_seen_at", "metadata", "created_at", "updated_at"];

impl Journey {
    pub async fn create_channel(&mut self) {
        let body = json!({ "name": "Sales", "metadata": { "team": "north", "n": 3 }, "issue_scoped_key": true });
        let made = self.api.post("/v1/channels", body).await.expect(201);
        for field in CHANNEL_FIELDS {
            assert!(made.get(field).is_some(), "a channel has {field}: {made}");
        }
        uuid(&made["id"]);
        time(&made["created_at"]);
        time(&made["updated_at"]);
        assert_eq!(made["customer_id"], json!(self.tenant.customer_id));
        assert_eq!(made["name"], "Sales");
        assert_eq!(made["metadata"], json!({ "team": "north", "n": 3 }));
        assert_eq!((&made["status"], &made["phone_number"]), (&json!("pending"), &Value::Null));
        self.channel = string(&made["id"]);

        let key = &made["scoped_key"];
        let secret = string(&key["secret"]);
        assert!(secret.starts_with("zpk_") && secret.len() == 28, "{key}");
        assert_eq!(key["prefix"], json!(secret[..12]));
        assert_eq!(key["channel_id"], made["id"]);
        assert_eq!(key["scopes"], json!([]));
        assert_eq!(key["created_by"], "channel_create");

        for node in self.tenant.cluster.node_ids() {
            let api = self.tenant.api(node);
            let seen = api.get(&self.path("")).await.expect(200);
            assert_eq!(seen.get("scoped_key"), None, "the key is shown once");
            assert_eq!((&seen["id"], &seen["name"], &seen["status"]), (&made["id"], &made["name"], &made["status"]));
            let list = api.get("/v1/channels").await.expect(200);
            assert_eq!(list["data"][0]["id"], made["id"], "node {node} lists what another has answered: {list}");
            api.with_key(&secret).get(&self.path("")).await.expect(200);
        }
        self.api
            .post(&self.path("/messages"), text("15551234567", "too early"))
            .await
            .expect_error(409, "not_connected");
    }

    pub async fn link_by_qr(&self) {
        self.simulator.phone(&self.number, json!({ "name": "Sales phone" })).await;
        let answer_json = self.api.get(&self.path("/qr")).await;
        assert!(answer_json.header("cache-control").is_some_and(|value| value.contains("no-store")));
        let qr = answer_json.expect(200);
        let url = string(&qr["qr"]);
        let encoded = url.strip_prefix("data:image/png;base64,").unwrap_or_else(|| panic!("no PNG data URL: {url}"));
        let image = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
        assert!(image.starts_with(PNG));
        assert!(time(&qr["expires_at"]) > chrono::Utc::now());
        assert!(qr["raw"].is_string());

        let png = self.api.get(&self.path("/qr?format=png")).await;
        assert_eq!((png.status, png.content_type()), (200, Some("image/png")));
        assert!(png.body.starts_with(PNG));
        let accept = answer(self.api.request(Method::GET, &self.path("/qr")).header("accept", "image/png")).await;
        assert_eq!((accept.status, accept.content_type()), (200, Some("image/png")));
        eventually("every caller sees the same code until it rotates", CONNECT, async || {
            let mut raws = BTreeSet::new();
            for node in self.tenant.cluster.node_ids() {
                let raw = self.tenant.api(node).get(&self.path("/qr?format=raw")).await.expect(200);
                assert_eq!(raw.get("qr"), None);
                raws.insert(string(&raw["raw"]));
            }
            check(raws.len() == 1, format!("{raws:?}"))
        })
        .await;
        assert_eq!(self.api.get(&self.path("")).await.expect(200)["status"], "qr");

        tests::tenant::pair(&self.api, &self.simulator, &self.channel, &self.number).await;
        let channel = self.api.get(&self.path("")).await.expect(200);
        assert_eq!(channel["phone_number"], json!(self.number));
        self.owner_holds_the_session().await;

        let connected =
            self.receiver.wait_for("channel.connected", seconds(10), |r| r.event() == "channel.connected").await;
        let body = connected.json();
        assert_eq!(body["channel_id"], json!(self.channel));
        assert_eq!(body["data"]["phone_number"], json!(self.number));
        time(&body["data"]["connected_at"]);
        self.receiver.wait_for("qr.updated", seconds(10), |r| r.event() == "qr.updated").await;
        eventually("every step of the linking is reported", seconds(10), async || {
            let mut steps: Vec<_> = self.receiver.of("/custom", "channel.status");
            steps.sort_by_key(|request| string(&request.json()["occurred_at"]));
            let steps: Vec<_> = steps
                .iter()
                .map(|request| request.json()["data"].clone())
                .map(|data| format!("{}>{}", string(&data["previous_status"]), string(&data["status"])))
                .collect();
            let expected = ["pending>qr", "qr>connecting", "connecting>connected"];
            check(expected.iter().all(|step| steps.iter().any(|seen| seen == step)), format!("{steps:?}"))
        })
        .await;
    }

    /// The simulator and the operator's view agree on the owner of the channel.
    async fn owner_holds_the_session(&self) {
        let node = self.tenant.cluster.node_ids()[0];
        eventually("the owner holds the session", CONNECT, async || {
            let owner = self.tenant.owner(node, &self.channel).await;
            let phone = self.simulator.get_phone(&self.number).await;
            assert_eq!(phone["devices"].as_array().unwrap().len(), 1, "{phone}");
            let session = &phone["devices"][0]["channel_session"];
            let held = (session["node"].as_u64(), session["epoch"].as_u64());
            check(held == (Some(owner.node), Some(owner.epoch)), format!("{owner:?}: {phone}"))
        })
        .await;
    }

    pub async fn link_by_code(&self) {
        let id = self.tenant.channel("Typed").await;
        self.simulator.phone(&self.number, json!({})).await;
        let path = format!("/v1/channels/{id}/pair-code");
        let body = json!({ "phone_number": self.number, "display_name": "Gateway" });
        let code = self.api.post(&path, body.clone()).await.expect(200);
        let text = string(&code["code"]);
        let (left, right) = text.split_once('-').unwrap_or_else(|| panic!("{text}"));
        assert_eq!((left.len(), right.len()), (4, 4), "{text}");
        assert_eq!(code["phone_number"], json!(self.number));
        let life = time(&code["expires_at"]) - chrono::Utc::now();
        assert!((120..=165).contains(&life.num_seconds()), "a code lives 160 s: {life}");
        assert_eq!(self.api.get(&format!("/v1/channels/{id}")).await.expect(200)["status"], "qr");

        let again = self.api.post(&path, body.clone()).await;
        if again.status == 200 {
            assert_eq!(again.json()["code"], code["code"], "at most one new code a minute");
        } else {
            again.expect_error(429, "rate_limited");
            assert_eq!(again.header("x-ratelimit-scope"), Some("channel"));
            again.retry_after();
        }

        let link = format!("/phones/{}/link", self.number);
        self.simulator.api().post(&link, json!({ "pair_code": text })).await.expect(200);
        let channel = wait_status(&self.api, &id, "connected", CONNECT).await;
        assert_eq!(channel["phone_number"], json!(self.number));
        self.api.post(&path, body).await.expect_error(409, "pair_code_unavailable");
    }

    pub async fn rename(&self) {
        let body = json!({ "name": "Sales north", "metadata": { "n": 4 } });
        let changed = self.api.patch(&self.path(""), body).await.expect(200);
        assert_eq!((&changed["name"], &changed["metadata"]), (&json!("Sales north"), &json!({ "n": 4 })));
        assert!(time(&changed["updated_at"]) >= time(&changed["created_at"]));
        for node in self.tenant.cluster.node_ids() {
            let seen = self.tenant.api(node).get(&self.path("")).await.expect(200);
            assert_eq!(seen["name"], "Sales north", "node {node}");
        }
    }

    pub async fn stop_and_start(&self) {
        let device = self.simulator.get_phone(&self.number).await["devices"][0]["id"].clone();
        let stopped = self.api.act(&self.path("/disconnect")).await.expect(202);
        assert_eq!(stopped["status"], "stopped_by_user");
        self.api.act(&self.path("/disconnect")).await.expect_error(409, "no_op");
        let details = self.api.post(&self.path("/messages"), text("15551234567", "no")).await;
        let details = details.expect_error(409, "channel_unavailable");
        assert_eq!(details["status"], "stopped_by_user");
        eventually("the session is closed", seconds(10), async || {
            let phone = self.simulator.get_phone(&self.number).await;
            check(phone["devices"][0]["channel_session"].is_null(), phone.to_string())
        })
        .await;

        let started = self.api.act(&self.path("/connect")).await.expect(202);
        assert!(["connecting", "connected"].map(Value::from).contains(&started["status"]), "{started}");
        wait_status(&self.api, &self.channel, "connected", CONNECT).await;
        self.api.act(&self.path("/connect")).await.expect_error(409, "invalid_lifecycle_transition");
        self.api.act(&self.path("/restart")).await.expect(202);
        wait_status(&self.api, &self.channel, "connected", CONNECT).await;
        let same = self.simulator.get_phone(&self.number).await["devices"][0]["id"].clone();
        assert_eq!(same, device, "no new link was needed");
        self.api.get(&self.path("/qr")).await.expect_error(409, "no_qr");
        self.owner_holds_the_session().await;
    }

    pub async fn log_out(&self) {
        self.api.act(&self.path("/logout")).await.expect(202);
        wait_status(&self.api, &self.channel, "logged_out", CONNECT).await;
        self.api.act(&self.path("/logout")).await.expect_error(409, "no_op");
        eventually("the phone has no linked device", seconds(10), async || {
            let phone = self.simulator.get_phone(&self.number).await;
            check(phone["devices"].as_array().is_some_and(Vec::is_empty), phone.to_string())
        })
        .await;
        // Links the same channel again, with new credentials.
        tests::tenant::pair(&self.api, &self.simulator, &self.channel, &self.number).await;
        self.api.post(&self.path("/messages"), text(&self.number, "to myself")).await.expect(202);
    }

    pub async fn delete(&self) {
        let deleted = self.api.delete(&self.path("")).await;
        assert_eq!((deleted.status, deleted.body.len()), (204, 0), "{}", deleted.text());
        for node in self.tenant.cluster.node_ids() {
            let api = self.tenant.api(node);
            api.get(&self.path("")).await.expect_error(404, "channel_not_found");
            let send = api.post(&self.path("/messages"), text("15551234567", "no")).await;
            send.expect_error(404, "channel_not_found");
            let list = api.get("/v1/channels").await.expect(200);
            assert_eq!(list["data"], json!([]), "node {node}");
        }
        self.api.delete(&self.path("")).await.expect_error(404, "channel_not_found");
        eventually("the session of the deleted channel is gone", seconds(10), async || {
            let sessions = self.simulator.api().get(&format!("/sessions?number={}", self.number)).await.expect(200);
            check(sessions["data"] == json!([]), sessions.to_string())
        })
        .await;
    }
}
