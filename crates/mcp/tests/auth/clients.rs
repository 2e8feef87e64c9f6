//! Who we are at an authorization server, and how we show it.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kitbag_mcp::auth::{
    AuthError, ClientSettings, Grant, Kind, Proof, Refusal, RegisteredClient, SigningAlgorithm, Status, client_document,
};
use kitbag_model::Secret;
use serde_json::{Value, json};
use url::Url;

use crate::stand::{Odd, Stand};
use crate::support::{BACK, Desk};

fn given(id: &str, secret: Option<&str>) -> RegisteredClient {
    let proof = secret.map_or(Proof::None, |secret| Proof::Secret(Secret::new(secret)));
    RegisteredClient { id: id.into(), proof, issuer: None }
}

#[tokio::test]
async fn a_registered_client_proves_itself_as_the_server_wants() {
    // What the server takes, what it says when it registers us, and how it is done then.
    for (takes, says, header, field) in [
        (json!(null), json!(null), true, false),
        (json!(["client_secret_basic", "client_secret_post"]), json!(null), true, false),
        (json!(["client_secret_post"]), json!(null), false, true),
        (json!(["client_secret_post", "client_secret_basic"]), json!("client_secret_post"), false, true),
    ] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.set(|world| {
            world.description = json!({ "token_endpoint_auth_methods_supported": takes });
            world.registers_as = json!({ "token_endpoint_auth_method": says });
        });
        desk.sign_in(None).await.unwrap();
        let seen = &stand.asked("/token")[0];
        assert_eq!((seen.authorization.is_some(), seen.form.contains_key("client_secret")), (header, field), "{takes}");
    }
}

#[tokio::test]
async fn a_public_client_proves_nothing() {
    for (takes, secret, says) in
        [(json!(["none"]), None, "none"), (json!(null), None, "none"), (json!(null), Some("s"), "none")]
    {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.set(|world| {
            world.secret = secret;
            world.description = json!({ "token_endpoint_auth_methods_supported": takes });
            world.registers_as = json!({ "token_endpoint_auth_method": says });
            world.clients.insert("client 1".into(), None);
        });
        let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
        stand.set(|world| world.clients.insert("client 1".into(), None));
        desk.finish(callback).await.unwrap();
        let seen = &stand.asked("/token")[0];
        assert!(seen.authorization.is_none() && !seen.form.contains_key("client_secret"));
    }
}

#[tokio::test]
async fn we_register_once_and_again_when_we_must() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/register").len(), 1);
    // The answer goes elsewhere now.
    let back = "https://kitbag.example/callback";
    desk.auth.begin(&desk.server, "me", None, back, &desk.settings).await.unwrap();
    assert_eq!(stand.asked("/register").len(), 2);
    assert_eq!(stand.asked("/register")[1].json["application_type"], "web");
    // The authorization server has forgotten us.
    let callback = desk.browse(&desk.begin(None).await.unwrap()).await;
    stand.set(|world| world.clients.clear());
    let error = desk.finish(callback).await.unwrap_err();
    assert!(matches!(&error, AuthError::Denied { code, .. } if code == "invalid_client"), "{error}");
    desk.sign_in(None).await.unwrap();
    // Our secret is over.
    stand.set(|world| world.registers_as = json!({ "client_secret_expires_at": 1_800_000_100 }));
    desk.auth.forget(&desk.server).await.unwrap();
    desk.sign_in(None).await.unwrap();
    let before = stand.asked("/register").len();
    desk.pass(100);
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/register").len(), before + 1);
}

