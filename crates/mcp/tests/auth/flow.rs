//! The whole way, as it should go.

use kitbag_mcp::auth::{AuthError, Finished, Kind, Status};
use serde_json::json;

use crate::stand::{Odd, Stand};
use crate::support::{BACK, Desk};

#[tokio::test]
async fn a_person_signs_in_and_the_server_takes_the_token() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    assert_eq!(desk.bearer().await, None);
    assert_eq!(desk.auth.status(&desk.server).await.unwrap(), Status::SignedOut);
    assert_eq!(desk.sign_in(None).await.unwrap(), Finished { server: "tools~one".parse().unwrap() });
    let token = desk.bearer().await.unwrap();
    assert_eq!(desk.try_token(&token).await, 200);
    let Status::SignedIn { issuer, renews: true, expires_at: Some(_), .. } =
        desk.auth.status(&desk.server).await.unwrap()
    else {
        panic!("signed in");
    };
    assert_eq!(issuer, stand.url);

    let page = &stand.asked("/authorize")[0].form;
    assert_eq!(page["resource"], format!("{}/mcp", stand.url));
    assert_eq!(page["redirect_uri"], BACK);
    assert_eq!(page["tenant"], "1", "what the address had already stays");
    assert!(page["state"].len() > 43 && page["code_challenge"].len() == 43);
    assert!(!page.contains_key("scope"), "nobody said which");
    assert_eq!(stand.asked("/token")[0].form["resource"], format!("{}/mcp", stand.url));
    let registered = &stand.asked("/register")[0].json;
    assert_eq!(registered["redirect_uris"], json!([BACK]));
    assert_eq!(registered["application_type"], "native");
    assert_eq!(registered["grant_types"], json!(["authorization_code", "refresh_token"]));
    assert_eq!(desk.kept(Kind::SignIn).await, None);
}

#[tokio::test]
async fn another_process_ends_what_this_one_began() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let other = desk.another_process();
    assert_eq!(desk.bearer().await, None);
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    other.finish(callback).await.unwrap();
    let token = other.bearer().await.unwrap();
    // This one has noted that there is none, and looks again when the server complains.
    let refusal = desk.auth.refused(&desk.server, None, None, &desk.settings).await.unwrap();
    assert_eq!(refusal, kitbag_mcp::auth::Refusal::Renewed);
    assert_eq!(desk.bearer().await, Some(token));
}

#[tokio::test]
async fn metadata_is_found_where_it_may_be() {
    // Each has its own place for the server's metadata and for the authorization server's.
    for (resource_at, issuer_path, issuer_at) in [
        ("/.well-known/oauth-protected-resource", "", "/.well-known/openid-configuration"),
        ("/.well-known/oauth-protected-resource", "/t/1", "/.well-known/oauth-authorization-server/t/1"),
        ("/.well-known/oauth-protected-resource/mcp", "/t/1", "/.well-known/openid-configuration/t/1"),
        ("/elsewhere.json", "/t/1", "/t/1/.well-known/openid-configuration"),
    ] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        let issuer = format!("{}{issuer_path}", stand.url);
        for path in ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"] {
            // A page where nothing is, as some hosts have.
            stand.odd(path, Odd::Answer(200, vec![("content-type", "text/html".into())], "<!doctype html>".into()));
        }
        let resource = json!({ "resource": format!("{}/mcp", stand.url), "authorization_servers": [issuer] });
        stand.odd(resource_at, Odd::Answer(200, vec![], resource.to_string()));
        let description = json!({
            "issuer": issuer,
            "authorization_endpoint": format!("{}/authorize", stand.url),
            "token_endpoint": format!("{}/token", stand.url),
            "registration_endpoint": format!("{}/register", stand.url),
            "code_challenge_methods_supported": ["S256"],
        });
        stand.odd(issuer_at, Odd::Answer(200, vec![], description.to_string()));
        stand.set(|world| world.iss = Some(issuer.clone()));
        let header = format!(r#"Bearer resource_metadata="{}/elsewhere.json""#, stand.url);
        let challenge = (resource_at == "/elsewhere.json").then_some(header.as_str());
        desk.sign_in(challenge).await.unwrap_or_else(|error| panic!("{resource_at} {issuer_at}: {error}"));
        assert!(desk.bearer().await.is_some());
    }
}

#[tokio::test]
async fn a_server_of_the_first_revision_is_its_own_authorization_server() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    stand.odd("/.well-known/oauth-protected-resource/mcp", Odd::Answer(404, vec![], String::new()));
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/authorize")[0].form["resource"], format!("{}/mcp", stand.url));
    // One that wants something else has none at all, and that is what is said.
    stand.odd("/.well-known/oauth-authorization-server", Odd::Answer(404, vec![], String::new()));
    let error = desk.begin(None).await.unwrap_err();
    assert!(matches!(error, AuthError::NoResourceMetadata { .. }), "{error}");
}

#[tokio::test]
async fn scopes_are_those_that_the_server_wants() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    let asked = || stand.asked("/authorize").last().unwrap().form.get("scope").cloned();
    // What the server supports, when nothing else is said; with what asks for a refresh token, where that is known.
    stand.set(|world| {
        world.resource = json!({ "scopes_supported": ["read", "read", "bad\"one", "list"] });
        world.description = json!({ "scopes_supported": ["read", "offline_access"] });
    });
    desk.sign_in(None).await.unwrap();
    assert_eq!(asked().as_deref(), Some("read list offline_access"));
    desk.auth.revoke(&desk.server).await.unwrap();
    // What we were told goes before that, and what the server says right now before both.
    stand.set(|world| world.description = json!({}));
    desk.settings.scopes = vec!["mine".into()];
    desk.sign_in(None).await.unwrap();
    assert_eq!(asked().as_deref(), Some("mine"));
    desk.auth.revoke(&desk.server).await.unwrap();
    desk.sign_in(Some(r#"Bearer scope="write""#)).await.unwrap();
    assert_eq!(asked().as_deref(), Some("write"));
    // A step up keeps what there was.
    desk.sign_in(Some(r#"Bearer error="insufficient_scope", scope="admin""#)).await.unwrap();
    assert_eq!(asked().as_deref(), Some("write admin"));
}

#[tokio::test]
async fn signing_out_gives_the_tokens_back() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    let token = desk.bearer().await.unwrap();
    assert!(desk.auth.revoke(&desk.server).await.unwrap());
    assert_eq!(stand.asked("/revoke").len(), 2);
    assert_eq!(desk.try_token(&token).await, 401);
    assert_eq!((desk.bearer().await, desk.kept(Kind::Tokens).await), (None, None));
    // Nothing to give back is no error, and one that cannot be told does not keep us from forgetting.
    assert!(desk.auth.revoke(&desk.server).await.unwrap());
    desk.sign_in(None).await.unwrap();
    stand.odd("/revoke", Odd::Answer(503, vec![], String::new()));
    assert!(!desk.auth.revoke(&desk.server).await.unwrap());
    assert_eq!((desk.bearer().await, desk.kept(Kind::Tokens).await), (None, None));
    assert!(desk.kept(Kind::Client).await.is_some());
    desk.auth.forget(&desk.server).await.unwrap();
    assert_eq!(desk.kept(Kind::Client).await, None);
}

#[tokio::test]
async fn a_person_may_say_no() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    stand.set(|world| world.deny = Some("access_denied"));
    let error = desk.sign_in(None).await.unwrap_err();
    assert!(matches!(&error, AuthError::Denied { code, .. } if code == "access_denied"), "{error}");
    assert!(stand.asked("/token").is_empty());
}
