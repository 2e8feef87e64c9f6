//! An issuer, or somebody who claims to be one, that cannot be believed: each lie is refused with a code, and nobody comes of it.

use kitbag_testkit::{Server, TestDatabase, on_both};
use reqwest::Method;
use serde_json::json;
use url::Url;

use crate::kit::{Walker, issuer, serve};
use crate::twin::{Key, Said, Signing, Twin, now};

on_both! {
    async fn lies_make_nobody(database: TestDatabase) {
        let twin = Twin::start().await;
        let server = serve(&database, &issuer(twin.url(), "open = true"));
        type Lie = fn(&mut Said);
        let lies: &[(&str, &str, Lie)] = &[
            ("another nonce", "not_believed", |said| said.claims = json!({ "nonce": "0".repeat(64) })),
            ("no nonce", "not_believed", |said| said.claims = json!({ "nonce": null })),
            ("another audience", "not_believed", |said| said.claims = json!({ "aud": "another" })),
            ("no audience", "not_believed", |said| said.claims = json!({ "aud": null })),
            ("two audiences and no azp", "not_believed", |said| said.claims = json!({ "aud": ["kitbag", "another"] })),
            ("another azp", "not_believed", |said| said.claims = json!({ "azp": "another" })),
            ("another issuer", "not_believed", |said| said.claims = json!({ "iss": "https://evil.example" })),
            ("its time is up", "not_believed", |said| said.claims = json!({ "exp": now() - 120 })),
            ("it never ends", "not_believed", |said| said.claims = json!({ "exp": null })),
            ("made tomorrow", "not_believed", |said| said.claims = json!({ "iat": now() + 86400 })),
            ("no subject", "not_believed", |said| said.claims = json!({ "sub": null })),
            ("not signed", "not_believed", |said| said.signing = Signing::None),
            ("the public key as the secret", "not_believed", |said| said.signing = Signing::PublicKeyAsSecret),
            ("signed by somebody else", "not_believed", |said| said.signing = Signing::Stranger),
            ("a key that there is not", "not_believed", |said| said.header = json!({ "kid": "made-up" })),
            ("something critical", "not_believed", |said| said.header = json!({ "crit": ["exp"] })),
            ("an access token", "not_believed", |said| said.header = json!({ "typ": "at+jwt" })),
            ("the answer of another issuer", "not_believed", |said| said.answer = json!({ "iss": "https://evil.example" })),
            ("an answer that does not say whose it is", "not_believed", |said| said.answer = json!({ "iss": null })),
            ("an answer without a code", "not_believed", |said| said.answer = json!({ "code": null })),
            ("a no", "issuer_refused", |said| said.answer = json!({ "code": null, "error": "access_denied" })),
            ("another state", "expired", |said| said.answer = json!({ "state": "0".repeat(64) })),
            ("no state", "expired", |said| said.answer = json!({ "state": null })),
            ("an address that is not verified", "email_unverified", |said| said.claims = json!({ "email_verified": false })),
            ("an address of which nothing is said", "email_unverified", |said| said.claims = json!({ "email_verified": null })),
            ("no address", "email_unverified", |said| said.claims = json!({ "email": null })),
            ("an address that is none", "email_unverified", |said| said.claims = json!({ "email": "grace" })),
            ("a token endpoint that is down", "issuer_unreachable", |said| said.down = vec!["/token"]),
        ];
        for (name, code, lie) in lies {
            twin.honest();
            lie(&mut twin.said());
            let mut walker = Walker::new(&server, "grace");
            let arrived = walker.sign_in("").await;
            assert_eq!(arrived.error().as_deref(), Some(*code), "{name}: {} {}", arrived.url, arrived.page);
            assert_eq!(walker.session(), None, "{name}");
        }
        assert_eq!(database.people().await, 0, "somebody came of a lie");
        // Nothing of a token is in the log, and each lie has its line.
        assert!(!server.log().contains("a-code") && !server.log().contains("eyJ"));
        // The truth works.
        twin.honest();
        let mut walker = Walker::new(&server, "grace");
        assert_eq!(walker.sign_in("").await.error(), None);
        assert!(walker.session().is_some());
        assert_eq!(database.people().await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_rotated_and_the_issuer_may_be_away() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), "open = true"));
    let enter = async || Walker::new(&server, "grace").sign_in("").await.error();
    assert_eq!(enter().await, None);
    for (id, algorithm) in [("second", "EdDSA")] {
        twin.rotate(id, Key::new(algorithm));
        assert_eq!(enter().await, None, "{algorithm}");
    }
    // Its keys are known, so that it need not be asked for them.
    twin.said().down = vec!["/jwks", "/metadata"];
    assert_eq!(enter().await, None);
    let asked = twin.asked("/jwks");
    // Nobody has it asked more often by making up keys.
    twin.said().header = json!({ "kid": "made-up" });
    for _ in 0..5 {
        assert!(enter().await.is_some());
    }
    assert!(twin.asked("/jwks") <= asked + 1, "{} then {}", asked, twin.asked("/jwks"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issuer_that_is_away_or_calls_itself_otherwise() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    twin.said().metadata = json!({ "issuer": "https://evil.example" });
    let server = serve(&database, &issuer(twin.url(), "open = true"));
    assert_eq!(Walker::new(&server, "grace").sign_in("").await.error().as_deref(), Some("issuer_broken"));
    drop(server);
    twin.honest();
    twin.said().slow = vec!["/metadata"];
    let server = serve(&database, &issuer(twin.url(), ""));
    assert_eq!(Walker::new(&server, "grace").sign_in("").await.error().as_deref(), Some("issuer_unreachable"));
    let unknown = Walker::new(&server, "grace").walk("/sign-in/other").await;
    assert_eq!(unknown.error().as_deref(), Some("unknown_issuer"));
}

/// Whoever follows a link with somebody else's answer is not signed in as them.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_for_the_browser_that_asked() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), "open = true"));
    // The browsers of two who ask, until the answer is on its way back.
    let (_, others) = until_the_answer(&server).await;
    let others = others.split(';').next().unwrap();
    let (back, cookie) = until_the_answer(&server).await;
    let set = cookie.to_ascii_lowercase();
    for word in ["httponly", "samesite=lax", "path=/sign-in/company/callback", "max-age=600"] {
        assert!(set.contains(word), "{cookie}");
    }
    let own = cookie.split(';').next().unwrap();
    let renamed = format!("{}={}", own.split('=').next().unwrap(), others.split('=').nth(1).unwrap());
    let at = |cookie: String| {
        let path = back.as_str().strip_prefix(&server.url).unwrap().to_owned();
        let request = server.anonymous(Method::GET, &path).header("cookie", cookie);
        async move { request.send().await.unwrap() }
    };
    let changed = format!("{}x", &own[..own.len() - 1]);
    for cookie in [String::new(), others.to_owned(), renamed, changed] {
        let answer = at(cookie).await;
        assert_eq!(answer.headers()["location"], "/sign-in?error=expired");
        assert!(answer.headers().get_all("set-cookie").iter().all(|set| !set.to_str().unwrap().contains("person.")));
    }
    let done = at(own.to_owned()).await;
    assert_eq!(done.status(), 200);
    let sets: Vec<&str> = done.headers().get_all("set-cookie").iter().map(|set| set.to_str().unwrap()).collect();
    assert!(sets.iter().any(|set| set.contains("person.") && set.contains("SameSite=Strict")), "{sets:?}");
    assert!(sets.iter().any(|set| set.starts_with(own.split('=').next().unwrap()) && set.contains("Max-Age=0")));
}

