//! `gateway customer`, `gateway user` and `gateway key`: customers, members and API keys, with their limits.

use std::io::Read;
use std::path::Path;

use anyhow::Context;
use api::List;
use api::operator::customers::{CreatedView, CustomerView};
use api::operator::keys::OwnedKey;
use api::operator::users::UserView;
use model::customer::Quota;
use model::limit::BucketRule;
use model::time::Timestamp;
use reqwest::Method;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::Verdict;
use super::client::{Operator, as_type, in_path, told};
use super::show::{self, Column, Table, cell};
use crate::cli::customers::{CustomerCommand, KeyCommand, UserCommand, UserCreateArgs};
use crate::cli::operator::OperatorArgs;
use crate::console::{printable, say};
use crate::key_files::random_hex;
use crate::refusal::{Refusal, ensure};

const PATH: &str = "/v1/admin/customers";

pub async fn customer(command: CustomerCommand) -> anyhow::Result<Verdict> {
    match command {
        CustomerCommand::Create { name, email, limits, operator: args } => {
            let mut body = body(&limits.set)?;
            body.insert("name".to_owned(), json!(name));
            body.extend(email.map(|email| ("email".to_owned(), json!(email))));
            let answer = Operator::new(&args)?.post(PATH, &Value::Object(body)).await?;
            told(&args, PATH, answer, |CreatedView { customer, api_key }| {
                print(&[customer]);
                say(format!("\nAPI key  {}\nIt will not be shown again.", api_key.secret));
            })
        }
        CustomerCommand::List(args) => {
            let path = format!("{PATH}?limit=100");
            let answer = json!({ "data": Operator::new(&args)?.all(&path).await? });
            told(&args, &path, answer, |List::<CustomerView> { data, .. }| print(&data))
        }
        CustomerCommand::Limit { id, limits, operator: args } => {
            let body = body(&limits.set)?;
            let remedy = "write it like plan.channel_limit=5";
            ensure(!body.is_empty(), "gateway customer limit", "names nothing to change", remedy)?;
            change(&args, id, body.into()).await
        }
        CustomerCommand::Suspend { id, lift, operator: args } => {
            let since = if lift { Value::Null } else { json!(Timestamp::now().to_iso()) };
            change(&args, id, json!({ "plan": { "overdue_since": since } })).await
        }
    }
}

async fn change(args: &OperatorArgs, id: Uuid, body: Value) -> anyhow::Result<Verdict> {
    let path = format!("{PATH}/{id}");
    let answer = Operator::new(args)?.change(Method::PATCH, &path, Some(&body)).await?;
    told(args, &path, answer, |customer| print(&[customer]))
}

fn print(customers: &[CustomerView]) {
    let columns: &[Column<CustomerView>] = &[
        ("CUSTOMER", |customer| customer.account.id.to_string()),
        ("NAME", |customer| customer.account.name.clone()),
        ("PLAN", |customer| customer.account.plan.name.clone()),
        ("STATUS", |customer| customer.account.plan.status.to_string()),
        ("CHANNELS", |CustomerView { account, .. }| {
            let most = cell(account.plan.channel_limit.map(|limit| format!(" of {limit}")));
            format!("{}{most}, {} connected", account.channels.total, account.channels.connected)
        }),
        ("REQUESTS", |customer| bucket(customer.limits.customer)),
        ("A CHANNEL", |customer| bucket(customer.limits.channel)),
        ("CREATED", |customer| customer.account.created_at.to_iso()),
    ];
    Table::of(customers, columns).print_or("there are no customers");
}

/// Burst, and tokens per second.
fn bucket(BucketRule { burst, refill_per_second }: BucketRule) -> String {
    format!("{burst}+{refill_per_second}/s")
}

/// Whether the routes let an operator set this key; buckets and quotas can also be set as a whole. The routes ignore
/// unknown keys, and a mistyped limit must not seem to be in force.
fn can_be_set(steps: &[&str]) -> bool {
    match steps {
        ["plan", key] => ["name", "channel_limit", "trial_ends_at", "overdue_since"].contains(key),
        ["limits", "customer" | "channel" | "storage"] => true,
        ["limits", "customer" | "channel", key] => ["burst", "refill_per_second"].contains(key),
        ["limits", "storage", key] => Quota::parse(key).is_some(),
        _ => false,
    }
}