#[tokio::test]
async fn a_client_that_was_given_goes_before_everything_and_stays_with_its_issuer() {
    let (stand, second) = (Stand::start().await, Stand::start().await);
    let mut desk = Desk::at(&stand);
    stand.set(|world| world.clients.insert("by hand".into(), Some("of hand:".into())));
    desk.settings.registered = Some(given("by hand", Some("of hand:")));
    desk.settings.metadata_url = Some(Url::parse("https://kitbag.example/client.json").unwrap());
    desk.sign_in(None).await.unwrap();
    assert!(stand.asked("/register").is_empty());
    // The server names another authorization server, which would get the secret.
    stand.set(|world| world.resource = json!({ "authorization_servers": [second.url] }));
    let error = desk.begin(None).await.unwrap_err();
    assert!(matches!(&error, AuthError::ClientOfOtherIssuer { found, .. } if *found == second.url), "{error}");
    // It is renewed where it was had.
    desk.pass(3600);
    assert!(desk.bearer().await.is_some());
    assert!(second.asked("/token").is_empty() && second.asked("/authorize").is_empty());
    // Somebody who knows it says so.
    desk.settings.registered = Some(RegisteredClient { issuer: Some(second.url.clone()), ..given("by hand", None) });
    desk.begin(None).await.unwrap();
    desk.settings.registered =
        Some(RegisteredClient { issuer: Some("https://x.example".into()), ..given("by hand", None) });
    assert!(matches!(desk.begin(None).await, Err(AuthError::ClientOfOtherIssuer { .. })));
}

#[tokio::test]
async fn our_document_is_named_where_that_is_understood() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    let url = Url::parse("https://kitbag.example/oauth/client.json").unwrap();
    desk.settings.metadata_url = Some(url.clone());
    stand.set(|world| {
        world.description = json!({ "client_id_metadata_document_supported": true });
        world.clients.insert(url.to_string(), None);
    });
    desk.sign_in(None).await.unwrap();
    assert!(stand.asked("/register").is_empty());
    assert_eq!(stand.asked("/authorize")[0].form["client_id"], url.as_str());
    assert_eq!(stand.asked("/token")[0].form["client_id"], url.as_str());
    let document = client_document(&url, "Kitbag", &[BACK]);
    assert_eq!((&document["client_id"], &document["redirect_uris"][0]), (&json!(url.as_str()), &json!(BACK)));
    // Elsewhere we register.
    stand.set(|world| world.description = json!({}));
    desk.begin(None).await.unwrap();
    assert_eq!(stand.asked("/register").len(), 1);
    stand.set(|world| world.description = json!({ "client_id_metadata_document_supported": true }));
    for bad in ["http://kitbag.example/client.json", "https://kitbag.example/"] {
        desk.settings.metadata_url = Some(Url::parse(bad).unwrap());
        assert!(matches!(desk.begin(None).await, Err(AuthError::Settings(_))), "{bad}");
    }
}

#[tokio::test]
async fn without_any_way_a_person_is_told_what_to_do() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    stand.odd("/register", Odd::Answer(403, vec![], json!({ "error": "access_denied" }).to_string()));
    let error = desk.begin(None).await.unwrap_err();
    assert!(matches!(&error, AuthError::Registration { reason, .. } if reason == "access_denied"), "{error}");
    for nonsense in [
        "",
        "[]",
        r#"{"client_id":""}"#,
        r#"{"client_id":"a\nb"}"#,
        r#"{"client_id":"a","client_secret":"b","token_endpoint_auth_method":"tls_client_auth"}"#,
    ] {
        stand.odd("/register", Odd::Answer(201, vec![], nonsense.into()));
        assert!(matches!(desk.begin(None).await, Err(AuthError::Registration { .. })), "{nonsense}");
    }
    stand.set(|world| world.description = json!({ "registration_endpoint": null }));
    let error = desk.begin(None).await.unwrap_err();
    assert!(matches!(error, AuthError::NoClient { .. }) && error.to_string().contains("register a client"), "{error}");
}

fn machine(desk: &mut Desk, proof: Proof) {
    let registered = Some(RegisteredClient { id: "robot".into(), proof, issuer: None });
    desk.settings = ClientSettings { registered, grant: Grant::Machine, ..ClientSettings::named("Kitbag") };
}

