//! `gateway keys`: the API keys of all customers.

use api::List;
use api::operator::keys::OwnedKey;
use model::time::Timestamp;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, told};
use super::show::{self, Table, cell, listed};
use crate::cli::operator::KeysArgs;

pub async fn run(args: &KeysArgs) -> anyhow::Result<Verdict> {
    let mut path = format!("/v1/admin/keys?include_revoked={}", args.revoked);
    if let Some(customer) = args.customer {
        path.push_str(&format!("&customer_id={customer}"));
    }
    let answer = json!({ "data": Operator::new(&args.operator)?.all(&path).await? });
    told(&args.operator, &path, answer, |List::<OwnedKey> { data, .. }| print(data))
}

fn print(keys: Vec<OwnedKey>) {
    let mut table =
        Table::new(&["KEY", "NAME", "CUSTOMER", "STATUS", "CHANNEL", "SCOPES", "CREATED", "EXPIRES", "LAST USED"]);
    for OwnedKey { key, customer_name } in keys {
        let used = key.last_used_at.map_or_else(|| "never".to_owned(), |at| format!("{} ago", show::ago(at)));
        table.row([
            key.prefix,
            key.name,
            customer_name.unwrap_or_else(|| key.customer_id.to_string()),
            key.status.into(),
            cell(key.channel_id),
            if key.scopes.is_empty() { "all".to_owned() } else { listed(key.scopes) },
            key.created_at.to_iso(),
            cell(key.expires_at.map(Timestamp::to_iso)),
            used,
        ]);
    }
    table.print_or("there are no keys");
}
