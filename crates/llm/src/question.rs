//! One request to a provider: made once, sent as often as needed, and its answer judged by its head before anything is read.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method};
use kitbag_guard::dial::Answer;
use tokio::time::timeout;
use url::Url;

use crate::ask::Ask;
use crate::error::{Complaint, LlmError, Waited};
use crate::models::Models;
use crate::provider::Provider;
use crate::retry::retry_after;
use crate::wire::{self, complaint};

/// The most bytes of what a provider says instead of an answer.
const LONGEST_COMPLAINT: usize = 64 * 1024;

/// A request, and who is asked.
#[derive(Clone)]
pub(crate) struct Question {
    pub(crate) models: Models,
    pub(crate) provider: Provider,
    method: Method,
    url: Url,
    /// Why there are none is told when it is sent.
    headers: Result<HeaderMap, LlmError>,
    body: Option<Bytes>,
}

impl Question {
    /// Asks for an answer that comes bit by bit.
    pub(crate) fn ask(models: &Models, provider: &Provider, ask: &Ask) -> Self {
        let (function, body) = wire::request(provider, ask);
        let accept = HeaderValue::from_static("text/event-stream");
        let body = Some(Bytes::from(body.to_string()));
        Self::new(models, provider, Method::POST, provider.place(function), accept, body)
    }

    /// Asks for a document.
    pub(crate) fn get(models: &Models, provider: &Provider, url: Url) -> Self {
        Self::new(models, provider, Method::GET, url, HeaderValue::from_static("application/json"), None)
    }

    fn new(
        models: &Models,
        provider: &Provider,
        method: Method,
        url: Url,
        accept: HeaderValue,
        body: Option<Bytes>,
    ) -> Self {
        let mut headers = provider.headers();
        if let Ok(headers) = &mut headers {
            headers.insert(ACCEPT, accept);
        }
        Self { models: models.clone(), provider: provider.clone(), method, url, headers, body }
    }

    /// Sends it. The head of the answer is there and says that it is one.
    pub(crate) async fn send(&self) -> Result<Answer, LlmError> {
        let (limits, provider) = (&self.models.limits, &self.provider);
        let headers = self.headers.clone()?;
        let client = self.models.clients.client(&self.url, &self.models.policy, limits.connect).await;
        let client = client.map_err(|error| LlmError::no_client(provider, error))?;
        let sent = client.send(self.method.clone(), &self.url, headers, self.body.clone());
        let mut answer = match timeout(limits.connect.saturating_add(limits.first_byte), sent).await {
            Ok(answer) => answer.map_err(|error| LlmError::unsent(provider, error))?,
            Err(_) => return Err(LlmError::TooSlow { waited: Waited::FirstByte, limit: limits.first_byte }),
        };
        if answer.headers().get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
            return Err(LlmError::Malformed("it is compressed, which was not asked for".to_owned()));
        }
        if answer.status().is_success() {
            return Ok(answer);
        }
        let (status, wanted) = (answer.status().as_u16(), retry_after(answer.headers(), SystemTime::now()));
        // What cannot be read of a no does not make it another one.
        let words = read(&mut answer, provider, LONGEST_COMPLAINT, limits.idle.min(Duration::from_secs(10)))
            .await
            .unwrap_or_default();
        let message = match serde_json::from_slice(&words) {
            Ok(said) => complaint(&said).message,
            Err(_) => String::from_utf8_lossy(&words).into_owned(),
        };
        Err(Complaint { status, message, retry_after: wanted }.into_error(provider))
    }

    /// Sends it, for an answer that is a stream of events.
    pub(crate) async fn send_for_events(&self) -> Result<Answer, LlmError> {
        let mut answer = self.send().await?;
        let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        // Some servers do not say what they send.
        if kind.is_empty() || kind == "text/event-stream" {
            return Ok(answer);
        }
        if kind == "application/json" {
            // Some brokers say no with a yes in front of it.
            let words =
                read(&mut answer, &self.provider, LONGEST_COMPLAINT, self.models.limits.idle).await.unwrap_or_default();
            if let Ok(said) = serde_json::from_slice::<serde_json::Value>(&words)
                && said.get("error").is_some_and(|error| !error.is_null())
            {
                return Err(complaint(&said).into_error(&self.provider));
            }
        }
        let kind = self.provider.tame(&kind);
        Err(LlmError::Malformed(format!("it is `{kind}`, not a stream of events; is the address the right one?")))
    }

    /// Sends it, for an answer that is read whole.
    pub(crate) async fn send_for_all(&self, longest: usize) -> Result<Vec<u8>, LlmError> {
        let mut answer = self.send().await?;
        read(&mut answer, &self.provider, longest, self.models.limits.idle).await
    }
}

/// What is said of a connection that broke. What our library has to say about it helps nobody but whoever reads the log.
pub(crate) fn lost(provider: &Provider, reason: &str) -> String {
    tracing::info!(
        host = provider.host(),
        reason = provider.tame(reason),
        "the connection to a model's provider broke"
    );
    "the connection was lost".to_owned()
}

/// Reads a body that is small.
async fn read(answer: &mut Answer, provider: &Provider, longest: usize, idle: Duration) -> Result<Vec<u8>, LlmError> {
    let mut body = Vec::new();
    loop {
        match timeout(idle, answer.chunk()).await {
            Ok(Ok(Some(piece))) if body.len() + piece.len() <= longest => body.extend_from_slice(&piece),
            Ok(Ok(Some(_))) => return Err(LlmError::TooLarge { limit: longest, unit: "bytes" }),
            Ok(Ok(None)) => return Ok(body),
            Ok(Err(error)) => return Err(LlmError::CutOff(lost(provider, &error.reason))),
            Err(_) => return Err(LlmError::TooSlow { waited: Waited::Idle, limit: idle }),
        }
    }
}
