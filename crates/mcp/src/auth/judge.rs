//! Which addresses of strangers are used at all. Whether they may be dialled is the egress policy's question; these rules also hold for the
//! one that a browser opens.

use url::{Host, Url};

use super::error::AuthError;
use super::http::host;

const LONGEST: usize = 2048;

/// Checks that tokens may be had for this server: they must not travel in the open.
pub(super) fn server(url: &Url) -> Result<(), AuthError> {
    let refuse = |reason| Err(AuthError::Hostile { what: "address", host: host(url), reason });
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(url) => {}
        _ => return refuse("tokens are sent by https alone, except to this machine"),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("it has a user name or password in it");
    }
    Ok(())
}

/// Reads an address that the metadata of `server` has for `what`.
pub(super) fn endpoint(server: &Url, what: &'static str, text: &str) -> Result<Url, AuthError> {
    let refuse = |reason| AuthError::Hostile { what, host: host(server), reason };
    if text.len() > LONGEST {
        return Err(refuse("it has more than 2048 letters"));
    }
    // Addresses end up in browsers, and browsers are started by programs that may use a shell: nothing that means something there.
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~:/?&=%+,@[]".contains(&byte)) {
        return Err(refuse(
            "it has letters that no such address needs; letters, digits and -._~:/?&=%+,@[] are allowed",
        ));
    }
    let url = Url::parse(text).map_err(|_| refuse("it is not an address"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(refuse("it has a user name or password in it"));
    }
    if url.host().is_none() || url.port() == Some(0) {
        return Err(refuse("it leads nowhere"));
    }
    match url.scheme() {
        "https" => {}
        "http" if is_loopback(&url) => {}
        _ => return Err(refuse("only https is allowed, except on this machine")),
    }
    // A server out there has no business with what listens in here.
    if is_loopback(&url) && !is_loopback(server) {
        return Err(refuse("it is on this machine, and the server is not"));
    }
    Ok(url)
}

/// Reads the name of an authorization server, which is an address as well.
pub(super) fn issuer(server: &Url, text: &str) -> Result<Url, AuthError> {
    let url = endpoint(server, "authorization server", text)?;
    if url.query().is_some() {
        let reason = "the name of an authorization server has no query";
        return Err(AuthError::Hostile { what: "authorization server", host: host(server), reason });
    }
    Ok(url)
}

/// Whether it is on this machine, whatever a lookup says.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        None => false,
    }
}
