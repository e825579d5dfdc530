//! The control API, as a test calls it.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::client::PATIENCE;

pub struct Control {
    pub address: SocketAddr,
}

impl Control {
    pub async fn call(&self, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        let connection = tokio::spawn(connection);
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("host", "testnet");
        let response = sender.send_request(request.body(Full::<Bytes>::from(body)).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        connection.abort();
        (status, if bytes.is_empty() { Value::Null } else { serde_json::from_slice(&bytes).unwrap() })
    }

    pub async fn post(&self, path: &str, body: Value) -> (u16, Value) {
        self.call("POST", path, Some(body)).await
    }

    pub async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call("GET", path, None).await;
        assert_eq!(status, 200, "GET {path}: {body}");
        body
    }

    pub async fn phone(&self, number: &str) {
        let (status, body) = self.post("/phones", json!({ "number": number, "name": format!("Phone {number}") })).await;
        assert_eq!(status, 201, "{body}");
    }

    pub async fn faults(&self, faults: Value) {
        let (status, body) = self.call("PUT", "/faults", Some(faults)).await;
        assert_eq!(status, 200, "{body}");
    }

    /// Lets a phone write; returns the ids.
    pub async fn write(&self, from: &str, to: &str, text: &str, count: u32) -> Vec<String> {
        let body = json!({ "to": to, "type": "text", "text": text, "count": count });
        let (status, sent) = self.post(&format!("/phones/{from}/messages"), body).await;
        assert_eq!(status, 201, "{sent}");
        sent["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap().to_owned()).collect()
    }

    /// Asks until the answer is what is hoped for.
    pub async fn until(&self, what: &str, path: &str, hoped: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        let asked = tokio::time::timeout(PATIENCE, async {
            loop {
                last = self.get(path).await;
                if hoped(&last) {
                    return last.clone();
                }
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        })
        .await;
        asked.unwrap_or_else(|_| panic!("{what}: {path} stayed {last}"))
    }

    /// Waits until a message has reached a phone; returns its row.
    pub async fn received(&self, phone: &str, id: &str) -> Value {
        let path = format!("/phones/{phone}/inbox?id={id}");
        let inbox = self.until("a message reaches a phone", &path, |inbox| inbox["total"] == 1).await;
        inbox["data"][0].clone()
    }

    /// Nothing was found, but for what a test knows of.
    pub async fn assert_clean(&self) {
        let report = self.get("/crypto").await;
        for list in
            ["key_reuse", "undecryptable_rows", "prekey_conflicts", "body_conflicts", "foreign_acks", "two_live"]
        {
            assert_eq!(report[list], json!([]), "{list} in {report}");
        }
        assert_eq!((&report["undecryptable"], &report["prekey_unknown"]), (&json!(0), &json!(0)), "{report}");
    }
}
