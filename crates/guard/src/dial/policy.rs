//! Whom we may talk to: the rules for a URL, and for each address that its name leads to. Decides; does not dial.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use url::{Host, Url};

use super::address::{Kind, Reach};
use super::allow::{Allowed, bare};

/// What an administrator lets this server dial. The default lets it reach the public internet and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    /// Private networks and this machine may be dialled. Link-local addresses, where clouds keep credentials, still need an
    /// entry of their own.
    pub allow_private: bool,
    /// Exceptions. An entry that is a name covers the private addresses which that name leads to; every other special
    /// address needs an entry that is an address or a network.
    pub allow: Vec<Allowed>,
    /// The only hosts that may be dialled, whatever else is allowed; none: there is no such list. An entry is a host as it stands in an
    /// address, in small letters, or `*.example.org` for every name below that one.
    pub only: Option<Vec<String>>,
    /// Refuse `http:`, except to this machine itself, where nobody listens in.
    pub https_only: bool,
    /// Certificate authorities (PEM) that are trusted besides the machine's own, for servers inside a company.
    pub ca_file: Option<PathBuf>,
    /// The proxy (`http://host:port`) that everything goes through. It looks up names itself, so that a name is then judged
    /// as it is written and what it leads to is the proxy's to judge. The variables that other programs take a proxy from
    /// mean nothing here.
    pub proxy: Option<Proxy>,
}

/// A proxy. As text it is `http://host:port`, perhaps with a user name and a password, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy(Url);

/// A proxy that is none. The text is not repeated: it may have a password in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a proxy must be written like http://host:port")]
pub struct BadProxy;

impl FromStr for Proxy {
    type Err = BadProxy;

    fn from_str(text: &str) -> Result<Self, BadProxy> {
        text.parse().ok().filter(|url: &Url| url.scheme() == "http" && url.has_host()).map(Self).ok_or(BadProxy)
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({})", self.0.host_str().unwrap_or_default())
    }
}

impl Proxy {
    pub(super) fn url(&self) -> &Url {
        &self.0
    }
}

/// A URL or an address that the policy does not allow. The text names the host, never the path or the query, which may
/// hold secrets, nor the address behind a name, which would tell strangers about the network inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// Not a scheme that is dialled.
    #[error("`{scheme}:` addresses are not dialled; use https")]
    Scheme {
        /// The scheme, without the colon.
        scheme: String,
    },
    /// Plain `http:` where encryption is asked for.
    #[error("http to `{host}` is not encrypted; use https, or have an administrator turn off `https_only`")]
    Plain {
        /// The host of the URL.
        host: String,
    },
    /// `https://user:password@host`: it would end up in logs and lists.
    #[error("the URL of `{host}` has a user name or password in it; leave it out and give credentials separately")]
    Credentials {
        /// The host of the URL.
        host: String,
    },
    /// The URL leads nowhere: no host, or port 0.
    #[error("the URL has no host and port that can be dialled")]
    Nowhere,
    /// A client of one origin was asked for another's.
    #[error("`{host}` is another server than the one that was named")]
    Elsewhere {
        /// The host that is not dialled.
        host: String,
    },
    /// The host is not on the list of those that may be dialled.
    #[error(
        "`{host}` is not among the hosts that may be dialled; an owner or admin can add it to the settings (network.allow)"
    )]
    NotListed {
        /// The host of the URL.
        host: String,
    },
    /// The host is, or its name leads to, an address that is not an ordinary one of the internet.
    #[error("`{host}` leads to {kind}, which is not dialled; {}", how_to_allow(host, *port, *kind, *literal))]
    Address {
        /// The host of the URL.
        host: String,
        /// The port of the URL.
        port: u16,
        /// What the address is.
        kind: Kind,
        /// Which one it was, for the administrator's log. Unknown for `localhost`, which is not looked up.
        address: Option<IpAddr>,
        /// Whether the URL had the address itself, not a name.
        literal: bool,
    },
}

fn how_to_allow(host: &str, port: u16, kind: Kind, literal: bool) -> String {
    match kind.reach() {
        Reach::Never => "no setting allows it".to_owned(),
        Reach::Special if !literal => {
            "an administrator can allow it by putting the address itself on the egress allow list".to_owned()
        }
        _ => format!("an administrator can allow it by putting `{host}:{port}` on the egress allow list"),
    }
}

