//! The response to every lifecycle call in every status, over HTTP.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tests::cluster::{Cluster, Options};
use tests::http::{Answer, Api, string};
use tests::simulator::Simulator;
use tests::stream::{EventSource, Frame};
use tests::tenant::{CONNECT, Tenant, number, pair, text, wait_status};
use tests::wait::{eventually, seconds};

/// An expected response in the table.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cell {
    /// 202, and the next status; `*` means any status on the way to `connected`.
    Moves(&'static str),
    /// 409 `no_op`.
    NoOp,
    /// 409 `invalid_lifecycle_transition`.
    Invalid,
    /// 409 `channel_unavailable`.
    Unavailable,
    /// 409 `not_disabled`.
    NotDisabled,
}

use Cell::{Invalid as I, Moves as A, NoOp as N, NotDisabled as D, Unavailable as U};

const ACTIONS: [&str; 6] = ["connect", "disconnect", "restart", "logout", "disable", "enable"];

const STOPPED: Cell = A("stopped_by_user");
const OUT: Cell = A("logged_out");
const OFF: Cell = A("disabled_by_admin");
/// `connected`, or on the way to it.
const UP: Cell = A("*");

/// A row for each status, a column for each action of [`ACTIONS`].
const TABLE: [(&str, [Cell; 6]); 11] = [
    ("pending", [A("qr"), I, I, I, OFF, D]),
    ("qr", [I, STOPPED, A("qr"), I, OFF, D]),
    ("connecting", [I, STOPPED, UP, OUT, OFF, D]),
    ("reconnecting", [I, STOPPED, UP, OUT, OFF, D]),
    ("connected", [I, STOPPED, UP, OUT, OFF, D]),
    ("disconnected", [UP, STOPPED, UP, OUT, OFF, D]),
    ("logged_out", [A("qr"), I, I, N, OFF, D]),
    ("stopped_by_user", [UP, N, UP, OUT, OFF, D]),
    ("disabled_by_admin", [U, U, U, U, N, A("disconnected")]),
    ("error", [UP, I, UP, OUT, OFF, D]),
    ("failed", [UP, I, UP, OUT, OFF, D]),
];

struct Stage {
    tenant: Tenant,
    api: Api,
    simulator: Simulator,
}

impl Stage {
    /// Starts its own cluster: several statuses need faults, and a fault affects the whole network.
    async fn new() -> Self {
        let cluster = Cluster::start(Options::nodes(1)).await;
        let tenant = Tenant::new(&cluster).await;
        Self { api: tenant.any(), simulator: tenant.simulator(), tenant }
    }

    async fn act(&self, channel: &str, action: &str) -> Answer {
        self.api.act(&format!("/v1/channels/{channel}/{action}")).await
    }

    async fn status(&self, channel: &str) -> String {
        string(&self.api.get(&format!("/v1/channels/{channel}")).await.expect(200)["status"])
    }

    async fn paired(&self) -> (String, String) {
        let (channel, number) = (self.tenant.channel("Table").await, number());
        self.simulator.phone(&number, json!({})).await;
        pair(&self.api, &self.simulator, &channel, &number).await;
        (channel, number)
    }

    /// Creates a channel in a status, in which it stays until the faults are cleared.
    async fn channel_in(&self, status: &str) -> String {
        match status {
            "pending" => return self.tenant.channel("Table").await,
            "qr" => {
                let channel = self.tenant.channel("Table").await;
                self.act(&channel, "connect").await.expect(202);
                self.reach(&channel, status).await;
                return channel;
            }
            _ => {}
        }
        let (channel, number) = self.paired().await;
        let phone = |what: &str| format!("/phones/{number}/{what}");
        match status {
            "connected" => {}
            "connecting" => {
                self.simulator.faults(json!({ "login_delay_ms": 30_000 })).await;
                self.act(&channel, "restart").await.expect(202);
            }
            "reconnecting" => {
                self.simulator.faults(json!({ "refuse_logins": "transport" })).await;
                self.act(&channel, "restart").await.expect(202);
            }
            "disconnected" => _ = self.simulator.api().act(&phone("replace")).await,
            "logged_out" => _ = self.simulator.api().post(&phone("unlink"), json!({})).await.expect(204),
            "stopped_by_user" => _ = self.act(&channel, "disconnect").await.expect(202),
            "disabled_by_admin" => _ = self.act(&channel, "disable").await.expect(202),
            "error" => {
                self.simulator.faults(json!({ "refuse_logins": "version" })).await;
                self.act(&channel, "restart").await.expect(202);
            }
            "failed" => _ = self.simulator.api().act(&phone("ban")).await.expect(204),
            other => panic!("no way to {other}"),
        }
        self.reach(&channel, status).await;
        channel
    }

