//! Outbound connections: to our own server, and to addresses that a person or a bundle named.
//!
//! An address from outside is a request to use this machine's place in the network: behind its firewall, next to its
//! databases, beside a cloud's metadata service. So an [`EgressPolicy`] judges each URL and each address that its name leads
//! to, and [`fetch()`] connects to exactly the addresses that were judged. This room knows nothing of what is fetched or why.

mod address;
mod allow;
mod client;
mod error;
mod events;
mod exchange;
mod fetch;
mod line;
mod origin;
mod policy;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use address::Kind;
pub use allow::{Allowed, BadEntry};
pub use error::{FetchError, Stage};
pub use events::{Event, Events, TooLong};
pub use exchange::{ExchangeLimits, Exchanged, exchange};
pub use fetch::{FetchLimits, Fetched, fetch, innermost};
pub use line::Unanswered;
pub use origin::{Answer, OriginClient, Unsent};
pub use policy::{BadProxy, EgressPolicy, Proxy, Refused, masked};

/// A client for our own server on this machine. It uses no proxy (the address is ours, the token must not travel), follows
/// no redirect, and trusts no certificate authority: it speaks plain HTTP, and reading the machine's certificates would
/// slow down every command.
#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
pub fn loopback_client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([])
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .build()
}

/// A client for other servers of the same installation, at addresses that its operator wrote. What they answer may go on and on, so there is
/// no limit but that for connecting.
pub fn peer_client() -> reqwest::Result<reqwest::Client> {
    of_peers().pool_idle_timeout(Duration::from_secs(20)).build()
}

/// The same, but no connection is used twice: for servers that are about to stop, and close those at which nothing happens.
pub fn fresh_peer_client() -> reqwest::Result<reqwest::Client> {
    of_peers().pool_max_idle_per_host(0).build()
}

#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
fn of_peers() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .no_gzip()
        .no_brotli()
        .no_zstd()
        .no_deflate()
        .http1_only()
        .connect_timeout(Duration::from_secs(5))
}
