//! Sends e-mails to members and to the support, over SMTP. Requests do not wait for the mail server: e-mails go through
//! a bounded in-memory queue. Lost ones, as when the process ends, can be requested again.

use std::time::Duration;

use futures::future::join_all;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use raft::supervise;
use serde::{Deserialize, Serialize};
use tokio::sync::{Mutex, mpsc};
use tokio_util::sync::CancellationToken;

use super::AuthConfig;

/// The most e-mails that wait. Further ones are dropped, and the drop is logged.
const QUEUE: usize = 256;

/// E-mails that are sent concurrently, each on its own connection.
const AT_ONCE: usize = 16;

/// Timeout for sending one e-mail.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// Delays before an e-mail is retried; after the last retry it is given up.
const RETRIES: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// The settings `auth.mail.*`.
#[derive(Clone, Debug)]
pub enum MailConfig {
    /// No mail server: e-mails cannot be sent.
    None,
    /// E-mails are written to the node's log. For development only: anybody who can read the log has the tokens.
    Log,
    Smtp(SmtpConfig),
}

#[derive(Clone)]
pub struct SmtpConfig {
    pub host: String,
    /// `None` for the default port of `security`.
    pub port: Option<u16>,
    pub security: SmtpSecurity,
    /// User name and password.
    pub credentials: Option<(String, String)>,
    /// `Name <address>`, or only an address.
    pub from: String,
}

/// How the connection to the mail server is protected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SmtpSecurity {
    /// Begins in plain text and must upgrade to TLS (STARTTLS); port 587.
    #[default]
    StartTls,
    /// TLS from the first byte; port 465.
    Tls,
    /// No TLS, for a relay on the same machine; port 25.
    #[serde(rename = "none")]
    Plain,
}

impl std::fmt::Debug for SmtpConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SmtpConfig({}, {:?}, {:?})", self.host, self.port, self.security)
    }
}

type Transport = AsyncSmtpTransport<Tokio1Executor>;

/// The SMTP transport, and the sender's address.
type Server = (Transport, Mailbox);

impl SmtpConfig {
    /// Checks the settings without connecting to the server; an unreachable server shows with the first e-mail.
    ///
    /// # Errors
    /// Why the settings cannot be used.
    pub fn check(&self) -> Result<(), String> {
        self.server().map(drop)
    }

    /// Builds the SMTP transport and the sender's address.
    fn server(&self) -> Result<Server, String> {
        let sender =
            self.from.parse::<Mailbox>().map_err(|_| format!("\"{}\" is no address of a sender", self.from))?;
        let builder = match self.security {
            SmtpSecurity::Tls => Transport::relay(&self.host),
            SmtpSecurity::StartTls => Transport::starttls_relay(&self.host),
            SmtpSecurity::Plain => Ok(Transport::builder_dangerous(&self.host)),
        };
        let builder = builder.map_err(|error| format!("the TLS settings cannot be used: {error}"))?;
        let mut builder = builder.timeout(Some(SEND_TIMEOUT));
        if let Some(port) = self.port {
            builder = builder.port(port);
        }
        if let Some((name, password)) = &self.credentials {
            builder = builder.credentials(Credentials::new(name.clone(), password.clone()));
        }
        Ok((builder.build(), sender))
    }
}

/// An e-mail to one address.
#[derive(Clone)]
struct Mail {
    to: String,
    subject: String,
    text: String,
}

/// The mail queue, with both of its ends.
pub struct Mailer {
    config: MailConfig,
    queue: mpsc::Sender<Mail>,
    waiting: Mutex<mpsc::Receiver<Mail>>,
}

impl Mailer {
    pub fn new(config: MailConfig) -> Self {
        let (queue, waiting) = mpsc::channel(QUEUE);
        Self { config, queue, waiting: Mutex::new(waiting) }
    }

