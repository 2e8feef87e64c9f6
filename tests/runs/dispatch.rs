//! Which executor gets which run, and what is heard of it.

use std::time::{Duration, Instant};

use kitbag_model::run::EngineId;
use kitbag_model::run::wire::{AttemptId, FromExecutor, FromServer, PROTOCOL};
use kitbag_testkit::cluster::{SUPERUSER, run};
use kitbag_testkit::{Answer, TestDatabase, on_both};
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{EXECUTORS, RUNS, ask, config, events, pair, serve, show, until};

on_both! {
    async fn a_run_waits_goes_to_an_executor_and_is_followed(database: TestDatabase) {
        let server = serve(&database);
        let run = ask(&server, &json!({ "name": "Greeting", "config": config("gateway.claude.v2") })).await;
        let waits = show(&server, run).await;
        assert!(waits["waiting"].as_str().unwrap().contains("pair one"), "{waits}");
        assert_eq!(waits["toolset"]["applied"], false);
        assert!(waits["toolset"]["reason"].as_str().unwrap().contains("name a toolset"), "{waits}");
        let paired = pair(&server, &json!({})).await;
        assert!(show(&server, run).await["waiting"].as_str().unwrap().contains("is connected; 1"));
        // Somebody follows it from before it begins.
        let following = tokio::spawn({
            let request = server.request(reqwest::Method::GET, &format!("{RUNS}/{run}/events"));
            async move { request.send().await.unwrap().text().await.unwrap() }
        });
        let mut executor = paired.connect(2, &[]).await;
        let job = executor.given().await;
        assert_eq!((job.id, job.organization_id.as_str()), (AttemptId { run_id: run, attempt: 1 }, "local"));
        assert_eq!(job.config["prompt"]["instructions"], "Say hello.");
        assert_eq!(until(&server, run, "leased").await["executorId"], paired.id);
        executor.started(job.id).await;
        executor.started(job.id).await;
        let running = until(&server, run, "running").await;
        assert!(running["startedAt"].is_string() && running["waiting"].is_null());
        executor.told(job.id, 1, &["one", "two"]).await;
        assert!(matches!(executor.hear().await, FromServer::Ack { seq: 2, result: false, .. }));
        // What comes again counts once, and what comes after a gap does not count yet.
        executor.told(job.id, 2, &["two", "three"]).await;
        assert!(matches!(executor.hear().await, FromServer::Ack { seq: 3, .. }));
        executor.told(job.id, 9, &["nine"]).await;
        assert!(matches!(executor.hear().await, FromServer::Ack { seq: 3, .. }));
        executor.ended(job.id, "Hello.").await;
        executor.acknowledged(job.id).await;
        let over = until(&server, run, "succeeded").await;
        assert_eq!((&over["output"], &over["error"], &over["usage"]["inputTokens"]), (&json!("Hello."), &Value::Null, &json!(3)));
        let all = events(&server, run, "").await;
        let names: Vec<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names, ["state", "state", "state", "text", "text", "text", "state", "end"]);
        let states: Vec<&Value> = all.iter().filter(|(_, name, _)| name == "state").map(|(_, _, data)| &data["state"]).collect();
        assert_eq!(states, ["queued", "leased", "running", "succeeded"]);
        let texts: Vec<&Value> = all.iter().filter(|(_, name, _)| name == "text").map(|(_, _, data)| &data["text"]).collect();
        assert_eq!(texts, ["one", "two", "three"]);
        assert_eq!(all.iter().map(|(n, ..)| *n).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7, 0]);
        // Who comes back begins where they were.
        let rest = events(&server, run, "?after=5").await;
        assert_eq!(rest.iter().map(|(n, ..)| *n).collect::<Vec<_>>(), [6, 7, 0]);
        let followed = following.await.unwrap();
        assert_eq!(followed.matches("event: text").count(), 3, "{followed}");
        assert!(followed.contains("event: end"));
    }

    async fn only_who_fits_gets_it(database: TestDatabase) {
        let server = serve(&database);
        let plain = pair(&server, &json!({})).await;
        let fast = pair(&server, &json!({ "labels": ["gpu", "group:west"] })).await;
        let mut plain_link = plain.connect_with(&[EngineId::Codex], 10, &[]).await;
        let mut fast_link = fast.connect_with(&[EngineId::Codex, EngineId::Claude], 10, &[]).await;
        for selector in [json!({ "executorId": fast.id }), json!({ "labels": ["gpu"] }), json!({ "tag": "gpu" }), json!({ "group": "west" })] {
            let mut config = config("gateway.codex.v2");
            config["execution"] = json!({ "selector": selector });
            let run = ask(&server, &json!({ "config": config })).await;
            assert_eq!(fast_link.given().await.id.run_id, run, "{selector}");
        }
        let run = ask(&server, &json!({ "config": config("gateway.claude.v2") })).await;
        assert_eq!(fast_link.given().await.id.run_id, run, "it alone has the engine");
        let nobody = json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "execution": { "selector": { "labels": ["gpu", "us"] } } });
        let waits = ask(&server, &json!({ "config": nobody })).await;
        assert!(plain_link.is_given_nothing().await);
        assert_eq!(show(&server, waits).await["state"], "queued");
        // Nobody's waiting keeps others from being served.
        let mut config = config("gateway.codex.v2");
        config["execution"] = json!({ "selector": { "executorId": plain.id } });
        let run = ask(&server, &json!({ "config": config })).await;
        assert_eq!(plain_link.given().await.id.run_id, run);
    }

    async fn no_more_than_its_capacity(database: TestDatabase) {
        let server = serve(&database);
        let mut executor = pair(&server, &json!({})).await.connect(2, &[]).await;
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(ask(&server, &json!({ "config": config("gateway.codex.v2") })).await);
        }
        let (first, second) = (executor.given().await.id, executor.given().await.id);
        assert_eq!([first.run_id, second.run_id], asked[..2], "oldest first");
        let waiting = show(&server, asked[2]).await;
        assert!(waiting["waiting"].as_str().unwrap().contains("has room just now"), "{waiting}");
        assert_eq!(server.get(EXECUTORS).await.expect(200)["items"][0]["inFlight"], 2);
        executor.ended(first, "done").await;
        assert_eq!(executor.given().await.id.run_id, asked[2]);
    }

    /// Two that could both take a run take turns, whichever is quicker.
    async fn who_had_nothing_for_longest_comes_next(database: TestDatabase) {
        let server = serve(&database);
        let mut one = pair(&server, &json!({})).await.connect(10, &[]).await;
        let mut other = pair(&server, &json!({})).await.connect(10, &[]).await;
        let mut turns = Vec::new();
        for _ in 0..6 {
            let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
            let (is_one, job) = tokio::select! {
                job = one.given() => (true, job),
                job = other.given() => (false, job),
            };
            assert_eq!(job.id.run_id, run);
            let link = if is_one { &mut one } else { &mut other };
            link.ended(job.id, "done").await;
            link.acknowledged(job.id).await;
            turns.push(is_one);
        }
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    }

    /// One that is half full gets nothing while another is empty, however many it could take.
    async fn who_is_emptier_comes_first(database: TestDatabase) {
        let server = serve(&database);
        let large = pair(&server, &json!({})).await;
        let mut large_link = large.connect(8, &[]).await;
        let mut config_of_large = config("gateway.codex.v2");
        config_of_large["execution"] = json!({ "selector": { "executorId": large.id } });
        for _ in 0..4 {
            ask(&server, &json!({ "config": config_of_large })).await;
            large_link.given().await;
        }
        let mut small = pair(&server, &json!({})).await.connect(3, &[]).await;
        // Empty, then a third full: before one that is half full. Two thirds full: after it.
        for _ in 0..2 {
            let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
            assert_eq!(small.given().await.id.run_id, run);
        }
        let run = ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
        assert_eq!(large_link.given().await.id.run_id, run);
    }

    /// What does not speak the wire is told so and hears no more.
    async fn a_connection_that_is_no_executor(database: TestDatabase) {
        let server = serve(&database);
        let paired = pair(&server, &json!({})).await;
        let hello = |protocol| FromExecutor::Hello { protocol, version: "1".into(), engines: Vec::new(), capacity: 1, containers: false, holding: Vec::new() };
        for wrong in [hello(PROTOCOL + 1), FromExecutor::Heartbeat { holding: Vec::new() }] {
            let mut link = paired.dial().await.unwrap();
            link.say(&wrong).await;
            assert!(link.maybe().await.is_none(), "{wrong:?}");
        }
        let mut older = paired.connect(1, &[]).await;
        let mut newer = paired.connect(1, &[]).await;
        assert!(older.maybe().await.is_none(), "the newest connection is the executor");
        newer.say(&hello(PROTOCOL)).await;
        assert!(newer.maybe().await.is_none(), "hello is said once");
    }

    async fn a_configuration_that_is_wrong_is_told_at_its_place(database: TestDatabase) {
        let server = serve(&database);
        for (config, field) in [
            (json!({}), "config"),
            (json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "output": { "mode": "json", "jsonSchema": { "type": "objekt" } } }), "config.output.jsonSchema"),
            (json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "execution": { "selector": { "executorId": "01890a5d-ac96-774b-bcce-b302099a8057" } } }), "config.execution.selector.executorId"),
            (json!({ "prompt": "", "engine": { "id": "gateway.codex.v2" } }), "config.prompt"),
            (json!({ "prompt": "x", "engine": { "id": "gpt" } }), "config.engine.id"),
            (json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "limits": { "maxTurns": 65 } }), "config.limits.maxTurns"),
            (json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "execution": { "selector": { "pool": "cloud" } } }), "config.execution.selector.pool"),
        ] {
            let refused = server.post(RUNS, &json!({ "config": config })).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["field"], field, "{}", refused.body);
        }
        let nowhere = json!({ "config": config("gateway.codex.v2"), "workspace": { "chatId": "01890a5d-ac96-774b-bcce-b302099a8057" } });
        server.post(RUNS, &nowhere).await.expect_error(404, "NOT_FOUND");
        assert_eq!(server.get(RUNS).await.expect(200)["items"], json!([]), "nothing of it is kept");
    }
}

