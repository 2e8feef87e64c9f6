//! How a machine becomes an executor, and how it ceases to be one.

use kitbag_model::run::wire::FromServer;
use kitbag_model::run::{NewPairing, PairingToken, Pool};
use kitbag_model::{OrgId, PairingId, Timestamp};
use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;
use tokio_tungstenite::tungstenite::Error;

use crate::kit::{EXECUTORS, RUNS, ask, config, pair, pair_with, serve, until};

on_both! {
    async fn a_token_pairs_one_machine_once(database: TestDatabase) {
        let server = serve(&database);
        let made = server.post(&format!("{EXECUTORS}/pairing-tokens"), &json!({ "labels": ["gpu", "gpu", "group:west"] })).await.expect(201);
        let token = made["pairingToken"].as_str().unwrap();
        assert_eq!(made["server"].as_str().unwrap(), server.url);
        // Of many who try at once, one is let in.
        let tries = (0..8).map(|number| { let name = format!("machine {number}"); let server = &server; async move { pair_with(server, token, &name).await } });
        let mut let_in = Vec::new();
        for tried in futures_util::future::join_all(tries).await {
            match tried {
                Ok(paired) => let_in.push(paired),
                Err(answer) => answer.expect_error(401, "PAIRING_TOKEN_INVALID"),
            }
        }
        assert_eq!(let_in.len(), 1);
        let listed = server.get(EXECUTORS).await.expect(200);
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
        let shown = &listed["items"][0];
        assert_eq!((&shown["labels"], &shown["pool"], &shown["connected"]), (&json!(["gpu", "group:west"]), &json!("byon"), &json!(false)));
        for wrong in ["", "nonsense", "kitbagpair_local.x.y", &token.replace("kitbagpair_local", "kitbagpair_other")] {
            pair_with(&server, wrong, "x").await.err().unwrap().expect_error(401, "PAIRING_TOKEN_INVALID");
        }
        // Its token is in no answer and in no row.
        let text = format!("{listed}{}", server.get("/v1/orgs/local/audit").await.expect(200));
        assert!(!text.contains(&let_in[0].token) && !text.contains(token));
    }

    async fn a_token_ends_after_a_quarter_of_an_hour(database: TestDatabase) {
        let server = serve(&database);
        let store = database.open().await;
        let org = OrgId::local();
        let token = PairingToken::generate(org.clone(), PairingId::generate());
        let mut tx = store.write(&org).await.unwrap();
        let (id, hash, created_by, expires_at) = (token.id, token.secret.hash(), "test".to_owned(), Timestamp::now());
        tx.create_pairing(&NewPairing { id, hash, pool: Pool::Byon, labels: Vec::new(), created_by, expires_at }).await.unwrap();
        tx.commit().await.unwrap();
        let refused = pair_with(&server, token.to_secret().expose(), "late").await.err().unwrap();
        refused.expect_error(400, "PAIRING_TOKEN_EXPIRED");
    }

    async fn what_is_said_of_an_executor_is_said_here(database: TestDatabase) {
        let server = serve(&database);
        let paired = pair(&server, &json!({ "labels": ["eu"] })).await;
        let path = format!("{EXECUTORS}/{}", paired.id);
        let mut executor = paired.connect(3, &[]).await;
        let shown = server.get(EXECUTORS).await.expect(200)["items"][0].clone();
        assert_eq!((&shown["connected"], &shown["capacity"], &shown["labels"]), (&json!(true), &json!(3), &json!(["eu"])));
        assert_eq!(shown["engines"].as_array().unwrap().len(), 4);
        // A run that wants another label waits until somebody says that the executor has it.
        let body = json!({ "config": { "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "execution": { "selector": { "labels": ["gpu"] } } } });
        let run = ask(&server, &body).await;
        let waiting = server.get(&format!("{RUNS}/{run}")).await.expect(200)["waiting"].clone();
        assert!(waiting.as_str().unwrap().contains("what the selector asks for"), "{waiting}");
        let patched = Answer::of(server.request(Method::PATCH, &path).json(&json!({ "labels": ["gpu"], "name": "Fast" }))).await.expect(200);
        assert_eq!((&patched["labels"], &patched["name"]), (&json!(["gpu"]), &json!("Fast")));
        assert_eq!(executor.given().await.id.run_id, run);
        for (body, field) in [(json!({ "labels": [""] }), "labels[0]"), (json!({ "labels": vec!["x"; 51] }), "labels"), (json!({ "name": "" }), "name")] {
            let refused = Answer::of(server.request(Method::PATCH, &path).json(&body)).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["field"], field);
        }
    }

    async fn one_that_is_taken_out_is_out_at_once(database: TestDatabase) {
        let server = serve(&database);
        let (gone, other) = (pair(&server, &json!({})).await, pair(&server, &json!({})).await);
        let mut executor = gone.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.claude.v2") })).await;
        let id = executor.given().await.id;
        executor.started(id).await;
        until(&server, run, "running").await;
        server.delete(&format!("{EXECUTORS}/{}", gone.id)).await.expect(204);
        assert!(matches!(executor.maybe().await, Some(FromServer::Revoked)));
        assert!(executor.maybe().await.is_none());
        match gone.dial().await {
            Err(Error::Http(answer)) => assert_eq!(answer.status(), 401),
            other => panic!("{:?}", other.err()),
        }
        Answer::of(gone.request(&server, Method::POST, id, "missing").json(&json!({ "hashes": [] }))).await.expect_error(401, "UNAUTHORIZED");
        // What it had is somebody else's, without waiting for a lease.
        let again = other.connect(1, &[]).await.given().await;
        assert_eq!((again.id.run_id, again.id.attempt), (run, 2));
        server.delete(&format!("{EXECUTORS}/{}", gone.id)).await.expect_error(404, "NOT_FOUND");
    }
}
