//! Finds the address of the gateway's API and the key: in flags, the environment, or the folder of `gateway dev`.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use reqwest::StatusCode;
use serde_json::Value;

use crate::cli::receiving::CustomerArgs;
use crate::dev::description::Description;
use crate::operator::access::{USUAL_DEV, given_secret, how_dev_starts};
use crate::refusal::Refusal;
use crate::trust::Trust;

/// Address and credentials of an account.
pub struct Account {
    /// Base URLs without a trailing slash; at least one.
    pub nodes: Vec<String>,
    pub key: String,
    /// How the nodes' certificates are verified.
    pub trust: Trust,
    /// The folder of the cluster, if it is one of `gateway dev`.
    dev: Option<PathBuf>,
}

impl Account {
    /// Finds address and key: flags and environment take precedence over files.
    ///
    /// # Errors
    /// A [`Refusal`] that says what to specify, or which file cannot be read.
    pub fn find(args: &CustomerArgs) -> Result<Self, Refusal> {
        let in_environment = std::env::var("GATEWAY_API_KEY").ok();
        let key = given_secret("--key", args.key.as_deref(), args.key_file.as_deref(), in_environment)?;
        let trust = args.ca_file.clone().map(Trust::Authorities).unwrap_or_default();
        if !args.api.is_empty() {
            // The key of a cluster on this machine must not be sent to another one.
            let remedy = "give it with --key-file, GATEWAY_API_KEY_FILE or GATEWAY_API_KEY";
            let key = key.ok_or_else(|| Refusal::new("the API key", "is not given", remedy))?;
            return Ok(Self { nodes: args.api.clone(), key, trust, dev: None });
        }
        let usual = Path::new(USUAL_DEV);
        let folder = args.data.as_deref().or(Description::file_in(usual).exists().then_some(usual));
        let remedy = "name it with --api or GATEWAY_API, or the folder of gateway dev with --data";
        let folder = folder.ok_or_else(|| Refusal::new("the gateway's API", "is not given", remedy))?;
        let dev = Description::find(folder)?;
        let nodes = dev.nodes.into_iter().map(|node| node.api).collect();
        Ok(Self { nodes, key: key.unwrap_or(dev.api_key), trust, dev: Some(folder.to_owned()) })
    }

    /// Remedy when no node answers.
    pub fn remedy(&self) -> String {
        self.dev.as_deref().map_or_else(|| "name the gateway's API with --api".to_owned(), how_dev_starts)
    }
}

/// The error of a failed response: a [`Refusal`] if the caller must change something, another error if it may pass.
/// `scopes` says which key is needed, `missing` where to look up what was not found.
pub fn failure(node: &str, status: StatusCode, body: &Value, scopes: &str, missing: &str) -> anyhow::Error {
    let said = |field: &str| body["error"][field].as_str();
    let (Some(code), Some(message)) = (said("code"), said("message")) else {
        return anyhow!("{node} answered {status}, and not as the gateway does: name the gateway's API with --api");
    };
    let remedy = match status {
        StatusCode::UNAUTHORIZED => "give an API key of this gateway with --key-file",
        StatusCode::FORBIDDEN => scopes,
        // The client only uses routes of the API.
        StatusCode::NOT_FOUND if message.contains("no such route") => {
            "name the gateway's API with --api, and not the operators' port"
        }
        StatusCode::NOT_FOUND => missing,
        status if status.is_client_error() && status != StatusCode::TOO_MANY_REQUESTS => "check the names and ids",
        // The rate limit was reached, there are too many streams, or the node cannot serve this now.
        _ => return anyhow!("{node} answered {status}: {message} ({code})"),
    };
    Refusal::new(code, message, remedy).into()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_caller_can_mend_is_a_refusal() {
        let judged = |status: u16, body: Value| {
            let status = StatusCode::from_u16(status).unwrap();
            let error = failure("http://n", status, &body, "another key", "list them");
            (error.is::<Refusal>(), error.to_string())
        };
        let said = |code: &str| json!({ "error": { "code": code, "message": "so it is" } });
        for (status, remedy) in [(401, "--key-file"), (403, "another key"), (404, "list them"), (400, "names and ids")]
        {
            let (is_refusal, text) = judged(status, said("some_code"));
            assert!(is_refusal && text.starts_with("some_code: so it is; ") && text.contains(remedy), "{text}");
        }
        let other_port = json!({ "error": { "code": "not_found", "message": "no such route" } });
        let (is_refusal, text) = judged(404, other_port);
        assert!(is_refusal && text.contains("--api") && !text.contains("list them"), "{text}");
        for status in [429, 500, 503] {
            let (is_refusal, text) = judged(status, said("rate_limited"));
            assert!(!is_refusal && text.contains("so it is (rate_limited)"), "{text}");
        }
        for body in [Value::Null, json!("<html>"), json!({ "error": "not found" })] {
            let (is_refusal, text) = judged(404, body);
            assert!(!is_refusal && text.contains("--api"), "{text}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_a_key_of_dev_goes_nowhere_else() {
        let temporary = tempfile::tempdir().unwrap();
        let refusal = |args: &CustomerArgs| Account::find(args).map(|_| ()).unwrap_err().to_string();
        let api = vec!["http://there".to_owned()];
        let nothing = Some(temporary.path().join("nothing"));
        assert!(refusal(&CustomerArgs { data: nothing, ..CustomerArgs::default() }).contains("gateway dev"));
        let description = serde_json::json!({
            "simulator": "http://s", "simulator_pid": 1, "customer_id": "c", "api_key": "of dev", "operator_token": "o",
            "nodes": [{ "id": 1, "api": "http://a", "ops": "http://o", "peer": "p", "pid": 1, "data": "/d", "log": "/l" }],
        });
        std::fs::write(temporary.path().join("dev.json"), description.to_string()).unwrap();
        let dev = CustomerArgs { data: Some(temporary.path().to_owned()), ..CustomerArgs::default() };
        let known = Account::find(&dev).unwrap();
        assert!(known.remedy().contains("gateway dev --data"), "{}", known.remedy());
        assert_eq!((known.nodes, known.key.as_str()), (vec!["http://a".to_owned()], "of dev"));
        assert!(refusal(&CustomerArgs { api: api.clone(), ..dev.clone() }).contains("--key-file"));
        let ca_file = Some("ca.pem".into());
        let given = Account::find(&CustomerArgs { api, key: Some(" mine\n".to_owned()), ca_file, ..dev }).unwrap();
        assert!(given.remedy().contains("--api"), "{}", given.remedy());
        assert_eq!(given.trust, Trust::Authorities("ca.pem".into()));
        assert_eq!((given.nodes[0].as_str(), given.key.as_str()), ("http://there", "mine"));
    }
}
