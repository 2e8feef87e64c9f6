//! Redirects: each hop is a new decision.

use super::twin::{Stub, Twin, ample, ok, redirect};
use crate::dial::fetch::fetch_by;
use crate::dial::{EgressPolicy, FetchError, Kind, Refused, fetch};

#[tokio::test]
async fn a_redirect_is_followed_when_its_target_is_allowed() {
    let last = Twin::start(|_| ok("here")).await;
    let onward = last.url("/end?b#c").to_string();
    let first = Twin::start(move |path| match path {
        "/a/start" => redirect("next?x"),
        "/a/next?x" => redirect("/absolute"),
        _ => redirect(&onward),
    })
    .await;
    let mut policy = first.policy();
    policy.allow.extend(last.policy().allow);
    let mut body = Vec::new();
    let fetched = fetch(&first.url("/a/start"), &policy, &ample(), &mut body).await.unwrap();
    assert_eq!(fetched.final_url, last.url("/end?b#c"));
    assert_eq!(body, b"here");
    assert_eq!(first.heads().len(), 3);
    assert!(!last.heads()[0].to_lowercase().contains("referer"));
}

#[tokio::test]
async fn a_redirect_to_a_place_inside_is_refused() {
    let inside = Twin::start(|_| ok("secret")).await;
    let port = inside.address.port();
    for (location, kind) in [
        (inside.url("/").to_string(), Kind::Loopback),
        (format!("//127.1:{port}/"), Kind::Loopback),
        (format!("http://localhost:{port}/"), Kind::Loopback),
        (format!("http://[::ffff:127.0.0.1]:{port}/"), Kind::Loopback),
        ("http://169.254.169.254/latest/".to_owned(), Kind::LinkLocal),
        (format!("http://0:{port}/"), Kind::Unspecified),
    ] {
        let target = location.clone();
        let twin = Twin::start(move |_| redirect(&target)).await;
        let answer = fetch(&twin.url("/"), &twin.policy(), &ample(), &mut Vec::new()).await;
        match answer {
            Err(FetchError::Refused(Refused::Address { kind: found, .. })) => assert_eq!(found, kind, "{location}"),
            other => panic!("{location} {other:?}"),
        }
    }
    assert!(inside.heads().is_empty());
}

#[tokio::test]
async fn a_redirect_to_something_else_than_http_is_refused() {
    for (location, refused) in [
        ("file:///etc/passwd", Refused::Scheme { scheme: "file".to_owned() }),
        ("ftp://example.com/", Refused::Scheme { scheme: "ftp".to_owned() }),
        ("https://user:secret@example.com/", Refused::Credentials { host: "example.com".to_owned() }),
        ("https://example.com:0/", Refused::Nowhere),
    ] {
        let twin = Twin::start(move |_| redirect(location)).await;
        let answer = fetch(&twin.url("/"), &twin.policy(), &ample(), &mut Vec::new()).await;
        assert!(matches!(&answer, Err(FetchError::Refused(found)) if *found == refused), "{location} {answer:?}");
    }
    for location in ["http://[", "http://256.256.256.256/", "\u{fc}"] {
        let twin = Twin::start(move |_| redirect(location)).await;
        let answer = fetch(&twin.url("/"), &twin.policy(), &ample(), &mut Vec::new()).await;
        assert!(matches!(answer, Err(FetchError::Location { .. })), "{location} {answer:?}");
    }
}

#[tokio::test]
async fn redirects_come_to_an_end() {
    let twin = Twin::start(|_| redirect("/again")).await;
    let answer = fetch(&twin.url("/"), &twin.policy(), &ample(), &mut Vec::new()).await;
    assert!(matches!(answer, Err(FetchError::Redirects { limit: 3 })), "{answer:?}");
    assert_eq!(twin.heads().len(), 4);
}

#[tokio::test]
async fn a_name_is_judged_again_at_each_hop() {
    let twin = Twin::start(|_| redirect("/again")).await;
    let names = Stub::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let answer = fetch_by(&names, &twin.named("rebind.test", "/"), &twin.policy(), &ample(), &mut Vec::new()).await;
    assert!(matches!(answer, Err(FetchError::Refused(Refused::Address { .. }))), "{answer:?}");
    assert_eq!((names.asked().len(), twin.heads().len()), (2, 1));
}

#[tokio::test]
async fn an_allowed_name_does_not_vouch_for_another() {
    let twin = Twin::start(|_| redirect("http://other.test/")).await;
    let policy = EgressPolicy { allow: vec!["one.test".parse().unwrap()], ..EgressPolicy::default() };
    let names = Stub::new(&[&["127.0.0.1"]]);
    let answer = fetch_by(&names, &twin.named("one.test", "/"), &policy, &ample(), &mut Vec::new()).await;
    assert!(matches!(answer, Err(FetchError::Refused(Refused::Address { host, .. })) if host == "other.test"));
    assert_eq!(names.asked(), ["one.test", "other.test"]);
}
