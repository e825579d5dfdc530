//! `[support]`: where support tickets are sent.

use api::SupportConfig;
use serde::{Deserialize, Serialize};
use url::Url;

use super::{Config, Secret};
use crate::refusal::Refusal;

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Support {
    /// URL to which each message is sent as a JSON POST. A secret, because helpdesks put tokens into such URLs.
    pub forward_url: Option<Secret>,
    /// Address to which each message is sent through `auth.mail`.
    pub email: Option<String>,
}

/// The validated settings for the HTTP API.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn settings(config: &Config) -> Result<SupportConfig, Refusal> {
    let refused = |key, problem: &str, remedy: &str| Err(Refusal::new(key, problem, remedy));
    match (&config.support.forward_url, &config.support.email) {
        (None, None) => Ok(SupportConfig::Nobody),
        (Some(_), Some(_)) => {
            refused("support.email", "is given together with support.forward_url", "keep one of the two")
        }
        (Some(url), None) => match Url::parse(&url.0).ok().filter(|url| matches!(url.scheme(), "http" | "https")) {
            Some(_) => Ok(SupportConfig::Url(url.0.clone())),
            None => refused("support.forward_url", "is not an http or https URL", "write https://your.helpdesk/..."),
        },
        (None, Some(address)) => {
            let Some(address) = model::member::fold_email(address) else {
                return refused("support.email", "is no e-mail address", "write support@example.com");
            };
            let mail = &config.auth.mail;
            if mail.host.is_none() && !mail.to_log {
                return refused("support.email", "needs a mail server", "set auth.mail.host");
            }
            Ok(SupportConfig::Email(address))
        }
    }
}
