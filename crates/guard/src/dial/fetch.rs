//! One download from an address that somebody named, within limits, into a writer.
//!
//! Nothing of the body is kept in memory, no credential is sent, and each redirect is judged like a new URL.

use std::error::Error;
use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, LOCATION};
use reqwest::{Response, StatusCode};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use url::Url;

use super::client::{Lookup, System, pinned};
use super::error::{FetchError, Stage};
use super::policy::EgressPolicy;

/// How much of anything the other side may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// Bytes of the body.
    pub bytes: u64,
    /// Time to look up a name, and again to connect to it.
    pub connect: Duration,
    /// Time to the first byte of an answer, and between two parts of it.
    pub idle: Duration,
    /// Time for everything, redirects included.
    pub total: Duration,
    /// How many redirects are followed.
    pub redirects: usize,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            bytes: 256 * 1024 * 1024,
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(300),
            redirects: 5,
        }
    }
}

/// What was fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetched {
    /// Where it came from in the end. Its query may hold a key: show it with [`masked`](super::masked).
    pub final_url: Url,
    /// What the server says it is.
    pub content_type: Option<String>,
    /// How many bytes were written.
    pub size: u64,
}

/// Fetches `url` into `sink`, as far as the policy and the limits allow. Proxies of the environment are not used.
pub async fn fetch(
    url: &Url,
    policy: &EgressPolicy,
    limits: &FetchLimits,
    sink: &mut (impl AsyncWrite + Unpin + Send),
) -> Result<Fetched, FetchError> {
    fetch_by(&System, url, policy, limits, sink).await
}

/// [`fetch`] with names looked up elsewhere.
pub(super) async fn fetch_by(
    names: &impl Lookup,
    url: &Url,
    policy: &EgressPolicy,
    limits: &FetchLimits,
    sink: &mut (impl AsyncWrite + Unpin + Send),
) -> Result<Fetched, FetchError> {
    let mut url = url.clone();
    // The hop that is under way when time is up is the one to name, so the URL lives out here.
    let work = async {
        let response = follow(names, &mut url, policy, limits).await?;
        let content_type =
            response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let size = copy(response, &host(&url), limits, sink).await?;
        Ok((content_type, size))
    };
    match timeout(limits.total, work).await {
        Ok(done) => done.map(|(content_type, size)| Fetched { final_url: url, content_type, size }),
        Err(_) => Err(FetchError::Slow { host: host(&url), stage: Stage::Total, limit: limits.total }),
    }
}

/// Goes from redirect to redirect; `url` ends up as the one that answered.
async fn follow(
    names: &impl Lookup,
    url: &mut Url,
    policy: &EgressPolicy,
    limits: &FetchLimits,
) -> Result<Response, FetchError> {
    for _ in 0..=limits.redirects {
        let client = pinned(url, policy, limits.connect, names).await?;
        let request = client.get(url.clone()).header(ACCEPT_ENCODING, "identity").send();
        let response = match timeout(limits.connect.saturating_add(limits.idle), request).await {
            Ok(answer) => answer.map_err(|error| unanswered(&host(url), &error, limits))?,
            Err(_) => return Err(FetchError::Slow { host: host(url), stage: Stage::Idle, limit: limits.idle }),
        };
        match response.status() {
            status if status.is_success() => return Ok(response),
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => *url = target(url, &response)?,
            status => return Err(FetchError::Status { host: host(url), status: status.as_u16() }),
        }
    }
    Err(FetchError::Redirects { limit: limits.redirects })
}

fn target(from: &Url, response: &Response) -> Result<Url, FetchError> {
    let to = response
        .headers()
        .get(LOCATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| FetchError::Location { host: host(from) })?;
    if from.scheme() == "https" && to.scheme() == "http" {
        return Err(FetchError::Downgrade { host: host(from) });
    }
    Ok(to)
}

/// Writes the body, counting what really comes: a declared length only serves to say no sooner.
async fn copy(
    mut response: Response,
    host: &str,
    limits: &FetchLimits,
    sink: &mut (impl AsyncWrite + Unpin),
) -> Result<u64, FetchError> {
    let too_large = || FetchError::TooLarge { host: host.to_owned(), limit: limits.bytes };
    if response.headers().get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
        return Err(FetchError::Encoded { host: host.to_owned() });
    }
    if response.content_length().is_some_and(|declared| declared > limits.bytes) {
        return Err(too_large());
    }
    let mut size: u64 = 0;
    loop {
        let part = match timeout(limits.idle, response.chunk()).await {
            Ok(part) => part,
            Err(_) => {
                return Err(FetchError::Slow { host: host.to_owned(), stage: Stage::Idle, limit: limits.idle });
            }
        };
        let part = part.map_err(|error| FetchError::Broken { host: host.to_owned(), reason: innermost(&error) })?;
        let Some(part) = part else { break };
        size = size.saturating_add(part.len() as u64);
        if size > limits.bytes {
            return Err(too_large());
        }
        sink.write_all(&part).await.map_err(FetchError::Sink)?;
    }
    sink.flush().await.map_err(FetchError::Sink)?;
    Ok(size)
}

fn unanswered(host: &str, error: &reqwest::Error, limits: &FetchLimits) -> FetchError {
    let host = host.to_owned();
    match (error.is_connect(), error.is_timeout()) {
        (true, true) => FetchError::Slow { host, stage: Stage::Connect, limit: limits.connect },
        (true, false) => FetchError::Connect { host, reason: innermost(error) },
        _ => FetchError::Broken { host, reason: innermost(error) },
    }
}

/// The cause at the bottom of an error. Those above it repeat the URL, which may hold a key.
pub fn innermost(error: &dyn Error) -> String {
    let mut cause = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}

fn host(url: &Url) -> String {
    url.host_str().unwrap_or_default().to_owned()
}
