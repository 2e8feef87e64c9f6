//! Tables: URLs as people and attackers write them.

use url::Url;

use crate::dial::{EgressPolicy, Kind, Refused, masked};

fn allowing(entries: &[&str]) -> EgressPolicy {
    EgressPolicy { allow: entries.iter().map(|entry| entry.parse().unwrap()).collect(), ..EgressPolicy::default() }
}

#[test]
fn an_address_is_refused_however_it_is_spelled() {
    for (url, kind) in [
        ("http://127.0.0.1/", Kind::Loopback),
        ("http://127.1/", Kind::Loopback),
        ("http://127.0.1:8080/", Kind::Loopback),
        ("http://0x7f000001/", Kind::Loopback),
        ("http://0x7f.0.0.1/", Kind::Loopback),
        ("http://0177.0.0.1/", Kind::Loopback),
        ("http://2130706433", Kind::Loopback),
        ("http://017700000001/", Kind::Loopback),
        ("http://127.0.0.1./", Kind::Loopback),
        ("http://%31%32%37.0.0.1/", Kind::Loopback),
        ("http://\u{ff11}\u{ff12}\u{ff17}.0.0.1/", Kind::Loopback),
        ("http://①②⑦.0.0.1/", Kind::Loopback),
        ("http://127。0。0。1/", Kind::Loopback),
        ("http:127.0.0.1", Kind::Loopback),
        ("http:///127.0.0.1/", Kind::Loopback),
        ("http:\\\\127.0.0.1\\", Kind::Loopback),
        ("ht\ntp://127.\t0.0.1/", Kind::Loopback),
        ("  http://127.0.0.1/  ", Kind::Loopback),
        ("HTTPS://127.0.0.1:443/", Kind::Loopback),
        ("http://[::1]/", Kind::Loopback),
        ("http://[0:0:0:0:0:0:0:1]/", Kind::Loopback),
        ("http://[::ffff:127.0.0.1]/", Kind::Loopback),
        ("http://[::ffff:7f00:1]/", Kind::Loopback),
        ("http://[::ffff:10.0.0.1]/", Kind::Private),
        ("http://[::10.0.0.1]/", Kind::Tunnel),
        ("http://[64:ff9b::a00:1]/", Kind::Tunnel),
        ("http://[2002:a00:1::]/", Kind::Tunnel),
        ("http://[fe80::1]/", Kind::LinkLocal),
        ("http://[fd00::1]/", Kind::UniqueLocal),
        ("http://[::]/", Kind::Unspecified),
        ("http://0/", Kind::Unspecified),
        ("http://0.0.0.0:5432/", Kind::Unspecified),
        ("http://169.254.169.254/latest/meta-data/", Kind::LinkLocal),
        ("http://0xa9fea9fe/", Kind::LinkLocal),
        ("http://2852039166/", Kind::LinkLocal),
        ("http://10.1/", Kind::Private),
        ("http://192.168.257/", Kind::Private),
        ("http://localhost/", Kind::Loopback),
        ("http://localhost./", Kind::Loopback),
        ("http://LOCALHOST:8080/", Kind::Loopback),
        ("http://LocalHost../", Kind::Loopback),
        ("http://chat.localhost/", Kind::Loopback),
        ("http://a.b.localhost./", Kind::Loopback),
        ("http://ⓛocalhost/", Kind::Loopback),
        ("http://localho%73t/", Kind::Loopback),
    ] {
        let parsed = Url::parse(url).unwrap();
        match EgressPolicy::default().check_url(&parsed) {
            Err(Refused::Address { kind: found, .. }) => assert_eq!(found, kind, "{url}"),
            other => panic!("{url}: {other:?}"),
        }
    }
}

#[test]
fn what_cannot_be_an_address_is_no_url_at_all() {
    for url in ["http://256.0.0.1/", "http://127.0.0.1.5/", "http://[fe80::1%25eth0]/", "http://4294967296/", "http://"]
    {
        assert!(Url::parse(url).is_err(), "{url}");
    }
}

#[test]
fn other_schemes_credentials_and_ports_that_lead_nowhere_are_refused() {
    let policy = EgressPolicy { allow_private: true, ..allowing(&["0.0.0.0/0"]) };
    let check = |url: &str| policy.check_url(&Url::parse(url).unwrap());
    for scheme in ["file", "ftp", "gopher", "data", "javascript", "ws", "unix", "httpx", "blob"] {
        let url = format!("{scheme}://example.com/x");
        assert_eq!(check(&url), Err(Refused::Scheme { scheme: scheme.to_owned() }));
    }
    assert_eq!(check("data:text/plain,x"), Err(Refused::Scheme { scheme: "data".to_owned() }));
    for url in ["https://user@example.com/", "https://user:secret@example.com/", "https://:secret@example.com/"] {
        let error = check(url).unwrap_err();
        assert_eq!(error, Refused::Credentials { host: "example.com".to_owned() });
        assert!(!error.to_string().contains("secret"));
    }
    // What looks like the host is the user name here.
    assert!(matches!(check("https://example.com@10.0.0.1/"), Err(Refused::Credentials { host }) if host == "10.0.0.1"));
    assert_eq!(check("https://example.com:0/"), Err(Refused::Nowhere));
}

#[test]
fn the_public_internet_is_allowed() {
    for url in [
        "https://example.com/bundle.zip?token=x",
        "http://example.com:8080/",
        "https://8.8.8.8/",
        "https://[2606:4700::1111]/",
        "https://localhost.example.com/",
        "https://notlocalhost/",
        "https://127.0.0.1.example.com/",
        "https://example.com#@127.0.0.1/",
    ] {
        assert_eq!(EgressPolicy::default().check_url(&Url::parse(url).unwrap()), Ok(()), "{url}");
    }
}

