//! The member that signs in to a development cluster's console: created once, with a password stored in the folder.

use anyhow::Context;
use reqwest::{Method, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::description::Description;
use super::folder::{Folder, read_json, write_json};
use crate::caller::{Caller, text_at};
use crate::key_files::random_hex;

/// Email address of the member.
pub const EMAIL: &str = "demo@example.com";

const PASSWORD_BYTES: usize = 12;

/// Name of the channel for a person's own phone, in addition to the demo's paired one.
const FIRST_NUMBER: &str = "My first number";

/// The member's credentials, stored across runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DemoMember {
    pub customer_id: String,
    pub email: String,
    pub password: String,
}

/// The path below `/console` of the page on which a person pairs a number, for a channel that is created once. Empty
/// when that channel has been paired already.
///
/// # Errors
/// The cluster refuses a request.
pub async fn pairing_page(cluster: &Description) -> anyhow::Result<String> {
    let first = cluster.nodes.first().context("the cluster has no node")?;
    let gateway = Caller::new(&first.api, Some(&cluster.api_key))?;
    let existing = gateway.get("/v1/channels?name=My%20first%20number").await?;
    let known =
        existing["data"].as_array().and_then(|channels| channels.iter().find(|row| row["name"] == FIRST_NUMBER));
    let channel = match known {
        Some(channel) if !matches!(channel["status"].as_str(), Some("pending" | "qr")) => return Ok(String::new()),
        Some(channel) => channel.clone(),
        None => gateway.post("/v1/channels", &json!({ "name": FIRST_NUMBER })).await?,
    };
    Ok(format!("/channel?id={}&tab=pairing", text_at(&channel, "/id")?))
}

/// A link that opens a page of the first node's console, signed in. It works once, on this machine only; its token is
/// in the fragment, which browsers send to no server.
///
/// # Errors
/// The cluster refuses a request, or the folder cannot be written.
pub async fn sign_in_link(folder: &Folder, cluster: &Description, page: &str) -> anyhow::Result<String> {
    let first = cluster.nodes.first().context("the cluster has no node")?;
    let file = folder.member_file();
    let known = read_json::<DemoMember>(&file).with_context(|| file.display().to_string())?;
    let member = match known.filter(|member| member.customer_id == cluster.customer_id) {
        Some(member) => member,
        None => {
            let member = DemoMember {
                customer_id: cluster.customer_id.clone(),
                email: EMAIL.to_owned(),
                password: random_hex(PASSWORD_BYTES),
            };
            // Written first, so that no member can exist whose password is lost.
            write_json(&file, &member)?;
            member
        }
    };
    let anonymous = Caller::new(&first.api, None)?;
    let body = json!({ "email": member.email, "password": member.password });
    let tokens = match anonymous.call(Method::POST, "/v1/auth/login", Some(&body)).await? {
        (StatusCode::UNAUTHORIZED, _) => {
            let operator = Caller::trusting(&first.ops, Some(&cluster.operator_token), &cluster.operators_trust())?;
            let users = format!("/v1/admin/customers/{}/users", cluster.customer_id);
            let user = json!({ "email": member.email, "password": member.password, "role": "owner" });
            operator.post(&users, &user).await.context("making the demo's member")?;
            anonymous.post("/v1/auth/login", &body).await?
        }
        (StatusCode::OK, tokens) => tokens,
        (status, answer) => anyhow::bail!("POST /v1/auth/login answered {status}: {answer}"),
    };
    Ok(format!("{}/console{page}#sign-in={}", first.api, text_at(&tokens, "/refresh_token")?))
}
