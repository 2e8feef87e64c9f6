//! Where a request comes from, for what is counted per client. It proves nothing: many may share one address.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;

use crate::app::App;

const FORWARDED: &str = "x-forwarded-for";

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) SocketAddr);

/// A network, such as `10.0.0.0/8`, or one address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Network {
    first: IpAddr,
    prefix: u8,
}

/// A text that is no network.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("write an address or a network, such as 10.1.2.3 or 10.0.0.0/8")]
pub struct BadNetwork;

impl Network {
    fn contains(self, address: IpAddr) -> bool {
        let shared = |one: u128, other: u128, bits: u32| match u32::from(self.prefix) {
            0 => true,
            prefix => (one ^ other) >> (bits - prefix) == 0,
        };
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => shared(one.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(one), IpAddr::V6(other)) => shared(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let (address, prefix) = text.split_once('/').map_or((text, None), |(address, prefix)| (address, Some(prefix)));
        let first = address.parse::<IpAddr>().map_err(|_| BadNetwork)?.to_canonical();
        let most = if first.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), |prefix| prefix.parse().map_err(|_| BadNetwork))?;
        (prefix <= most).then_some(Self { first, prefix }).ok_or(BadNetwork)
    }
}

/// What stands for the client that asks: its address, or the network that one household has of the newer kind.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct ClientAddress(pub(crate) String);

impl ClientAddress {
    fn of(peer: Option<IpAddr>, headers: &HeaderMap, proxies: &[Network]) -> Self {
        let is_proxy = |address: IpAddr| proxies.iter().any(|network| network.contains(address));
        let mut client = peer.map(|peer| peer.to_canonical());
        // From the back: each one in front of us wrote down whom it heard from, and the first that is not ours may have made the rest up.
        let lines: Vec<&str> = headers.get_all(FORWARDED).iter().filter_map(|line| line.to_str().ok()).collect();
        for said in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            let (Some(at), Ok(said)) = (client, said.trim().parse::<IpAddr>()) else { break };
            if !is_proxy(at) {
                break;
            }
            client = Some(said.to_canonical());
        }
        Self(match client {
            None => "here".to_owned(),
            Some(IpAddr::V4(v4)) => v4.to_string(),
            Some(IpAddr::V6(v6)) => format!("{:x}/64", v6.to_bits() >> 64),
        })
    }
}

impl FromRequestParts<App> for ClientAddress {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Infallible> {
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip());
        Ok(Self::of(peer, &parts.headers, &app.settings().trusted_proxies))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&'static str], proxies: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED, axum::http::HeaderValue::from_static(line));
        }
        let proxies: Vec<Network> = proxies.iter().map(|text| text.parse().expect("a network")).collect();
        ClientAddress::of(peer.parse().ok(), &headers, &proxies).0
    }

    #[test]
    fn only_our_own_proxies_are_believed() {
        assert_eq!(client("9.9.9.9", &["1.1.1.1"], &[]), "9.9.9.9");
        assert_eq!(client("10.0.0.1", &["1.1.1.1"], &["10.0.0.0/8"]), "1.1.1.1");
        assert_eq!(client("10.0.0.1", &["6.6.6.6, 1.1.1.1"], &["10.0.0.0/8"]), "1.1.1.1", "the first was made up");
        assert_eq!(client("10.0.0.1", &["6.6.6.6", "1.1.1.1, 10.0.0.2"], &["10.0.0.0/8"]), "1.1.1.1");
        assert_eq!(client("10.0.0.1", &["nonsense"], &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(client("::ffff:10.0.0.1", &["1.1.1.1"], &["10.0.0.1"]), "1.1.1.1");
        assert_eq!(client("", &["1.1.1.1"], &["0.0.0.0/0"]), "here");
        assert_eq!(client("2001:db8:1:2:3::4", &[], &[]), client("2001:db8:1:2:9::9", &[], &[]), "one household");
        assert_ne!(client("2001:db8:1:2::", &[], &[]), client("2001:db8:1:3::", &[], &[]));
    }

    #[test]
    fn networks() {
        for bad in ["", "x", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "localhost", "::/129"] {
            assert_eq!(bad.parse::<Network>(), Err(BadNetwork), "{bad}");
        }
        let all: Network = "::/0".parse().expect("a network");
        assert!(all.contains("::1".parse().expect("an address")) && !all.contains("1.1.1.1".parse().expect("one")));
    }
}