#[tokio::test]
async fn a_machine_signs_in_without_anybody() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    machine(&mut desk, Proof::Secret(Secret::new("oil")));
    stand.set(|world| {
        world.clients.insert("robot".into(), Some("oil".into()));
        world.description = json!({ "code_challenge_methods_supported": null });
        world.resource = json!({ "scopes_supported": ["read"] });
    });
    let token = desk.bearer().await.unwrap();
    assert_eq!(desk.try_token(&token).await, 200);
    let asked = &stand.asked("/token")[0];
    assert_eq!(asked.form["resource"], format!("{}/mcp", stand.url));
    assert_eq!(asked.form["scope"], "read");
    assert!(asked.authorization.is_some());
    assert!(matches!(desk.auth.status(&desk.server).await.unwrap(), Status::SignedIn { renews: true, .. }));
    assert!(!desk.kept(Kind::Tokens).await.unwrap().contains("refresh-"));
    // Not again while it is good, and by itself when it is not.
    assert_eq!(desk.bearer().await.as_deref(), Some(token.as_str()));
    desk.pass(3600);
    let second = desk.bearer().await.unwrap();
    assert_ne!(second, token);
    // The server wants more.
    let header = r#"Bearer error="insufficient_scope", scope="write""#;
    let used = Secret::new(second);
    let refusal = desk.auth.refused(&desk.server, Some(&used), Some(header), &desk.settings).await.unwrap();
    assert_eq!(refusal, Refusal::Renewed);
    assert_eq!(stand.asked("/token").last().unwrap().form["scope"], "read write");
    let used = Secret::new(desk.bearer().await.unwrap());
    let refusal = desk.auth.refused(&desk.server, Some(&used), Some(header), &desk.settings).await.unwrap();
    assert_eq!(refusal, Refusal::NotAllowed { scopes: vec!["write".into()] });
    assert!(matches!(desk.begin(None).await, Err(AuthError::Settings(_))));
}

#[tokio::test]
async fn a_machine_signs_with_its_key() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
    let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
    let key_of = |der: &[u8]| EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der).unwrap();
    let public = key_of(der.as_ref());
    let pem = format!("-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n", STANDARD.encode(der.as_ref()));
    machine(&mut desk, Proof::Key { pem: Secret::new(pem), algorithm: SigningAlgorithm::Es256 });
    assert!(desk.bearer().await.is_some());
    let form = &stand.asked("/token")[0].form;
    assert_eq!(form["client_assertion_type"], "urn:ietf:params:oauth:client-assertion-type:jwt-bearer");
    let parts: Vec<&str> = form["client_assertion"].split('.').collect();
    let part = |at: usize| URL_SAFE_NO_PAD.decode(parts[at]).unwrap();
    let said = format!("{}.{}", parts[0], parts[1]);
    let verify = |public: &[u8]| {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, public.to_vec()).verify(said.as_bytes(), &part(2))
    };
    verify(public.public_key().as_ref()).unwrap();
    verify(key.public_key().as_ref()).unwrap_err();
    let claims: Value = serde_json::from_slice(&part(1)).unwrap();
    assert_eq!((&claims["iss"], &claims["sub"], &claims["aud"]), (&json!("robot"), &json!("robot"), &json!(stand.url)));
    assert_eq!(claims["exp"], json!(1_800_000_120_u64));
    // Each is another one.
    desk.pass(3600);
    desk.bearer().await.unwrap();
    assert_ne!(stand.asked("/token")[1].form["client_assertion"], form["client_assertion"]);
}

#[tokio::test]
async fn a_key_that_is_none_is_told() {
    let stand = Stand::start().await;
    let mut desk = Desk::at(&stand);
    for pem in ["", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----"] {
        for algorithm in [SigningAlgorithm::Es256, SigningAlgorithm::Rs256] {
            machine(&mut desk, Proof::Key { pem: Secret::new(pem), algorithm });
            let error = desk.try_bearer().await.unwrap_err();
            assert!(matches!(error, AuthError::Settings(_)), "{error}");
        }
    }
    assert!(stand.asked("/token").is_empty());
}