    /// Asks the owner of an address to confirm it.
    pub fn ask_to_verify(&self, config: &AuthConfig, base_url: &str, to: &str, token: &str) {
        let how = match &config.verify_url {
            Some(url) => format!("Open this page to confirm it:\n\n{}\n", url.replace("{token}", token)),
            None => format!(
                "Confirm it with this token:\n\n{token}\n\nas in\n\ncurl -X POST {base_url}/v1/auth/verify-email \
                 -H 'Content-Type: application/json' -d '{{\"token\":\"{token}\"}}'\n"
            ),
        };
        let text = format!(
            "This address was given for an account at {base_url}.\n\n{how}\nIt is good for 24 hours. \
             If it was not you, there is nothing to do.\n"
        );
        self.enqueue(Mail { to: to.to_owned(), subject: "Confirm your e-mail address".to_owned(), text });
    }

    /// Tells a member that somebody tried to sign up with the member's address, who was not told that it is taken.
    pub fn tell_of_sign_up(&self, base_url: &str, to: &str) {
        let text = format!(
            "This address was given for a new account at {base_url}.\n\nIt belongs to a member already, or to somebody who was \
             invited, so none was made: log in, or have another password sent.\nIf it was not you, there is nothing to do.\n"
        );
        self.enqueue(Mail { to: to.to_owned(), subject: "You have an account already".to_owned(), text });
    }

    /// Whether e-mails are really sent, and not only logged.
    pub fn reaches_people(&self) -> bool {
        matches!(self.config, MailConfig::Smtp(_))
    }

    /// Whether e-mails are sent or at least logged.
    pub fn goes_anywhere(&self) -> bool {
        !matches!(self.config, MailConfig::None)
    }

    /// Invites the owner of an address to an account. The inviter's address is the only text in it that users wrote, so
    /// that nobody can send strangers messages of their own.
    pub fn invite(&self, base_url: &str, to: &str, inviter: &str, how: &str) {
        let text = format!(
            "{inviter} invites you to an account at {base_url}.\n\n{how}\nIt is good for seven days. If you do not know who \
             that is, there is nothing to do.\n"
        );
        self.enqueue(Mail { to: to.to_owned(), subject: "You are invited".to_owned(), text });
    }

    /// Lets a member who forgot the password choose a new one.
    pub fn reset_password(&self, base_url: &str, to: &str, how: &str) {
        let text = format!(
            "Somebody asked for another password of this address at {base_url}.\n\n{how}\nIt is good for an hour. If it was \
             not you, there is nothing to do: the password stays as it is.\n"
        );
        self.enqueue(Mail { to: to.to_owned(), subject: "Another password".to_owned(), text });
    }

    fn enqueue(&self, mail: Mail) {
        if self.queue.try_send(mail).is_err() {
            metrics::counter!("gateway_mails_total", "outcome" => "dropped").increment(1);
            tracing::error!("an e-mail was dropped: too many wait for the mail server");
        }
    }

    /// Sends queued e-mails until `stop`, several concurrently: an e-mail that the mail server is slow to take, as when
    /// the recipient's own server does not respond, must not delay others.
    pub async fn run(&self, stop: CancellationToken) {
        let server = self.server();
        let server = server.as_ref();
        let worker = || async {
            while let Some(mail) = self.next().await {
                supervise::noticed("the mail to members", self.send(server, &mail)).await;
            }
        };
        stop.run_until_cancelled(join_all((0..AT_ONCE).map(|_| worker()))).await;
    }

    /// Receives the next e-mail. One worker at a time waits on the queue; the others wait for the lock.
    async fn next(&self) -> Option<Mail> {
        self.waiting.lock().await.recv().await
    }

    /// Sends an e-mail now, without the queue. Returns whether the mail server accepted it.
    pub async fn deliver(&self, to: &str, subject: String, text: String) -> bool {
        self.send(self.server().as_ref(), &Mail { to: to.to_owned(), subject, text }).await
    }

    /// The transport and the sender; `None` without a usable mail server.
    fn server(&self) -> Option<Server> {
        let MailConfig::Smtp(config) = &self.config else { return None };
        config.server().inspect_err(|error| tracing::error!(%error, "e-mails cannot be sent")).ok()
    }

