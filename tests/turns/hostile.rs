//! Models and providers that say too much, too deep or too often. The chat stays what it is: readable, small, and there for the next turn.

use kitbag_testkit::model::{Anthropic, OpenAi, StandIn};
use kitbag_testkit::on_both;
use serde_json::{Value, json};

use crate::kit::{blocks, end, file, messages, new_chat, serve, turn};

fn nested(levels: usize) -> String {
    format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels))
}

on_both! {
    async fn arguments_that_are_nested_too_deeply_are_told_to_the_model(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        for levels in [62, 63, 120, 200] {
            let given = json!({ "type": "tool_use", "id": "toolu_2", "name": "write_file", "input": serde_json::from_str::<Value>(&nested(levels.min(100))).unwrap() });
            models.messages(
                Anthropic::new()
                    .tool_call("toolu_1", "write_file", &[&nested(levels)])
                    .event(&json!({ "type": "content_block_start", "index": 1, "content_block": given }))
                    .event(&json!({ "type": "content_block_stop", "index": 1 }))
                    .ends("tool_use"),
            );
            models.messages(Anthropic::new().text(&["So be it."]).ends("end_turn"));
            let events = turn(&server, &chat, &json!({ "content": "Go deep." })).await;
            assert_eq!(end(&events)["state"], "done", "{levels}: {events:#?}");
            let kept = messages(&server, &chat).await;
            let blocks = blocks(kept.last().unwrap());
            assert_eq!(blocks.len(), 3, "{blocks:#?}");
            let told = models.asked().last().unwrap().body["messages"].as_array().unwrap().last().unwrap()["content"].clone();
            for result in [0, 1] {
                assert_eq!(told[result]["is_error"], true, "{told}");
                let words = told[result]["content"][0]["text"].as_str().unwrap();
                let expected = if levels == 62 { "INVALID_ARGUMENTS" } else if levels == 200 && result == 0 { "no JSON" } else { "nested too deeply" };
                assert!(words.contains(expected), "{levels}: {words}");
            }
        }
    }

    async fn an_answer_without_an_end_is_ended(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let much = "x".repeat(32 * 1024);
        models.completions(OpenAi::new().thinking(&["Hm."]).text(&vec![much.as_str(); 40]).ends("stop"));
        let events = turn(&server, &chat, &json!({ "content": "Talk.", "model": "openai/any" })).await;
        assert_eq!(end(&events)["state"], "limited");
        assert!(events[events.len() - 2].data["message"].as_str().unwrap().contains("one answer"), "{}", events[events.len() - 2].data);
        // What was whole is kept, and nothing of the other.
        let kept = messages(&server, &chat).await;
        assert_eq!(blocks(&kept[1]).iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>(), ["thinking"]);
        models.completions(OpenAi::new().text(&["Briefly."]).ends("stop"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "Again.", "model": "openai/any" })).await)["state"], "done");
    }

    /// Bits are passed on, and each once, however many there are.
    async fn many_small_bits_are_one_text(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let bits: Vec<String> = (0..5000).map(|number| format!("{number},")).collect();
        let bits: Vec<&str> = bits.iter().map(String::as_str).collect();
        models.messages(Anthropic::new().text(&bits).ends("end_turn").in_one_piece());
        let events = turn(&server, &chat, &json!({ "content": "Count." })).await;
        assert!(events.is_sorted_by(|one, other| one.id < other.id));
        let whole = events.iter().find(|event| event.name == "block").unwrap();
        assert_eq!(whole.data["block"]["text"], bits.concat());
        let heard: String = events.iter().filter(|event| event.name == "text").map(|event| event.data["delta"].as_str().unwrap()).collect();
        assert!(bits.concat().starts_with(&heard), "a bit came twice, or not at all");
    }

    async fn calls_beyond_the_limit_are_refused_and_the_model_is_told(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let mut answer = Anthropic::new();
        for number in 0..1000 {
            let (id, arguments) = (format!("toolu_{number}"), json!({ "path": format!("{number}.txt"), "content": "x" }).to_string());
            // All but the last that are made are wrong, so that the test is quick.
            let tool = if [63, 64].contains(&number) { "write_file" } else { "no_such_tool" };
            answer = answer.tool_call(&id, tool, &[&arguments]);
        }
        models.messages(answer.ends("tool_use"));
        models.messages(Anthropic::new().text(&["So be it."]).ends("end_turn"));
        let events = turn(&server, &chat, &json!({ "content": "Do much." })).await;
        assert_eq!(end(&events)["state"], "done", "{:?}", end(&events));
        assert_eq!((file(&server, &chat, "63.txt").await.as_deref(), file(&server, &chat, "64.txt").await), (Some("x"), None));
        let told = models.asked()[1].body["messages"][2]["content"].as_array().unwrap().clone();
        assert_eq!(told.len(), 1000);
        let says = |place: usize, words: &str| assert!(told[place].to_string().contains(words), "{}", told[place]);
        says(62, "there is no tool");
        says(64, "64 calls at the most");
        says(999, "64 calls at the most");
        assert_eq!(blocks(&messages(&server, &chat).await[1]).len(), 1001);
    }

    async fn token_counts_may_be_any_number(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let most = json!({ "input_tokens": u64::MAX, "output_tokens": u64::MAX, "cache_read_input_tokens": u64::MAX });
        for _ in 0..2 {
            models.messages(Anthropic::with_usage(&most).tool_call("toolu_1", "no_such_tool", &["{}"]).ends("tool_use"));
        }
        models.messages(Anthropic::with_usage(&most).text(&["Done."]).ends("end_turn"));
        let events = turn(&server, &chat, &json!({ "content": "Count." })).await;
        assert_eq!((&end(&events)["state"], &end(&events)["usage"]["inputTokens"]), (&json!("done"), &json!(u64::MAX)));
        models.messages(Anthropic::with_usage(&most).tool_call("toolu_1", "no_such_tool", &["{}"]).ends("tool_use"));
        let events = turn(&server, &chat, &json!({ "content": "Count.", "limits": { "maxTokens": 5 } })).await;
        assert_eq!(end(&events)["state"], "limited");
        assert_eq!(messages(&server, &chat).await[3]["content"][0]["state"], "limited");
    }
}
