//! `gateway secrets`: which master key encrypts the secrets, the exchange of the master key, and the rotation of the
//! keys that the cluster generates itself.

use std::collections::BTreeSet;
use std::time::Duration;

use api::operator::secrets::{AuthorityView, DataKeysView, ExchangeView, NodeView, SecretsView, SessionKeyView};
use model::time::Timestamp;
use serde_json::{Value, json};

use super::Verdict;
use super::client::{Operator, as_type, shown, told};
use super::show::{self, ProgressLine, Table, bar, listed};
use crate::cli::operator::{OperatorArgs, RotateCommand, SecretsCommand};
use crate::console::say;

const PATH: &str = "/v1/admin/secrets";

/// State of an authority without a rotation in progress.
const SETTLED: &str = "settled";

/// Interval of polling progress.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

pub async fn run(command: SecretsCommand) -> anyhow::Result<Verdict> {
    match command {
        SecretsCommand::Status(args) => status(&args).await,
        SecretsCommand::Rewrap { detach, operator } => rewrap(&operator, detach).await,
        SecretsCommand::Rotate(RotateCommand::DataKeys(operator)) => rotate_data_keys(&operator).await,
        SecretsCommand::Rotate(RotateCommand::SessionKey(operator)) => rotate_session_key(&operator).await,
        SecretsCommand::Rotate(RotateCommand::Authority { detach, operator }) => {
            rotate_authority(&operator, detach).await
        }
    }
}

async fn status(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.get(PATH).await?;
    Ok(verdict(&shown(args, PATH, answer, print)?))
}

fn print(secrets: &SecretsView) {
    let mut table = Table::new(&["MASTER KEY", "DATA KEYS", "NODES"]);
    for (master, count) in &secrets.sealed_under {
        let has = |node: &&NodeView| node.master_keys.iter().flatten().any(|key| key == master);
        let nodes = secrets.nodes.iter().filter(has).map(|node| node.node_id);
        table.row([master.clone(), count.to_string(), listed(nodes)]);
    }
    table.print_or("nothing is encrypted yet");
    for node in &secrets.nodes {
        if let Some(error) = &node.error {
            say(format!("node {} did not say which keys it has: {error}", node.node_id));
        }
    }
    say(conclusion(secrets));
    say(of_data_keys(secrets.data_key_rotation.as_ref()));
    say(of_session_key(&secrets.session_key));
    say(of_authority(secrets.authority.as_ref()));
}

async fn rotate_data_keys(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.post("/v1/admin/secrets/data-keys/rotate", &json!({})).await?;
    told(args, PATH, answer, |secrets: SecretsView| say(of_data_keys(secrets.data_key_rotation.as_ref())))
}

/// Describes the progress of a rotation of the data keys.
fn of_data_keys(rotation: Option<&DataKeysView>) -> String {
    let Some(DataKeysView { state, former_keys, shards_left, ended_at, .. }) = rotation else {
        return "the customers' data keys were never rotated".to_owned();
    };
    match (&**state, ended_at) {
        (_, Some(at)) => format!("the customers' data keys were rotated; the old ones were dropped at {at}"),
        ("changing", _) => "customers are getting new data keys".to_owned(),
        ("keeping", _) => {
            format!("nothing is encrypted with old data keys any more; {former_keys} of them are kept for a while")
        }
        _ => format!(
            "what was encrypted with old data keys is being encrypted again; shards {} are left",
            listed(shards_left)
        ),
    }
}

async fn rotate_session_key(args: &OperatorArgs) -> anyhow::Result<Verdict> {
    let answer = Operator::new(args)?.post("/v1/admin/secrets/session-key/rotate", &json!({})).await?;
    told(args, PATH, answer, |secrets: SecretsView| say(of_session_key(&secrets.session_key)))
}