    async fn send(&self, server: Option<&Server>, mail: &Mail) -> bool {
        match (server, &self.config) {
            (Some((transport, sender)), _) => {
                let sent = send(transport, sender, mail).await;
                let outcome = if sent { "sent" } else { "failed" };
                metrics::counter!("gateway_mails_total", "outcome" => outcome).increment(1);
                sent
            }
            (None, MailConfig::Log) => {
                tracing::info!(
                    to = mail.to,
                    subject = mail.subject,
                    text = mail.text,
                    "an e-mail, written to the log instead of being sent"
                );
                true
            }
            (None, _) => {
                tracing::error!("an e-mail was dropped: no mail server is configured");
                false
            }
        }
    }
}

/// Tries an e-mail until it is accepted or given up. Returns whether it was accepted.
async fn send(transport: &Transport, sender: &Mailbox, mail: &Mail) -> bool {
    let message = mail.to.parse::<Mailbox>().map_err(|error| error.to_string()).and_then(|to| {
        let builder = Message::builder().from(sender.clone()).to(to).subject(&mail.subject);
        builder.header(ContentType::TEXT_PLAIN).body(mail.text.clone()).map_err(|error| error.to_string())
    });
    let message = message.inspect_err(|error| tracing::error!(error, "an e-mail cannot be written to its address"));
    let Ok(message) = message else { return false };
    let mut pauses = RETRIES.iter();
    loop {
        let error = match tokio::time::timeout(SEND_TIMEOUT, transport.send(message.clone())).await {
            Ok(Ok(_)) => return true,
            Ok(Err(error)) if error.is_permanent() => {
                tracing::error!(%error, "the mail server refused an e-mail");
                return false;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the mail server did not answer in time".to_owned(),
        };
        let Some(pause) = pauses.next() else {
            tracing::error!(error, "an e-mail was given up");
            return false;
        };
        tracing::warn!(error, "an e-mail could not be sent yet");
        tokio::time::sleep(*pause).await;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use std::sync::Arc;

    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    /// A mail server that reports the recipient of each message, and stops responding after a silent recipient.
    async fn serve(stream: TcpStream, taken: mpsc::UnboundedSender<String>) {
        let (reading, mut writing) = stream.into_split();
        let mut lines = BufReader::new(reading).lines();
        let (mut to, mut is_in_message) = (String::new(), false);
        writing.write_all(b"220 here\r\n").await.unwrap();
        while let Ok(Some(line)) = lines.next_line().await {
            let answer: &[u8] = match line.split([' ', ':']).next().unwrap_or_default() {
                "." => {
                    is_in_message = false;
                    let _ = taken.send(to.clone());
                    b"250 taken\r\n"
                }
                _ if is_in_message => continue,
                "RCPT" if line.contains("silent") => std::future::pending().await,
                "RCPT" => {
                    to.clone_from(&line);
                    b"250 known\r\n"
                }
                "DATA" => {
                    is_in_message = true;
                    b"354 go on\r\n"
                }
                _ => b"250 well\r\n",
            };
            if writing.write_all(answer).await.is_err() {
                return;
            }
        }
    }

    #[tokio::test]
    async fn a_message_for_which_the_server_keeps_silent_holds_no_other_up() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (taken, mut has_taken) = mpsc::unbounded_channel();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, taken.clone()));
            }
        });
        let config = SmtpConfig {
            host: "127.0.0.1".to_owned(),
            port: Some(port),
            security: SmtpSecurity::Plain,
            credentials: None,
            from: "Gateway <gateway@example.com>".to_owned(),
        };
        let mailer = Arc::new(Mailer::new(MailConfig::Smtp(config)));
        for number in 1..AT_ONCE {
            mailer.tell_of_sign_up("https://example.com", &format!("silent{number}@example.com"));
        }
        mailer.tell_of_sign_up("https://example.com", "ann@example.com");
        let (stop, running) = (CancellationToken::new(), mailer.clone());
        let stopped = stop.clone();
        let sending = tokio::spawn(async move { running.run(stopped).await });
        let to = tokio::time::timeout(SEND_TIMEOUT / 2, has_taken.recv()).await.unwrap().unwrap();
        assert!(to.contains("ann@example.com"), "{to}");
        stop.cancel();
        sending.await.unwrap();
        server.abort();
    }
}
