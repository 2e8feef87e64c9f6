//! What a server or an authorization server would say to have us do something for it.

use std::sync::Arc;
use std::time::Duration;

use kitbag_guard::dial::EgressPolicy;
use kitbag_mcp::auth::{AuthError, Authorizer, InMemory, Kind, Server};
use kitbag_model::OrgId;
use serde_json::json;
use url::Url;

use crate::stand::{Odd, Stand};
use crate::support::{BACK, Desk, ME};

/// Addresses that nobody may send us or a person's browser to.
const NEVER: [&str; 22] = [
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)//",
    "data:text/html,x",
    "file:///etc/passwd",
    "ftp://example.com/",
    "http://example.com/authorize",
    "http://10.0.0.1/authorize",
    "https://user:password@example.com/",
    "https://user@example.com/",
    "https://example.com/$(id)",
    "https://example.com/?a=`id`",
    "https://example.com/?a=1;id",
    "https://example.com/?a=1|id",
    "https://example.com/'x'",
    "https://example.com/\"x\"",
    "https://example.com/ x",
    "https://example.com/\nx",
    "https://example.com/x\\y",
    "https://example.com/#x",
    "//example.com/x",
    "/authorize",
    "",
];

#[tokio::test]
async fn addresses_in_the_description_are_judged() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for field in ["authorization_endpoint", "token_endpoint", "registration_endpoint", "revocation_endpoint"] {
        for address in NEVER {
            stand.set(|world| world.description = json!({ field: address }));
            let error = desk.begin(None).await.unwrap_err();
            assert!(matches!(error, AuthError::Hostile { .. }), "{field} {address}: {error}");
            assert!(!error.to_string().contains("alert"), "{error}");
        }
    }
    assert!(stand.asked("/register").is_empty() && stand.asked("/token").is_empty());
    assert_eq!(desk.kept(Kind::SignIn).await, None);
}

#[tokio::test]
async fn the_page_does_not_speak_in_our_name() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for name in ["client_id", "redirect_uri", "state", "scope", "resource", "code_challenge", "request_uri"] {
        let page = format!("{}/authorize?{name}=x", stand.url);
        stand.set(|world| world.description = json!({ "authorization_endpoint": page }));
        assert!(matches!(desk.begin(None).await, Err(AuthError::Hostile { .. })), "{name}");
    }
}

#[tokio::test]
async fn the_challenge_is_judged() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for address in NEVER.iter().filter(|address| !address.is_empty() && !address.contains(['"', '\\', '\n'])) {
        let header = format!(r#"Bearer resource_metadata="{address}""#);
        let error = desk.begin(Some(&header)).await.unwrap_err();
        assert!(matches!(error, AuthError::Hostile { .. }), "{address}: {error}");
    }
    // Not even looked at elsewhere then: what the server said is what counts.
    assert!(stand.set(|world| world.seen.is_empty()));
}

#[tokio::test]
async fn authorization_servers_are_judged() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for address in NEVER.into_iter().chain(["https://example.com/?tenant=1"]) {
        stand.set(|world| world.resource = json!({ "authorization_servers": [address] }));
        let error = desk.begin(None).await.unwrap_err();
        assert!(matches!(error, AuthError::Hostile { .. }), "{address}: {error}");
    }
    stand.set(|world| world.resource = json!({ "authorization_servers": [] }));
    assert!(matches!(desk.begin(None).await, Err(AuthError::NoResourceMetadata { .. })));
}

#[tokio::test]
async fn a_server_out_there_does_not_send_us_to_this_machine() {
    // Not even where this machine may be dialled.
    let egress = |org: &OrgId| EgressPolicy { allow_private: *org == OrgId::local(), ..EgressPolicy::default() };
    let auth = Authorizer::new(Arc::new(egress), Arc::new(InMemory::default()));
    let url = Url::parse("https://mcp.example/mcp").unwrap();
    let server = Server { org: "local".parse().unwrap(), key: "t~s".parse().unwrap(), url };
    let settings = kitbag_mcp::auth::ClientSettings::named("Kitbag");
    for address in [
        "http://127.0.0.1:5432/x",
        "https://localhost/x",
        "https://[::1]/x",
        "https://a.localhost./x",
        "https://[::ffff:127.0.0.1]/x",
    ] {
        let header = format!(r#"Bearer resource_metadata="{address}""#);
        let error = auth.begin(&server, ME, Some(&header), BACK, &settings).await.unwrap_err();
        assert!(matches!(error, AuthError::Hostile { .. }), "{address}: {error}");
    }
    // What may be dialled is each organisation's to say, and asked before anything is.
    let inside =
        Server { org: "acme".parse().unwrap(), url: Url::parse("https://10.0.0.1/mcp").unwrap(), ..server.clone() };
    let error = auth.begin(&inside, ME, None, BACK, &settings).await.unwrap_err();
    assert!(matches!(&error, AuthError::Unreachable { reason, .. } if reason.contains("not dialled")), "{error}");
    // And a token never travels in the open.
    let open = Server { url: Url::parse("http://mcp.example/mcp").unwrap(), ..server };
    assert!(matches!(auth.begin(&open, ME, None, BACK, &settings).await, Err(AuthError::Hostile { .. })));
}

#[tokio::test]
async fn metadata_about_another_server_is_refused() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for resource in
        ["https://bank.example/mcp", "{}/other", "{}/mcp/below", "{}/mc", "{}/mcp?tenant=2", "{}/mcp#x", "nothing"]
    {
        let resource = resource.replace("{}", &stand.url);
        stand.set(|world| world.resource = json!({ "resource": resource }));
        let error = desk.begin(None).await.unwrap_err();
        assert!(matches!(error, AuthError::OtherResource { .. }), "{resource}: {error}");
    }
    assert!(stand.asked("/authorize").is_empty() && stand.asked("/register").is_empty());
    // What the server is part of is fine, and is what tokens are asked for.
    stand.set(|world| world.resource = json!({ "resource": stand.url }));
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/token")[0].form["resource"], stand.url);
}

