//! Providers that are slow, busy, broken or wrong.

use kitbag_testkit::model::{Anthropic, OpenAi, Reply, StandIn};
use kitbag_testkit::on_both;
use serde_json::json;

use crate::kit::{blocks, end, messages, new_chat, serve, turn};

on_both! {
    async fn a_provider_that_is_busy_is_asked_again(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let busy = json!({ "type": "error", "error": { "type": "rate_limit_error", "message": "slow down" } });
        models.messages(Reply::json(429, &busy).header("retry-after", "0"));
        models.messages(Reply::json(500, &json!({})));
        models.messages(Anthropic::new().text(&["Here."]).ends("end_turn"));
        let events = turn(&server, &chat, &json!({ "content": "Hello?" })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        assert_eq!(models.asked().len(), 3);
    }

    /// However it breaks, what was whole before is kept, the reason is told, and the chat goes on.
    async fn what_breaks_is_told_and_what_was_whole_is_kept(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let begun = || Anthropic::new().text(&["Whole."]);
        let half = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
        let more = json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "text_delta", "text": "Hal" } });
        let overloaded = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "too much" } });
        for (reply, says) in [
            (begun().event(&half).event(&more).cut(), "broke off"),
            (begun().raw("event: x\ndata: {no json\n\n").as_it_is(), "cannot be understood"),
            (begun().event(&overloaded).as_it_is(), "not available"),
        ] {
            let chat = new_chat(&server).await;
            models.messages(reply);
            let events = turn(&server, &chat, &json!({ "content": "Hello?" })).await;
            let error = &events[events.len() - 2];
            assert_eq!((error.name.as_str(), &error.data["code"]), ("error", &json!("LLM_UNAVAILABLE")), "{events:#?}");
            assert!(error.data["message"].as_str().unwrap().contains(says), "{says}: {}", error.data);
            assert!(!error.data.to_string().contains("EOF"), "the library's words: {}", error.data);
            assert_eq!(end(&events)["state"], "failed");
            let kept = messages(&server, &chat).await;
            assert_eq!(blocks(&kept[1]).iter().map(|block| block["text"].as_str().unwrap()).collect::<Vec<_>>(), ["Whole."]);
            assert_eq!(kept[1]["content"][0]["error"]["code"], "LLM_UNAVAILABLE");
            models.messages(Anthropic::new().text(&["Better."]).ends("end_turn"));
            assert_eq!(end(&turn(&server, &chat, &json!({ "content": "And now?" })).await)["state"], "done");
        }
    }

    async fn a_key_that_is_refused_is_told_and_never_shown(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let secret = "sk-made-up-key-of-a-test";
        let path = "/v1/orgs/local/secrets/llm.openai";
        let given = server.request(reqwest::Method::PUT, path).json(&json!({ "value": secret })).send().await.unwrap();
        assert!(given.status().is_success(), "{}", given.text().await.unwrap());
        let said = json!({ "error": { "message": format!("Incorrect API key provided: {secret}"), "type": "invalid_request_error" } });
        models.completions(Reply::json(401, &said));
        let chat = new_chat(&server).await;
        let events = turn(&server, &chat, &json!({ "content": "Hello?", "model": "openai/any" })).await;
        assert_eq!(end(&events)["state"], "failed");
        assert_eq!(models.asked()[0].headers["authorization"], format!("Bearer {secret}"));
        let everything = format!("{events:?}{:?}{}", messages(&server, &chat).await, server.log());
        assert!(everything.contains("key") && !everything.contains(secret), "{everything}");
        // With a good one it goes on.
        models.completions(OpenAi::new().text(&["Hi."]).ends("stop"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "Hello?", "model": "openai/any" })).await)["state"], "done");
    }
}

/// Without a key the makers themselves are not asked, and nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_nothing_begins() {
    let database = kitbag_testkit::TestDatabase::sqlite();
    let server = kitbag_testkit::Server::start(crate::BINARY, &database, &["--model", "anthropic/claude-test"]);
    let chat = new_chat(&server).await;
    let refused = server.post(&format!("{}/{chat}/stream", crate::kit::CHATS), &json!({ "content": "Hello?" })).await;
    refused.expect_error(422, "LLM_SECRET_REQUIRED");
    assert_eq!(refused.body["details"]["secret"], "llm.anthropic");
    assert!(messages(&server, &chat).await.is_empty());
}
