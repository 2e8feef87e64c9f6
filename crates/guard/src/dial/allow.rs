//! The entries of an administrator's allow list: what `10.0.0.0/8` or `registry.corp:8443` means, and what it matches.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

use url::Host;

/// An exception that an administrator made. As text it is a name (`registry.corp`), an address (`10.1.2.3`, `[::1]`),
/// either of them with a port (`localhost:8080`, `[::1]:8080`), or a network (`10.0.0.0/8`, `fd00::/8`). No wildcards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    place: Place,
    port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Name(String),
    Network { first: IpAddr, prefix: u8 },
}

/// An allow-list entry that means nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{entry}` cannot be on the egress allow list: {why}. Allowed are a name, an address or a network, such as \
     `registry.corp`, `registry.corp:8443`, `10.1.2.3`, `[::1]:8080`, `10.0.0.0/8`"
)]
pub struct BadEntry {
    /// What was written.
    pub entry: String,
    /// What is wrong with it.
    pub why: String,
}

impl Allowed {
    /// Whether this entry names the host itself. Addresses are no names.
    pub(super) fn names(&self, host: &str, port: u16) -> bool {
        matches!(&self.place, Place::Name(name) if name == bare(host)) && self.has_port(port)
    }

    /// Whether this entry is, or contains, the address.
    pub(super) fn contains(&self, address: IpAddr, port: u16) -> bool {
        match &self.place {
            Place::Name(_) => false,
            Place::Network { first, prefix } => {
                masked(address.to_canonical(), *prefix) == *first && self.has_port(port)
            }
        }
    }

    fn has_port(&self, port: u16) -> bool {
        self.port.is_none_or(|allowed| allowed == port)
    }
}

/// A host name without the dots that make it absolute: `localhost.` is `localhost`.
pub(super) fn bare(host: &str) -> &str {
    host.trim_end_matches('.')
}

/// The address with all bits behind the prefix cleared. A prefix too long for its family changes nothing.
fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    let prefix = u32::from(prefix);
    match address {
        IpAddr::V4(v4) => {
            let mask = !u32::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V4((v4.to_bits() & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = !u128::MAX.checked_shr(prefix).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    }
}

fn bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl FromStr for Allowed {
    type Err = BadEntry;

    fn from_str(text: &str) -> Result<Self, BadEntry> {
        let bad = |why: String| BadEntry { entry: text.to_owned(), why };
        if let Some((address, prefix)) = text.split_once('/') {
            return network(address, prefix).map_err(bad);
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::address(address, None));
        }
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !text.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = match port.map(u16::from_str) {
            None => None,
            Some(Ok(port @ 1..)) => Some(port),
            Some(_) => return Err(bad("its port is not a number from 1 to 65535".to_owned())),
        };
        match Host::parse(host) {
            Ok(Host::Ipv4(v4)) => Ok(Self::address(v4.into(), port)),
            Ok(Host::Ipv6(v6)) => Ok(Self::address(v6.into(), port)),
            Ok(Host::Domain(name)) => {
                let name = bare(&name);
                let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
                if name.is_empty() || !name.chars().all(known) {
                    return Err(bad("it is not a host name (there are no wildcards)".to_owned()));
                }
                Ok(Self { place: Place::Name(name.to_owned()), port })
            }
            Err(error) => Err(bad(format!("it is not a host name ({error})"))),
        }
    }
}

impl Allowed {
    fn address(address: IpAddr, port: Option<u16>) -> Self {
        let first = address.to_canonical();
        Self { place: Place::Network { first, prefix: bits(first) }, port }
    }
}

fn network(address: &str, prefix: &str) -> Result<Allowed, String> {
    let first: IpAddr = address.parse().map_err(|_| "there is no address before the `/`".to_owned())?;
    let prefix = match prefix.parse::<u8>() {
        Ok(prefix) if prefix <= bits(first) => prefix,
        _ => return Err(format!("behind the `/` belongs a number from 0 to {}", bits(first))),
    };
    if first.to_canonical() != first {
        return Err("an IPv4 network is written with dots".to_owned());
    }
    let start = masked(first, prefix);
    if start != first {
        return Err(format!("the network begins at `{start}/{prefix}`"));
    }
    Ok(Allowed { place: Place::Network { first, prefix }, port: None })
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Name(name) => f.write_str(name)?,
            Place::Network { first: IpAddr::V6(v6), prefix: 128 } => write!(f, "[{v6}]")?,
            Place::Network { first, prefix } if *prefix == bits(*first) => write!(f, "{first}")?,
            Place::Network { first, prefix } => write!(f, "{first}/{prefix}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}
