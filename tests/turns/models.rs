//! Which models there are to choose from.

use kitbag_testkit::model::{Reply, StandIn};
use kitbag_testkit::{Server, on_both};
use serde_json::json;

use crate::BINARY;
use crate::kit::serve;

const MODELS: &str = "/v1/orgs/local/models";

on_both! {
    async fn what_providers_list_can_be_chosen(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let list = json!({ "data": [{ "id": "claude-b" }, { "id": "a model with spaces" }, { "id": "org/model:7b" }] });
        models.otherwise("/v1/models", Reply::json(200, &list));
        let told = server.get(MODELS).await.expect(200);
        assert_eq!(told, json!({
            "default": "anthropic/claude-test",
            "providers": [
                { "provider": "anthropic", "available": true, "models": ["anthropic/claude-b", "anthropic/org/model:7b"], "error": null },
                { "provider": "openai", "available": true, "models": ["openai/claude-b", "openai/org/model:7b"], "error": null },
            ],
        }));
        // One that lists nothing may still answer, so it is not taken out.
        models.otherwise("/v1/models", Reply::json(404, &json!({ "error": { "message": "no such page" } })));
        let told = server.get(MODELS).await.expect(200);
        for provider in told["providers"].as_array().unwrap() {
            assert_eq!((&provider["available"], &provider["models"]), (&json!(true), &json!([])), "{told}");
            assert_eq!(provider["error"]["code"], "LLM_UNAVAILABLE", "{told}");
        }
    }

    async fn without_a_key_none_is_asked_for(database: TestDatabase) {
        // The makers' own addresses: nothing may be dialled there in a test, and nothing is without a key.
        let server = Server::start(BINARY, &database, &[]);
        let told = server.get(MODELS).await.expect(200);
        assert_eq!(told["default"], json!(null));
        for (provider, secret) in told["providers"].as_array().unwrap().iter().zip(["llm.anthropic", "llm.openai"]) {
            assert_eq!((&provider["available"], &provider["error"]["code"]), (&json!(false), &json!("LLM_SECRET_REQUIRED")), "{told}");
            assert_eq!(provider["error"]["details"]["secret"], secret);
        }
    }
}