/// Where the answer goes, and the cookie that was set at the beginning.
async fn until_the_answer(server: &Server) -> (Url, String) {
    let begun = server.anonymous(Method::GET, "/sign-in/company").send().await.unwrap();
    let cookie = begun.headers()["set-cookie"].to_str().unwrap().to_owned();
    let there: Url = begun.headers()["location"].to_str().unwrap().parse().unwrap();
    let answer = crate::kit::elsewhere(server, Method::GET, &there).send().await.unwrap();
    (answer.headers()["location"].to_str().unwrap().parse().unwrap(), cookie)
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_sent_to_another_site() {
    let database = TestDatabase::sqlite();
    let twin = Twin::start().await;
    let server = serve(&database, &issuer(twin.url(), "open = true"));
    for (asked, led) in [
        ("/chats/1?a=b", "/chats/1?a=b"),
        ("//evil.example", "/"),
        ("https://evil.example", "/"),
        ("/\\evil.example", "/"),
        ("\"><script>", "/"),
    ] {
        let query: String = url::form_urlencoded::byte_serialize(asked.as_bytes()).collect();
        let arrived = Walker::new(&server, "grace").sign_in(&format!("?return_to={query}")).await;
        let wanted = format!("content=\"0;url={}\"", led.replace('&', "&amp;"));
        assert!(arrived.page.contains(&wanted), "{asked}: {}", arrived.page);
        assert!(!arrived.page.contains("evil") && !arrived.page.contains("<script>"));
    }
}
