//! Signing in at a real provider: who comes in, as whom, and by which ways again.

use kitbag_testkit::{Answer, Server, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::browsers::{Browser, PASSWORD, id_of, owner, sign_in};
use crate::kit::{Provider, Walker, issuer, serve};

fn browser<'s>(server: &'s Server, walker: &Walker<'_>) -> Browser<'s> {
    Browser { server, cookie: walker.session().expect("a session") }
}

/// Has a browser hold an invitation, as the page does.
async fn hold(server: &Server, walker: &mut Walker<'_>, invitation: &Value) {
    let request = server.anonymous(Method::POST, "/v1/invitations/hold").header("sec-fetch-site", "same-origin");
    let answer = Answer::of(request.json(&json!({ "secret": invitation["secret"] }))).await;
    let set = answer.headers["set-cookie"].to_str().unwrap().to_owned();
    answer.expect(204);
    assert!(set.contains("HttpOnly") && set.contains("SameSite=Strict") && set.contains("Path=/sign-in;"), "{set}");
    walker.give(set.split(';').next().unwrap());
}

on_both! {
    async fn somebody_who_was_invited_comes_in(database: TestDatabase) {
        let provider = Provider::start().await;
        let server = serve(&database, &issuer(&provider.url, ""));
        let ways = Answer::of(server.anonymous(Method::GET, "/v1/sign-in")).await.expect(200);
        assert_eq!(ways, json!({ "people": true, "password": true, "issuers": [{ "id": "company", "name": "The Company" }] }));
        let ada = owner(&server, "acme").await;

        // Whom nobody invited does not, and leaves nothing behind.
        let mut walker = Walker::new(&server, "grace");
        assert_eq!(walker.sign_in("").await.error().as_deref(), Some("not_invited"));
        assert_eq!(walker.session(), None);
        assert_eq!(walker.sign_in("?join=1").await.error().as_deref(), Some("invitation_ended"), "none is held");

        let invite = async |email: &str| {
            let body = json!({ "email": email, "role": "admin" });
            ada.post("/v1/orgs/acme/invitations", body).await.expect(201)
        };
        let for_another = invite("alan@example.org").await;
        hold(&server, &mut walker, &for_another).await;
        assert_eq!(walker.sign_in("?join=1").await.error().as_deref(), Some("other_address"));
        let invitation = invite("grace@example.org").await;
        hold(&server, &mut walker, &invitation).await;
        let arrived = walker.sign_in("?join=1&return_to=/settings").await;
        assert_eq!(arrived.error(), None, "{}", arrived.url);
        assert!(arrived.status == 200 && arrived.page.contains("url=/settings"), "{}", arrived.page);
        assert!(!walker.cookie().contains("kitbag_join"), "the invitation is used up: {}", walker.cookie());
        let grace = browser(&server, &walker);
        let session = grace.get("/v1/session").await.expect(200);
        assert_eq!((&session["user"]["email"], &session["user"]["displayName"]), (&json!("grace@example.org"), &json!("grace of the tests")));
        assert_eq!(session["organizations"], json!([{ "id": "acme", "name": "acme", "role": "admin", "scopes": ["use", "manage"] }]));
        let id = id_of(&grace).await;

        // The same person comes again, in another browser; there is no password to guess.
        let mut again = Walker::new(&server, "grace");
        assert_eq!(again.sign_in("").await.error(), None);
        assert_eq!(id_of(&browser(&server, &again)).await, id);
        assert_ne!(again.session(), walker.session());
        for guess in ["", "x", PASSWORD] {
            sign_in(&server, "grace@example.org", guess).await.err().unwrap().expect_error(401, "UNAUTHORIZED");
        }

        // Only what the provider vouches for counts.
        let invitation = invite("unverified@example.org").await;
        let mut unverified = Walker::new(&server, "unverified");
        hold(&server, &mut unverified, &invitation).await;
        assert_eq!(unverified.sign_in("?join=1").await.error().as_deref(), Some("email_unverified"));
        assert_eq!(ada.get("/v1/orgs/acme/members").await.expect(200)["items"].as_array().unwrap().len(), 2);

        // Her only way in stays, until there is another.
        let listed = grace.get("/v1/identities").await.expect(200);
        let identity = &listed["items"][0];
        assert_eq!((&identity["issuer"], &identity["issuerName"], &identity["email"]), (&json!("company"), &json!("The Company"), &json!("grace@example.org")));
        let path = format!("/v1/identities/{}", identity["id"].as_str().unwrap());
        grace.delete(&path).await.expect_error(409, "CONFLICT");
        ada.delete(&path).await.expect_error(404, "NOT_FOUND");
        grace.post("/v1/password", json!({ "new": "a password of her own" })).await.expect(204);
        grace.delete(&path).await.expect(204);
        grace.delete(&path).await.expect_error(404, "NOT_FOUND");
        assert_eq!(grace.get("/v1/identities").await.expect(200)["items"], json!([]));
        // Now the provider's word is worth nothing for her: her address is known here.
        assert_eq!(Walker::new(&server, "grace").sign_in("").await.error().as_deref(), Some("address_known"));
        let by_password = sign_in(&server, "grace@example.org", "a password of her own").await.ok().unwrap();
        assert_eq!(id_of(&by_password).await, id);
        assert!(!server.log().contains("the-clients-secret"));
    }

    async fn somebody_known_links_the_issuer_and_nobody_else_does(database: TestDatabase) {
        let provider = Provider::start().await;
        let server = serve(&database, &issuer(&provider.url, "open = true"));
        let ada = owner(&server, "acme").await;
        let invitation = ada.post("/v1/orgs/acme/invitations", json!({ "email": "grace@example.org", "role": "member" })).await.expect(201);
        let grace = crate::browsers::join(&server, &invitation).await.ok().unwrap();
        // The same address at the provider makes nobody her.
        let mut stranger = Walker::new(&server, "grace");
        assert_eq!(stranger.sign_in("").await.error().as_deref(), Some("address_known"));
        assert_eq!(stranger.sign_in("?link=1").await.error().as_deref(), Some("signed_out"));

        let mut walker = Walker::new(&server, "grace");
        walker.give(&grace.cookie);
        let arrived = walker.sign_in("?link=1&return_to=/settings").await;
        assert_eq!(arrived.error(), None, "{}", arrived.url);
        assert_eq!(grace.get("/v1/identities").await.expect(200)["items"].as_array().unwrap().len(), 1);
        let mut again = Walker::new(&server, "grace");
        assert_eq!(again.sign_in("").await.error(), None);
        assert_eq!(id_of(&browser(&server, &again)).await, id_of(&grace).await);
        assert_eq!(browser(&server, &again).get("/v1/orgs/acme/members").await.status, 200);

        // What is hers is not somebody else's too, and another's session that ended links nothing.
        let mut other = Walker::new(&server, "grace");
        other.give(&ada.cookie);
        assert_eq!(other.sign_in("?link=1").await.error().as_deref(), Some("identity_taken"));
        assert_eq!(ada.get("/v1/identities").await.expect(200)["items"], json!([]));

        // Where the issuer's people may come in by themselves, they are in no organisation.
        let mut alan = Walker::new(&server, "alan");
        assert_eq!(alan.sign_in("").await.error(), None);
        let alan = browser(&server, &alan);
        assert_eq!(alan.get("/v1/session").await.expect(200)["organizations"], json!([]));
        alan.get("/v1/orgs/acme/chats").await.expect_error(404, "NOT_FOUND");
    }

    async fn people_of_a_domain_become_members_once(database: TestDatabase) {
        let provider = Provider::start().await;
        let server = serve(&database, &issuer(&provider.url, "allow_domains = [\"example.org\"]\ndefault_org = \"acme\""));
        // Before there is the organisation, nobody is made.
        assert_eq!(Walker::new(&server, "grace").sign_in("").await.error().as_deref(), Some("not_invited"));
        let ada = owner(&server, "acme").await;
        let mut walker = Walker::new(&server, "grace");
        assert_eq!(walker.sign_in("").await.error(), None);
        let grace = browser(&server, &walker);
        assert_eq!(grace.get("/v1/session").await.expect(200)["organizations"][0]["role"], "member");
        let store = database.open().await;
        let lines = store.read(&"acme".parse().unwrap()).await.unwrap().audit_trail(10).await.unwrap();
        let id = id_of(&grace).await;
        assert!(lines.iter().any(|line| line.action == "member.added" && line.subject == id), "{lines:?}");
        // Whoever was taken out does not come back by signing in.
        ada.delete(&format!("/v1/orgs/acme/members/{id}")).await.expect(204);
        let mut again = Walker::new(&server, "grace");
        assert_eq!(again.sign_in("").await.error(), None);
        assert_eq!(browser(&server, &again).get("/v1/session").await.expect(200)["organizations"], json!([]));
        drop(server);
        // Other domains stay outside.
        let server = serve(&database, &issuer(&provider.url, "allow_domains = [\"example.com\"]\nopen = true"));
        assert_eq!(Walker::new(&server, "grace").sign_in("").await.error().as_deref(), Some("domain_refused"));
    }
}
