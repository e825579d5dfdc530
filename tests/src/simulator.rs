//! A client of the network simulator's control port.

use std::collections::HashMap;

use reqwest::Client;
use serde_json::{Value, json};

use crate::http::{Api, merged, string};

/// The most rows in a page of the ledger or the inbox.
const PAGE: usize = 10_000;

/// The simulated network, as seen by a test.
#[derive(Clone, Debug)]
pub struct Simulator {
    api: Api,
}

impl Simulator {
    pub fn new(client: Client, base: &str) -> Self {
        Self { api: Api::new(client, base, None) }
    }

    /// The client, for routes that have no method here.
    pub fn api(&self) -> &Api {
        &self.api
    }

    /// Registers or updates a phone; `more` adds to the body.
    pub async fn phone(&self, number: &str, more: Value) -> Value {
        let answer = self.api.post("/phones", merged(json!({ "number": number }), &more)).await;
        assert!(matches!(answer.status, 200 | 201), "{}: {}", answer.status, answer.text());
        answer.json()
    }

    /// Registers `count` phones with consecutive numbers.
    pub async fn phones(&self, first: &str, count: usize) {
        self.api.post("/phones/bulk", json!({ "first": first, "count": count })).await.expect(201);
    }

    pub async fn get_phone(&self, number: &str) -> Value {
        self.api.get(&format!("/phones/{number}")).await.expect(200)
    }

    /// Scans a QR text.
    ///
    /// # Errors
    /// The phone's answer if the code is unknown or has expired.
    pub async fn try_scan(&self, number: &str, raw: &str) -> Result<(), String> {
        let answer = self.api.post(&format!("/phones/{number}/link"), json!({ "raw": raw })).await;
        if answer.status == 400 {
            return Err(answer.text());
        }
        answer.expect(200);
        Ok(())
    }

    /// Sends a text from a phone `count` times, and returns the ids.
    pub async fn text(&self, from: &str, to: &str, text: &str, count: usize) -> Vec<String> {
        let body = json!({ "to": to, "type": "text", "text": text, "count": count });
        let answer = self.api.post(&format!("/phones/{from}/messages"), body).await.expect(201);
        answer["ids"].as_array().expect("ids is a list").iter().map(string).collect()
    }

    /// All messages that reached a phone.
    pub async fn inbox(&self, number: &str) -> Vec<Value> {
        let mut rows: Vec<Value> = Vec::new();
        loop {
            let after = rows.last().map(|row| format!("&after={}", string(&row["id"]))).unwrap_or_default();
            let page = self.api.get(&format!("/phones/{number}/inbox?limit={PAGE}{after}")).await.expect(200);
            let page = page["data"].as_array().expect("data is a list").clone();
            let whole = page.len() < PAGE;
            rows.extend(page);
            if whole {
                return rows;
            }
        }
    }

    /// The complete ledger of accepted messages.
    pub async fn ledger(&self) -> Vec<Value> {
        let mut rows: Vec<Value> = Vec::new();
        loop {
            let since = rows.last().map(|row| format!("&since_seq={}", row["seq"])).unwrap_or_default();
            let page = self.api.get(&format!("/accepted?limit={PAGE}{since}")).await.expect(200);
            let known = rows.last().and_then(|row| row["seq"].as_u64());
            // It is unspecified whether a page includes the row of `since_seq`, so known rows are dropped.
            let page = page["data"].as_array().expect("data is a list").clone();
            let whole = page.len() < PAGE;
            rows.extend(page.into_iter().filter(|row| row["seq"].as_u64() > known));
            if whole {
                return rows;
            }
        }
    }

    /// The ledger's rows by message id.
    pub async fn ledger_by_id(&self) -> HashMap<String, Vec<Value>> {
        let mut by_id: HashMap<String, Vec<Value>> = HashMap::new();
        for row in self.ledger().await {
            by_id.entry(string(&row["id"])).or_default().push(row);
        }
        by_id
    }

    /// Every login of a number and its end, the oldest first.
    pub async fn logins(&self, number: &str) -> Vec<Value> {
        let answer = self.api.get(&format!("/logins?number={number}&limit={PAGE}")).await.expect(200);
        answer["data"].as_array().expect("data is a list").clone()
    }

    pub async fn stats(&self) -> Value {
        self.api.get("/stats").await.expect(200)
    }

    /// A counter of the statistics.
    pub async fn stat(&self, name: &str) -> u64 {
        let stats = self.stats().await;
        stats[name].as_u64().unwrap_or_else(|| panic!("no {name} in {stats}"))
    }

    /// Sets faults; others keep their value.
    pub async fn faults(&self, faults: Value) {
        self.api.put("/faults", faults).await.expect(200);
    }

    pub async fn clear_faults(&self) {
        let answer = self.api.delete("/faults").await;
        assert!(matches!(answer.status, 200 | 204), "{}: {}", answer.status, answer.text());
    }
}