async fn rotate_authority(args: &OperatorArgs, detach: bool) -> anyhow::Result<Verdict> {
    let operator = Operator::new(args)?;
    let mut answer = operator.post("/v1/admin/secrets/authority/rotate", &json!({})).await?;
    let mut last = String::new();
    loop {
        let secrets: SecretsView = as_type(PATH, answer.clone())?;
        let over = secrets.authority.as_ref().is_none_or(|authority| authority.state == SETTLED);
        if args.json && (over || detach) {
            show::json(&answer);
        }
        let line = of_authority(secrets.authority.as_ref());
        if !args.json && line != last {
            say(&line);
            last = line;
        }
        if over || detach {
            return Ok(Verdict::Well);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
        answer = operator.get_patiently(PATH).await?;
    }
}

fn of_session_key(key: &SessionKeyView) -> String {
    match (key.rotated_at, key.former_until) {
        (None, _) => "the key of session tokens was never rotated".to_owned(),
        (Some(at), None) => format!("the key of session tokens was rotated at {at}"),
        (Some(at), Some(until)) => {
            format!(
                "the key of session tokens was rotated at {at}; tokens of the previous one work until {until} at most"
            )
        }
    }
}

/// Describes the progress of a rotation of the authority, and what it is waiting for.
fn of_authority(authority: Option<&AuthorityView>) -> String {
    let Some(AuthorityView { rotated_at, state, waits_for, .. }) = authority else {
        return "the cluster does not have the key of the authority that certifies the nodes".to_owned();
    };
    let waits = match waits_for[..] {
        [] => String::new(),
        _ => format!("; waiting for nodes {}", listed(waits_for)),
    };
    match (&**state, rotated_at) {
        (SETTLED, None) => "the authority that certifies the nodes was never rotated".to_owned(),
        (SETTLED, Some(at)) => format!("the authority that certifies the nodes was rotated at {at}"),
        ("overlapping", _) => format!("nodes are creating certificates of the new authority{waits}"),
        _ => format!("nodes are starting to trust the new authority{waits}"),
    }
}

/// `Well` if nothing is encrypted under the former key, and every node has reported its keys.
fn verdict(secrets: &SecretsView) -> Verdict {
    Verdict::of(secrets.remaining == 0 && secrets.nodes.iter().all(|node| node.master_keys.is_some()))
}

async fn rewrap(args: &OperatorArgs, detach: bool) -> anyhow::Result<Verdict> {
    let operator = Operator::new(args)?;
    let mut answer = operator.get(PATH).await?;
    if answer["state"] == "waiting" {
        answer = operator.post("/v1/admin/keys/rotate", &json!({})).await?;
    }
    if !detach {
        answer = follow(&operator, !args.json).await?;
    }
    told(args, PATH, answer, |secrets: SecretsView| say(conclusion(&secrets)))
}

/// Shows the progress until everything is encrypted under the new key.
async fn follow(operator: &Operator, is_shown: bool) -> anyhow::Result<Value> {
    let mut line = ProgressLine::begin(is_shown);
    loop {
        let answer = operator.get_patiently(PATH).await?;
        let secrets: SecretsView = as_type(PATH, answer.clone())?;
        line.tell(progress(&secrets), secrets.data_keys - secrets.remaining, secrets.data_keys);
        if secrets.state != "rewrapping" {
            return Ok(answer);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

fn progress(secrets: &SecretsView) -> String {
    let done = secrets.data_keys - secrets.remaining;
    format!("{} {done}/{} data keys under {}", bar(done, secrets.data_keys), secrets.data_keys, secrets.master_key)
}

/// The next step, in one line.
fn conclusion(secrets: &SecretsView) -> String {
    match (&secrets.exchange, &*secrets.state) {
        (_, "waiting") => waiting(secrets),
        (_, "rewrapping") => format!("{} data keys are still to be encrypted again", secrets.remaining),
        (None, _) => format!("everything is encrypted under {}, which was never exchanged", secrets.master_key),
        (Some(exchange), _) if !exchange.old_key_may_go => "an exchange is about to finish".to_owned(),
        (Some(ExchangeView { from, signs_with_both_until, .. }), _) => {
            let may_go = format!("nothing is encrypted under the old key {from}: it is no longer needed");
            if *signs_with_both_until > Timestamp::now() {
                format!(
                    "{may_go}; until {signs_with_both_until} nodes that keep it sign with the old default secrets too, \
                     for receivers that have not taken over the new ones"
                )
            } else {
                may_go
            }
        }
    }
}

/// Whether all nodes have the future key, and which do not.
fn waiting(secrets: &SecretsView) -> String {
    let first = |node: &NodeView| node.master_keys.as_ref().and_then(|keys| keys.first().cloned());
    let wanted: BTreeSet<String> =
        secrets.nodes.iter().filter_map(first).filter(|key| *key != secrets.master_key).collect();
    match wanted.iter().collect::<Vec<_>>()[..] {
        [key] => {
            let lacks = |node: &&NodeView| first(node).as_ref() != Some(key);
            let lacking = listed(secrets.nodes.iter().filter(lacks).map(|node| node.node_id));
            if lacking.is_empty() {
                return format!("all nodes have the master key {key}: gateway secrets rewrap");
            }
            format!(
                "nodes {lacking} were not given the master key {key} yet, or do not say: set secrets.master_key_file and \
                 secrets.previous_master_key_file there and restart them; then gateway secrets rewrap"
            )
        }
        _ => format!(
            "nodes were given different master keys ({}): give all of them the same one, then gateway secrets rewrap",
            listed(&wanted)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use model::id::NodeId;

    use super::*;

    fn secrets(state: &'static str, remaining: usize, exchange: Option<ExchangeView>) -> SecretsView {
        SecretsView {
            master_key: "new0".to_owned(),
            state: state.into(),
            data_keys: 10,
            sealed_under: BTreeMap::new(),
            remaining,
            exchange,
            data_key_rotation: None,
            session_key: SessionKeyView { rotated_at: None, former_until: None },
            authority: None,
            nodes: vec![NodeView { node_id: 1, master_keys: Some(Vec::new()), error: None }],
        }
    }

    #[test]
    fn the_old_key_may_go_when_nothing_is_sealed_under_it() {
        let exchange = |old_key_may_go, until| {
            let (from, began_at) = ("old0".to_owned(), Timestamp(0));
            Some(ExchangeView { from, began_at, ended_at: None, old_key_may_go, signs_with_both_until: until })
        };
        let running = secrets("rewrapping", 4, exchange(false, Timestamp(0)));
        assert!(!conclusion(&running).contains("no longer needed"));
        assert_eq!(progress(&running), format!("[{}{}] 6/10 data keys under new0", "#".repeat(18), ".".repeat(12)));
        assert_eq!(verdict(&running), Verdict::Degraded);
        let over = secrets("settled", 0, exchange(true, Timestamp(0)));
        assert_eq!(conclusion(&over), "nothing is encrypted under the old key old0: it is no longer needed");
        assert_eq!(verdict(&over), Verdict::Well);
        let of_today = secrets("settled", 0, exchange(true, Timestamp(Timestamp::now().0 + 60_000)));
        assert!(conclusion(&of_today).contains("default secrets too"));
        assert!(!conclusion(&secrets("settled", 0, None)).contains("no longer needed"));
    }

    #[test]
    fn how_far_a_rotation_is_is_told_with_the_nodes_that_it_waits_for() {
        let told = |state: &'static str, waits_for: &[NodeId]| {
            let (id, state, waits_for) = (String::new(), state.into(), waits_for.to_vec());
            of_authority(Some(&AuthorityView { id, rotated_at: None, state, began_at: None, waits_for }))
        };
        assert_eq!(told("announced", &[2, 3]), "nodes are starting to trust the new authority; waiting for nodes 2,3");
        assert_eq!(told("overlapping", &[]), "nodes are creating certificates of the new authority");
        assert!(told(SETTLED, &[]).ends_with("was never rotated") && of_authority(None).contains("does not have"));
        let key = |former_until| of_session_key(&SessionKeyView { rotated_at: Some(Timestamp(0)), former_until });
        assert!(
            key(Some(Timestamp(1_200_000))).contains("00:20:00") && !key(None).contains("previous"),
            "{}",
            key(None)
        );
    }

    #[test]
    fn who_waits_is_told_which_nodes_lack_the_new_key_and_of_the_exchange_when_none_does() {
        let with = |keys: &[Option<&[&str]>]| {
            let nodes = keys.iter().zip(1..).map(|(keys, node_id)| NodeView {
                node_id,
                master_keys: keys.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect()),
                error: keys.is_none().then(|| "is down".to_owned()),
            });
            conclusion(&SecretsView {
                master_key: "old0".to_owned(),
                nodes: nodes.collect(),
                ..secrets("waiting", 0, None)
            })
        };
        let both: Option<&[&str]> = Some(&["new0", "old0"]);
        assert_eq!(with(&[both, both]), "all nodes have the master key new0: gateway secrets rewrap");
        let some = with(&[Some(&["old0"]), both, None]);
        assert!(some.starts_with("nodes 1,3 were not given the master key new0"), "{some}");
        let several = with(&[both, Some(&["new1", "old0"])]);
        assert!(several.contains("different master keys (new0,new1)"), "{several}");
    }
}