/// Builds a body from arguments such as `plan.channel_limit=5`. A value that is not JSON is a string.
fn body(set: &[String]) -> Result<Map<String, Value>, Refusal> {
    let mut body = Map::new();
    for each in set {
        let refused = |problem| Refusal::new(each, problem, "write it like plan.channel_limit=5");
        let (key, text) = each.split_once('=').ok_or_else(|| refused("has no \"=\""))?;
        let steps: Vec<&str> = key.split('.').collect();
        let Some((last, path)) = steps.split_last().filter(|_| can_be_set(&steps)) else {
            let remedy = "set plan.name, .channel_limit, .trial_ends_at or .overdue_since, limits.customer or .channel \
                          with .burst and .refill_per_second, or limits.storage with .media_bytes, .message_bytes, \
                          .keys, .labels, .endpoints or .tickets_open";
            return Err(Refusal::new(each, "cannot be set", remedy));
        };
        let mut inner = &mut body;
        for step in path {
            let entry = inner.entry(*step).or_insert_with(|| Value::Object(Map::new()));
            inner = entry.as_object_mut().ok_or_else(|| refused("is part of a value that was given as a whole"))?;
        }
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        if inner.insert((*last).to_owned(), value).is_some() {
            return Err(refused("is given twice"));
        }
    }
    Ok(body)
}

pub async fn user(command: UserCommand) -> anyhow::Result<Verdict> {
    let UserCommand::Create(UserCreateArgs { customer, email, role, password_file, operator: args }) = command;
    let path = format!("{PATH}/{customer}/users");
    let given = password_file.as_deref().map(password_of).transpose()?;
    let made_up = given.is_none().then(|| random_hex(12).trim().to_owned());
    let mut body = json!({ "email": email, "password": given.or_else(|| made_up.clone()) });
    if let Some(role) = role {
        body["role"] = json!(role);
    }
    let mut answer = Operator::new(&args)?.post(&path, &body).await?;
    if args.json {
        if let Some(password) = made_up {
            answer["password"] = json!(password);
        }
        show::json(&answer);
        return Ok(Verdict::Well);
    }
    let UserView { id, email, role, .. } = as_type(&path, answer)?;
    let mut table = Table::new(&["MEMBER", "ADDRESS", "ROLE"]);
    table.row([id.to_string(), email, role.as_str().to_owned()]);
    table.print_or("");
    if let Some(password) = made_up {
        say(format!("\npassword  {password}\nIt will not be shown again."));
    }
    Ok(Verdict::Well)
}

fn password_of(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("reading the password")?;
    } else {
        text = std::fs::read_to_string(file).map_err(|error| {
            let subject = format!("--password-file {}", file.display());
            Refusal::new(subject, error, "name a readable file, or - for standard input")
        })?;
    }
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

pub async fn key(command: KeyCommand) -> anyhow::Result<Verdict> {
    let KeyCommand::Revoke { key, operator: args } = command;
    let path = format!("/v1/admin/keys/{}", in_path(&key));
    let answer = Operator::new(&args)?.change(Method::DELETE, &path, None).await?;
    told(&args, &path, answer, |OwnedKey { key, .. }| {
        let (prefix, name, status) = (key.prefix, printable(&key.name), key.status);
        say(format!("key {prefix} ({name}) is {status}: no node accepts it any more"));
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn made(set: &[&str]) -> Result<Value, Refusal> {
        body(&set.iter().map(ToString::to_string).collect::<Vec<_>>()).map(Value::Object)
    }

    #[test]
    fn whatever_is_of_the_plan_or_the_limits_can_be_set() {
        let body = made(&["plan.channel_limit=5", "plan.name=pro", "limits.storage.keys=10", "limits.customer=null"]);
        let expected = json!({
            "plan": { "channel_limit": 5, "name": "pro" }, "limits": { "storage": { "keys": 10 }, "customer": null },
        });
        assert_eq!(body.unwrap(), expected);
        let whole = made(&[r#"limits.channel={"burst":5,"refill_per_second":1}"#]).unwrap();
        assert_eq!(whole["limits"]["channel"]["burst"], 5);
    }

    #[test]
    fn what_is_no_limit_is_refused_by_its_name() {
        let mistyped = ["plan.channels_limit=5", "limits.storage.key=1", "limits.customer.refill=1", "limits.user=1"];
        for wrong in ["plan.channel_limit", "name=x", "plan=5", "=5", "api_key.secret=x"].into_iter().chain(mistyped) {
            assert!(made(&[wrong]).is_err_and(|refusal| refusal.subject == wrong), "{wrong}");
        }
        for quota in Quota::ALL {
            assert!(made(&[&format!("limits.storage.{}=1", quota.as_str())]).is_ok(), "{quota:?}");
        }
        assert!(made(&["plan.name=a", "plan.name=b"]).is_err());
        assert!(made(&["limits.customer=null", "limits.customer.burst=5"]).is_err());
    }
}
