//! Many turns at once: there are so many places, and who finds none is told to come again.

use kitbag_testkit::model::{Anthropic, Gate, StandIn};
use kitbag_testkit::{Answer, on_both};
use serde_json::{Value, json};

use crate::browsers::{Browser, owner};
use crate::kit::{CHATS, Following, end, messages, new_chat, serve, turn};

const SESSIONS: &str = "/v1/orgs/acme/toolsets/builder/sessions";

fn hello() -> Value {
    json!({ "content": "Hello." })
}

#[track_caller]
fn refused(answer: &Answer, why: &str) {
    answer.expect_error(429, "RATE_LIMITED");
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() >= 1);
    let message = answer.body["message"].as_str().unwrap();
    assert!(message.starts_with(why), "{message}");
}

/// An organisation that has models.
async fn acme<'s>(server: &'s kitbag_testkit::Server) -> Browser<'s> {
    let ada = owner(server, "acme").await;
    ada.put("/v1/orgs/acme/secrets/llm.anthropic", json!({ "value": "a-key" })).await.expect(204);
    ada
}

on_both! {
    async fn of_all_chats_so_many_have_a_turn(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &["--max-turns", "2"]);
        let chats = [new_chat(&server).await, new_chat(&server).await, new_chat(&server).await];
        let gates = [Gate::new(), Gate::new(), Gate::new()];
        let mut running = Vec::new();
        for (chat, gate) in chats.iter().zip(&gates[..2]) {
            models.messages(Anthropic::new().hold(gate).text(&["Hi."]).ends("end_turn"));
            running.push(Following::ask(&server, chat, &hello()).await);
            gate.reached().await;
        }
        let third = format!("{CHATS}/{}/stream", chats[2]);
        refused(&server.post(&third, &hello()).await, "2 turns of models run, and at most 2 may");
        assert_eq!(messages(&server, &chats[2]).await, Vec::<Value>::new(), "nothing is left of it");
        // One that is ended gives its place back, as one does that comes to its end.
        let id = running[0].named("turn").await.data["turnId"].as_str().unwrap().to_owned();
        server.post(&format!("{CHATS}/{}/turns/{id}/cancel", chats[0]), &json!({})).await.expect(200);
        assert_eq!(end(&running.remove(0).rest().await)["state"], "cancelled");
        models.messages(Anthropic::new().hold(&gates[2]).text(&["Hi."]).ends("end_turn"));
        let next = Following::ask(&server, &chats[2], &hello()).await;
        refused(&server.post(&format!("{CHATS}/{}/stream", chats[0]), &hello()).await, "2 turns of models run");
        gates.iter().for_each(Gate::open);
        for following in [running.remove(0), next] {
            assert_eq!(end(&following.rest().await)["state"], "done");
        }
        // As does one that the model lets down, and one that is refused for something else.
        for _ in 0..3 {
            models.messages(Anthropic::new().text(&["Wh"]).cut());
            assert_eq!(end(&turn(&server, &chats[0], &hello()).await)["state"], "failed");
            let nothing = json!({ "messageId": kitbag_model::MessageId::generate() });
            server.post(&third, &nothing).await.expect_error(400, "BAD_REQUEST");
        }
    }

    /// One organisation's turns and questions leave room for others.
    async fn an_organisation_has_its_share(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &["--max-turns", "2"]);
        let ada = acme(&server).await;
        let (gate, chat) = (Gate::new(), new_chat(&server).await);
        let mut theirs = Vec::new();
        for _ in 0..2 {
            let made = ada.post("/v1/orgs/acme/chats", json!({})).await.expect(201);
            theirs.push(format!("/v1/orgs/acme/chats/{}/stream", made["id"].as_str().unwrap()));
        }
        models.messages(Anthropic::new().hold(&gate).text(&["Hi."]).ends("end_turn"));
        let request = server.anonymous(reqwest::Method::POST, &theirs[0]).header("cookie", &ada.cookie);
        let request = request.header("sec-fetch-site", "same-origin").json(&hello());
        let following = Following::of(request.send().await.unwrap()).await;
        refused(&ada.post(&theirs[1], hello()).await, "1 turns of models of this organisation run, and at most 1 may");
        // The builder's questions are counted with them. Whoever is only greeted asks nobody.
        let llm = json!({ "provider": "anthropic", "model": "claude-test" });
        let question = json!({ "llm": llm, "intent": "GitHub, please." });
        refused(&ada.post(SESSIONS, question.clone()).await, "1 turns of models of this organisation run");
        let greeted = ada.post(SESSIONS, json!({ "llm": llm })).await.expect(200);
        let session = format!("{SESSIONS}/{}", greeted["sessionId"].as_str().unwrap());
        refused(&ada.post(&format!("{session}/chat"), json!({ "message": "GitHub." })).await, "1 turns of models");
        refused(&ada.post(&format!("{session}/finalize"), json!({})).await, "1 turns of models");
        // The operator's own has what is left.
        models.messages(Anthropic::new().text(&["Hi."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &hello()).await)["state"], "done");
        gate.open();
        assert_eq!(end(&following.rest().await)["state"], "done");
        // A question takes a place as long as it is asked, and no longer.
        let gate = Gate::new();
        let said = json!({ "message": "GitHub it is.", "suggestedComponentKeys": ["mcp.github"] });
        models.messages(Anthropic::new().hold(&gate).text(&[&said.to_string()]).ends("end_turn"));
        let asking = ada.post(SESSIONS, question.clone());
        let meanwhile = async {
            gate.reached().await;
            let answer = ada.post(&theirs[1], hello()).await;
            gate.open();
            answer
        };
        let (asked, meanwhile) = tokio::join!(asking, meanwhile);
        refused(&meanwhile, "1 turns of models of this organisation run");
        asked.expect(200);
        models.messages(Anthropic::new().text(&[&said.to_string()]).ends("end_turn"));
        ada.post(SESSIONS, question).await.expect(200);
    }
}
