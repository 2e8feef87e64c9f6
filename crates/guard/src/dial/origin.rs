//! A client for many requests to one origin. Unlike a fetch it stays, so names are looked up again for each connection, and
//! every address that comes back is judged again: a name that led to the internet yesterday may lead inside today.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use hyper::body::Bytes;
use reqwest::RequestBuilder;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use super::client::{Lookup, System, build};
use super::error::FetchError;
use super::line::{Judge, Judged, Lines, Spoken, Unanswered};
use super::policy::{EgressPolicy, Refused};

/// A client that speaks to one origin alone. It follows no redirect, takes nothing compressed and no proxy but the policy's.
#[derive(Clone)]
pub struct OriginClient {
    client: reqwest::Client,
    /// What requests go over that need neither encryption nor a proxy.
    lines: Option<Arc<Lines>>,
    base: Url,
    policy: EgressPolicy,
}

impl fmt::Debug for OriginClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OriginClient({})", self.base.host_str().unwrap_or_default())
    }
}

/// The head of an answer, and the body that follows.
pub struct Answer(Inner);

enum Inner {
    Line(Box<Spoken>),
    Client(reqwest::Response),
}

impl OriginClient {
    /// A client for the origin of `url`, if the policy allows it. Nothing is dialled yet.
    pub async fn new(url: &Url, policy: &EgressPolicy, connect: Duration) -> Result<Self, FetchError> {
        Self::looking_up(System, url, policy, connect).await
    }

    /// The same, with names looked up elsewhere.
    pub(super) async fn looking_up(
        names: impl Lookup + Send + 'static,
        url: &Url,
        policy: &EgressPolicy,
        connect: Duration,
    ) -> Result<Self, FetchError> {
        policy.check_url(url)?;
        let judging = Arc::new(Judging { names: Arc::new(names), url: url.clone(), policy: policy.clone() });
        let client = build(Arc::clone(&judging) as _, url, policy, connect).await?;
        let lines = match policy.proxy {
            None => Lines::new(judging, url, connect),
            Some(_) => None,
        };
        Ok(Self { client, lines, base: url.clone(), policy: policy.clone() })
    }

    /// A request to a place of this origin; another origin's is refused.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Refused> {
        self.check(url)?;
        Ok(self.client.request(method, url.clone()))
    }

    /// Sends a request to a place of this origin that was made before, and brings the head of its answer.
    pub async fn send(
        &self,
        method: Method,
        url: &Url,
        headers: HeaderMap,
        body: Option<Bytes>,
    ) -> Result<Answer, Unsent> {
        self.check(url)?;
        if let Some(lines) = &self.lines {
            let spoken = lines.send(method, url, headers, body.unwrap_or_default()).await?;
            return Ok(Answer(Inner::Line(Box::new(spoken))));
        }
        let mut request = self.client.request(method, url.clone()).headers(headers);
        if let Some(body) = body {
            request = request.body(body);
        }
        let answer = request.send().await.map_err(|error| Unanswered::new(&error, error.is_connect()))?;
        Ok(Answer(Inner::Client(answer)))
    }

    fn check(&self, url: &Url) -> Result<(), Refused> {
        // The address that the client was made for was judged then, and most requests are for that one.
        if *url == self.base {
            return Ok(());
        }
        if url.origin() != self.base.origin() {
            return Err(Refused::Elsewhere { host: url.host_str().unwrap_or_default().to_owned() });
        }
        self.policy.check_url(url)
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsent {
    /// The policy does not allow it.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Nobody answered.
    #[error(transparent)]
    Unanswered(#[from] Unanswered),
}

impl Answer {
    /// The status.
    pub fn status(&self) -> StatusCode {
        match &self.0 {
            Inner::Line(spoken) => spoken.head.status(),
            Inner::Client(answer) => answer.status(),
        }
    }

    /// The headers.
    pub fn headers(&self) -> &HeaderMap {
        match &self.0 {
            Inner::Line(spoken) => spoken.head.headers(),
            Inner::Client(answer) => answer.headers(),
        }
    }

    /// How long the body says that it is.
    pub fn content_length(&self) -> Option<u64> {
        match &self.0 {
            Inner::Line(spoken) => spoken.content_length(),
            Inner::Client(answer) => answer.content_length(),
        }
    }

    /// The next piece of the body; none after its end. Whoever reads to the end lets the connection be used again.
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, Unanswered> {
        match &mut self.0 {
            Inner::Line(spoken) => spoken.chunk().await,
            Inner::Client(answer) => answer.chunk().await.map_err(|error| Unanswered::new(&error, false)),
        }
    }
}

/// A resolver that judges what it finds.
pub(super) struct Judging<L> {
    names: Arc<L>,
    url: Url,
    policy: EgressPolicy,
}

impl<L: Lookup + Send + 'static> Judge for Judging<L> {
    fn judged(&self, name: String) -> Judged {
        let (names, url, policy) = (self.names.clone(), self.url.clone(), self.policy.clone());
        Box::pin(async move {
            if url.host_str() != Some(name.as_str()) {
                return Err(format!("`{name}` was not judged").into());
            }
            let port = url.port_or_known_default().unwrap_or_default();
            let mut addresses = Vec::new();
            // Every one: a name with one public and one private address would be a coin toss otherwise.
            for address in names.lookup(&name, port).await? {
                policy.check_address(&url, address)?;
                addresses.push(SocketAddr::new(address, port));
            }
            Ok(addresses)
        })
    }
}

impl<L: Lookup + Send + 'static> Resolve for Judging<L> {
    fn resolve(&self, name: Name) -> Resolving {
        let found = self.judged(name.as_str().to_owned());
        Box::pin(async move { Ok(Box::new(found.await?.into_iter()) as Addrs) })
    }
}
