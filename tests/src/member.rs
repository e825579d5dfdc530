//! Members of a test's account.

use crate::cluster::Cluster;
use crate::http::{Api, string};
use crate::tenant::{Tenant, number};
use crate::wait::{eventually, seconds};
use serde_json::{Value, json};

pub const PASSWORD: &str = "correct horse battery";

/// An e-mail address that no other test uses.
pub fn email() -> String {
    format!("member-{}@example.com", number())
}

/// A member created by the operator.
pub struct Member {
    pub email: String,
    /// Path of the member in the operator's API.
    pub path: String,
}

impl Member {
    pub async fn new(tenant: &Tenant, role: &str) -> Self {
        Self::with(tenant, json!({ "role": role })).await
    }

    pub async fn unconfirmed(tenant: &Tenant, role: &str) -> Self {
        Self::with(tenant, json!({ "role": role, "email_verified": false })).await
    }

    /// Logs in, and returns a client of the node with the member's session.
    pub async fn session(&self, api: &Api) -> Api {
        api.with_key(&string(&login(api, &self.email, PASSWORD).await["access_token"]))
    }

    async fn with(tenant: &Tenant, more: Value) -> Self {
        let operator = tenant.cluster.operator(tenant.cluster.running_node(), &tenant.client);
        let users = format!("/v1/admin/customers/{}/users", tenant.customer_id);
        let mut body = json!({ "email": email(), "password": PASSWORD });
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let made = operator.post(&users, body).await.expect(201);
        Self { email: string(&made["email"]), path: format!("{users}/{}", string(&made["id"])) }
    }
}

/// Logs in, and returns the tokens.
pub async fn login(api: &Api, email: &str, password: &str) -> Value {
    api.without_key().post("/v1/auth/login", json!({ "email": email, "password": password })).await.expect(200)
}

/// The token in an e-mail message.
pub fn token_of(message: &str) -> Option<String> {
    let start = message.find("zev_")?;
    let url_safe = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    Some(message[start..].chars().take_while(|c| url_safe(*c)).collect())
}

/// The token of the newest message to an e-mail address, once the nodes' logs have `messages` of them.
pub async fn token_in_logs(cluster: &Cluster, email: &str, messages: usize) -> String {
    eventually("the message is in a log", seconds(10), async || {
        let mut found: Vec<String> = Vec::new();
        for node in cluster.dev().nodes {
            let log = std::fs::read_to_string(&node.log).unwrap_or_default();
            found.extend(log.lines().filter(|line| line.contains(email) && line.contains("zev_")).map(str::to_owned));
        }
        // Lines begin with their time, so this sorts by time.
        found.sort();
        let newest = found.last().filter(|_| found.len() >= messages);
        newest.and_then(|line| token_of(line)).ok_or_else(|| format!("{} messages", found.len()))
    })
    .await
}