#[tokio::test]
async fn tokens_stay_with_their_server() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    let token = desk.bearer().await.unwrap();
    for other in [
        Server { url: Url::parse("https://evil.example/mcp").unwrap(), ..desk.server.clone() },
        Server { url: Url::parse(&format!("{}/mcp2", stand.url)).unwrap(), ..desk.server.clone() },
        Server { key: "tools~two".parse().unwrap(), ..desk.server.clone() },
        Server { org: "acme".parse().unwrap(), ..desk.server.clone() },
    ] {
        // Known from memory, and known only from what is kept.
        for auth in [&desk.auth, &desk.another_process().auth] {
            assert!(auth.bearer(&other, &desk.settings).await.unwrap().is_none(), "{other:?}");
            let refusal = auth.refused(&other, None, None, &desk.settings).await.unwrap();
            assert_ne!(refusal, kitbag_mcp::auth::Refusal::Renewed, "{other:?}");
            assert_eq!(auth.status(&other).await.unwrap(), kitbag_mcp::auth::Status::SignedOut);
        }
    }
    assert_eq!(desk.bearer().await, Some(token));
}

#[tokio::test]
async fn nothing_follows_a_redirect() {
    let (stand, elsewhere) = (Stand::start().await, Stand::start().await);
    let desk = Desk::at(&stand);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    for path in ["/token", "/register", "/.well-known/oauth-authorization-server"] {
        let to = vec![("location", format!("{}{path}", elsewhere.url))];
        stand.odd(path, Odd::Answer(307, to, String::new()));
    }
    let error = desk.finish(callback).await.unwrap_err();
    assert!(matches!(error, AuthError::Nonsense { .. }), "{error}");
    assert!(matches!(desk.begin(None).await, Err(AuthError::NoIssuerMetadata { .. })));
    assert!(elsewhere.set(|world| world.seen.is_empty()));
}

#[tokio::test]
async fn an_answer_without_end_is_cut_off() {
    for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server", "/register"] {
        let stand = Stand::start().await;
        stand.odd(path, Odd::Endless);
        let error = Desk::at(&stand).begin(None).await.unwrap_err();
        assert!(matches!(&error, AuthError::Nonsense { reason, .. } if reason.contains("262144")), "{path}: {error}");
    }
}

#[tokio::test]
async fn an_answer_that_never_comes_is_not_waited_for() {
    let stand = Stand::start().await;
    stand.odd("/.well-known/oauth-protected-resource/mcp", Odd::Silent);
    let desk = Desk::at(&stand);
    let auth = Arc::into_inner(desk.auth).unwrap().with_deadline(Duration::from_millis(50));
    let error = auth.begin(&desk.server, ME, None, BACK, &desk.settings).await.unwrap_err();
    assert!(matches!(&error, AuthError::Unreachable { reason, .. } if reason.contains("0.05 seconds")), "{error}");
}

#[tokio::test]
async fn an_answer_that_is_compressed_is_not_unpacked() {
    let stand = Stand::start().await;
    stand.odd(
        "/.well-known/oauth-protected-resource/mcp",
        Odd::Answer(200, vec![("content-encoding", "gzip".into())], "\u{1f}".into()),
    );
    assert!(matches!(Desk::at(&stand).begin(None).await, Err(AuthError::Nonsense { .. })));
}

#[tokio::test]
async fn tokens_that_are_none_are_refused_and_not_repeated() {
    for answer in [
        json!({ "access_token": "two\r\nX-Evil: 1", "token_type": "Bearer" }),
        json!({ "access_token": "with blank", "token_type": "Bearer" }),
        json!({ "access_token": "", "token_type": "Bearer" }),
        json!({ "access_token": "tok\u{e9}n", "token_type": "Bearer" }),
        json!({ "access_token": "x".repeat(40_000), "token_type": "Bearer" }),
        json!({ "access_token": "good", "token_type": "DPoP" }),
        json!({ "access_token": ["good"], "token_type": "Bearer" }),
        json!({ "refresh_token": "good" }),
        json!([]),
    ] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.odd("/token", Odd::Answer(200, vec![], answer.to_string()));
        let error = desk.sign_in(None).await.unwrap_err();
        assert!(matches!(error, AuthError::Nonsense { .. }), "{answer}: {error}");
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("good") && !shown.contains("Evil"), "{shown}");
        assert_eq!(desk.kept(Kind::Tokens).await, None);
    }
}

#[tokio::test]
async fn strangers_words_are_made_harmless() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let words = json!({ "error": "invalid_grant", "error_description": format!("\u{1b}[31m\u{202e}red\nline{}", "!".repeat(5000)) });
    stand.odd("/token", Odd::Answer(400, vec![], words.to_string()));
    let text = desk.sign_in(None).await.unwrap_err().to_string();
    assert!(text.contains("red line!") && text.len() < 500 && !text.contains(['\u{1b}', '\n', '\u{202e}']), "{text:?}");
}

#[tokio::test]
async fn where_the_answer_goes_is_checked_as_well() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    for back in ["http://kitbag.example/callback", "javascript:x", "https://kitbag.example/#x", "callback"] {
        let error = desk.auth.begin(&desk.server, ME, None, back, &desk.settings).await.unwrap_err();
        assert!(matches!(error, AuthError::Settings(_)), "{back}: {error}");
    }
}
