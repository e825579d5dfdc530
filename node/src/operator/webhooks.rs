//! `gateway webhooks stuck`: deliveries that do not get through.

use api::List;
use api::operator::stuck::StuckEndpoint;
use model::time::Timestamp;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Column, Table, cell};
use crate::cli::operator::WebhooksStuckArgs;

pub async fn stuck(args: &WebhooksStuckArgs) -> anyhow::Result<Verdict> {
    let customer = args.customer.map(|customer| format!("&customer_id={customer}")).unwrap_or_default();
    let path = format!("/v1/admin/webhooks/stuck?older_than_seconds={}{customer}", args.older_than.as_secs());
    let answer = json!({ "data": Operator::new(&args.operator)?.all(&path).await? });
    let List { data, .. } = shown(&args.operator, &path, answer, |stuck: &List<StuckEndpoint>| print(&stuck.data))?;
    Ok(Verdict::of(data.is_empty()))
}

fn print(endpoints: &[StuckEndpoint]) {
    let columns: &[Column<StuckEndpoint>] = &[
        ("ENDPOINT", |stuck| stuck.endpoint_id.to_string()),
        ("CUSTOMER", |stuck| stuck.customer_name.clone().unwrap_or_else(|| stuck.customer_id.to_string())),
        ("STATE", |stuck| stuck.state.to_string()),
        ("WAITING", |stuck| format!("{}{}", stuck.waiting, if stuck.or_more { "+" } else { "" })),
        ("OLDEST", |stuck| past(stuck.oldest)),
        ("FAILING FOR", |stuck| cell(stuck.failing_since.map(show::ago))),
        ("LAST SUCCESS", |stuck| past(stuck.last_success_at)),
        ("NEXT ATTEMPT", |stuck| cell(stuck.next_attempt_at.map(|at| next(at, Timestamp::now())))),
        ("URL", |stuck| stuck.url.clone()),
        ("LAST ERROR", |stuck| cell(stuck.last_error.as_ref())),
    ];
    Table::of(endpoints, columns).print_lists_or("no endpoint is stuck");
}

fn past(at: Option<Timestamp>) -> String {
    cell(at.map(|at| format!("{} ago", show::ago(at))))
}

/// When the next attempt is due. A due attempt may still wait for its turn, or for its endpoint to answer another one.
fn next(at: Timestamp, now: Timestamp) -> String {
    if at > now { format!("in {}", show::duration(at.since(now))) } else { "due".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_next_attempt_is_ahead_or_due() {
        let now = Timestamp(1_000_000);
        assert_eq!(next(Timestamp(1_090_000), now), "in 1m 30s");
        assert_eq!(next(now, now), "due");
        assert_eq!(next(Timestamp(0), now), "due");
    }
}
