//! A mail server that accepts and keeps every message.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::wait::{eventually, seconds};

/// A running mail server, which stops on drop.
#[derive(Debug)]
pub struct Mailbox {
    pub address: SocketAddr,
    messages: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Mailbox {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = messages.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(converse(stream, kept.clone()));
            }
        });
        Self { address, messages, task }
    }

    /// Waits for a message that contains a text, and returns it with its soft line breaks joined.
    pub async fn message_with(&self, text: &str) -> String {
        eventually(&format!("a message with {text}"), seconds(20), async || {
            let messages = self.messages.lock().expect("no holder panics");
            let found = messages.iter().rev().find(|message| message.contains(text));
            found.cloned().ok_or_else(|| format!("{} messages", messages.len()))
        })
        .await
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Speaks as much SMTP as a well-behaved sender needs.
async fn converse(stream: TcpStream, messages: Arc<Mutex<Vec<String>>>) -> Option<()> {
    let (reading, mut writing) = stream.into_split();
    let mut lines = BufReader::new(reading).lines();
    writing.write_all(b"220 mailbox\r\n").await.ok()?;
    while let Some(line) = lines.next_line().await.ok()? {
        let answer = match line.split(' ').next().unwrap_or_default() {
            "DATA" => {
                writing.write_all(b"354 go on\r\n").await.ok()?;
                let mut message = String::new();
                while let Some(line) = lines.next_line().await.ok()?.filter(|line| line != ".") {
                    // A soft line break of quoted-printable.
                    match line.strip_suffix('=') {
                        Some(part) => message.push_str(part),
                        None => message.extend([&line, "\n"]),
                    }
                }
                messages.lock().expect("no holder panics").push(message.replace("=3D", "="));
                "250 taken"
            }
            "QUIT" => "221 bye",
            _ => "250 ok",
        };
        writing.write_all(format!("{answer}\r\n").as_bytes()).await.ok()?;
    }
    Some(())
}
