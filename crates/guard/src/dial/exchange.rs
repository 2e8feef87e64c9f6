//! One question and one small answer: for documents and tokens of authorization servers, which are read whole. No redirect is followed, and
//! size and time are bounded.

use std::time::Duration;

use reqwest::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use reqwest::{Method, RequestBuilder};
use tokio::time::timeout;
use url::Url;

use super::error::{FetchError, Stage};
use super::fetch::innermost;
use super::origin::OriginClient;
use super::policy::EgressPolicy;

/// How much an answer may take.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeLimits {
    /// Bytes of the body.
    pub bytes: usize,
    /// Time for everything.
    pub total: Duration,
}

/// An answer, whole.
#[derive(Clone, Debug)]
pub struct Exchanged {
    /// Its status.
    pub status: u16,
    /// What it says.
    pub body: Vec<u8>,
}

/// Asks `url`; `fill` adds headers and a body.
pub async fn exchange(
    method: Method,
    url: &Url,
    policy: &EgressPolicy,
    limits: ExchangeLimits,
    fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
) -> Result<Exchanged, FetchError> {
    let host = url.host_str().unwrap_or_default();
    match timeout(limits.total, ask(method, url, policy, limits, fill)).await {
        Ok(answer) => answer,
        Err(_) => Err(FetchError::Slow { host: host.to_owned(), stage: Stage::Total, limit: limits.total }),
    }
}

async fn ask(
    method: Method,
    url: &Url,
    policy: &EgressPolicy,
    limits: ExchangeLimits,
    fill: impl FnOnce(RequestBuilder) -> RequestBuilder,
) -> Result<Exchanged, FetchError> {
    let host = url.host_str().unwrap_or_default();
    let broken = |error: &reqwest::Error| {
        let (host, reason) = (host.to_owned(), innermost(error));
        match error.is_connect() {
            true => FetchError::Connect { host, reason },
            false => FetchError::Broken { host, reason },
        }
    };
    let client = OriginClient::new(url, policy, limits.total).await?;
    // What is not compressed cannot be a bomb.
    let request = client.request(method, url)?.header(ACCEPT_ENCODING, "identity");
    let mut response = fill(request).send().await.map_err(|error| broken(&error))?;
    if response.headers().get_all(CONTENT_ENCODING).iter().any(|encoding| encoding != "identity") {
        return Err(FetchError::Encoded { host: host.to_owned() });
    }
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(|error| broken(&error))? {
        if body.len() + part.len() > limits.bytes {
            return Err(FetchError::TooLarge { host: host.to_owned(), limit: limits.bytes as u64 });
        }
        body.extend_from_slice(&part);
    }
    Ok(Exchanged { status, body })
}
