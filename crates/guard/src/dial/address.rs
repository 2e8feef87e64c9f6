//! What an IP address is for, as far as dialling out is concerned. Pure tables: no names, no policy.
//!
//! The ranges are those of IANA's special-purpose registries. An IPv6 address that carries an IPv4 address is judged by
//! what it carries, since that is where the packets end up.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not an ordinary one on the internet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// This machine.
    Loopback,
    /// A private network (RFC 1918).
    Private,
    /// The network between a provider and its customers (RFC 6598).
    CarrierNat,
    /// A private IPv6 network (`fc00::/7`).
    UniqueLocal,
    /// A private IPv6 network of the old kind (`fec0::/10`).
    SiteLocal,
    /// The local wire, where clouds also keep the service that hands out their credentials.
    LinkLocal,
    /// The metadata service of a cloud, at an address that would pass for another kind.
    Metadata,
    /// Kept for documentation or for measuring network devices.
    Documentation,
    /// Assigned to a protocol or to nobody yet.
    Reserved,
    /// An IPv6 address that carries an IPv4 address which is itself refused, or that only a translator understands.
    Tunnel,
    /// No host at all: `0.0.0.0/8` and `::`, which the kernel takes for this machine.
    Unspecified,
    /// A group of hosts.
    Multicast,
    /// All hosts of a network.
    Broadcast,
}

/// What it takes to dial an address of some kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// `allow_private`, or an entry for its name or for itself.
    Private,
    /// An entry for the address itself: a name must not lead there by surprise.
    Special,
    /// It is no host, so nothing allows it.
    Never,
}

impl Kind {
    /// What `address` is, or nothing for an ordinary address of the internet.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            IpAddr::V4(v4) => of_v4(v4),
            IpAddr::V6(v6) => of_v6(v6),
        }
    }

    pub(super) fn reach(self) -> Reach {
        match self {
            Self::Loopback | Self::Private | Self::CarrierNat | Self::UniqueLocal | Self::SiteLocal => Reach::Private,
            Self::LinkLocal | Self::Metadata | Self::Documentation | Self::Reserved | Self::Tunnel => Reach::Special,
            Self::Unspecified | Self::Multicast | Self::Broadcast => Reach::Never,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "this machine itself",
            Self::Private | Self::UniqueLocal | Self::SiteLocal => "a private network",
            Self::CarrierNat => "a carrier's internal network",
            Self::LinkLocal => "a link-local address",
            Self::Metadata => "a cloud's metadata service",
            Self::Documentation => "an address kept for documentation or benchmarks",
            Self::Reserved => "a reserved address",
            Self::Tunnel => "an IPv6 address with an IPv4 address hidden inside",
            Self::Unspecified => "an unspecified address",
            Self::Multicast => "a multicast address",
            Self::Broadcast => "a broadcast address",
        })
    }
}

fn of_v4(address: Ipv4Addr) -> Option<Kind> {
    Some(match address.octets() {
        [0, ..] => Kind::Unspecified,
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Kind::Private,
        [100, 100, 100, 200] | [168, 63, 129, 16] => Kind::Metadata,
        [100, 64..=127, ..] => Kind::CarrierNat,
        [127, ..] => Kind::Loopback,
        [169, 254, ..] => Kind::LinkLocal,
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] | [198, 18..=19, ..] => Kind::Documentation,
        [192, 0, 0, _] | [192, 88, 99, _] => Kind::Reserved,
        [224..=239, ..] => Kind::Multicast,
        [255, 255, 255, 255] => Kind::Broadcast,
        [240..=255, ..] => Kind::Reserved,
        _ => return None,
    })
}

fn of_v6(address: Ipv6Addr) -> Option<Kind> {
    Some(match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Kind::Unspecified,
        [0, 0, 0, 0, 0, 0, 0, 1] => Kind::Loopback,
        // IPv4-compatible addresses were given up long ago; nothing honest uses them.
        [0, 0, 0, 0, 0, 0, ..] => Kind::Tunnel,
        // NAT64. A network with IPv6 alone reaches the IPv4 internet this way, so a public address inside is fine.
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => return carried([v4(high, low)]),
        // NAT64 with a prefix of the operator's choice: the embedded address cannot be told.
        [0x64, 0xff9b, 1, ..] => Kind::Tunnel,
        [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254] => Kind::Metadata,
        [0xfc00..=0xfdff, ..] => Kind::UniqueLocal,
        [0xfe80..=0xfebf, ..] => Kind::LinkLocal,
        [0xfec0..=0xfeff, ..] => Kind::SiteLocal,
        [0xff00..=0xffff, ..] => Kind::Multicast,
        // Teredo: the server's address, then the client's with all its bits turned over.
        [0x2001, 0, s_high, s_low, _, _, c_high, c_low] => return carried([v4(s_high, s_low), v4(!c_high, !c_low)]),
        [0x2001, 2, 0, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0x0fff, ..] => Kind::Documentation,
        [0x2001, 0..=0x01ff, ..] => Kind::Reserved,
        // 6to4.
        [0x2002, high, low, ..] => return carried([v4(high, low)]),
        [0x2000..=0x3fff, ..] => return None,
        // Only 2000::/3 has been given out as global unicast.
        _ => Kind::Reserved,
    })
}

fn v4(high: u16, low: u16) -> Ipv4Addr {
    Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low))
}

fn carried<const N: usize>(addresses: [Ipv4Addr; N]) -> Option<Kind> {
    addresses.into_iter().any(|inside| of_v4(inside).is_some()).then_some(Kind::Tunnel)
}