    async fn reach(&self, channel: &str, status: &str) {
        wait_status(&self.api, channel, status, CONNECT).await;
    }

    async fn expect(&self, channel: &str, status: &str, action: &str, cell: Cell) {
        let answer = self.act(channel, action).await;
        let details = match cell {
            A(next) => {
                let shown = string(&answer.expect(202)["status"]);
                let on_the_way = ["connecting", "connected", "reconnecting"].contains(&shown.as_str());
                let fits = if next == "*" { on_the_way } else { shown == next };
                // The scheduler may act on `enable` before the response is made.
                let scheduled = action == "enable" && on_the_way;
                assert!(fits || scheduled, "{action} in {status}: answered {shown}, expected {next}");
                return;
            }
            N => answer.expect_error(409, "no_op"),
            I => answer.expect_error(409, "invalid_lifecycle_transition"),
            U => answer.expect_error(409, "channel_unavailable"),
            D => answer.expect_error(409, "not_disabled"),
        };
        if cell != N {
            assert_eq!(details["status"], status, "{action} in {status}: {details}");
        }
        if cell == I {
            assert_eq!(details["action"], action);
            let allowed: Vec<_> = TABLE
                .iter()
                .filter(|(_, cells)| matches!(cells[ACTIONS.iter().position(|a| *a == action).unwrap()], A(_)))
                .map(|(status, _)| Value::from(*status))
                .collect();
            let mut shown = details["allowed_from"].as_array().cloned().unwrap_or_default();
            shown.sort_by_key(Value::to_string);
            let mut allowed = allowed;
            allowed.sort_by_key(Value::to_string);
            assert_eq!(shown, allowed, "{action} in {status}");
        }
        assert_eq!(self.status(channel).await, status, "{action} did not move the channel");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_lifecycle_call_answers_as_the_status_demands() {
    let stage = Stage::new().await;
    for (status, cells) in TABLE {
        println!("in {status}");
        let channel = stage.channel_in(status).await;
        for (action, cell) in ACTIONS.into_iter().zip(cells) {
            if !matches!(cell, A(_)) {
                stage.expect(&channel, status, action, cell).await;
            }
        }
        stage.send_is_answered(&channel, status).await;
        stage.pairing_is_answered(&channel, status).await;
        stage.simulator.clear_faults().await;
        for (action, cell) in ACTIONS.into_iter().zip(cells) {
            if matches!(cell, A(_)) {
                let channel = stage.channel_in(status).await;
                stage.expect(&channel, status, action, cell).await;
                stage.simulator.clear_faults().await;
                assert_eq!(stage.api.delete(&format!("/v1/channels/{channel}")).await.status, 204, "{status}");
            }
        }
        assert_eq!(stage.api.delete(&format!("/v1/channels/{channel}")).await.status, 204, "{status}");
    }
}

impl Stage {
    /// A send is accepted while the channel is connected or recovers, and otherwise refused because of the status.
    async fn send_is_answered(&self, channel: &str, status: &str) {
        let recipient = number();
        self.simulator.phone(&recipient, json!({})).await;
        let answer = self.api.post(&format!("/v1/channels/{channel}/messages"), text(&recipient, "hi")).await;
        match status {
            "connected" => assert_eq!(answer.expect(202)["status"], "sent"),
            "connecting" | "reconnecting" => assert_eq!(answer.expect(202)["status"], "queued"),
            "pending" | "qr" | "disconnected" => {
                assert_eq!(answer.expect_error(409, "not_connected")["status"], status);
            }
            _ => assert_eq!(answer.expect_error(409, "channel_unavailable")["status"], status),
        }
    }

    /// The responses to `GET qr` and `pair-code` for a channel that was paired, or is disabled.
    async fn pairing_is_answered(&self, channel: &str, status: &str) {
        let (qr_code, pair_code) = match status {
            "pending" | "qr" | "logged_out" => return,
            "disabled_by_admin" => ("channel_unavailable", "channel_unavailable"),
            _ => ("no_qr", "pair_code_unavailable"),
        };
        let qr = self.api.get(&format!("/v1/channels/{channel}/qr")).await;
        assert_eq!(qr.expect_error(409, qr_code)["status"], status);
        if qr_code == "no_qr" {
            assert_eq!(qr.retry_after(), 2);
        }
        let body = json!({ "phone_number": number() });
        let code = self.api.post(&format!("/v1/channels/{channel}/pair-code"), body).await;
        assert_eq!(code.expect_error(409, pair_code)["status"], status);
        assert_eq!(self.status(channel).await, status, "neither drops the session");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_leaves_its_troubles_by_itself_and_only_as_the_table_says() {
    let stage = Stage::new().await;

    // A foreign copy of the device replaces the session: cool-down, and one retry after 30 s.
    let (channel, number) = stage.paired().await;
    stage.simulator.api().act(&format!("/phones/{number}/replace")).await;
    stage.reach(&channel, "disconnected").await;
    wait_status(&stage.api, &channel, "connected", seconds(45)).await;
    // A second replacement within ten minutes counts as a foreign copy in use.
    stage.simulator.api().act(&format!("/phones/{number}/replace")).await;
    stage.reach(&channel, "error").await;

    // The phone unlinks the device: the link is gone, and pairing again works.
    let (channel, number) = stage.paired().await;
    stage.simulator.api().post(&format!("/phones/{number}/unlink"), json!({})).await.expect(204);
    stage.reach(&channel, "logged_out").await;
    pair(&stage.api, &stage.simulator, &channel, &number).await;

    // The network invalidates the session: the same status, for another reason.
    stage.simulator.api().act(&format!("/phones/{number}/invalidate")).await.expect(204);
    stage.reach(&channel, "logged_out").await;

    // The network refuses the pairing for good.
    let refused = stage.tenant.channel("Refused").await;
    stage.simulator.faults(json!({ "refuse_pairing": "device_limit" })).await;
    let other = tests::tenant::number();
    stage.simulator.phone(&other, json!({})).await;
    let qr = stage.api.get(&format!("/v1/channels/{refused}/qr?format=raw")).await.expect(200);
    let _ = stage.simulator.api().post(&format!("/phones/{other}/link"), json!({ "raw": qr["raw"] })).await;
    stage.reach(&refused, "failed").await;
    stage.simulator.clear_faults().await;

    // A ban with an end, which the event and the history have.
    let (channel, number) = stage.paired().await;
    let stream = EventSource::open(&stage.api, "").await;
    let details = json!({ "ban_until": "2040-01-01T00:00:00.000Z" });
    let until = json!({ "until": details["ban_until"] });
    stage.simulator.api().post(&format!("/phones/{number}/ban"), until).await.expect(204);
    stage.reach(&channel, "failed").await;
    let is_failed = |frame: &Frame| frame.is("channel.status") && frame.json()["data"]["status"] == "failed";
    let told = stream.wait("the ban is told", seconds(20), is_failed).await.json();
    assert_eq!((&told["data"]["reason"], &told["data"]["details"]), (&json!("banned"), &details), "{told}");
    let history = stage.api.get(&format!("/v1/channels/{channel}/status-history?limit=2")).await.expect(200);
    assert_eq!(history["data"][0]["details"], details, "{history}");
    assert_eq!(history["data"][1].get("details"), None, "{history}");

    // The network is unreachable for a while: reconnecting, then connected, without a QR code.
    let (channel, number) = stage.paired().await;
    stage.simulator.faults(json!({ "refuse_logins": "transport", "cut_node": [1] })).await;
    stage.reach(&channel, "reconnecting").await;
    let queued = stage.api.post(&format!("/v1/channels/{channel}/messages"), text(&number, "in between")).await;
    let queued = queued.expect(202);
    assert_eq!(queued["status"], "queued");
    stage.simulator.clear_faults().await;
    stage.reach(&channel, "connected").await;
    eventually("the queued text is in the ledger", seconds(20), async || {
        let ledger = stage.simulator.ledger_by_id().await;
        ledger.get(queued["message_id"].as_str().unwrap()).map(Vec::len).ok_or_else(|| format!("{ledger:?}"))
    })
    .await;

    // A response with `wait` is held until the status settles, and no longer than requested.
    assert_eq!(stage.act(&channel, "restart?wait=30").await.expect(202)["status"], "connected");
    stage.simulator.faults(json!({ "login_delay_ms": 30_000 })).await;
    let asked = Instant::now();
    assert_eq!(stage.act(&channel, "restart?wait=1").await.expect(202)["status"], "connecting");
    assert!((Duration::from_millis(700)..seconds(20)).contains(&asked.elapsed()), "{:?}", asked.elapsed());
    stage.simulator.clear_faults().await;
    for wrong in ["0", "31", "soon"] {
        stage.act(&channel, &format!("restart?wait={wrong}")).await.expect_issue(&json!(["wait"]), "format");
    }

    // Unused QR codes expire, and the channel is pending again.
    let unused = stage.tenant.channel("Unused").await;
    stage.simulator.faults(json!({ "qr_time_scale": 0.01 })).await;
    stage.act(&unused, "connect").await.expect(202);
    wait_status(&stage.api, &unused, "pending", seconds(30)).await;
}