#[test]
fn https_only_lets_plain_http_reach_this_machine_alone() {
    let policy = EgressPolicy { https_only: true, allow_private: true, ..EgressPolicy::default() };
    for (url, allowed) in [
        ("https://example.com/", true),
        ("http://example.com/", false),
        ("http://10.0.0.1/", false),
        ("https://10.0.0.1/", true),
        ("http://localhost:8080/", true),
        ("http://127.0.0.1:8080/", true),
        ("http://[::1]:8080/", true),
    ] {
        let answer = policy.check_url(&Url::parse(url).unwrap());
        assert_eq!(answer.is_ok(), allowed, "{url}: {answer:?}");
        assert!(allowed || matches!(answer, Err(Refused::Plain { .. })), "{url}");
    }
    let nothing = EgressPolicy { https_only: true, ..EgressPolicy::default() };
    assert!(matches!(nothing.check_url(&Url::parse("http://localhost/").unwrap()), Err(Refused::Address { .. })));
}

#[test]
fn the_refusal_names_the_entry_that_would_allow_it() {
    for url in [
        "http://localhost:8080/",
        "http://0x7f000001/",
        "https://10.0.0.1/",
        "https://[fd00::1]:8443/",
        "http://2852039166/",
    ] {
        let parsed = Url::parse(url).unwrap();
        let error = EgressPolicy::default().check_url(&parsed).unwrap_err().to_string();
        let entry = error.rsplit("putting `").next().unwrap().split('`').next().unwrap();
        assert_eq!(allowing(&[entry]).check_url(&parsed), Ok(()), "{error}");
    }
    let url = Url::parse("http://localhost:8080/").unwrap();
    for entry in ["127.0.0.1:8080", "127.0.0.0/8", "::1", "localhost"] {
        assert_eq!(allowing(&[entry]).check_url(&url), Ok(()), "{entry}");
    }
    for entry in ["127.0.0.1:8081", "localhost:8081", "10.0.0.0/8", "example.com"] {
        assert!(allowing(&[entry]).check_url(&url).is_err(), "{entry}");
    }
    let never = EgressPolicy::default().check_url(&Url::parse("http://0.0.0.0/").unwrap()).unwrap_err();
    assert!(never.to_string().contains("no setting allows it"));
}

#[test]
fn a_refusal_does_not_tell_what_is_behind_a_name() {
    let url = Url::parse("https://db.corp/?api_key=hunter2").unwrap();
    for address in ["10.20.30.40", "169.254.10.20"] {
        let error = EgressPolicy::default().check_address(&url, address.parse().unwrap()).unwrap_err().to_string();
        assert!(error.contains("db.corp") && !error.contains(address) && !error.contains("hunter2"), "{error}");
    }
}

#[test]
fn a_url_is_shown_without_its_secrets() {
    for (url, shown) in [
        ("https://example.com/a/b.zip", "https://example.com/a/b.zip"),
        ("https://user:secret@example.com/a?api_key=secret#secret", "https://example.com/a?…"),
        ("https://example.com/?", "https://example.com/?…"),
        ("mailto:someone@example.com", "mailto:someone@example.com"),
    ] {
        assert_eq!(masked(&Url::parse(url).unwrap()), shown);
    }
}

#[test]
fn a_list_of_hosts_only_narrows() {
    let listed = |hosts: &[&str]| Some(hosts.iter().map(|host| (*host).to_owned()).collect());
    for (hosts, url, allowed) in [
        (vec!["example.org"], "https://example.org/a", true),
        (vec!["example.org"], "https://EXAMPLE.org./a", true),
        (vec!["example.org"], "https://a.example.org/", false),
        (vec!["example.org"], "https://example.org.evil.example/", false),
        (vec!["*.example.org"], "https://a.example.org:8443/", true),
        (vec!["*.example.org"], "https://a.b.example.org/", true),
        (vec!["*.example.org"], "https://example.org/", false),
        (vec!["*.example.org"], "https://evilexample.org/", false),
        (vec!["*.example.org"], "https://.example.org/", false),
        (vec!["xn--bcher-kva.example"], "https://bücher.example/", true),
        (vec!["192.0.2.1", "[2001:db8::1]"], "http://0xc0000201/", false),
        (vec!["8.8.8.8"], "http://134744072/", true),
        (vec!["[2606:4700::1]"], "http://[2606:4700:0::1]/", true),
        (vec![], "https://example.org/", false),
        (vec!["127.0.0.1", "localhost"], "http://127.0.0.1/", false),
        (vec!["127.0.0.1", "localhost"], "http://localhost/", false),
    ] {
        let policy = EgressPolicy { only: listed(&hosts), ..EgressPolicy::default() };
        let Ok(parsed) = Url::parse(url) else { continue };
        assert_eq!(policy.check_url(&parsed).is_ok(), allowed, "{hosts:?} {url}");
    }
    let policy = EgressPolicy { only: listed(&["example.org"]), allow_private: true, ..EgressPolicy::default() };
    let refused = policy.check_url(&Url::parse("https://user.example/secret?key=1").unwrap()).unwrap_err();
    assert!(matches!(refused, Refused::NotListed { .. }) && !refused.to_string().contains("secret"), "{refused}");
    assert!(policy.check_url(&Url::parse("https://10.0.0.1/").unwrap()).is_err(), "what is not on the list stays out");
}
