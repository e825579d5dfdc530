//! Operators' changes to the members of a world, made while faults go on or not.

use std::fs;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use tests::http::Api;

use super::World;
use super::asking::{ask, get, until};
use super::founding::{MOVES, READY};

/// How many moves run at once: few, as all nodes share one machine.
const AT_ONCE: u16 = 4;

impl World {
    /// A client of the operator port of a ready node other than `without`.
    ///
    /// # Errors
    /// When no node is ready in time.
    pub async fn ready_operator(&self, without: Option<u64>, within: Duration) -> anyhow::Result<(u64, Api)> {
        until("a node is ready", within, async || {
            let mut last = anyhow::anyhow!("there is no node");
            for id in self.node_ids().into_iter().filter(|id| Some(*id) != without) {
                let operator = self.operator(id)?;
                match get(&operator, "/readyz").await {
                    Ok(_) => return Ok((id, operator)),
                    Err(error) => last = error,
                }
            }
            Err(last)
        })
        .await
    }

    /// Requests a change of a member from ready nodes until it is accepted, or the node is no longer a member: one that
    /// is lost for good is removed even while an operator is about to change it.
    async fn change(&self, id: u64, method: Method, action: &str, body: Value) -> anyhow::Result<()> {
        let path = format!("/v1/admin/nodes/{id}{action}");
        until(&format!("{method} {path} is taken"), MOVES, async || {
            let (_, operator) = self.ready_operator(None, READY).await?;
            let changed = ask(&operator, method.clone(), &path, Some(body.clone())).await;
            if self.node_ids().contains(&id) { changed.map(drop) } else { Ok(()) }
        })
        .await
    }

    /// Transfers all leaderships of a node to others, even while another node is down or drained.
    ///
    /// # Errors
    /// When it is refused for too long.
    pub async fn drain(&self, id: u64) -> anyhow::Result<()> {
        self.change(id, Method::POST, "/drain", json!({ "force": true })).await
    }

    /// Lets a drained node lead again.
    ///
    /// # Errors
    /// When it is refused for too long.
    pub async fn undrain(&self, id: u64) -> anyhow::Result<()> {
        self.change(id, Method::POST, "/undrain", json!({})).await
    }

    /// Sets a node's weight, and starts the moves that follow from it.
    ///
    /// # Errors
    /// When it is refused for too long.
    pub async fn weigh(&self, id: u64, weight: u32) -> anyhow::Result<()> {
        self.change(id, Method::PATCH, "", json!({ "weight": weight })).await?;
        self.rebalance().await
    }

    /// Starts the moves that the current nodes require, if any, once those of the last change have ended.
    ///
    /// # Errors
    /// When no node accepts the request for too long.
    pub async fn rebalance(&self) -> anyhow::Result<()> {
        until("the layout can be changed", MOVES, async || {
            let (_, operator) = self.ready_operator(None, READY).await?;
            let request = operator.request(Method::POST, "/v1/admin/layout/apply").json(&json!({ "at_once": AT_ONCE }));
            let answer = tests::http::try_answer(request.timeout(READY)).await?;
            // 409: there is nothing to move.
            ensure!(matches!(answer.status, 202 | 409), "{} {}", answer.status, answer.text());
            Ok(())
        })
        .await
    }

    /// Joins a new node, and starts the moves that give it its shards.
    ///
    /// # Errors
    /// When a step fails.
    pub async fn grow(&self) -> anyhow::Result<u64> {
        let (via, _) = self.ready_operator(None, READY).await?;
        let id = self.join(via).await?;
        self.rebalance().await?;
        Ok(id)
    }

    /// Removes a node for good, running or not, and waits until nothing is placed on it.
    ///
    /// # Errors
    /// When it is refused or takes too long.
    pub async fn remove(&self, id: u64) -> anyhow::Result<()> {
        until(&format!("node {id} is no member"), MOVES, async || {
            let (_, operator) = self.ready_operator(Some(id), READY).await?;
            let nodes = get(&operator, "/v1/admin/nodes").await?;
            let rows = nodes["data"].as_array().context("data is a list")?;
            match rows.iter().find(|row| row["id"] == id) {
                None => Ok(()),
                Some(row) if row["member"] == "leaving" => bail!("it holds {} replicas", row["replicas"]),
                // Not repeated while the node is leaving: a request may take effect although its response is lost.
                Some(_) => {
                    ask(&operator, Method::DELETE, &format!("/v1/admin/nodes/{id}?force=true"), None).await?;
                    bail!("it was told to leave")
                }
            }
        })
        .await?;
        self.forget(id)
    }

    /// Completes removals that have begun but took too long for their callers.
    ///
    /// # Errors
    /// When one still takes too long.
    pub async fn end_removals(&self) -> anyhow::Result<()> {
        let (_, operator) = self.ready_operator(None, READY).await?;
        let nodes = get(&operator, "/v1/admin/nodes").await?;
        let rows = nodes["data"].as_array().context("data is a list")?;
        let leaves = |id: &u64| rows.iter().find(|row| row["id"] == *id).is_none_or(|row| row["member"] == "leaving");
        for id in self.node_ids().into_iter().filter(leaves) {
            self.remove(id).await?;
        }
        Ok(())
    }

    /// Kills a former member and removes its data.
    fn forget(&self, id: u64) -> anyhow::Result<()> {
        self.map.send_modify(|map| map.nodes.retain(|node| node.id != id));
        let node = self.nodes.lock().remove(&id);
        if let Some(mut node) = node {
            node.kill()?;
            // Unmounts the disk; no process uses it after the kill.
            drop(node.disk.take());
            // The removed node's configuration and logs stay for the analysis of failures.
            if node.home.data.exists() {
                fs::remove_dir_all(&node.home.data)?;
            }
        }
        Ok(())
    }

    /// Replaces a lost node by a new one, and waits until the cluster tolerates the loss of another node: a second loss
    /// before that might take the majority of some group.
    ///
    /// # Errors
    /// When a step fails.
    pub async fn replace(&self, lost: u64) -> anyhow::Result<u64> {
        self.remove(lost).await?;
        let id = self.grow().await?;
        until("any one node can be lost", MOVES, async || {
            let (_, operator) = self.ready_operator(None, READY).await?;
            let check = get(&operator, "/v1/admin/check").await?;
            ensure!(check["can_lose_a_node"] == true, "{check}");
            Ok(())
        })
        .await?;
        Ok(id)
    }

    /// Restarts all nodes one after the other, as for an upgrade.
    ///
    /// # Errors
    /// When a node does not stop or come back.
    pub async fn rolling_restart(&self) -> anyhow::Result<()> {
        for id in self.node_ids() {
            if self.is_running(id) {
                self.stop(id).await?;
            }
            self.launch(id)?;
            self.wait_ready(id, MOVES).await?;
        }
        Ok(())
    }
}
