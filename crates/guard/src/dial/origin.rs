//! A client for many requests to one origin. Unlike a fetch it stays, so names are looked up again for each connection, and
//! every address that comes back is judged again: a name that led to the internet yesterday may lead inside today.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Method, RequestBuilder};
use url::Url;

use super::client::{Lookup, System, build};
use super::error::FetchError;
use super::policy::{EgressPolicy, Refused};

/// A client that speaks to one origin alone. It follows no redirect, takes nothing compressed and no proxy but the policy's.
#[derive(Clone, Debug)]
pub struct OriginClient {
    client: reqwest::Client,
    base: Url,
    policy: EgressPolicy,
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
        let judging = Judging { names: Arc::new(names), url: url.clone(), policy: policy.clone() };
        let client = build(Arc::new(judging), url, policy, connect).await?;
        Ok(Self { client, base: url.clone(), policy: policy.clone() })
    }

    /// A request to a place of this origin; another origin's is refused.
    pub fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, Refused> {
        // The address that the client was made for was judged then, and most requests are for that one.
        if *url != self.base {
            if url.origin() != self.base.origin() {
                return Err(Refused::Elsewhere { host: url.host_str().unwrap_or_default().to_owned() });
            }
            self.policy.check_url(url)?;
        }
        Ok(self.client.request(method, url.clone()))
    }
}

/// A resolver that judges what it finds.
struct Judging<L> {
    names: Arc<L>,
    url: Url,
    policy: EgressPolicy,
}

impl<L: Lookup + Send + 'static> Resolve for Judging<L> {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, url, policy) = (self.names.clone(), self.url.clone(), self.policy.clone());
        Box::pin(async move {
            if url.host_str() != Some(name.as_str()) {
                return Err(format!("`{}` was not judged", name.as_str()).into());
            }
            let port = url.port_or_known_default().unwrap_or_default();
            let mut addresses = Vec::new();
            // Every one: a name with one public and one private address would be a coin toss otherwise.
            for address in names.lookup(name.as_str(), port).await? {
                policy.check_address(&url, address)?;
                addresses.push(SocketAddr::new(address, port));
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
