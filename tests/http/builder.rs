//! The builder as far as no model is needed: who may, what is taken, and what is told when there is no key.

use kitbag_testkit::database::add_token;
use kitbag_testkit::on_both;
use reqwest::Method;
use serde_json::{Value, json};

use crate::browsers::{invited, owner};
use crate::org_toolsets::with_token;
use crate::serve;

const SESSIONS: &str = "/v1/orgs/acme/toolsets/builder/sessions";

fn llm() -> Value {
    json!({ "provider": "anthropic", "model": "a-model" })
}

on_both! {
    async fn a_session_begins_with_a_greeting(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        for body in [json!({ "llm": llm() }), json!({ "llm": llm(), "intent": "  " })] {
            let begun = ada.post(SESSIONS, body).await.expect(200);
            assert_eq!((&begun["status"], &begun["warnings"]), (&json!("ACTIVE"), &json!([])));
            assert_eq!(begun["selectedComponentKeys"], json!([]));
            assert_eq!(begun["assistant"]["suggestedComponentKeys"], json!([]));
            assert!(begun["assistant"]["message"].as_str().unwrap().contains("do not paste secrets"));
            let components = begun["components"].as_array().unwrap();
            assert_eq!(components[0]["key"], "mcp.github");
            assert!(components.len() >= 25 && components.iter().any(|one| one["kind"] == "skill"));
            let path = format!("{SESSIONS}/{}", begun["sessionId"].as_str().unwrap());
            let session = ada.get(&path).await.expect(200);
            assert_eq!(session["turns"].as_array().unwrap().len(), 1);
            assert_eq!((&session["llm"], &session["finalDraft"]), (&llm(), &Value::Null));
            assert_eq!((&begun["userMessage"], &session["warnings"]), (&Value::Null, &json!([])));
        }
        let lines = ada.get("/v1/orgs/acme/audit?action=toolset_builder.started").await.expect(200);
        assert_eq!(lines["items"].as_array().unwrap().len(), 2);
    }

    async fn without_a_key_no_model_is_asked_and_nothing_is_kept(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let refused = ada.post(SESSIONS, json!({ "llm": llm(), "intent": "GitHub, please" })).await;
        refused.expect_error(422, "LLM_SECRET_REQUIRED");
        assert!(refused.body["message"].as_str().unwrap().contains("llm.anthropic"), "{refused:?}");
        let begun = ada.post(SESSIONS, json!({ "llm": llm() })).await.expect(200);
        let path = format!("{SESSIONS}/{}", begun["sessionId"].as_str().unwrap());
        let before = ada.get(&path).await.expect(200);
        ada.post(&format!("{path}/chat"), json!({ "message": "x" })).await.expect_error(422, "LLM_SECRET_REQUIRED");
        let chosen = json!({ "selectedComponentKeys": ["mcp.github"] });
        ada.post(&format!("{path}/finalize"), chosen).await.expect_error(422, "LLM_SECRET_REQUIRED");
        assert_eq!(ada.get(&path).await.expect(200), before);
        // The key of another provider is not this one's.
        ada.put("/v1/orgs/acme/secrets/llm.openai", json!({ "value": "a-value" })).await.expect(204);
        ada.post(&format!("{path}/chat"), json!({ "message": "x" })).await.expect_error(422, "LLM_SECRET_REQUIRED");
    }

    async fn what_is_wrong_is_told(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        for body in [
            json!({}),
            json!({ "llm": { "provider": "nobody", "model": "x" } }),
            json!({ "llm": { "provider": "openai", "model": "" } }),
            json!({ "llm": { "provider": "openai", "model": "a\nb" } }),
            json!({ "llm": { "provider": "openai", "model": "x".repeat(201) } }),
            json!({ "llm": { "provider": "openai", "model": "x", "auth": { "secretId": "llm.anthropic" } } }),
            json!({ "llm": { "provider": "openai", "model": format!("sk-ant-{}", "api03-".repeat(4)) } }),
            json!({ "llm": llm(), "intent": "x".repeat(20_001) }),
            json!({ "llm": llm(), "intent": "a\u{0}b" }),
            json!({ "llm": llm(), "more": 1 }),
        ] {
            ada.post(SESSIONS, body).await.expect_error(400, "BAD_REQUEST");
        }
        let with_auth = json!({ "llm": { "provider": "openai", "model": "x", "auth": { "secretId": "llm.openai" } } });
        let begun = ada.post(SESSIONS, with_auth).await.expect(200);
        let path = format!("{SESSIONS}/{}", begun["sessionId"].as_str().unwrap());
        for body in [
            json!({}),
            json!({ "message": "" }),
            json!({ "message": " \n" }),
            json!({ "message": "x".repeat(20_001) }),
            json!({ "message": "x", "selectedComponentKeys": vec!["mcp.git"; 51] }),
            json!({ "message": "x", "selectedComponentKeys": ["x".repeat(81)] }),
        ] {
            ada.post(&format!("{path}/chat"), body).await.expect_error(400, "BAD_REQUEST");
        }
        let keys = json!(["mcp.git", "mcp.evil", "sh -c"]);
        for (verb, body) in [
            ("chat", json!({ "message": "x", "selectedComponentKeys": keys })),
            ("finalize", json!({ "selectedComponentKeys": keys })),
        ] {
            let refused = ada.post(&format!("{path}/{verb}"), body).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["invalid"], json!(["mcp.evil", "sh -c"]));
        }
        for body in [json!({ "visibility": "public" }), json!({ "name": "" }), json!({ "name": "a\nb" })] {
            ada.post(&format!("{path}/finalize"), body).await.expect_error(400, "BAD_REQUEST");
        }
    }

    async fn a_session_is_its_authors(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "bolt").await);
        let admin = invited(&ada, "acme", "admin@acme.example", "admin").await;
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let begun = ada.post(SESSIONS, json!({ "llm": llm() })).await.expect(200);
        let id = begun["sessionId"].as_str().unwrap();
        member.post(SESSIONS, json!({ "llm": llm() })).await.expect_error(403, "FORBIDDEN");
        member.get(&format!("{SESSIONS}/{id}")).await.expect_error(403, "FORBIDDEN");
        admin.post(SESSIONS, json!({ "llm": llm() })).await.expect(200);
        let nobodys = "01890a5d-ac96-774b-bcce-b302099a8057";
        let theirs = "/v1/orgs/bolt/toolsets/builder/sessions";
        for (who, base) in [(&admin, SESSIONS), (&bob, theirs)] {
            for (verb, body) in [("chat", json!({ "message": "x" })), ("finalize", json!({}))] {
                let mut told = Vec::new();
                for session in [id, nobodys] {
                    let refused = who.post(&format!("{base}/{session}/{verb}"), body.clone()).await;
                    refused.expect_error(404, "TOOLSET_BUILDER_SESSION_NOT_FOUND");
                    told.push(refused.body.to_string().replace(session, ""));
                }
                assert_eq!(told[0], told[1], "one that is somebody else's looks like none");
            }
            who.get(&format!("{base}/{id}")).await.expect_error(404, "TOOLSET_BUILDER_SESSION_NOT_FOUND");
        }
        ada.get(&format!("{SESSIONS}/not-an-id")).await.expect_error(404, "TOOLSET_BUILDER_SESSION_NOT_FOUND");
    }

    async fn a_session_of_a_token_is_that_tokens(database: TestDatabase) {
        let (store, acme) = database.open_with("acme").await;
        let (first, second) = (add_token(&store, &acme, "use manage").await, add_token(&store, &acme, "use manage").await);
        drop(store);
        let server = serve(&database);
        let begun = with_token(&server, &first, Method::POST, SESSIONS, Some(json!({ "llm": llm() }))).await.expect(200);
        let path = format!("{SESSIONS}/{}", begun["sessionId"].as_str().unwrap());
        with_token(&server, &first, Method::GET, &path, None).await.expect(200);
        for (method, path, body) in [
            (Method::GET, path.clone(), None),
            (Method::POST, format!("{path}/chat"), Some(json!({ "message": "x" }))),
            (Method::POST, format!("{path}/finalize"), Some(json!({}))),
        ] {
            let refused = with_token(&server, &second, method, &path, body).await;
            refused.expect_error(404, "TOOLSET_BUILDER_SESSION_NOT_FOUND");
        }
    }
}
