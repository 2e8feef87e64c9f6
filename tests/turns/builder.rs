//! The builder with a model: on the provider's own wire, from the first word to a draft that the normal API takes.

use kitbag_testkit::model::{Anthropic, OpenAi, Reply, StandIn};
use kitbag_testkit::on_both;
use serde_json::{Value, json};

use crate::browsers::owner;
use crate::kit::serve;

const SESSIONS: &str = "/v1/orgs/acme/toolsets/builder/sessions";

fn says(value: &Value) -> Reply {
    Anthropic::new().text(&[&value.to_string()]).ends("end_turn")
}

on_both! {
    async fn a_toolset_is_put_together(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let ada = owner(&server, "acme").await;
        ada.put("/v1/orgs/acme/secrets/llm.anthropic", json!({ "value": "a-key" })).await.expect(204);
        // What looks like a secret is neither kept nor sent.
        let token = format!("ghp_{}", "a1B2c3D4e5".repeat(4));
        models.messages(says(&json!({ "message": "GitHub it is.", "suggestedComponentKeys": ["mcp.github", "mcp.made-up"] })));
        let llm = json!({ "provider": "anthropic", "model": "claude-test" });
        let intent = format!("Look after my issues, my token is {token}");
        let begun = ada.post(SESSIONS, json!({ "llm": llm, "intent": intent })).await.expect(200);
        assert_eq!(begun["selectedComponentKeys"], json!(["mcp.github"]), "{begun}");
        assert!(begun["warnings"].to_string().contains("mcp.made-up"), "{begun}");
        let asked = models.asked();
        assert_eq!(asked[0].headers["x-api-key"], "a-key");
        assert!(asked[0].body.to_string().contains("Look after my issues"));
        let path = format!("{SESSIONS}/{}", begun["sessionId"].as_str().unwrap());
        // The first answer cannot be used; the model is told why, once.
        models.messages(Anthropic::new().text(&["I would ", "love to!"]).ends("end_turn"));
        models.messages(says(&json!({ "message": "And Slack.", "suggestedComponentKeys": ["mcp.slack"] })));
        let answered = ada.post(&format!("{path}/chat"), json!({ "message": "Tell the team.", "selectedComponentKeys": ["mcp.github"] })).await.expect(200);
        assert_eq!(answered["selectedComponentKeys"], json!(["mcp.github", "mcp.slack"]));
        assert_eq!((&begun["userMessage"], &answered["userMessage"]), (&json!("Look after my issues, my token is ghp_[REDACTED]"), &json!("Tell the team.")));
        assert!(models.asked()[2].body.to_string().contains("could not be used"));
        let skill = "---\nname: triage\ndescription: How to triage issues, and whom to tell.\n---\nNewest first.\n";
        models.messages(says(&json!({
            "name": "Issue helper", "description": "Looks after issues.",
            "agentSkills": [{ "format": "agentskills-v1", "id": "triage", "name": "triage", "entry": "SKILL.md", "files": [{ "path": "SKILL.md", "content": skill }] }],
        })));
        let done = ada.post(&format!("{path}/finalize"), json!({ "selectedComponentKeys": ["mcp.github", "mcp.slack"] })).await.expect(200);
        assert_eq!(done["draft"]["name"], "Issue helper");
        let needs = done["warnings"].to_string();
        assert!(needs.contains("GITHUB_TOKEN, SLACK_BOT_TOKEN"), "{needs}");
        let again = ada.get(&path).await.expect(200);
        assert_eq!((&again["warnings"], &again["finalDraft"]), (&done["warnings"], &done["draft"]), "a page that is loaded again shows the same");
        // Nothing was made; the draft is what the normal API takes.
        assert_eq!(ada.get("/v1/orgs/acme/toolsets").await.expect(200)["items"], json!([]));
        let made = ada.post("/v1/orgs/acme/toolsets", done["draft"].clone()).await;
        assert_eq!(made.status, 201, "{made:?}");
        ada.post(&format!("{path}/chat"), json!({ "message": "More." })).await.expect_error(409, "TOOLSET_BUILDER_SESSION_FINALIZED");
        let everything = format!("{:?}{}{}", models.asked(), ada.get(&path).await.expect(200), server.log());
        assert!(!everything.contains(&token), "a secret was kept or sent");
    }

    async fn models_that_fail(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let ada = owner(&server, "acme").await;
        ada.put("/v1/orgs/acme/secrets/llm.openai", json!({ "value": "a-key" })).await.expect(204);
        let llm = json!({ "provider": "openai", "model": "gpt-test" });
        let begin = json!({ "llm": llm, "intent": "GitHub, please." });
        models.completions(Reply::json(400, &json!({ "error": { "message": "no" } })));
        ada.post(SESSIONS, begin.clone()).await.expect_error(503, "LLM_UNAVAILABLE");
        models.completions(OpenAi::new().text(&["{\"mess"]).cut());
        ada.post(SESSIONS, begin.clone()).await.expect_error(503, "LLM_UNAVAILABLE");
        for _ in 0..2 {
            models.completions(OpenAi::new().text(&["no JSON at all"]).ends("stop"));
        }
        ada.post(SESSIONS, begin.clone()).await.expect_error(400, "TOOLSET_BUILDER_INVALID_MODEL_OUTPUT");
        // One that says too much is told so, and mends it or not.
        let long = "x".repeat(90_000);
        for _ in 0..2 {
            models.completions(OpenAi::new().text(&[&long]).ends("stop"));
        }
        ada.post(SESSIONS, begin.clone()).await.expect_error(400, "TOOLSET_BUILDER_INVALID_MODEL_OUTPUT");
        models.completions(OpenAi::new().text(&[&long]).ends("stop"));
        models.completions(OpenAi::new().text(&["{\"message\":\"Shorter.\"}"]).ends("stop"));
        assert_eq!(ada.post(SESSIONS, begin.clone()).await.expect(200)["assistant"]["message"], "Shorter.");
        assert!(models.asked().last().unwrap().body.to_string().contains("more than 80000 characters"));
        models.completions(OpenAi::new().text(&["```json\n{\"message\":\"Gladly.\"}\n```"]).ends("stop"));
        assert_eq!(ada.post(SESSIONS, begin).await.expect(200)["assistant"]["message"], "Gladly.");
    }
}
