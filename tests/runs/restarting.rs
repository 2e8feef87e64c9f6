//! A server that is killed in the middle: nothing is lost, and everything counts once.

use kitbag_testkit::on_both;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{ask, config, events, pair, serve, serve_impatiently, show, until};

on_both! {
    async fn nothing_is_lost_when_the_server_is_killed(database: TestDatabase) {
        let mut server = serve(&database);
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(2, &[]).await;
        let (begun, waits) = (
            ask(&server, &json!({ "config": config("gateway.codex.v2") })).await,
            ask(&server, &json!({ "config": config("gateway.claude.v2") })).await,
        );
        let (id, unheard) = (executor.given().await.id, executor.given().await.id);
        assert_eq!((id.run_id, unheard.run_id), (begun, waits));
        executor.started(id).await;
        until(&server, begun, "running").await;
        executor.told(id, 1, &["before"]).await;
        executor.hear().await;
        server.signal(Signal::KILL);
        server.wait();
        drop(executor);
        let server = serve(&database);
        // It never heard of the second one, so it is told again.
        let mut executor = paired.moved_to(&server).connect(2, &[id]).await;
        let again = executor.given().await;
        assert_eq!(again.id, unheard);
        executor.told(id, 1, &["before", "after"]).await;
        executor.ended(id, "whole").await;
        executor.acknowledged(id).await;
        executor.ended(unheard, "too").await;
        executor.acknowledged(unheard).await;
        for (run, answer) in [(begun, "whole"), (waits, "too")] {
            let over = until(&server, run, "succeeded").await;
            assert_eq!((&over["output"], &over["attempt"]), (&json!(answer), &json!(1)));
        }
        let texts: Vec<_> = events(&server, begun, "").await.into_iter().filter(|(_, name, _)| name == "text").map(|(.., data)| data["text"].clone()).collect();
        assert_eq!(texts, ["before", "after"]);
    }

    /// An executor that was away for longer than its lease, while the server was too, keeps what nobody else took.
    async fn who_comes_back_keeps_what_nobody_took(database: TestDatabase) {
        let server = serve_impatiently(&database);
        let paired = pair(&server, &json!({})).await;
        let mut executor = paired.connect(1, &[]).await;
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        let id = executor.given().await.id;
        executor.started(id).await;
        until(&server, run, "running").await;
        drop(executor);
        until(&server, run, "queued").await;
        let mut executor = paired.connect(1, &[id]).await;
        executor.ended(id, "after a nap").await;
        executor.acknowledged(id).await;
        let over = show(&server, run).await;
        assert_eq!((&over["state"], &over["output"], &over["attempt"]), (&json!("succeeded"), &json!("after a nap"), &json!(1)));
        let states: Vec<String> = events(&server, run, "").await.into_iter().filter(|(_, name, _)| name == "state").map(|(.., data)| data["state"].as_str().unwrap().to_owned()).collect();
        assert_eq!(states, ["queued", "leased", "running", "queued", "running", "succeeded"]);
    }
}
