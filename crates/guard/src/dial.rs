//! Outbound connections.

use std::time::Duration;

/// A client for our own server on this machine. It uses no proxy (the address is ours, the token must not travel) and
/// follows no redirect.
#[allow(clippy::disallowed_methods, reason = "this is the room for it")]
pub fn loopback_client() -> reqwest::Result<reqwest::Client> {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(5))
        .build()
}
