//! Who gets the page's document, and who is let go when they may hear no more.

use kitbag_testkit::{Answer, Server, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, PASSWORD, id_of, invited, owner, sign_in};
use crate::events::Listener;
use crate::serve;

/// The page as somebody who was not let in gets it.
async fn page(server: &Server, path: &str) -> Answer {
    Answer::of(server.anonymous(Method::GET, path)).await
}

/// Somebody who listens with their cookie.
async fn listen(browser: &Browser<'_>, org: &str) -> Listener {
    let request = browser.server.anonymous(Method::GET, &format!("/v1/orgs/{org}/events"));
    let request = request.header(header::COOKIE, &browser.cookie).header("sec-fetch-site", "same-origin");
    Listener::of(request.send().await.unwrap()).await
}

on_both! {
    async fn the_document_is_for_everybody_where_people_sign_in(database: TestDatabase) {
        let server = serve(&database);
        let has_people = async || Answer::of(server.anonymous(Method::GET, "/v1/sign-in")).await.expect(200)["people"].clone();
        assert_eq!(has_people().await, false);
        for path in ["/", "/chats", "/organization", "/you", "/o/acme/chats", "/sign-in"] {
            let locked = page(&server, path).await.expect(401);
            assert!(locked.as_str().unwrap().contains("has not been let in"), "{path}");
        }
        // Whoever is invited may be the first who signs in.
        assert!(page(&server, "/join").await.expect(200).as_str().unwrap().contains("id=\"page\""));

        owner(&server, "acme").await;
        assert_eq!(has_people().await, true);
        for path in ["/", "/chats/x/y", "/organization", "/you", "/o/acme/chats", "/o/acme/", "/sign-in", "/join"] {
            let shown = page(&server, path).await;
            let policy = shown.headers[header::CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned();
            assert!(policy.contains("script-src 'self'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
            assert!(shown.expect(200).as_str().unwrap().contains("id=\"page\""), "{path}");
        }
        // The document is all that they get.
        Answer::of(server.anonymous(Method::GET, "/v1/session")).await.expect_error(401, "UNAUTHORIZED");
    }

    async fn somebody_invited_into_the_one_organisation_that_is_there_signs_in_too(database: TestDatabase) {
        let server = serve(&database);
        let body = json!({ "email": "bob@example.org", "role": "member" });
        let invitation = server.post("/v1/orgs/local/invitations", &body).await.expect(201);
        page(&server, "/").await.expect(401);
        crate::browsers::join(&server, &invitation).await.ok().unwrap();
        page(&server, "/").await.expect(200);
    }

    async fn whoever_may_hear_no_more_is_let_go(database: TestDatabase) {
        let server = serve(&database);
        let owner = owner(&server, "acme").await;
        let member = invited(&owner, "acme", "member@acme.example", "member").await;
        let id = id_of(&member).await;
        let mut stays = listen(&owner, "acme").await;
        let mut goes = listen(&member, "acme").await;
        let path = format!("/v1/orgs/acme/members/{id}");
        owner.ask(Method::PATCH, &path, Some(json!({ "role": "admin" }))).await.expect(200);
        let role = json!({ "userId": id, "reason": "role" });
        assert_eq!((stays.of_name("members_changed").await, goes.of_name("members_changed").await), (role.clone(), role));
        owner.delete(&path).await.expect(204);
        assert_eq!(stays.of_name("members_changed").await["reason"], "removed");
        // They may hear that they are out, and then it is over.
        assert!(names(goes).await.iter().all(|name| name == "members_changed"));
        owner.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
        assert_eq!(stays.of_name("chat_changed").await["reason"], "created");
        // Invitations are told without who they are for: members hear it too.
        owner.post("/v1/orgs/acme/invitations", json!({ "email": "x@acme.example", "role": "member" })).await.expect(201);
        assert_eq!(stays.of_name("members_changed").await, json!({ "userId": Value::Null, "reason": "invitations" }));
    }

    async fn a_session_that_ends_takes_its_listeners_along(database: TestDatabase) {
        let server = serve(&database);
        let first = owner(&server, "acme").await;
        let enter = async || sign_in(&server, "owner@acme.example", PASSWORD).await.ok().unwrap();
        let (second, third) = (enter().await, enter().await);
        let (mut stays, goes, leaves) =
            (listen(&first, "acme").await, listen(&second, "acme").await, listen(&third, "acme").await);
        first.delete(&format!("/v1/sessions/{}", session_of(&second).await)).await.expect(204);
        assert_eq!(names(goes).await, [""; 0]);
        third.post("/v1/sign-out", json!({})).await.expect(204);
        assert_eq!(names(leaves).await, [""; 0]);
        // A token of theirs, too.
        let token = first.post("/v1/orgs/acme/tokens", json!({ "name": "t", "scopes": ["use"] })).await.expect(201);
        let request = server.anonymous(Method::GET, "/v1/orgs/acme/events");
        let with_token = Listener::of(request.bearer_auth(token["secret"].as_str().unwrap()).send().await.unwrap()).await;
        first.delete(&format!("/v1/orgs/acme/tokens/{}", token["id"].as_str().unwrap())).await.expect(204);
        assert_eq!(names(with_token).await, [""; 0]);
        first.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
        assert_eq!(stays.of_name("chat_changed").await["reason"], "created");
    }
}

/// Everything that is heard until the end.
async fn names(mut listener: Listener) -> Vec<String> {
    let mut names = Vec::new();
    while let Some((name, _)) = listener.next().await {
        names.push(name);
    }
    names
}

/// The id of a browser's own session.
async fn session_of(browser: &Browser<'_>) -> String {
    let sessions = browser.get("/v1/sessions").await.expect(200);
    let own = sessions["items"].as_array().unwrap().iter().find(|session| session["current"] == true);
    own.unwrap()["id"].as_str().unwrap().to_owned()
}
