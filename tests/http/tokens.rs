//! Tokens: made, listed, ended.

use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;

use crate::{CHATS, TOKENS, serve, whole_list};

on_both! {
    async fn a_token_is_shown_once_and_ends_when_revoked(database: TestDatabase) {
        let server = serve(&database);
        let made = server.post(TOKENS, &json!({ "name": "ci", "scopes": ["use"], "expiresInSeconds": 3600 })).await.expect(201);
        let secret = made["secret"].as_str().unwrap();
        let ask = || Answer::of(server.anonymous(Method::GET, CHATS).bearer_auth(secret));
        ask().await.expect(200);
        let listed = whole_list(&server, TOKENS, 1).await;
        assert_eq!(listed.len(), 2, "the embedded one and this one");
        assert!(listed.iter().all(|token| token.get("secret").is_none()));
        assert_eq!((&listed[1]["name"], &listed[1]["scopes"]), (&json!("ci"), &json!(["use"])));
        let path = format!("{TOKENS}/{}", made["id"].as_str().unwrap());
        server.delete(&path).await.expect(204);
        ask().await.expect_error(401, "UNAUTHORIZED");
        server.delete(&path).await.expect_error(404, "NOT_FOUND");
    }

    async fn a_token_that_cannot_be_made(database: TestDatabase) {
        let server = serve(&database);
        for body in [
            json!({}), json!({ "name": "x" }), json!({ "name": "", "scopes": ["use"] }), json!({ "name": "x", "scopes": [] }),
            json!({ "name": "x", "scopes": ["admin"] }), json!({ "name": "x", "scopes": "use" }),
            json!({ "name": "x", "scopes": ["use"], "expiresInSeconds": 0 }),
            json!({ "name": "x", "scopes": ["use"], "expiresInSeconds": -1 }),
            json!({ "name": "x\ny", "scopes": ["use"] }),
        ] {
            server.post(TOKENS, &body).await.expect_error(400, "BAD_REQUEST");
        }
        assert_eq!(whole_list(&server, TOKENS, 9).await.len(), 1);
    }
}
