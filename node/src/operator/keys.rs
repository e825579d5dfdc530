//! `gateway keys`: the API keys of all customers.

use api::List;
use api::operator::keys::OwnedKey;
use model::time::Timestamp;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, told};
use super::show::{self, Column, Table, cell, listed};
use crate::cli::operator::KeysArgs;

pub async fn run(args: &KeysArgs) -> anyhow::Result<Verdict> {
    let mut path = format!("/v1/admin/keys?include_revoked={}", args.revoked);
    if let Some(customer) = args.customer {
        path.push_str(&format!("&customer_id={customer}"));
    }
    let answer = json!({ "data": Operator::new(&args.operator)?.all(&path).await? });
    told(&args.operator, &path, answer, |List::<OwnedKey> { data, .. }| print(&data))
}

fn print(keys: &[OwnedKey]) {
    let columns: &[Column<OwnedKey>] = &[
        ("KEY", |owned| owned.key.prefix.clone()),
        ("NAME", |owned| owned.key.name.clone()),
        ("CUSTOMER", |owned| owned.customer_name.clone().unwrap_or_else(|| owned.key.customer_id.to_string())),
        ("STATUS", |owned| owned.key.status.to_string()),
        ("CHANNEL", |owned| cell(owned.key.channel_id.as_ref())),
        ("SCOPES", |OwnedKey { key, .. }| if key.scopes.is_empty() { "all".to_owned() } else { listed(&key.scopes) }),
        ("CREATED", |owned| owned.key.created_at.to_iso()),
        ("EXPIRES", |owned| cell(owned.key.expires_at.map(Timestamp::to_iso))),
        ("LAST USED", |owned| match owned.key.last_used_at {
            Some(at) => format!("{} ago", show::ago(at)),
            None => "never".to_owned(),
        }),
    ];
    Table::of(keys, columns).print_or("there are no keys");
}
