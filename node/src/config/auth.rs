//! `[auth]`: how members sign in, in addition to API keys.

use api::{AuthConfig, MailConfig, OidcConfig, SmtpConfig, SmtpSecurity};
use serde::{Deserialize, Serialize};
use url::Url;

use super::Secret;
use super::values::{is_loopback, sections};
use crate::refusal::{Refusal, ensure};

sections! {
    Auth {
        /// Whether anyone may create an account.
        signup: bool = false,
        /// Whether an account is created only once its email address is confirmed. Otherwise it exists at once, with a
        /// key, and an address that already belongs to a member is refused.
        // Release 0.2.0 does not know this key, and may receive this node's configuration when it joins.
        #[serde(skip_serializing_if = "super::is_on")]
        verify_first: bool = true,
        /// URL of the page that confirms an email address; contains `{token}`.
        verify_url: Option<String> = None,
        /// URL of the page on which a member chooses a password; contains `{token}`.
        password_url: Option<String> = None,
        mail: Mail = Mail::default(),
        oidc: Option<OidcConfig> = None,
    }
}

/// `[auth.mail]`: the SMTP server for emails to members.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mail {
    pub host: Option<String>,
    /// Default: the usual port of `security`.
    pub port: Option<u16>,
    pub security: SmtpSecurity,
    pub username: Option<String>,
    pub password: Option<Secret>,
    /// `Name <address>` or an address.
    pub from: Option<String>,
    /// Logs messages instead of sending them. For development only: anyone who can read the log gets the tokens in
    /// them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub to_log: bool,
}

/// The validated settings for the HTTP API.
///
/// # Errors
/// A [`Refusal`] that names the key.
pub fn settings(auth: &Auth) -> Result<AuthConfig, Refusal> {
    for (key, url) in [("auth.verify_url", &auth.verify_url), ("auth.password_url", &auth.password_url)] {
        let Some(url) = url else { continue };
        let is_page = Url::parse(url).is_ok() && url.contains("{token}");
        ensure(is_page, key, "is not a URL with {token} in it", "write https://your.page/...?token={token}")?;
    }
    let mail = mail(&auth.mail)?;
    let can_sign_up = !matches!(mail, MailConfig::None);
    let problem = "is missing, and auth.signup = true sends messages to those who sign up";
    ensure(can_sign_up || !auth.signup, "auth.mail.host", problem, "name a mail server, or set auth.signup = false")?;
    auth.oidc.as_ref().map_or(Ok(()), judge_oidc)?;
    Ok(AuthConfig {
        signup: auth.signup,
        verify_first: auth.verify_first,
        verify_url: auth.verify_url.clone(),
        password_url: auth.password_url.clone(),
        mail,
        oidc: auth.oidc.clone(),
    })
}

fn mail(mail: &Mail) -> Result<MailConfig, Refusal> {
    let Some(host) = mail.host.clone() else {
        return Ok(if mail.to_log { MailConfig::Log } else { MailConfig::None });
    };
    let credentials = match (&mail.username, &mail.password) {
        (Some(name), Some(password)) => Some((name.clone(), password.0.clone())),
        (None, None) => None,
        (Some(_), None) => {
            return Err(Refusal::new("auth.mail.password", "is missing beside auth.mail.username", "set both or none"));
        }
        (None, Some(_)) => {
            return Err(Refusal::new("auth.mail.username", "is missing beside auth.mail.password", "set both or none"));
        }
    };
    let Some(from) = mail.from.clone() else {
        let remedy = "write \"Gateway <gateway@example.com>\"";
        return Err(Refusal::new("auth.mail.from", "is missing", remedy));
    };
    let config = SmtpConfig { host, port: mail.port, security: mail.security, credentials, from };
    config.check().map_err(|error| Refusal::new("auth.mail", error, "correct auth.mail.from or .host"))?;
    Ok(MailConfig::Smtp(config))
}

fn judge_oidc(oidc: &OidcConfig) -> Result<(), Refusal> {
    trusted_url("auth.oidc.issuer", &oidc.issuer)?;
    if let Some(url) = &oidc.jwks_url {
        trusted_url("auth.oidc.jwks_url", url)?;
    }
    for (key, text) in [("auth.oidc.audience", &oidc.audience), ("auth.oidc.customer_claim", &oidc.customer_claim)] {
        ensure(!text.trim().is_empty(), key, "is empty", "name what the issuer puts into its tokens")?;
    }
    Ok(())
}

/// Whoever can alter the keys in transit can log in as any member, so `http` is allowed on loopback only.
fn trusted_url(key: &str, text: &str) -> Result<(), Refusal> {
    let url = Url::parse(text).ok();
    let trusted = url.is_some_and(|url| match (url.scheme(), url.host()) {
        ("https", Some(_)) => true,
        ("http", Some(host)) => is_loopback(host),
        _ => false,
    });
    ensure(trusted, key, "is not an https URL", "write https://issuer.example.com")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        settings(&toml::from_str(text).unwrap()).err().map(|refusal| refusal.to_string()).unwrap_or_default()
    }

    #[test]
    fn sign_up_needs_a_way_to_send_messages() {
        assert!(refused("signup = true").contains("auth.mail.host"));
        for text in [
            "",
            "signup = true\n[mail]\nto_log = true",
            "signup = true\n[mail]\nhost = \"smtp.example.com\"\nfrom = \"Gateway <g@example.com>\"",
            "[mail]\nhost = \"127.0.0.1\"\nsecurity = \"none\"\nfrom = \"g@example.com\"",
        ] {
            assert_eq!(refused(text), "", "{text}");
        }
    }

    #[test]
    fn addresses_are_confirmed_first_unless_said_otherwise() {
        let verify_first = |text: &str| settings(&toml::from_str(text).unwrap()).unwrap().verify_first;
        assert!(verify_first("") && verify_first("signup = false"));
        assert!(!verify_first("verify_first = false"));
        let written = toml::to_string(&Auth::default()).unwrap();
        assert!(!written.contains("verify_first"), "an older release that joins reads it: {written}");
    }

    #[test]
    fn a_wrong_setting_is_named() {
        let table = [
            ("[mail]\nhost = \"h\"", "auth.mail.from"),
            ("[mail]\nhost = \"h\"\nfrom = \"nobody\"", "auth.mail"),
            ("[mail]\nhost = \"h\"\nfrom = \"a@b.c\"\nusername = \"u\"", "auth.mail.password"),
            ("verify_url = \"https://example.com\"", "auth.verify_url"),
            ("password_url = \"{token}\"", "auth.password_url"),
            ("[oidc]\nissuer = \"http://issuer.example.com\"\naudience = \"a\"", "auth.oidc.issuer"),
            ("[oidc]\nissuer = \"https://i.example\"\naudience = \" \"", "auth.oidc.audience"),
            ("[oidc]\nissuer = \"https://i.example\"\naudience = \"a\"\njwks_url = \"ftp://x\"", "auth.oidc.jwks_url"),
        ];
        for (text, key) in table {
            assert!(refused(text).contains(key), "{text}: {}", refused(text));
        }
        assert_eq!(refused("[oidc]\nissuer = \"http://127.0.0.1:9\"\naudience = \"a\""), "");
    }
}
