//! Clients that stay: every connection is judged anew.

use std::time::Duration;

use reqwest::Method;
use url::Url;

use super::twin::{Stub, Twin, ok, redirect};
use crate::dial::{BadProxy, EgressPolicy, FetchError, OriginClient, Proxy, Refused, innermost};

const MINUTE: Duration = Duration::from_secs(60);

/// Sends a request and brings the status, or the innermost cause.
async fn get(client: &OriginClient, url: &Url) -> Result<u16, String> {
    let request = client.request(Method::GET, url).map_err(|refused| refused.to_string())?;
    request.send().await.map(|response| response.status().as_u16()).map_err(|error| innermost(&error))
}

#[tokio::test]
async fn an_address_inside_is_refused_before_anything_is_dialled() {
    for url in
        ["http://127.0.0.1:80/", "http://[::1]/", "http://169.254.169.254/", "file:///x", "http://a:b@example.com/"]
    {
        let made = OriginClient::new(&url.parse().unwrap(), &EgressPolicy::default(), MINUTE).await;
        assert!(matches!(made, Err(FetchError::Refused(_))), "{url}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_also_when_it_did_not_before() {
    let twin = Twin::start(|_| ok("here")).await;
    let url = twin.named("rebind.example", "/");
    // The twin hangs up after each answer, so that the second request is a connection of its own.
    let names = Stub::new(&[&["127.0.0.1"], &["169.254.169.254"], &["93.184.215.14", "10.0.0.1"]]);
    let client = OriginClient::looking_up(names, &url, &twin.policy(), MINUTE).await.unwrap();
    assert_eq!(get(&client, &url).await, Ok(200));
    for _ in 0..2 {
        let refused = get(&client, &url).await.unwrap_err();
        assert!(refused.contains("`rebind.example` leads to"), "{refused}");
    }
    assert_eq!(twin.heads().len(), 1);
}

#[tokio::test]
async fn another_origin_is_refused() {
    let (twin, other) = (Twin::start(|_| ok("here")).await, Twin::start(|_| ok("there")).await);
    let client = OriginClient::new(&twin.url("/a"), &twin.policy(), MINUTE).await.unwrap();
    assert_eq!(get(&client, &twin.url("/b?c")).await, Ok(200));
    let elsewhere = client.request(Method::GET, &other.url("/")).unwrap_err();
    assert!(matches!(elsewhere, Refused::Elsewhere { .. }), "{elsewhere}");
    assert!(other.heads().is_empty());
}

#[tokio::test]
async fn a_redirect_is_an_answer_like_any_other() {
    let twin = Twin::start(|_| redirect("/again")).await;
    let client = OriginClient::new(&twin.url("/"), &twin.policy(), MINUTE).await.unwrap();
    assert_eq!(get(&client, &twin.url("/")).await, Ok(302));
    assert_eq!(twin.heads().len(), 1);
}

#[tokio::test]
async fn a_configured_proxy_is_asked_and_what_is_inside_is_still_refused() {
    let proxy = Twin::start(|_| ok("through")).await;
    let policy = EgressPolicy { proxy: Some(proxy.url("/").as_str().parse().unwrap()), ..EgressPolicy::default() };
    let url: Url = "http://server.example/path".parse().unwrap();
    let client = OriginClient::new(&url, &policy, MINUTE).await.unwrap();
    assert_eq!(get(&client, &url).await, Ok(200));
    assert!(proxy.heads()[0].starts_with("GET http://server.example/path "), "{:?}", proxy.heads());
    let inside = OriginClient::new(&"http://10.0.0.1/".parse().unwrap(), &policy, MINUTE).await;
    assert!(matches!(inside, Err(FetchError::Refused(_))));
}

#[test]
fn a_proxy_is_an_address_and_is_not_shown() {
    let proxy: Proxy = "http://user:s3cr3t@proxy.corp:3128".parse().unwrap();
    assert_eq!(format!("{proxy:?}"), "Proxy(proxy.corp)");
    for bad in ["proxy.corp:3128", "https://proxy.corp", "socks5://proxy.corp", "http://", ""] {
        assert_eq!(bad.parse::<Proxy>(), Err(BadProxy), "{bad}");
    }
}
