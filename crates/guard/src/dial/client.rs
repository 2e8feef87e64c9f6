//! One client for one hop: it knows the addresses that were judged and cannot look up anything else.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
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
    // An address in the URL itself was judged with it, and is never looked up.
    if let (Some(Host::Domain(name)), Some(port)) = (url.host(), url.port_or_known_default()) {
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
    let authorities = match (url.scheme(), &policy.ca_file) {
        ("https", Some(path)) => authorities(path).await?,
        _ => Vec::new(),
    };
    let (secure, pin) = (url.scheme() == "https", Pinned { host, addresses });
    // Reading the machine's certificates is file work, so it is kept off the threads that serve others.
    tokio::task::spawn_blocking(move || build(pin, connect, secure, authorities))
        .await
        .map_err(|error| FetchError::Setup(io::Error::other(error)))?
        .map_err(|error| FetchError::Setup(io::Error::other(error)))
}

#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
fn build(
    pin: Pinned,
    connect: Duration,
    secure: bool,
    authorities: Vec<reqwest::Certificate>,
) -> reqwest::Result<reqwest::Client> {
    let builder = reqwest::Client::builder()
        // A proxy would look up the name again, and HTTP_PROXY is meant for other programs.
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
        .dns_resolver(pin);
    if !secure {
        return builder.tls_certs_only([]).build();
    }
    builder.tls_backend_rustls().https_only(true).tls_certs_merge(authorities).build()
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
