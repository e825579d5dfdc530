//! `gateway webhooks stuck`: whose webhooks do not get through.

use api::List;
use api::operator::stuck::StuckEndpoint;
use model::time::Timestamp;
use serde_json::json;

use super::Verdict;
use super::client::{Operator, shown};
use super::show::{self, Table, cell};
use crate::cli::operator::WebhooksStuckArgs;

pub async fn stuck(args: &WebhooksStuckArgs) -> anyhow::Result<Verdict> {
    let customer = args.customer.map(|customer| format!("&customer_id={customer}")).unwrap_or_default();
    let path = format!("/v1/admin/webhooks/stuck?older_than_seconds={}{customer}", args.older_than.as_secs());
    let answer = json!({ "data": Operator::new(&args.operator)?.all(&path).await? });
    let List { data, .. } = shown(&args.operator, &path, answer, |stuck: &List<StuckEndpoint>| print(&stuck.data))?;
    Ok(Verdict::of(data.is_empty()))
}

fn print(endpoints: &[StuckEndpoint]) {
    let mut table = Table::new(&[
        "ENDPOINT",
        "CUSTOMER",
        "STATE",
        "WAITING",
        "OLDEST",
        "FAILING FOR",
        "LAST SUCCESS",
        "NEXT ATTEMPT",
        "URL",
        "LAST ERROR",
    ]);
    let past = |at: Option<Timestamp>| cell(at.map(|at| format!("{} ago", show::ago(at))));
    for endpoint in endpoints {
        table.row([
            endpoint.endpoint_id.to_string(),
            endpoint.customer_name.clone().unwrap_or_else(|| endpoint.customer_id.to_string()),
            endpoint.state.to_string(),
            format!("{}{}", endpoint.waiting, if endpoint.or_more { "+" } else { "" }),
            past(endpoint.oldest),
            cell(endpoint.failing_since.map(show::ago)),
            past(endpoint.last_success_at),
            cell(endpoint.next_attempt_at.map(|at| next(at, Timestamp::now()))),
            endpoint.url.clone(),
            endpoint.last_error.clone().unwrap_or_default(),
        ]);
    }
    table.print_lists_or("no endpoint is stuck");
}

/// When the next attempt is due. One whose time has come waits for its turn, or for its endpoint to answer another.
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
