//! Tables: which address is what, and which entry of an allow list covers it.

use std::net::IpAddr;

use crate::dial::{Allowed, EgressPolicy, Kind};

#[test]
fn every_special_range_is_known_from_its_first_to_its_last_address() {
    let table: &[(&str, Option<Kind>)] = &[
        ("0.0.0.0", Some(Kind::Unspecified)),
        ("0.255.255.255", Some(Kind::Unspecified)),
        ("1.0.0.0", None),
        ("9.255.255.255", None),
        ("10.0.0.0", Some(Kind::Private)),
        ("10.255.255.255", Some(Kind::Private)),
        ("11.0.0.0", None),
        ("100.63.255.255", None),
        ("100.64.0.0", Some(Kind::CarrierNat)),
        ("100.100.100.200", Some(Kind::Metadata)),
        ("100.127.255.255", Some(Kind::CarrierNat)),
        ("100.128.0.0", None),
        ("126.255.255.255", None),
        ("127.0.0.0", Some(Kind::Loopback)),
        ("127.0.0.1", Some(Kind::Loopback)),
        ("127.255.255.255", Some(Kind::Loopback)),
        ("128.0.0.0", None),
        ("168.63.129.16", Some(Kind::Metadata)),
        ("169.253.255.255", None),
        ("169.254.0.0", Some(Kind::LinkLocal)),
        ("169.254.169.254", Some(Kind::LinkLocal)),
        ("169.255.0.0", None),
        ("172.15.255.255", None),
        ("172.16.0.0", Some(Kind::Private)),
        ("172.31.255.255", Some(Kind::Private)),
        ("172.32.0.0", None),
        ("192.0.0.192", Some(Kind::Reserved)),
        ("192.0.1.0", None),
        ("192.0.2.1", Some(Kind::Documentation)),
        ("192.88.99.1", Some(Kind::Reserved)),
        ("192.167.255.255", None),
        ("192.168.0.0", Some(Kind::Private)),
        ("192.168.255.255", Some(Kind::Private)),
        ("198.17.255.255", None),
        ("198.18.0.0", Some(Kind::Documentation)),
        ("198.19.255.255", Some(Kind::Documentation)),
        ("198.51.100.7", Some(Kind::Documentation)),
        ("203.0.113.7", Some(Kind::Documentation)),
        ("223.255.255.255", None),
        ("224.0.0.1", Some(Kind::Multicast)),
        ("239.255.255.255", Some(Kind::Multicast)),
        ("240.0.0.0", Some(Kind::Reserved)),
        ("255.255.255.254", Some(Kind::Reserved)),
        ("255.255.255.255", Some(Kind::Broadcast)),
        ("::", Some(Kind::Unspecified)),
        ("::1", Some(Kind::Loopback)),
        ("::2", Some(Kind::Tunnel)),
        ("::127.0.0.1", Some(Kind::Tunnel)),
        ("::8.8.8.8", Some(Kind::Tunnel)),
        ("::ffff:8.8.8.8", None),
        ("::ffff:10.0.0.1", Some(Kind::Private)),
        ("::ffff:169.254.169.254", Some(Kind::LinkLocal)),
        ("::ffff:0:10.0.0.1", Some(Kind::Reserved)),
        ("64:ff9b::8.8.8.8", None),
        ("64:ff9b::10.0.0.1", Some(Kind::Tunnel)),
        ("64:ff9b::169.254.169.254", Some(Kind::Tunnel)),
        ("64:ff9b:1::8.8.8.8", Some(Kind::Tunnel)),
        ("100::1", Some(Kind::Reserved)),
        ("2001:0:0808:0808::f7f7:f7f7", None),
        ("2001:0:0a00:0001::f7f7:f7f7", Some(Kind::Tunnel)),
        ("2001:0:0808:0808::f5ff:fffe", Some(Kind::Tunnel)),
        ("2001:2::1", Some(Kind::Documentation)),
        ("2001:20::1", Some(Kind::Reserved)),
        ("2001:db8::1", Some(Kind::Documentation)),
        ("2002:0808:0808::1", None),
        ("2002:7f00:0001::1", Some(Kind::Tunnel)),
        ("2002:c0a8:0101::1", Some(Kind::Tunnel)),
        ("2606:4700::1111", None),
        ("2a00:1450:4001::8a", None),
        ("3fff:0fff::1", Some(Kind::Documentation)),
        ("4000::1", Some(Kind::Reserved)),
        ("5f00::1", Some(Kind::Reserved)),
        ("fc00::1", Some(Kind::UniqueLocal)),
        ("fd00:ec2::254", Some(Kind::Metadata)),
        ("fdff::1", Some(Kind::UniqueLocal)),
        ("fe80::1", Some(Kind::LinkLocal)),
        ("febf::1", Some(Kind::LinkLocal)),
        ("fec0::1", Some(Kind::SiteLocal)),
        ("ff02::1", Some(Kind::Multicast)),
    ];
    for (address, kind) in table {
        assert_eq!(Kind::of(address.parse().unwrap()), *kind, "{address}");
    }
}

