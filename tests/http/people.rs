//! People: invited, signed in, members of organisations with a role, out again.

use kitbag_testkit::{Answer, on_both};
use reqwest::{Method, header};
use serde_json::{Value, json};

use crate::browsers::{Browser, PASSWORD, enter, id_of, invited, join, owner, sign_in};
use crate::serve;

on_both! {
    async fn an_operator_invites_an_owner_who_signs_in(database: TestDatabase) {
        let server = serve(&database);
        let body = json!({ "id": "acme", "name": "Acme", "ownerEmail": "Ada@Example.org" });
        let made = server.post("/v1/orgs", &body).await.expect(201);
        let secret = made["invitation"]["secret"].as_str().unwrap();
        assert_eq!(made["invitation"]["link"], format!("{}/join#{secret}", server.url), "where whoever asked found us");
        let read = json!({ "secret": secret });
        let anonymous = |path: &str, body: &Value| Answer::of(server.anonymous(Method::POST, path).json(body));
        let seen = anonymous("/v1/invitations/read", &read).await.expect(200);
        assert_eq!(seen, json!({
            "org": "acme", "organizationName": "Acme", "email": "ada@example.org", "role": "owner", "known": false,
        }));
        let short = enter(&server, "/v1/invitations/accept", &json!({ "secret": secret, "password": "short" })).await;
        short.err().unwrap().expect_error(400, "BAD_REQUEST");
        let ada = join(&server, &made["invitation"]).await.ok().unwrap();
        let session = ada.get("/v1/session").await.expect(200);
        assert_eq!(session["user"]["email"], "ada@example.org");
        assert_eq!(session["organizations"], json!([
            { "id": "acme", "name": "Acme", "role": "owner", "scopes": ["use", "manage"] },
        ]));
        // It was used up, and tells nobody whether it ever was.
        anonymous("/v1/invitations/read", &read).await.expect_error(404, "NOT_FOUND");
        join(&server, &made["invitation"]).await.err().unwrap().expect_error(404, "NOT_FOUND");
        // Whoever has nothing to do with it sees no organisation, neither with a session nor with a token.
        ada.get("/v1/orgs/local/chats").await.expect_error(404, "NOT_FOUND");
        server.get("/v1/orgs/acme/chats").await.expect_error(404, "NOT_FOUND");
        ada.get("/v1/orgs/acme/chats").await.expect(200);
        ada.post("/v1/orgs", json!({ "id": "mine", "ownerEmail": "ada@example.org" })).await.expect_error(403, "FORBIDDEN");

        ada.post("/v1/sign-out", json!({})).await.expect(204);
        ada.get("/v1/session").await.expect_error(401, "UNAUTHORIZED");
        sign_in(&server, "ada@example.org", "wrong password").await.err().unwrap().expect_error(401, "UNAUTHORIZED");
        sign_in(&server, "bob@example.org", PASSWORD).await.err().unwrap().expect_error(401, "UNAUTHORIZED");
        let again = sign_in(&server, " ADA@example.org", PASSWORD).await.ok().unwrap();
        again.get("/v1/orgs/acme/members").await.expect(200);
        assert_ne!(again.cookie, ada.cookie);
        // Neither passwords nor invitations are in the log.
        assert!(!server.log().contains(PASSWORD) && !server.log().contains(secret));
    }

    async fn guessing_is_slow(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let mut refused = 0;
        for _ in 0..12 {
            let answer = sign_in(&server, "owner@acme.example", "a wrong password").await.err().unwrap();
            refused += u32::from(answer.status.as_u16() == 429);
        }
        assert!(refused >= 1, "guesses were never refused");
        sign_in(&server, "owner@acme.example", PASSWORD).await.err().unwrap().expect_error(429, "RATE_LIMITED");
        ada.get("/v1/session").await.expect(200);
        // Somebody else is not held up.
        sign_in(&server, "other@acme.example", PASSWORD).await.err().unwrap().expect_error(401, "UNAUTHORIZED");
    }

    async fn roles_bound_what_members_may_do(database: TestDatabase) {
        let server = serve(&database);
        let owner = owner(&server, "acme").await;
        let admin = invited(&owner, "acme", "admin@acme.example", "admin").await;
        let member = invited(&admin, "acme", "member@acme.example", "member").await;
        let (owner_id, admin_id, member_id) = (id_of(&owner).await, id_of(&admin).await, id_of(&member).await);
        let members = "/v1/orgs/acme/members";
        let listed = member.get(members).await.expect(200);
        let roles: Vec<_> = listed["items"].as_array().unwrap().iter().map(|member| member["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["owner", "admin", "member"]);

        let patch = async |by: &Browser<'_>, who: &str, role: &str| {
            by.ask(Method::PATCH, &format!("{members}/{who}"), Some(json!({ "role": role }))).await
        };
        let remove = async |by: &Browser<'_>, who: &str| by.ask(Method::DELETE, &format!("{members}/{who}"), None).await;
        patch(&member, &member_id, "admin").await.expect_error(403, "FORBIDDEN");
        patch(&admin, &member_id, "owner").await.expect_error(403, "FORBIDDEN");
        patch(&admin, &owner_id, "member").await.expect_error(403, "FORBIDDEN");
        patch(&owner, &owner_id, "admin").await.expect_error(409, "CONFLICT");
        patch(&owner, &admin_id, "boss").await.expect_error(400, "BAD_REQUEST");
        patch(&owner, "nobody", "admin").await.expect_error(404, "NOT_FOUND");
        remove(&admin, &owner_id).await.expect_error(403, "FORBIDDEN");
        remove(&member, &admin_id).await.expect_error(403, "FORBIDDEN");
        remove(&owner, &owner_id).await.expect_error(409, "CONFLICT");
        let invite = json!({ "email": "x@acme.example", "role": "owner" });
        admin.post("/v1/orgs/acme/invitations", invite).await.expect_error(403, "FORBIDDEN");
        member.get("/v1/orgs/acme/invitations").await.expect_error(403, "FORBIDDEN");
        member.ask(Method::PATCH, "/v1/orgs/acme", Some(json!({ "name": "Mine" }))).await.expect_error(403, "FORBIDDEN");
        assert_eq!(admin.ask(Method::PATCH, "/v1/orgs/acme", Some(json!({ "name": "Acme Inc." }))).await.expect(200)["name"], "Acme Inc.");

        // A member reads and uses, and makes tokens that may do the same.
        member.get("/v1/orgs/acme/toolsets").await.expect(200);
        member.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
        let tokens = "/v1/orgs/acme/tokens";
        member.post(tokens, json!({ "name": "t", "scopes": ["use", "manage"] })).await.expect_error(403, "FORBIDDEN");
        let token = member.post(tokens, json!({ "name": "t", "scopes": ["use"] })).await.expect(201);
        assert_eq!(token["userId"], member_id.as_str());
        let secret = token["secret"].as_str().unwrap();
        let as_token = |method, path: &str| server.anonymous(method, path).bearer_auth(secret);
        Answer::of(as_token(Method::GET, "/v1/orgs/acme/toolsets")).await.expect(200);
        // An agent with it makes no tokens, and is no person.
        Answer::of(as_token(Method::POST, tokens).json(&json!({ "name": "t", "scopes": ["use"] }))).await.expect_error(403, "FORBIDDEN");
        Answer::of(as_token(Method::GET, "/v1/sessions")).await.expect_error(403, "FORBIDDEN");
        Answer::of(as_token(Method::DELETE, &format!("{members}/{member_id}"))).await.expect_error(403, "FORBIDDEN");
        let made = admin.post(tokens, json!({ "name": "a", "scopes": ["use", "manage"] })).await.expect(201);
        assert_eq!(member.get(tokens).await.expect(200)["items"].as_array().unwrap().len(), 1, "a member lists their own");
        assert_eq!(owner.get(tokens).await.expect(200)["items"].as_array().unwrap().len(), 2);
        let foreign = format!("{tokens}/{}", made["id"].as_str().unwrap());
        member.ask(Method::DELETE, &foreign, None).await.expect_error(404, "NOT_FOUND");

        // A token of somebody who is no longer an admin is no longer an admin's.
        let managing = made["secret"].as_str().unwrap();
        let invitations = || Answer::of(server.anonymous(Method::GET, "/v1/orgs/acme/invitations").bearer_auth(managing));
        invitations().await.expect(200);
        patch(&owner, &admin_id, "member").await.expect(200);
        invitations().await.expect_error(403, "FORBIDDEN");

        // Whoever is out is out at once, with what they held.
        remove(&owner, &member_id).await.expect(204);
        Answer::of(as_token(Method::GET, "/v1/orgs/acme/toolsets")).await.expect_error(401, "UNAUTHORIZED");
        member.get("/v1/orgs/acme/toolsets").await.expect_error(404, "NOT_FOUND");
        assert_eq!(member.get("/v1/session").await.expect(200)["organizations"], json!([]));
        patch(&owner, &admin_id, "owner").await.expect(200);
        remove(&owner, &owner_id).await.expect(204);
        owner.get(members).await.expect_error(404, "NOT_FOUND");
    }

    async fn one_person_in_two_organisations(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let bob = owner(&server, "other").await;
        let body = json!({ "email": "owner@acme.example", "role": "member" });
        let invitation = bob.post("/v1/orgs/other/invitations", body).await.expect(201);
        // The address is known: holding the link is not enough to be that person.
        join(&server, &invitation).await.err().unwrap().expect_error(401, "UNAUTHORIZED");
        let accept = json!({ "secret": invitation["secret"] });
        bob.post("/v1/invitations/accept", accept.clone()).await.expect_error(401, "UNAUTHORIZED");
        ada.post("/v1/invitations/accept", accept).await.expect(200);
        let listed = ada.get("/v1/orgs").await.expect(200);
        let roles: Vec<_> = listed["items"].as_array().unwrap().iter().map(|org| (org["id"].as_str().unwrap(), org["role"].as_str().unwrap())).collect();
        assert_eq!(roles, [("acme", "owner"), ("other", "member")]);
        // The address of a request says which of them counts.
        let chat = ada.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
        let chat = chat["id"].as_str().unwrap();
        ada.get(&format!("/v1/orgs/other/chats/{chat}")).await.expect_error(404, "NOT_FOUND");
        ada.get(&format!("/v1/orgs/acme/chats/{chat}")).await.expect(200);
        ada.get("/v1/orgs/other/invitations").await.expect_error(403, "FORBIDDEN");
        bob.get("/v1/orgs/acme/members").await.expect_error(404, "NOT_FOUND");
    }

    async fn sessions_are_listed_and_ended(database: TestDatabase) {
        let server = serve(&database);
        let first = owner(&server, "acme").await;
        let second = sign_in(&server, "owner@acme.example", PASSWORD).await.ok().unwrap();
        let listed = first.get("/v1/sessions").await.expect(200);
        let sessions = listed["items"].as_array().unwrap();
        assert_eq!(sessions.iter().map(|session| session["current"].as_bool().unwrap()).collect::<Vec<_>>(), [false, true]);
        let other = sessions[0]["id"].as_str().unwrap();
        first.ask(Method::DELETE, &format!("/v1/sessions/{other}"), None).await.expect(204);
        first.ask(Method::DELETE, &format!("/v1/sessions/{other}"), None).await.expect_error(404, "NOT_FOUND");
        second.get("/v1/session").await.expect_error(401, "UNAUTHORIZED");

        let third = sign_in(&server, "owner@acme.example", PASSWORD).await.ok().unwrap();
        let change = |current: &str, new: &str| json!({ "current": current, "new": new });
        third.post("/v1/password", change("not mine at all", "another password")).await.expect_error(403, "FORBIDDEN");
        third.post("/v1/password", change(PASSWORD, "short")).await.expect_error(400, "BAD_REQUEST");
        third.post("/v1/password", change(PASSWORD, "another password")).await.expect(204);
        first.get("/v1/session").await.expect_error(401, "UNAUTHORIZED");
        third.get("/v1/session").await.expect(200);
        sign_in(&server, "owner@acme.example", PASSWORD).await.err().unwrap().expect_error(401, "UNAUTHORIZED");
        sign_in(&server, "owner@acme.example", "another password").await.ok().unwrap();
    }

    async fn a_foreign_page_cannot_use_the_cookie(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        for site in ["cross-site", "same-site", "none"] {
            let request = server.anonymous(Method::POST, "/v1/orgs/acme/chats").header(header::COOKIE, &ada.cookie);
            Answer::of(request.header("sec-fetch-site", site).json(&json!({}))).await.expect_error(403, "FORBIDDEN");
        }
        // A session of one person with the secret of another is nobody's.
        let bob = owner(&server, "other").await;
        let (head, _) = ada.cookie.rsplit_once('.').unwrap();
        let (_, secret) = bob.cookie.rsplit_once('.').unwrap();
        let forged = Browser { server: &server, cookie: format!("{head}.{secret}") };
        forged.get("/v1/session").await.expect_error(401, "UNAUTHORIZED");
    }

    async fn two_who_accept_at_once_are_one(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let body = json!({ "email": "new@acme.example", "role": "member" });
        let invitation = ada.post("/v1/orgs/acme/invitations", body).await.expect(201);
        let (one, two) = tokio::join!(join(&server, &invitation), join(&server, &invitation));
        assert!(one.is_ok() != two.is_ok(), "one of them was let in, and not both");
        assert_eq!(ada.get("/v1/orgs/acme/members").await.expect(200)["items"].as_array().unwrap().len(), 2);
        // Taken back before it is used, an invitation opens nothing.
        let body = json!({ "email": "late@acme.example", "role": "member" });
        let invitation = ada.post("/v1/orgs/acme/invitations", body).await.expect(201);
        let path = format!("/v1/orgs/acme/invitations/{}", invitation["id"].as_str().unwrap());
        assert_eq!(ada.get("/v1/orgs/acme/invitations").await.expect(200)["items"].as_array().unwrap().len(), 1);
        ada.ask(Method::DELETE, &path, None).await.expect(204);
        join(&server, &invitation).await.err().unwrap().expect_error(404, "NOT_FOUND");
    }
}
