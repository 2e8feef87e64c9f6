//! How runs end: once, whoever says so how often.

use kitbag_model::run::wire::{AttemptId, FromExecutor, FromServer};
use kitbag_model::run::{RunError, RunOutcome, RunState};
use kitbag_testkit::on_both;
use serde_json::{Value, json};

use crate::kit::{RUNS, ask, config, events, pair, serve, serve_impatiently, show, succeeded, until};

on_both! {
    async fn a_result_counts_once(database: TestDatabase) {
        let server = serve(&database);
        let mut executor = pair(&server, &json!({})).await.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let id = executor.given().await.id;
        executor.ended(id, "first").await;
        executor.acknowledged(id).await;
        executor.ended(id, "second").await;
        executor.acknowledged(id).await;
        assert_eq!(show(&server, run).await["output"], "first");
        let names: Vec<String> = events(&server, run, "").await.into_iter().map(|(_, name, data)| format!("{name} {}", data["state"])).collect();
        assert_eq!(names.iter().filter(|name| name.contains("succeeded")).count(), 2, "the end, and the end of the stream: {names:?}");
        // An attempt that never was, and one of a run that never was.
        for id in [AttemptId { attempt: 7, ..id }, AttemptId { run_id: kitbag_model::RunId::generate(), attempt: 1 }] {
            executor.ended(id, "third").await;
            loop {
                match executor.hear().await {
                    FromServer::Drop { id: which, .. } | FromServer::Ack { id: which, result: true, .. } if which == id => break,
                    FromServer::Ack { .. } => {}
                    other => panic!("{other:?}"),
                }
            }
        }
        assert_eq!(show(&server, run).await["output"], "first");
    }

    async fn an_executor_that_vanishes_loses_its_runs(database: TestDatabase) {
        let server = serve_impatiently(&database);
        let (gone, other) = (pair(&server, &json!({})).await, pair(&server, &json!({})).await);
        let mut executor = gone.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let first = executor.given().await.id;
        executor.started(first).await;
        until(&server, run, "running").await;
        drop(executor);
        let mut next = other.connect(1, &[]).await;
        // Its heartbeats keep it here while the other one's lease ends.
        let second = loop {
            tokio::select! {
                given = next.given() => break given.id,
                () = tokio::time::sleep(std::time::Duration::from_millis(500)) => {}
            }
            next.alive(&[]).await;
        };
        assert_eq!((second.run_id, second.attempt), (run, 2));
        // The first comes back with an answer: it is too late.
        let mut back = gone.connect(0, &[first]).await;
        assert!(matches!(back.hear().await, FromServer::Drop { id, .. } if id == first));
        back.ended(first, "late").await;
        assert!(matches!(back.hear().await, FromServer::Drop { id, .. } if id == first));
        next.ended(second, "in time").await;
        next.acknowledged(second).await;
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["attempt"]), (&json!("in time"), &json!(2)));
        let states: Vec<Value> = events(&server, run, "").await.into_iter().filter(|(_, name, _)| name == "state").map(|(.., data)| data["state"].clone()).collect();
        assert_eq!(states, ["queued", "leased", "running", "queued", "leased", "succeeded"]);
    }

    async fn it_is_tried_as_often_as_it_may_be(database: TestDatabase) {
        let server = serve(&database);
        let mut executor = pair(&server, &json!({})).await.connect(1, &[]).await;
        let mut config = config("gateway.codex.v2");
        config["maxAttempts"] = json!(2);
        let run = ask(&server, &json!({ "config": config })).await;
        for attempt in 1..=2 {
            let id = executor.given().await.id;
            assert_eq!(id.attempt, attempt);
            executor.say(&FromExecutor::Refused { id, reason: "the disk is full".into() }).await;
            assert!(matches!(executor.hear().await, FromServer::Drop { id: which, .. } if which == id));
            // Who gave it back has it no more, whatever it says.
            executor.alive(&[id]).await;
            assert!(matches!(executor.hear().await, FromServer::Drop { id: which, .. } if which == id));
        }
        let over = until(&server, run, "failed").await;
        assert_eq!(over["error"]["code"], "EXECUTOR_LOST");
        assert!(over["error"]["message"].as_str().unwrap().contains("the disk is full"), "{over}");
    }

    async fn somebody_ends_it(database: TestDatabase) {
        let server = serve(&database);
        // One that waits is over at once.
        let waits = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        assert_eq!(server.post(&format!("{RUNS}/{waits}/cancel"), &json!({})).await.expect(200)["state"], "cancelled");
        server.post(&format!("{RUNS}/{waits}/cancel"), &json!({})).await.expect_error(409, "CONFLICT");
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let id = executor.given().await.id;
        executor.started(id).await;
        until(&server, run, "running").await;
        assert_eq!(server.post(&format!("{RUNS}/{run}/cancel"), &json!({})).await.expect(200)["cancelRequested"], true);
        assert!(matches!(executor.hear().await, FromServer::Cancel { id: which } if which == id));
        // Said while it was away, it hears it when it comes back.
        drop(executor);
        let mut executor = paired.connect(1, &[id]).await;
        assert!(matches!(executor.hear().await, FromServer::Cancel { id: which } if which == id));
        let error = RunError { code: "CANCELLED".into(), message: "somebody ended it".into() };
        let outcome = RunOutcome { state: RunState::Cancelled, output: None, error: Some(error), usage: None };
        executor.say(&FromExecutor::Result { id, outcome, files: None }).await;
        executor.acknowledged(id).await;
        let over = until(&server, run, "cancelled").await;
        assert_eq!((&over["error"]["code"], &over["cancelRequested"]), (&json!("CANCELLED"), &json!(false)));
        // And again, as a new one.
        server.post(&format!("{RUNS}/{run}/retry"), &json!({})).await.expect(201);
        let again = executor.given().await;
        assert_ne!(again.id.run_id, run);
        assert_eq!(show(&server, again.id.run_id).await["retryOf"], run.to_string());
        server.post(&format!("{RUNS}/{}/retry", again.id.run_id), &json!({})).await.expect_error(409, "CONFLICT");
    }

    /// An end that is none, and a state that an executor makes up.
    async fn lies_about_the_end(database: TestDatabase) {
        let server = serve(&database);
        let mut executor = pair(&server, &json!({})).await.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let id = executor.given().await.id;
        let outcome = RunOutcome { state: RunState::Queued, ..succeeded("x") };
        executor.say(&FromExecutor::Result { id, outcome, files: None }).await;
        executor.acknowledged(id).await;
        assert_eq!(until(&server, run, "failed").await["error"]["code"], "INVALID_RESULT");
    }
}