#[test]
fn an_entry_covers_what_it_says_and_nothing_beside() {
    let table = [
        ("10.1.2.3", "10.1.2.3", 80, true),
        ("10.1.2.3", "10.1.2.4", 80, false),
        ("10.1.2.3", "::ffff:10.1.2.3", 80, true),
        ("10.1.2.3:8080", "10.1.2.3", 8080, true),
        ("10.1.2.3:8080", "10.1.2.3", 80, false),
        ("10.0.0.0/8", "10.255.0.1", 80, true),
        ("10.0.0.0/8", "11.0.0.1", 80, false),
        ("10.0.0.0/8", "64:ff9b::10.0.0.1", 80, false),
        ("0.0.0.0/0", "192.168.1.1", 80, true),
        ("0.0.0.0/0", "::1", 80, false),
        ("192.168.1.128/25", "192.168.1.127", 80, false),
        ("192.168.1.128/25", "192.168.1.128", 80, true),
        ("127.0.0.1/32", "127.0.0.1", 80, true),
        ("127.0.0.1/32", "127.0.0.2", 80, false),
        ("::1", "::1", 80, true),
        ("[::1]", "::1", 80, true),
        ("[::1]:8080", "::1", 8080, true),
        ("[::1]:8080", "::1", 80, false),
        ("fd00::/8", "fd12::1", 80, true),
        ("fd00::/8", "fc12::1", 80, false),
        ("::/0", "fe80::1", 80, true),
        ("0x7f000001:80", "127.0.0.1", 80, true),
    ];
    for (entry, address, port, expected) in table {
        let allowed: Allowed = entry.parse().unwrap();
        assert_eq!(allowed.contains(address.parse().unwrap(), port), expected, "{entry} {address}:{port}");
        let again: Allowed = allowed.to_string().parse().unwrap();
        assert_eq!(again, allowed, "{entry} is written as {allowed}");
    }
    for (entry, host, port, expected) in [
        ("registry.corp", "registry.corp", 443, true),
        ("Registry.Corp.", "registry.corp", 443, true),
        ("registry.corp", "registry.corp.", 443, true),
        ("registry.corp", "evil.registry.corp", 443, false),
        ("registry.corp", "registry.corp.evil.example", 443, false),
        ("registry.corp:8443", "registry.corp", 443, false),
        ("bücher.example", "xn--bcher-kva.example", 443, true),
    ] {
        let allowed: Allowed = entry.parse().unwrap();
        assert_eq!(allowed.names(host, port), expected, "{entry} {host}:{port}");
    }
}

#[test]
fn an_entry_that_means_nothing_is_refused_with_a_reason() {
    for (entry, why) in [
        ("", "not a host name"),
        ("*", "no wildcards"),
        ("*.corp", "no wildcards"),
        (".", "not a host name"),
        ("a b", "not a host name"),
        ("http://registry.corp", "no address before"),
        ("registry.corp/24", "no address before"),
        ("registry.corp:", "its port"),
        ("registry.corp:0", "its port"),
        ("registry.corp:65536", "its port"),
        ("10.0.0.0/33", "from 0 to 32"),
        ("10.0.0.0/", "from 0 to 32"),
        ("fd00::/129", "from 0 to 128"),
        ("10.0.0.1/8", "begins at `10.0.0.0/8`"),
        ("::ffff:10.0.0.0/104", "with dots"),
        ("[::1", "not a host name"),
        ("1.2.3.4.5", "not a host name"),
    ] {
        let error = entry.parse::<Allowed>().unwrap_err();
        assert!(error.why.contains(why), "{entry}: {error}");
    }
}

#[test]
fn a_name_vouches_for_private_addresses_only() {
    let url = "https://registry.corp/".parse().unwrap();
    let named = EgressPolicy { allow: vec!["registry.corp".parse().unwrap()], ..EgressPolicy::default() };
    let private = EgressPolicy { allow_private: true, ..EgressPolicy::default() };
    let all = EgressPolicy {
        allow: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
        allow_private: true,
        ..EgressPolicy::default()
    };
    let nothing = EgressPolicy::default();
    for (address, by_name_or_private, by_address) in [
        ("10.0.0.1", true, true),
        ("127.0.0.1", true, true),
        ("fd00::1", true, true),
        ("100.64.0.1", true, true),
        ("169.254.169.254", false, true),
        ("fd00:ec2::254", false, true),
        ("64:ff9b::10.0.0.1", false, true),
        ("0.0.0.0", false, false),
        ("224.0.0.1", false, false),
        ("255.255.255.255", false, false),
        ("ff02::1", false, false),
    ] {
        let address: IpAddr = address.parse().unwrap();
        assert!(nothing.check_address(&url, address).is_err(), "{address}");
        assert_eq!(named.check_address(&url, address).is_ok(), by_name_or_private, "{address} by name");
        assert_eq!(private.check_address(&url, address).is_ok(), by_name_or_private, "{address} by allow_private");
        assert_eq!(all.check_address(&url, address).is_ok(), by_address, "{address} by entry");
    }
}
