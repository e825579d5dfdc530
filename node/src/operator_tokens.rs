//! The operators' tokens in a file, which is reloaded when it changes: without a restart, a token that is removed is
//! rejected within seconds.

use std::time::Duration;

use api::OperatorTokens;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Secret, files};

/// How often the file is checked.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Reloads the file whenever it has changed, until `stop` is cancelled. While the file is missing or one of its lines
/// is invalid, the tokens stay as they were: a partly written file must not lock anyone out.
pub async fn keep(config: Config, shared: Secret, tokens: OperatorTokens, stop: CancellationToken) {
    let Some(path) = config.ops.tokens_file.clone() else { return };
    // The file may have changed since the tokens were read at the start of the node.
    let mut seen: Option<Vec<u8>> = None;
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = tokio::fs::read(&path).await.ok();
        if now == seen {
            continue;
        }
        seen = now;
        match files::operator_tokens(&config, &shared) {
            Ok(known) if known == tokens.known() => {}
            Ok(known) => {
                tracing::info!(file = %path.display(), tokens = known.len(), "new operators' tokens are in use");
                tokens.replace(known);
            }
            Err(refusal) => {
                tracing::warn!(%refusal, "the new operators' tokens are not used: the former ones stay in use")
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::config::{EXAMPLE, load};

    #[tokio::test]
    async fn a_token_that_is_taken_out_while_the_node_starts_opens_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("operators");
        let mut config = load::parse(EXAMPLE, "example").unwrap();
        config.ops.tokens_file = Some(path.clone());
        let shared = Secret("0123456789abcdef".to_owned());
        std::fs::write(&path, format!("ann write {}\n", "a1".repeat(32))).unwrap();
        let tokens = OperatorTokens::new(files::operator_tokens(&config, &shared).unwrap());
        assert_eq!(tokens.known().len(), 2);
        std::fs::write(&path, "# nobody\n").unwrap();
        let keeping = keep(config, shared, tokens.clone(), CancellationToken::new());
        let taken_up = async {
            while tokens.known().len() > 1 {
                tokio::task::yield_now().await;
            }
        };
        let first = async {
            tokio::select! {
                () = keeping => panic!("the file is not looked at any more"),
                () = taken_up => {}
            }
        };
        tokio::time::timeout(Duration::from_secs(10), first).await.unwrap();
    }
}
