//! `gateway keys`: the API keys of all customers.

use model::time::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, as_type};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::KeysArgs;

/// What of a row of `GET /v1/admin/keys` is shown.
#[derive(Deserialize)]
struct Key {
    prefix: String,
    name: String,
    customer_id: String,
    customer_name: Option<String>,
    channel_id: Option<String>,
    scopes: Vec<String>,
    status: String,
    created_at: Timestamp,
    expires_at: Option<Timestamp>,
    last_used_at: Option<Timestamp>,
}

pub async fn run(args: &KeysArgs) -> anyhow::Result<Verdict> {
    let mut path = format!("/v1/admin/keys?include_revoked={}", args.revoked);
    if let Some(customer) = args.customer {
        path.push_str(&format!("&customer_id={customer}"));
    }
    let rows = Operator::new(&args.operator)?.all(&path).await?;
    if args.operator.json {
        show::json(&json!({ "data": rows }));
        return Ok(Verdict::Well);
    }
    let keys: Vec<Key> = as_type(&path, rows.into())?;
    let mut table =
        Table::new(&["KEY", "NAME", "CUSTOMER", "STATUS", "CHANNEL", "SCOPES", "CREATED", "EXPIRES", "LAST USED"]);
    for key in keys {
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", show::ago(at)));
        table.row([
            key.prefix,
            key.name,
            key.customer_name.unwrap_or(key.customer_id),
            key.status,
            cell(key.channel_id),
            if key.scopes.is_empty() { "all".to_owned() } else { listed(key.scopes) },
            key.created_at.to_iso(),
            cell(key.expires_at.map(Timestamp::to_iso)),
            used,
        ]);
    }
    table.print_or("there are no keys");
    Ok(Verdict::Well)
}
