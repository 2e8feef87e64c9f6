//! Organisations: whose executors, whose runs, and whose turn.

use kitbag_testkit::on_both;
use serde_json::{Value, json};

use crate::browsers::{Browser, invited, owner};
use crate::kit::{EXECUTORS, Paired, config, pair, pair_with, serve};

async fn pair_in(browser: &Browser<'_>, org: &str) -> Paired {
    let made = browser.post(&format!("/v1/orgs/{org}/executors/pairing-tokens"), json!({})).await.expect(201);
    pair_with(browser.server, made["pairingToken"].as_str().unwrap(), "theirs").await.unwrap()
}

async fn ask_in(browser: &Browser<'_>, org: &str, config: Value) -> String {
    let made = browser.post(&format!("/v1/orgs/{org}/agent-runs"), json!({ "config": config })).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

fn managed() -> Value {
    let mut config = config("gateway.codex.v2");
    config["execution"] = json!({ "selector": { "pool": "managed" } });
    config
}

on_both! {
    async fn an_organisations_runs_are_its_executors_alone(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        let (acme, other) = (pair_in(&ada, "acme").await, pair_in(&bob, "other").await);
        let (mut acme_link, mut other_link) = (acme.connect(5, &[]).await, other.connect(5, &[]).await);
        let run = ask_in(&ada, "acme", config("gateway.codex.v2")).await;
        let job = acme_link.given().await;
        assert_eq!((job.id.run_id.to_string(), job.organization_id.as_str()), (run.clone(), "acme"));
        // The other's executor says that it has it, and that it is done.
        other_link.ended(job.id, "stolen").await;
        loop {
            match other_link.hear().await {
                kitbag_model::run::wire::FromServer::Ack { result: true, .. } | kitbag_model::run::wire::FromServer::Drop { .. } => break,
                _ => {}
            }
        }
        let path = format!("/v1/orgs/acme/agent-runs/{run}");
        assert_eq!(ada.get(&path).await.expect(200)["state"], "leased");
        acme_link.used(job.id, 1, "Bash", (json!({}), json!("ok"), false)).await;
        // It was asked for, given away, and then there was a call.
        let call = "calls/4";
        assert_eq!(ada.get(&format!("{path}/{call}")).await.expect(200)["renderPlan"]["renderer"], "terminal");
        let mut told = Vec::new();
        for id in [&run, &kitbag_model::RunId::generate().to_string()] {
            let answer = bob.get(&format!("/v1/orgs/other/agent-runs/{id}/{call}")).await;
            answer.expect_error(404, "NOT_FOUND");
            told.push(answer.body["message"].to_string().replace(id, ""));
        }
        assert_eq!(told[0], told[1], "as one that nobody ever asked for");
        let theirs = other.request(&server, reqwest::Method::POST, job.id, "missing").json(&json!({ "hashes": [] }));
        kitbag_testkit::Answer::of(theirs).await.expect_error(409, "CONFLICT");
        bob.get(&format!("/v1/orgs/other/agent-runs/{run}")).await.expect_error(404, "NOT_FOUND");
        assert_eq!(bob.get("/v1/orgs/other/agent-runs").await.expect(200)["items"], json!([]));
        bob.delete(&format!("/v1/orgs/other/executors/{}", acme.id)).await.expect_error(404, "NOT_FOUND");
    }

    /// The operator's executors serve everybody, in turn.
    async fn the_operators_executors_are_everybodys_in_turn(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        ada.post("/v1/orgs/acme/executors/pairing-tokens", json!({ "pool": "managed" })).await.expect_error(403, "FORBIDDEN");
        let mut many = Vec::new();
        for _ in 0..6 {
            many.push(ask_in(&ada, "acme", managed()).await);
        }
        let one = ask_in(&bob, "other", managed()).await;
        let mut executor = pair(&server, &json!({ "pool": "managed" })).await.connect(2, &[]).await;
        let first = executor.given().await;
        let second = executor.given().await;
        assert_eq!(first.id.run_id.to_string(), many[0], "who waited longest");
        assert_eq!(second.id.run_id.to_string(), one, "then who has the fewest, however many others wait");
        assert_eq!(second.organization_id.as_str(), "other");
        executor.ended(second.id, "done").await;
        executor.acknowledged(second.id).await;
        assert_eq!(bob.get(&format!("/v1/orgs/other/agent-runs/{one}")).await.expect(200)["output"], "done");
        assert_eq!(executor.given().await.id.run_id.to_string(), many[1]);
        // They are nobody's in lists of organisations.
        assert_eq!(ada.get("/v1/orgs/acme/executors").await.expect(200)["items"], json!([]));
        assert_eq!(server.get(EXECUTORS).await.expect(200)["items"].as_array().unwrap().len(), 1);
    }

    async fn no_more_than_its_quota(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "executorsInFlight": 1 } })).await.expect(200);
        let mut executor = pair_in(&ada, "acme").await.connect(5, &[]).await;
        let (first, second) = (ask_in(&ada, "acme", config("gateway.codex.v2")).await, ask_in(&ada, "acme", config("gateway.codex.v2")).await);
        let id = executor.given().await.id;
        assert_eq!(id.run_id.to_string(), first);
        let waits = ada.get(&format!("/v1/orgs/acme/agent-runs/{second}")).await.expect(200);
        assert!(waits["waiting"].as_str().unwrap().contains("executorsInFlight"), "{waits}");
        executor.ended(id, "done").await;
        assert_eq!(executor.given().await.id.run_id.to_string(), second);
    }

    /// A queue without an end would be a database without one.
    async fn no_more_wait_than_its_quota(database: TestDatabase) {
        let server = serve(&database);
        let (ada, bob) = (owner(&server, "acme").await, owner(&server, "other").await);
        ada.put("/v1/orgs/acme/settings", json!({ "quotas": { "queuedRuns": 2 } })).await.expect(200);
        let first = ask_in(&ada, "acme", config("gateway.codex.v2")).await;
        ask_in(&ada, "acme", managed()).await;
        let chats = "SELECT COUNT(*) FROM chats";
        let before = database.count(chats).await;
        let refused = ada.post("/v1/orgs/acme/agent-runs", json!({ "config": managed() })).await;
        refused.expect_error(429, "QUOTA_EXCEEDED");
        assert!(refused.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 1);
        let message = refused.body["message"].as_str().unwrap();
        assert!(message.contains("queuedRuns of the organisation acme is 2"), "{message}");
        assert_eq!(database.count(chats).await, before, "nothing is left of it");
        ask_in(&bob, "other", managed()).await;
        // What executors have does not wait.
        let mut executor = pair_in(&ada, "acme").await.connect(1, &[]).await;
        assert_eq!(executor.given().await.id.run_id.to_string(), first);
        let third = ask_in(&ada, "acme", managed()).await;
        ada.post("/v1/orgs/acme/agent-runs", json!({ "config": managed() })).await.expect_error(429, "QUOTA_EXCEEDED");
        ada.post(&format!("/v1/orgs/acme/agent-runs/{third}/cancel"), json!({})).await.expect(200);
        ask_in(&ada, "acme", managed()).await;
    }

    async fn a_run_of_a_private_toolset_is_as_private(database: TestDatabase) {
        let server = serve(&database);
        let ada = owner(&server, "acme").await;
        let admin = invited(&ada, "acme", "admin@acme.example", "admin").await;
        let member = invited(&ada, "acme", "member@acme.example", "member").await;
        let own = json!({ "id": "own", "name": "Own", "visibility": "private", "mcpServers": [], "agentSkills": [] });
        admin.post("/v1/orgs/acme/toolsets", own).await.expect(201);
        let mut config = config("gateway.codex.v2");
        config["toolsetId"] = json!("own");
        let run = ask_in(&admin, "acme", config.clone()).await;
        let path = format!("/v1/orgs/acme/agent-runs/{run}");
        member.get(&path).await.expect_error(404, "NOT_FOUND");
        member.get(&format!("{path}/events")).await.expect_error(404, "NOT_FOUND");
        let mut executor = pair_in(&ada, "acme").await.connect(1, &[]).await;
        let id = executor.given().await.id;
        executor.used(id, 1, "Bash", (json!({}), json!("ok"), false)).await;
        admin.get(&format!("{path}/calls/4")).await.expect(200);
        let (theirs, nobodys) = (member.get(&format!("{path}/calls/4")).await, member.get(&format!("{path}/calls/99")).await);
        theirs.expect_error(404, "NOT_FOUND");
        assert_eq!(theirs.body["message"], nobodys.body["message"]);
        member.post(&format!("{path}/cancel"), json!({})).await.expect_error(404, "NOT_FOUND");
        assert_eq!(member.get("/v1/orgs/acme/agent-runs").await.expect(200)["items"], json!([]));
        member.post("/v1/orgs/acme/agent-runs", json!({ "config": config })).await.expect_error(404, "TOOLSET_NOT_FOUND");
        assert_eq!(ada.get(&path).await.expect(200)["toolset"]["toolsetId"], "own", "who manages sees it");
    }
}
