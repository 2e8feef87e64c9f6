//! The client: how it speaks to what is measured, and the load that it makes.

use std::time::{Duration, Instant};

use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Client, Request, RequestBuilder};
use serde_json::{Value, json};

use crate::echo::{NEWEST, SESSIONS};

/// A round is as short as this, so that all ways have several turns while the machine is in about the same mood.
const ROUND: Duration = Duration::from_secs(1);

/// What is spoken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Era {
    Newest,
    Sessions,
}

/// One way to the echo.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) name: String,
    pub(crate) url: String,
    /// What the echo is called there.
    pub(crate) tool: &'static str,
    pub(crate) token: String,
    pub(crate) era: Era,
}

/// What came of the rounds of one way.
#[derive(Default)]
pub(crate) struct Measured {
    times: Vec<f64>,
    rates: Vec<f64>,
    pub(crate) failed: usize,
}

impl Measured {
    /// The median of single calls, in microseconds.
    pub(crate) fn p50(&self) -> f64 {
        median(&self.times)
    }

    /// Calls a second in the median round.
    pub(crate) fn rate(&self) -> f64 {
        median(&self.rates)
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

impl Way {
    /// A message, as it must be in this era.
    fn message(
        &self,
        client: &Client,
        method: &str,
        mut params: Value,
        session: Option<&HeaderValue>,
    ) -> RequestBuilder {
        let mut headers = HeaderMap::new();
        headers.insert("accept", HeaderValue::from_static("application/json, text/event-stream"));
        if self.era == Era::Newest {
            headers.insert("mcp-protocol-version", HeaderValue::from_static(NEWEST));
            headers.insert("mcp-method", HeaderValue::from_str(method).unwrap());
            if let Some(name) = params["name"].as_str() {
                headers.insert("mcp-name", HeaderValue::from_str(name).unwrap());
            }
            params["_meta"] = json!({
                "io.modelcontextprotocol/protocolVersion": NEWEST,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "bench", "version": "1" },
            });
        } else if method != "initialize" {
            headers.insert("mcp-protocol-version", HeaderValue::from_static(SESSIONS));
        }
        if let Some(session) = session {
            headers.insert("mcp-session-id", session.clone());
        }
        let mut body = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if !method.starts_with("notifications/") {
            body["id"] = 1.into();
        }
        client.post(&self.url).bearer_auth(&self.token).headers(headers).json(&body)
    }

    /// A session with who keeps sessions.
    async fn session(&self, client: &Client) -> Result<Option<HeaderValue>, reqwest::Error> {
        if self.era == Era::Newest {
            return Ok(None);
        }
        let hello = json!({
            "protocolVersion": SESSIONS, "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" },
        });
        let answer = self.message(client, "initialize", hello, None).send().await?.error_for_status()?;
        let session = answer.headers().get("mcp-session-id").cloned();
        answer.bytes().await?;
        self.message(client, "notifications/initialized", json!({}), session.as_ref()).send().await?.bytes().await?;
        Ok(session)
    }

    /// The call that is made again and again, in a session of its own.
    async fn call(&self, client: &Client) -> Result<Request, reqwest::Error> {
        let session = self.session(client).await?;
        let params = json!({ "name": self.tool, "arguments": { "text": "again" } });
        self.message(client, "tools/call", params, session.as_ref()).build()
    }

    /// Whether a call of the echo is answered, and what was said if not.
    pub(crate) async fn answers(&self) -> Result<(), String> {
        let client = client(1);
        let answered = async { client.execute(self.call(&client).await?).await?.text().await };
        match answered.await {
            Ok(text) if is_right(text.as_bytes()) => Ok(()),
            Ok(text) => Err(text.chars().take(300).collect()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The answer to `tools/list`.
    pub(crate) async fn list(&self, client: &Client) -> Vec<u8> {
        let request = self.message(client, "tools/list", json!({}), None);
        let answer = request.send().await.unwrap().error_for_status().unwrap();
        answer.bytes().await.unwrap().to_vec()
    }

    /// One round: so many clients, each of which calls again as soon as it was answered.
    pub(crate) async fn round(&self, at_once: usize, into: &mut Measured) {
        let client = client(at_once);
        let mut calls = Vec::new();
        for _ in 0..at_once {
            match self.call(&client).await {
                Ok(call) => calls.push(call),
                Err(_) => return into.failed += 1,
            }
        }
        let began = Instant::now();
        let workers: Vec<_> = calls
            .into_iter()
            .map(|call| {
                let client = client.clone();
                tokio::spawn(async move {
                    let (mut times, mut failed) = (Vec::new(), 0);
                    while began.elapsed() < ROUND {
                        let start = Instant::now();
                        match answer(&client, call.try_clone().unwrap()).await {
                            true => times.push(start.elapsed().as_secs_f64() * 1e6),
                            false => failed += 1,
                        }
                    }
                    (times, failed)
                })
            })
            .collect();
        let before = into.times.len();
        for worker in workers {
            let (times, failed) = worker.await.unwrap();
            into.times.extend(times);
            into.failed += failed;
        }
        into.rates.push((into.times.len() - before) as f64 / began.elapsed().as_secs_f64());
    }
}

pub(crate) fn client(at_once: usize) -> Client {
    Client::builder().no_proxy().pool_max_idle_per_host(at_once).build().unwrap()
}

/// One call; whether its answer was right.
async fn answer(client: &Client, request: Request) -> bool {
    match client.execute(request).await {
        Ok(answer) => answer.bytes().await.is_ok_and(|body| is_right(&body)),
        Err(_) => false,
    }
}

/// An error may come with the status 200, so what was said is looked at.
fn is_right(body: &[u8]) -> bool {
    body.windows(7).any(|part| part == b"\"again\"")
}
