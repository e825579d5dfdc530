//! The library's HTTP client.

use std::time::Duration;

use async_trait::async_trait;
use wacore::net::{HttpClient, HttpRequest, HttpResponse};

const CONNECT_WITHIN: Duration = Duration::from_secs(20);
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Bytes of an answer at most.
const LARGEST_ANSWER: usize = 64 << 20;

pub struct Http(reqwest::Client);

impl Http {
    /// # Errors
    /// The client cannot be made.
    pub fn new() -> reqwest::Result<Self> {
        let builder = reqwest::Client::builder().no_proxy().connect_timeout(CONNECT_WITHIN).timeout(ANSWER_WITHIN);
        Ok(Self(builder.build()?))
    }
}

#[async_trait]
impl HttpClient for Http {
    async fn execute(&self, request: HttpRequest) -> anyhow::Result<HttpResponse> {
        let mut call = self.0.request(request.method.parse()?, &request.url);
        for (name, value) in request.headers {
            call = call.header(name, value);
        }
        if let Some(body) = request.body {
            call = call.body(body);
        }
        let mut answer = call.send().await?;
        let status_code = answer.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = answer.chunk().await? {
            anyhow::ensure!(
                body.len() + chunk.len() <= LARGEST_ANSWER,
                "the answer has more than {LARGEST_ANSWER} bytes"
            );
            body.extend_from_slice(&chunk);
        }
        Ok(HttpResponse { status_code, body })
    }
}