/// A look for work that takes its time keeps nobody from being heard: who is not heard of loses what it has.
#[tokio::test(flavor = "multi_thread")]
async fn it_is_heard_while_work_is_looked_for() {
    let database = TestDatabase::postgres().await;
    let server = serve(&database);
    let paired = pair(&server, &json!({})).await;
    let mut executor = paired.connect(2, &[]).await;
    ask(&server, &json!({ "config": config("gateway.codex.v2") })).await;
    let first = executor.given().await.id;
    let mut labelled = config("gateway.codex.v2");
    labelled["execution"] = json!({ "selector": { "labels": ["gpu"] } });
    let second = ask(&server, &json!({ "config": labelled })).await;
    // Whoever wants to take it has to wait.
    let mut holder = database.connect(SUPERUSER).await;
    run(&mut holder, "BEGIN").await;
    run(&mut holder, "SELECT 1 FROM run_queue WHERE lease_until IS NULL FOR UPDATE").await;
    let path = format!("{EXECUTORS}/{}", paired.id);
    Answer::of(server.request(Method::PATCH, &path).json(&json!({ "labels": ["gpu"] }))).await.expect(200);
    let waits = "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let end = Instant::now() + Duration::from_secs(60);
    while database.count(waits).await == 0 {
        assert!(Instant::now() < end, "nobody wants to take it");
        executor.alive(&[first]).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    executor.ended(first, "done").await;
    executor.acknowledged(first).await;
    assert_eq!(until(&server, first.run_id, "succeeded").await["output"], "done");
    run(&mut holder, "COMMIT").await;
    assert_eq!(executor.given().await.id.run_id, second);
}
