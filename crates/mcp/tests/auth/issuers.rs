//! Whose word counts: an authorization server is who it says it is, and an answer is that of the one that was asked.

use kitbag_mcp::auth::{AuthError, Callback, Kind};
use serde_json::json;

use crate::stand::Stand;
use crate::support::Desk;

#[tokio::test]
async fn a_description_of_somebody_else_is_not_used() {
    for issuer in ["https://evil.example", "{}/", "{}/tenant", "", "{}:443"] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        let found = issuer.replace("{}", &stand.url);
        stand.set(|world| world.description = json!({ "issuer": found }));
        if issuer == "{}/" {
            // Without a path, with and without the slash are one address.
            desk.begin(None).await.unwrap();
            continue;
        }
        let error = desk.begin(None).await.unwrap_err();
        assert!(matches!(&error, AuthError::IssuerMismatch { .. }), "{issuer}: {error}");
        assert!(stand.asked("/register").is_empty());
        assert_eq!(desk.kept(Kind::SignIn).await, None);
    }
}

#[tokio::test]
async fn without_pkce_nobody_is_sent() {
    for methods in [json!(null), json!([]), json!(["plain"]), json!(["s256"])] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.set(|world| world.description = json!({ "code_challenge_methods_supported": methods }));
        assert!(matches!(desk.begin(None).await, Err(AuthError::NoPkce { .. })), "{methods}");
        assert!(stand.asked("/register").is_empty());
    }
}

#[tokio::test]
async fn the_answer_says_whose_it_is() {
    // Whether it is promised, what comes (with {} for the right one), and what to make of it.
    for (promised, iss, good) in [
        (true, Some("{}"), true),
        (true, None, false),
        (true, Some("https://evil.example"), false),
        (true, Some("{}/"), false),
        (true, Some(""), false),
        (false, None, true),
        (false, Some("{}"), true),
        (false, Some("https://evil.example"), false),
        (false, Some("{}/"), false),
    ] {
        let stand = Stand::start().await;
        let desk = Desk::at(&stand);
        stand.set(|world| {
            world.iss = iss.map(|iss| iss.replace("{}", &stand.url));
            world.description = json!({ "authorization_response_iss_parameter_supported": promised });
        });
        let done = desk.sign_in(None).await;
        match (&done, iss) {
            (Ok(_), _) => assert!(good, "{promised} {iss:?}"),
            (Err(AuthError::NoIss), None) | (Err(AuthError::WrongIss), Some(_)) => assert!(!good, "{promised} {iss:?}"),
            (Err(error), _) => panic!("{promised} {iss:?}: {error}"),
        }
        // The code went nowhere.
        assert_eq!(stand.asked("/token").len(), usize::from(good));
    }
}

#[tokio::test]
async fn not_even_an_error_of_somebody_else_is_believed() {
    let stand = Stand::start().await;
    let desk = Desk::at(&stand);
    let started = desk.begin(None).await.unwrap();
    let callback = Callback {
        state: started.state,
        iss: Some("https://evil.example".into()),
        error: Some("access_denied".into()),
        error_description: Some("call this number".into()),
        ..Callback::default()
    };
    let error = desk.finish(callback).await.unwrap_err();
    assert!(matches!(error, AuthError::WrongIss) && !error.to_string().contains("number"));
}

#[tokio::test]
async fn another_authorization_server_gets_nothing_of_the_first() {
    let (stand, second) = (Stand::start().await, Stand::start().await);
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    let first = stand.asked("/authorize")[0].form["client_id"].clone();
    // The server moves to another one. We register there anew, and the first one's client is not seen.
    second.set(|world| {
        world.secret = Some("another secret");
        world.registers_as = json!({ "client_id": "known as two" });
        world.clients.insert("known as two".into(), Some("another secret".into()));
    });
    stand.set(|world| world.resource = json!({ "authorization_servers": [second.url] }));
    desk.sign_in(None).await.unwrap();
    assert_eq!(second.asked("/register").len(), 1);
    assert_eq!(second.asked("/authorize")[0].form["client_id"], "known as two");
    let all = format!("{:?}", second.set(|world| world.seen.clone()));
    assert!(!all.contains(&first) && !all.contains("s3cret") && !all.contains("refresh-"), "{all}");
    // Back at the first one we are still known.
    stand.set(|world| world.resource = json!({ "authorization_servers": [stand.url] }));
    desk.sign_in(None).await.unwrap();
    assert_eq!(stand.asked("/register").len(), 1);
    assert_eq!(stand.asked("/authorize")[1].form["client_id"], first);
}

#[tokio::test]
async fn of_several_the_one_that_knows_us_is_taken() {
    let (stand, second) = (Stand::start().await, Stand::start().await);
    let desk = Desk::at(&stand);
    desk.sign_in(None).await.unwrap();
    stand.set(|world| world.resource = json!({ "authorization_servers": [second.url, stand.url] }));
    desk.sign_in(None).await.unwrap();
    assert!(second.set(|world| world.seen.is_empty()));
}
