//! People for tests: browsers with a cookie, of owners, admins and members.
#![allow(dead_code, reason = "not every test needs every verb")]

use kitbag_testkit::{Answer, Server};
use reqwest::{Method, header};
use serde_json::{Value, json};

pub(crate) const PASSWORD: &str = "correct horse battery";

/// A browser of somebody, with its cookie.
pub(crate) struct Browser<'s> {
    pub(crate) server: &'s Server,
    pub(crate) cookie: String,
}

impl Browser<'_> {
    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.server.anonymous(method, path).header(header::COOKIE, &self.cookie);
        let request = request.header("sec-fetch-site", "same-origin");
        Answer::of(body.iter().fold(request, |request, body| request.json(body))).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask(Method::GET, path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::PUT, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask(Method::DELETE, path, None).await
    }
}

/// Posts as nobody; the browser that the answer made, if it was let in.
pub(crate) async fn enter<'s>(server: &'s Server, path: &str, body: &Value) -> Result<Browser<'s>, Answer> {
    let request = server.anonymous(Method::POST, path).header("sec-fetch-site", "same-origin").json(body);
    let answer = Answer::of(request).await;
    let Some(cookie) = answer.headers.get(header::SET_COOKIE) else { return Err(answer) };
    assert_eq!(answer.status, 200);
    let text = cookie.to_str().unwrap();
    assert!(text.contains("HttpOnly") && text.contains("SameSite=Strict"), "{text}");
    Ok(Browser { server, cookie: text.split(';').next().unwrap().to_owned() })
}

/// Signs in with a password.
pub(crate) async fn sign_in<'s>(server: &'s Server, email: &str, password: &str) -> Result<Browser<'s>, Answer> {
    enter(server, "/v1/sign-in", &json!({ "email": email, "password": password })).await
}

/// Accepts an invitation as somebody who was not known before.
pub(crate) async fn join<'s>(server: &'s Server, invitation: &Value) -> Result<Browser<'s>, Answer> {
    let body = json!({ "secret": invitation["secret"], "password": PASSWORD, "displayName": "Somebody" });
    enter(server, "/v1/invitations/accept", &body).await
}

/// An organisation with an owner who has just joined.
pub(crate) async fn owner<'s>(server: &'s Server, org: &str) -> Browser<'s> {
    let body = json!({ "id": org, "ownerEmail": format!("owner@{org}.example") });
    let made = server.post("/v1/orgs", &body).await.expect(201);
    join(server, &made["invitation"]).await.expect("the owner is let in")
}

/// Somebody whom `by` invites into an organisation.
pub(crate) async fn invited<'s>(by: &Browser<'s>, org: &str, email: &str, role: &str) -> Browser<'s> {
    let path = format!("/v1/orgs/{org}/invitations");
    let invitation = by.post(&path, json!({ "email": email, "role": role })).await.expect(201);
    join(by.server, &invitation).await.expect("they are let in")
}

/// The id of somebody.
pub(crate) async fn id_of(browser: &Browser<'_>) -> String {
    browser.get("/v1/session").await.expect(200)["user"]["id"].as_str().unwrap().to_owned()
}
