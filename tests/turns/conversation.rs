//! A whole conversation, on both wires: text, thinking, calls that are made, allowed and denied, and somebody who comes back in the middle.

use kitbag_testkit::model::{Anthropic, Gate, OpenAi, StandIn};
use kitbag_testkit::on_both;
use serde_json::{Value, json};

use crate::kit::{Following, blocks, decide, end, file, messages, new_chat, serve, turn};

on_both! {
    async fn a_conversation_with_anthropic(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let gate = Gate::new();
        models.messages(
            Anthropic::new()
                .thinking(&["I sh", "ould look."], "sig-1")
                .event(&json!({ "type": "content_block_start", "index": 7, "content_block": { "type": "text", "text": "" } }))
                .event(&json!({ "type": "content_block_delta", "index": 7, "delta": { "type": "text_delta", "text": "Let me " } }))
                .hold(&gate)
                .event(&json!({ "type": "content_block_delta", "index": 7, "delta": { "type": "text_delta", "text": "see." } }))
                .event(&json!({ "type": "content_block_stop", "index": 7 }))
                .tool_call("toolu_1", "write_file", &[r#"{"path":"plan.md","#, r##""content":"# Plan"}"##])
                .tool_call("toolu_2", "run_command", &[r#"{"command":"echo yes"}"#])
                .tool_call("toolu_3", "run_command", &[r#"{"command":"echo no"}"#])
                .ends("tool_use"),
        );
        models.messages(Anthropic::new().text(&["All done."]).ends("end_turn"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Make a plan." })).await;
        let first = following.named("turn").await;
        assert_eq!(first.data["model"], "anthropic/claude-test");
        assert_eq!(first.data["tools"]["searched"], false);
        gate.reached().await;
        let piece = following.until(|event| event.name == "text").await;
        assert_eq!(piece.data["delta"], "Let me ");
        // The connection breaks; the turn goes on.
        let turn_id = first.data["turnId"].as_str().unwrap().to_owned();
        drop(following);
        gate.open();
        let mut following = Following::again(&server, &chat, &turn_id, piece.id).await;
        let block = following.until(|event| event.data["block"]["type"] == "text").await;
        assert_eq!(block.data["block"]["text"], "Let me see.", "whoever missed pieces gets the whole");
        assert!(block.id > piece.id);
        // Both that need a yes are shown before either is decided about.
        let is_pending = |event: &crate::kit::Event| event.name == "tool_call" && event.data["call"]["status"] == "pending";
        let yes = following.until(is_pending).await.data["call"].clone();
        let no = following.until(is_pending).await.data["call"].clone();
        assert_eq!((&yes["args"]["command"], &no["args"]["command"]), (&json!("echo yes"), &json!("echo no")));
        decide(&server, &chat, &yes, true).await;
        decide(&server, &chat, &no, false).await;
        let rest = following.rest().await;
        let over: Vec<&Value> =
            rest.iter().filter(|event| event.name == "tool_call" && event.data["call"]["finishedAt"].is_string()).map(|event| &event.data["call"]).collect();
        assert_eq!(over.iter().map(|call| call["status"].as_str().unwrap()).collect::<Vec<_>>(), ["success", "success", "error"], "{rest:#?}");
        assert!(over[0]["renderPlan"].is_object(), "a call that is over has its plan: {}", over[0]);
        assert_eq!(over[2]["error"]["code"], "DENIED");
        assert_eq!(end(&rest)["state"], "done");
        assert_eq!(end(&rest)["usage"], json!({ "inputTokens": 20, "outputTokens": 10, "cacheReadTokens": 0, "cacheWriteTokens": 0 }));
        // What the model was told: the tools under its names, then what became of each call, with its own thinking and proof.
        let asked = models.asked();
        let tools: Vec<&str> = asked[0].body["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert!(tools.contains(&"write_file") && tools.contains(&"run_command"), "{tools:?}");
        let second = asked[1].body["messages"].as_array().unwrap();
        assert_eq!(second.iter().map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>(), ["user", "assistant", "user"]);
        assert_eq!(second[1]["content"][0]["signature"], "sig-1");
        let results = second[2]["content"].as_array().unwrap();
        assert_eq!(results.iter().map(|result| result["tool_use_id"].as_str().unwrap()).collect::<Vec<_>>(), ["toolu_1", "toolu_2", "toolu_3"]);
        assert!(results[1].to_string().contains("yes") && results[2].to_string().contains("DENIED"), "{results:#?}");
        assert_eq!(results[2]["is_error"], true);
        // What is kept: one message of the person, one of the model, with its state of the workspace.
        let kept = messages(&server, &chat).await;
        assert_eq!(kept.iter().map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>(), ["user", "assistant"]);
        let types: Vec<String> = blocks(&kept[1]).iter().map(|block| block["type"].as_str().unwrap().to_owned()).collect();
        assert_eq!(types, ["thinking", "text", "tool_call", "tool_call", "tool_call", "text"]);
        assert_eq!(kept[1]["content"][0]["state"], "done");
        assert!(kept[1]["manifestId"].is_string(), "{}", kept[1]);
        assert_eq!(file(&server, &chat, "plan.md").await.unwrap(), "# Plan");
        // The next turn knows everything of this one.
        models.messages(Anthropic::new().text(&["Gladly."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "Thanks." })).await)["state"], "done");
        let third = models.asked()[2].body["messages"].clone();
        let roles: Vec<&str> = third.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
        assert_eq!(third[1]["content"][0]["signature"], "sig-1");
        assert_eq!(third[2]["content"][2]["is_error"], true);
        assert_eq!(third[3]["content"][0]["text"], "All done.");
    }

    async fn a_conversation_with_openai_and_another_provider_goes_on(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        models.completions(
            OpenAi::new()
                .thinking(&["Hm."])
                .text(&["One ", "moment."])
                .tool_call("call_1", "write_file", &[r#"{"path":"a.txt","#, r#""content":"A"}"#])
                .tool_call("call_2", "no_such_tool", &["{}"])
                .tool_call("call_3", "write_file", &[r#"{"path":7}"#])
                .ends("tool_calls"),
        );
        models.completions(OpenAi::new().text(&["Written."]).ends("stop"));
        let body = json!({ "content": [{ "type": "text", "text": "Write." }], "model": "openai/any", "system": "Be brief." });
        let events = turn(&server, &chat, &body).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        assert_eq!(file(&server, &chat, "a.txt").await.unwrap(), "A");
        let asked = models.asked();
        assert_eq!(asked[0].body["messages"][0]["content"], "Be brief.");
        let told = asked[1].body["messages"].to_string();
        // What the model got wrong goes back to it.
        assert!(told.contains("there is no tool") && told.contains("INVALID_ARGUMENTS"), "{told}");
        // Another maker's model goes on where this one was, without thinking that it cannot take back.
        models.messages(Anthropic::new().text(&["I see."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "And you?" })).await)["state"], "done");
        let third = models.asked()[2].body["messages"].to_string();
        assert!(third.contains("Written.") && third.contains("call_1") && !third.contains("Hm."), "{third}");
    }
}
