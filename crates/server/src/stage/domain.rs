//! Under which names untrusted pages are served, which pages may show them in a frame, and which others a frame may show.
//!
//! By default each is on a name of its own below `localhost`, which browsers find by themselves. A browser on another
//! machine needs a domain whose every name leads here.

use std::fmt;
use std::str::FromStr;

use url::{Host, Url};

use crate::app::Settings;

/// Why a setting of the stage was refused.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum StageError {
    /// Not a domain.
    #[error(
        "{0:?} is not a domain for pages: give one such as *.stage.example.org, with http:// before it or a port behind it if that is how browsers reach it"
    )]
    Domain(String),
    /// Not an address that frames could be allowed to show.
    #[error("{0:?} is not an origin: give one such as https://example.org, example.org or *.example.org:8443")]
    Origin(String),
}

/// The scheme, the name and the port of servers, as settings spell them.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Pattern {
    secure: bool,
    /// Whether it is for names below the host, rather than the host.
    below: bool,
    host: String,
    port: Option<u16>,
}

impl Pattern {
    /// `[http[s]://][*.]host[:port]`; without a scheme it is https.
    fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("https", text));
        let secure = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let (below, rest) = rest.strip_prefix("*.").map_or((false, rest), |host| (true, host));
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let url = Url::parse(&format!("{scheme}://{rest}")).ok()?;
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let plain = |host: &str| {
            host.split('.').all(|label| !label.is_empty())
                && host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-".contains(&byte))
        };
        let host = match url.host()? {
            Host::Domain(name) if plain(name) => name.to_owned(),
            Host::Ipv4(address) if !below => address.to_string(),
            _ => return None,
        };
        let anonymous = url.username().is_empty() && url.password().is_none() && !rest.contains('@');
        (bare && anonymous).then(|| Self { secure, below, host, port: url.port() })
    }

    fn matches(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let named = if self.below { label_below(host, &self.host).is_some() } else { host == self.host };
        let scheme = if self.secure { "https" } else { "http" };
        named && url.scheme() == scheme && url.port() == self.port
    }
}

impl fmt::Display for Pattern {
    /// As a content security policy spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, star) = (if self.secure { "https" } else { "http" }, if self.below { "*." } else { "" });
        write!(f, "{scheme}://{star}{}", self.host)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// A domain whose every name leads to this server, for untrusted pages only.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct StageDomain(Pattern);

impl FromStr for StageDomain {
    type Err = StageError;

    fn from_str(text: &str) -> Result<Self, StageError> {
        let found = Pattern::parse(text).filter(|pattern| pattern.host.parse::<std::net::IpAddr>().is_err());
        found.map(|pattern| Self(Pattern { below: true, ..pattern })).ok_or_else(|| StageError::Domain(text.to_owned()))
    }
}

/// An origin whose pages a frame may show.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FrameOrigin(Pattern);

impl FrameOrigin {
    /// Whether an address is of this origin.
    pub(super) fn has(&self, url: &Url) -> bool {
        self.0.matches(url)
    }
}

impl fmt::Display for FrameOrigin {
    /// As a content security policy spells it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FrameOrigin {
    type Err = StageError;

    fn from_str(text: &str) -> Result<Self, StageError> {
        Pattern::parse(text).map(Self).ok_or_else(|| StageError::Origin(text.to_owned()))
    }
}

/// The names of the stage.
#[derive(Clone, Debug)]
pub(super) struct Names {
    local: Pattern,
    configured: Option<Pattern>,
    /// The pages that may show what is on the stage, as a policy spells them.
    pub(super) ancestors: String,
    /// What this server's own page may show in a frame, as a policy spells it.
    pub(super) frame_sources: String,
}

impl Names {
    pub(super) fn new(settings: &Settings) -> Self {
        let port = settings.address.port();
        let local = Pattern { secure: false, below: true, host: "localhost".to_owned(), port: Some(port) };
        let configured = settings.stage_domain.clone().map(|domain| domain.0);
        let mut own = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        if let std::net::IpAddr::V4(address) = settings.address.ip()
            && !address.is_unspecified()
            && !address.is_loopback()
        {
            own.push(address.to_string());
        }
        own.extend(settings.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()));
        // The port may have been forwarded, and a proxy may have added the scheme.
        let ancestors: Vec<String> =
            own.iter().flat_map(|host| [format!("http://{host}:*"), format!("https://{host}:*")]).collect();
        let shown = [Some(&local), configured.as_ref()].into_iter().flatten();
        let shown = shown.chain(settings.frame_allow.iter().map(|origin| &origin.0));
        let frame_sources: Vec<String> = shown.map(ToString::to_string).collect();
        Self { ancestors: ancestors.join(" "), frame_sources: frame_sources.join(" "), local, configured }
    }

    /// The label of a host that is a name of the stage. More than one label means no page, yet never the API either.
    pub(super) fn label<'h>(&self, host: &'h str) -> Option<&'h str> {
        [self.configured.as_ref(), Some(&self.local)]
            .into_iter()
            .flatten()
            .find_map(|name| label_below(host, &name.host))
    }

    /// Where a label is found, without a slash at the end.
    pub(super) fn origin(&self, label: &str) -> String {
        self.configured.as_ref().unwrap_or(&self.local).to_string().replacen('*', label, 1)
    }
}

fn label_below<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    host.strip_suffix(domain)?.strip_suffix('.').filter(|label| !label.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains() {
        for (text, origin) in [
            ("*.stage.example.org", "https://x.stage.example.org"),
            ("Stage.Example.org", "https://x.stage.example.org"),
            ("http://*.stage.example.org:8080", "http://x.stage.example.org:8080"),
            ("https://*.stage.example.org/", "https://x.stage.example.org"),
            ("*.localhost:9", "https://x.localhost:9"),
        ] {
            let domain: StageDomain = text.parse().expect(text);
            assert_eq!(domain.0.to_string().replace('*', "x"), origin, "{text}");
        }
        for text in
            ["", "*", "*.", "ftp://x", "a b", "*.*.x", "x/y", "x?y", "u@x", "127.0.0.1", "[::1]", "x;y", "x y", "*.x."]
        {
            assert_eq!(text.parse::<StageDomain>(), Err(StageError::Domain(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn origins() {
        for (allowed, url, fits) in [
            ("example.org", "https://example.org/x", true),
            ("example.org", "https://example.org:443/x", true),
            ("example.org", "http://example.org/x", false),
            ("example.org", "https://example.org:444/x", false),
            ("example.org", "https://a.example.org/x", false),
            ("*.example.org", "https://a.b.example.org/x", true),
            ("*.example.org", "https://example.org/x", false),
            ("*.example.org", "https://evilexample.org/x", false),
            ("http://10.0.0.1:80", "http://10.0.0.1/", true),
            ("http://10.0.0.1:8080", "http://10.0.0.1:8080/", true),
        ] {
            let origin: FrameOrigin = allowed.parse().expect(allowed);
            assert_eq!(origin.has(&url.parse().expect(url)), fits, "{allowed} {url}");
        }
        assert!("https://example.org/path".parse::<FrameOrigin>().is_err());
    }

    #[test]
    fn labels() {
        for (host, label) in [
            ("abc.localhost", Some("abc")),
            ("a.b.localhost", Some("a.b")),
            ("localhost", None),
            (".localhost", None),
            ("abc.localhost.", None),
            ("abc.localhost.evil.example", None),
            ("abclocalhost", None),
            ("[::1]", None),
            ("127.0.0.1", None),
        ] {
            assert_eq!(label_below(host, "localhost"), label, "{host}");
        }
    }
}