impl EgressPolicy {
    /// Judges a URL by itself, without looking up its name: good for saying no early, when a URL is saved. A yes is not
    /// enough to dial: see [`Self::check_address`].
    pub fn check_url(&self, url: &Url) -> Result<(), Refused> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(Refused::Scheme { scheme: url.scheme().to_owned() });
        }
        let (Some(host), Some(port @ 1..)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refused::Nowhere);
        };
        let text = host.to_string();
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials { host: text });
        }
        self.check_list(url)?;
        let here = match host {
            Host::Ipv4(v4) => Kind::of(v4.into()) == Some(Kind::Loopback),
            Host::Ipv6(v6) => Kind::of(v6.into()) == Some(Kind::Loopback),
            Host::Domain(name) => means_this_machine(name),
        };
        if self.https_only && url.scheme() == "http" && !here {
            return Err(Refused::Plain { host: text });
        }
        match host {
            Host::Ipv4(v4) => self.check_address(url, v4.into()),
            Host::Ipv6(v6) => self.check_address(url, v6.into()),
            // Such a name means this machine whatever a lookup says, so that it is refused even where none answers.
            Host::Domain(name) if here && !self.lets_name(name, port) && !self.has_entry_for_this_machine(port) => {
                let literal = false;
                Err(Refused::Address { host: text, port, kind: Kind::Loopback, address: None, literal })
            }
            Host::Domain(_) => Ok(()),
        }
    }

    /// Judges one address that the URL's name led to (or that is its host). Dial only when all of them are allowed, and only
    /// the very addresses that were judged: a second lookup may answer otherwise.
    pub fn check_address(&self, url: &Url, address: IpAddr) -> Result<(), Refused> {
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(Refused::Nowhere);
        };
        let Some(kind) = Kind::of(address) else { return Ok(()) };
        let listed = || self.allow.iter().any(|entry| entry.contains(address, port));
        let allowed = match (kind.reach(), &host) {
            (Reach::Never, _) => false,
            (Reach::Special, _) => listed(),
            (Reach::Private, Host::Domain(name)) => self.lets_name(name, port) || listed(),
            (Reach::Private, _) => self.allow_private || listed(),
        };
        if allowed {
            return Ok(());
        }
        let literal = !matches!(host, Host::Domain(_));
        Err(Refused::Address { host: host.to_string(), port, kind, address: Some(address), literal })
    }

    /// Judges a URL by the list of hosts alone, if there is one. Every hop of a dial is judged so, with the rest.
    pub fn check_list(&self, url: &Url) -> Result<(), Refused> {
        let Some(only) = &self.only else { return Ok(()) };
        let host = url.host().ok_or(Refused::Nowhere)?.to_string();
        let bare = bare(&host);
        let names = |entry: &String| match entry.strip_prefix("*.") {
            // Below the name: a longer name that merely ends alike is somebody else's.
            Some(above) => bare.strip_suffix(above).is_some_and(|front| front.len() > 1 && front.ends_with('.')),
            None => bare == entry,
        };
        if only.iter().any(names) { Ok(()) } else { Err(Refused::NotListed { host }) }
    }

    fn lets_name(&self, name: &str, port: u16) -> bool {
        self.allow_private || self.allow.iter().any(|entry| entry.names(name, port))
    }

    fn has_entry_for_this_machine(&self, port: u16) -> bool {
        let here: [IpAddr; 2] = [[127, 0, 0, 1].into(), std::net::Ipv6Addr::LOCALHOST.into()];
        self.allow.iter().any(|entry| here.iter().any(|address| entry.contains(*address, port)))
    }
}

/// `localhost` and everything below it (RFC 6761), with or without the dot at the end.
fn means_this_machine(name: &str) -> bool {
    let name = bare(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// A URL as it may be shown: without user name, password and fragment, and with the query left out, since those are where
/// people put keys.
pub fn masked(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_fragment(None);
    // These two fail only for URLs that cannot have credentials.
    let _ = shown.set_username("");
    let _ = shown.set_password(None);
    if shown.query().is_some() {
        shown.set_query(Some("…"));
    }
    shown.to_string().replace("?%E2%80%A6", "?…")
}
