//! One client for one hop: it knows the addresses that were judged and cannot look up anything else.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use super::error::{FetchError, Stage};
use super::policy::EgressPolicy;

/// Where names are looked up. The machine's own resolver, or a lying one in a test.
pub(super) trait Lookup: Sync {
    fn lookup(&self, host: &str, port: u16) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The machine's resolver.
pub(super) struct System;

impl Lookup for System {
    async fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.map(|found| found.ip()).collect())
    }
}

/// Judges the URL and every address of its host, and makes a client that connects to those addresses alone.
pub(super) async fn pinned(
    url: &Url,
    policy: &EgressPolicy,
    connect: Duration,
    names: &impl Lookup,
) -> Result<reqwest::Client, FetchError> {
    policy.check_url(url)?;
    let host = url.host_str().unwrap_or_default().to_owned();
    let mut addresses = Vec::new();
    // An address in the URL itself was judged with it, and is never looked up; behind a proxy no name is.
    if let (None, Some(Host::Domain(name)), Some(port)) = (&policy.proxy, url.host(), url.port_or_known_default()) {
        let found = tokio::time::timeout(connect, names.lookup(name, port)).await.map_err(|_| FetchError::Slow {
            host: host.clone(),
            stage: Stage::Connect,
            limit: connect,
        })?;
        let found = found.map_err(|source| FetchError::NotFound { host: host.clone(), source: Some(source) })?;
        if found.is_empty() {
            return Err(FetchError::NotFound { host, source: None });
        }
        // Every one: a name with one public and one private address would be a coin toss otherwise.
        for address in found {
            policy.check_address(url, address)?;
            addresses.push(SocketAddr::new(address, port));
        }
    }
    build(Arc::new(Pinned { host, addresses }), url, policy, connect).await
}

/// Makes a client whose every connection goes where `names` says.
pub(super) async fn build(
    names: Arc<dyn Resolve>,
    url: &Url,
    policy: &EgressPolicy,
    connect: Duration,
) -> Result<reqwest::Client, FetchError> {
    let secure = url.scheme() == "https";
    let authorities = match &policy.ca_file {
        Some(path) if secure => authorities(path).await?,
        _ => Vec::new(),
    };
    let setup = |error| FetchError::Setup(io::Error::other(error));
    let (names, proxy) = match &policy.proxy {
        None => (names, None),
        // The proxy's own name is the administrator's, so it is looked up without being judged.
        Some(proxy) => {
            (Arc::new(Plain) as Arc<dyn Resolve>, Some(reqwest::Proxy::all(proxy.url().clone()).map_err(setup)?))
        }
    };
    // Reading the machine's certificates is file work, so it is kept off the threads that serve others.
    tokio::task::spawn_blocking(move || configured(names, proxy, connect, secure, authorities))
        .await
        .map_err(|error| FetchError::Setup(io::Error::other(error)))?
        .map_err(setup)
}

#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
fn configured(
    names: Arc<dyn Resolve>,
    proxy: Option<reqwest::Proxy>,
    connect: Duration,
    secure: bool,
    authorities: Vec<reqwest::Certificate>,
) -> reqwest::Result<reqwest::Client> {
    let mut builder = reqwest::Client::builder()
        // HTTP_PROXY is meant for other programs.
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .http1_only()
        .user_agent(concat!("kitbag/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(connect)
        .dns_resolver(names);
    if let Some(proxy) = proxy {
        builder = builder.proxy(proxy);
    } else if secure {
        builder = builder.https_only(true);
    }
    if !secure {
        return builder.tls_certs_only([]).build();
    }
    builder.tls_backend_rustls().tls_certs_merge(authorities).build()
}

async fn authorities(path: &Path) -> Result<Vec<reqwest::Certificate>, FetchError> {
    let bad = |source| FetchError::CaFile { path: path.to_owned(), source };
    let pem = tokio::fs::read(path).await.map_err(bad)?;
    let found = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| bad(io::Error::other(error)))?;
    if found.is_empty() {
        return Err(bad(io::Error::new(io::ErrorKind::InvalidData, "there is no certificate in it")));
    }
    Ok(found)
}

/// A resolver that knows one name.
struct Pinned {
    host: String,
    addresses: Vec<SocketAddr>,
}

impl Resolve for Pinned {
    fn resolve(&self, name: Name) -> Resolving {
        let answer = if name.as_str() == self.host {
            Ok(Box::new(self.addresses.clone().into_iter()) as Addrs)
        } else {
            Err(format!("`{}` was not judged", name.as_str()).into())
        };
        Box::pin(std::future::ready(answer))
    }
}

/// The machine's resolver, for a name that an administrator wrote.
struct Plain;

impl Resolve for Plain {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}
