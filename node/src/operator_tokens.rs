//! The operators' tokens that stand in a file: taken up again whenever it has changed, so that one that is taken out opens
//! nothing within seconds, and without a restart.

use std::time::Duration;

use api::OperatorTokens;
use tokio_util::sync::CancellationToken;

use crate::config::{Config, Secret, files};

/// How often the file is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Takes up what the file says, until the stop. While it is missing, or one of its lines is wrong, the tokens stay what they
/// were: half of a file that is being written must lock nobody out.
pub async fn keep(config: Config, shared: Secret, tokens: OperatorTokens, stop: CancellationToken) {
    let Some(path) = config.ops.tokens_file.clone() else { return };
    let mut seen = tokio::fs::read(&path).await.ok();
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    while stop.run_until_cancelled(ticks.tick()).await.is_some() {
        let now = tokio::fs::read(&path).await.ok();
        if now == seen {
            continue;
        }
        seen = now;
        match files::operator_tokens(&config, &shared) {
            Ok(known) => {
                tracing::info!(file = %path.display(), tokens = known.len(), "other operators' tokens are in use");
                tokens.replace(known);
            }
            Err(refusal) => tracing::warn!(%refusal, "the operators' tokens stay what they were"),
        }
    }
}
