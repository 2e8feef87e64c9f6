//! The `Host` and `Origin` rules.
//!
//! Why `Host`: a page on the web can let its own name resolve to 127.0.0.1 and then talk to this server as its own
//! ("DNS rebinding"). Its requests carry that name, so a name we do not know is refused. A plain IP address cannot be
//! rebound.
//!
//! Why `Origin`: browsers send requests to other sites with the cookies of those sites. They also say which page asked;
//! only pages that this very server gave out may.

use std::net::IpAddr;

use axum::http::header::{self, HeaderName};
use axum::http::{HeaderMap, Uri};

use crate::api::error::{ApiError, Code};

/// Which names are ours.
#[derive(Clone, Debug)]
pub(crate) struct HostRule {
    listening: IpAddr,
    allowed: Vec<String>,
}

impl HostRule {
    pub(crate) fn new(listening: IpAddr, allowed: &[String]) -> Self {
        Self { listening, allowed: allowed.iter().map(|host| host.to_ascii_lowercase()).collect() }
    }

    /// Checks one request. A target with a name of its own (`GET http://name/`) must have the same one.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
        let forbidden = |message: &str| Err(ApiError::new(Code::Forbidden, message));
        let Some(authority) = only(headers, &header::HOST) else {
            return forbidden("the request must have exactly one Host header");
        };
        let authority = authority.to_ascii_lowercase();
        if uri.authority().is_some_and(|target| !target.as_str().eq_ignore_ascii_case(&authority)) {
            return forbidden("the request's target and its Host header name different servers");
        }
        if !host_of(&authority).is_some_and(|host| self.is_ours(host)) {
            return forbidden(
                "this Host is not one of this server's names. Use the address it printed, or start it with \
                 --allowed-hosts",
            );
        }
        if !headers.contains_key(header::ORIGIN) {
            return Ok(());
        }
        let same = only(headers, &header::ORIGIN).is_some_and(|origin| {
            let origin = origin.to_ascii_lowercase();
            ["http://", "https://"].iter().any(|scheme| origin.strip_prefix(scheme) == Some(authority.as_str()))
        });
        if same { Ok(()) } else { forbidden("requests from pages of another origin are refused") }
    }

    /// Whether a host, in lower case, is a name of the API.
    pub(crate) fn is_ours(&self, host: &str) -> bool {
        if host == "localhost" || self.allowed.iter().any(|allowed| allowed == host) {
            return true;
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().is_ok_and(|ip| {
            let ip = ip.to_canonical();
            ip.is_loopback() || ip == self.listening || self.listening.is_unspecified()
        })
    }
}

/// The host that a request is for, in lower case; none if the request does not say it in one way.
pub(crate) fn asked_host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let authority = only(headers, &header::HOST)?.to_ascii_lowercase();
    let agrees = uri.authority().is_none_or(|target| target.as_str().eq_ignore_ascii_case(&authority));
    host_of(&authority).filter(|_| agrees).map(str::to_owned)
}

/// The value of a header that is there once and is text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next()?, values.next());
    if second.is_some() { None } else { first.to_str().ok() }
}

/// The host of `host`, `host:port` or `[v6]:port`. The port is free: it may have been forwarded.
fn host_of(authority: &str) -> Option<&str> {
    let end = authority.rfind(']').map_or(0, |end| end + 1);
    let (host, port) = match authority[end..].find(':') {
        Some(colon) => (&authority[..end + colon], Some(&authority[end + colon + 1..])),
        None => (authority, None),
    };
    let port_is_one = port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'));
    (port_is_one && !host.is_empty() && !host.contains(['@', '/', '\\', ' '])).then_some(host)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allows(rule: &HostRule, host: &str, origin: Option<&str>) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).expect("a header value"));
        if let Some(origin) = origin {
            headers.insert(header::ORIGIN, HeaderValue::from_str(origin).expect("a header value"));
        }
        rule.check(&Uri::from_static("/x"), &headers).is_ok()
    }

    fn loopback() -> HostRule {
        HostRule::new("127.0.0.1".parse().expect("an address"), &["Kitbag.Example".to_owned()])
    }

    #[test]
    fn our_own_names() {
        for host in [
            "127.0.0.1:8700",
            "localhost:8700",
            "LOCALHOST",
            "localhost:1",
            "127.0.0.1",
            "[::1]:8700",
            "[::1]",
            "127.8.9.1:80",
            "[::ffff:127.0.0.1]:80",
            "kitbag.example",
            "KITBAG.example:443",
        ] {
            assert!(allows(&loopback(), host, None), "{host}");
        }
    }

    #[test]
    fn other_names() {
        for host in [
            "evil.example",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example",
            "evil.example:8700",
            "x.localhost:8700",
            "192.168.0.5:8700",
            "0.0.0.0:8700",
            "2130706433",
            "0x7f000001",
            "127.1",
            "[::2]:1",
            "",
            ":8700",
            "localhost:8700:80",
            "user@localhost",
            "localhost:+80",
            "localhost:99999",
            "localhost:",
            "[::1",
            "evil.example@127.0.0.1",
            "localhost/x",
            "localhost evil.example",
            "evil.kitbag.example",
        ] {
            assert!(!allows(&loopback(), host, None), "{host}");
        }
    }

    #[test]
    fn a_server_for_others() {
        let lan = HostRule::new("192.168.0.5".parse().expect("an address"), &[]);
        assert!(allows(&lan, "192.168.0.5:8700", None) && !allows(&lan, "192.168.0.6:8700", None));
        let all = HostRule::new("0.0.0.0".parse().expect("an address"), &[]);
        assert!(allows(&all, "192.168.0.6:8700", None) && !allows(&all, "evil.example:8700", None));
    }

    #[test]
    fn origins() {
        let rule = loopback();
        for origin in ["http://localhost:8700", "https://localhost:8700", "HTTP://LOCALHOST:8700"] {
            assert!(allows(&rule, "localhost:8700", Some(origin)), "{origin}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:8700",
            "http://localhost:8700.evil.example",
            "http://localhost:8700/",
            "file://localhost:8700",
            "localhost:8700",
            "http://evil.example@localhost:8700",
            "http://x.localhost:8700",
        ] {
            assert!(!allows(&rule, "localhost:8700", Some(origin)), "{origin}");
        }
    }

    #[test]
    fn twice_is_refused() {
        for name in [header::HOST, header::ORIGIN] {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static("localhost"));
            headers.insert(header::ORIGIN, HeaderValue::from_static("http://localhost"));
            assert!(loopback().check(&Uri::from_static("/"), &headers).is_ok());
            let again = headers.get(&name).cloned().expect("it was just put in");
            headers.append(name, again);
            assert!(loopback().check(&Uri::from_static("/"), &headers).is_err());
        }
        assert!(loopback().check(&Uri::from_static("/"), &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_target_with_another_name_is_refused() {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_static("localhost:8700"));
        assert!(loopback().check(&Uri::from_static("http://LOCALHOST:8700/x"), &headers).is_ok());
        assert!(loopback().check(&Uri::from_static("http://evil.example/x"), &headers).is_err());
    }
}
