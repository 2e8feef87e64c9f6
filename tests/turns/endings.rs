//! Turns that somebody ends, that come to a limit, or whose server goes.

use kitbag_testkit::model::{Anthropic, Gate, StandIn};
use kitbag_testkit::on_both;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::json;

use crate::kit::{CHATS, Following, blocks, end, messages, new_chat, serve, turn};

on_both! {
    async fn a_turn_that_is_cancelled_takes_its_calls_with_it(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        models.messages(Anthropic::new().text(&["Soon."]).tool_call("toolu_1", "run_command", &[r#"{"command":"true"}"#]).ends("tool_use"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Do it." })).await;
        let id = following.named("turn").await.data["turnId"].as_str().unwrap().to_owned();
        let call = following.named("tool_call").await.data["call"].clone();
        assert_eq!(call["status"], "pending");
        // One turn at a time.
        let path = format!("{CHATS}/{chat}/stream");
        let busy = server.post(&path, &json!({ "content": "And this." })).await;
        busy.expect_error(409, "CONFLICT");
        assert_eq!(busy.body["details"]["turnId"], id.as_str());
        let running = server.get(&format!("{CHATS}/{chat}/turns")).await.expect(200);
        assert_eq!(running["items"][0]["id"], id.as_str());
        let cancel = format!("{CHATS}/{chat}/turns/{id}/cancel");
        assert_eq!(server.post(&cancel, &json!({})).await.expect(200)["cancelled"], true);
        assert_eq!(server.post(&cancel, &json!({})).await.expect(200)["cancelled"], false);
        assert_eq!(end(&following.rest().await)["state"], "cancelled");
        let call = server.get(&format!("{CHATS}/{chat}/tool-calls/{}", call["id"].as_str().unwrap())).await.expect(200);
        assert_eq!(call["error"]["code"], "CANCELLED");
        assert_eq!(server.get(&format!("{CHATS}/{chat}/turns")).await.expect(200)["items"], json!([]));
        let kept = messages(&server, &chat).await;
        assert_eq!(kept[1]["content"][0]["state"], "cancelled");
        // The next one tells the model what became of it.
        models.messages(Anthropic::new().text(&["I see."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "Never mind." })).await)["state"], "done");
        assert!(models.asked()[1].body["messages"].to_string().contains("CANCELLED"));
    }

    /// Those who are refused have written nothing.
    async fn of_many_who_ask_at_once_one_is_answered(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let gate = Gate::new();
        models.messages(Anthropic::new().hold(&gate).text(&["One."]).ends("end_turn"));
        let path = format!("{CHATS}/{chat}/stream");
        let asking = (0..8).map(|number| server.request(Method::POST, &path).json(&json!({ "content": format!("{number}?") })).send());
        let answers = futures_util::future::join_all(asking).await;
        let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.as_ref().unwrap().status().as_u16()).collect();
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 409, 409, 409, 409, 409, 409, 409]);
        let kept = messages(&server, &chat).await;
        assert_eq!(kept.iter().map(|message| message["role"].as_str().unwrap()).collect::<Vec<_>>(), ["user", "assistant"]);
        gate.open();
    }

    async fn whoever_cancels_hangs_up_on_the_provider(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let gate = Gate::new();
        models.messages(Anthropic::new().text(&["Whole."]).hold(&gate).ends("end_turn"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Talk." })).await;
        let id = following.named("turn").await.data["turnId"].as_str().unwrap().to_owned();
        following.named("block").await;
        server.post(&format!("{CHATS}/{chat}/turns/{id}/cancel"), &json!({})).await.expect(200);
        models.hung_up_times(1).await;
        assert_eq!(blocks(&messages(&server, &chat).await[1])[0]["text"], "Whole.");
    }

    async fn limits_end_it(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        for _ in 0..3 {
            let arguments = json!({ "path": "a.txt", "content": "a" }).to_string();
            models.messages(Anthropic::new().tool_call("toolu_1", "write_file", &[&arguments]).ends("tool_use"));
        }
        let events = turn(&server, &chat, &json!({ "content": "Go on.", "limits": { "maxSteps": 2 } })).await;
        assert_eq!((&end(&events)["state"], &end(&events)["steps"]), (&json!("limited"), &json!(2)), "{events:#?}");
        let events = turn(&server, &chat, &json!({ "content": "Go on.", "limits": { "maxTokens": 15 } })).await;
        assert_eq!((&end(&events)["state"], &end(&events)["steps"]), (&json!("limited"), &json!(1)), "{events:#?}");
        models.messages(kitbag_testkit::model::Reply::silence());
        let events = turn(&server, &chat, &json!({ "content": "Go on.", "limits": { "timeoutMs": 1000 } })).await;
        assert!(events[events.len() - 2].data["message"].as_str().unwrap().contains("limit of time"), "{events:#?}");
    }

    /// A crash takes what was not whole, and nothing else.
    async fn a_server_that_is_killed_loses_the_unfinished_block_alone(database: TestDatabase) {
        let models = StandIn::start();
        let mut server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let gate = Gate::new();
        let half = json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "text", "text": "" } });
        let more = json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "text_delta", "text": "Hal" } });
        models.messages(Anthropic::new().text(&["Whole."]).event(&half).event(&more).hold(&gate).ends("end_turn"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Talk." })).await;
        following.until(|event| event.data["delta"] == "Hal").await;
        server.signal(Signal::KILL);
        server.wait();
        let server = serve(&database, &models, &[]);
        let kept = messages(&server, &chat).await;
        assert_eq!(kept[1]["content"][0]["state"], "interrupted", "{}", kept[1]);
        assert_eq!(blocks(&kept[1]).len(), 1);
        assert_eq!(blocks(&kept[1])[0]["text"], "Whole.");
        models.messages(Anthropic::new().text(&["Again."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "messageId": kept[0]["id"] })).await)["state"], "done");
    }

    /// Nobody waits for it any more, so nobody is asked for a yes.
    async fn a_call_that_waited_with_a_server_that_was_killed_is_over(database: TestDatabase) {
        let models = StandIn::start();
        let mut server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let by_hand = json!({ "toolId": "run_command", "args": { "command": "true" } });
        let by_hand = server.post(&format!("{CHATS}/{chat}/tool-calls"), &by_hand).await;
        assert!(by_hand.status.is_success(), "{by_hand:?}");
        models.messages(Anthropic::new().tool_call("toolu_1", "run_command", &[r#"{"command":"true"}"#]).ends("tool_use"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Do it." })).await;
        let call = following.named("tool_call").await.data["call"].clone();
        assert_eq!(call["status"], "pending");
        server.signal(Signal::KILL);
        server.wait();
        let server = serve(&database, &models, &[]);
        let path = format!("{CHATS}/{chat}/tool-calls/{}", call["id"].as_str().unwrap());
        assert_eq!(server.get(&path).await.expect(200)["error"]["code"], "INTERRUPTED");
        server.post(&format!("{path}/decision"), &json!({ "approve": true })).await.expect_error(409, "CONFLICT");
        // What somebody asked for by hand still waits.
        let path = format!("{CHATS}/{chat}/tool-calls/{}", by_hand.body["id"].as_str().unwrap());
        assert_eq!(server.get(&path).await.expect(200)["status"], "pending");
    }

    async fn a_server_that_stops_ends_its_turns(database: TestDatabase) {
        let models = StandIn::start();
        let mut server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let gate = Gate::new();
        models.messages(Anthropic::new().text(&["Whole."]).hold(&gate).ends("end_turn"));
        let mut following = Following::ask(&server, &chat, &json!({ "content": "Talk." })).await;
        following.named("block").await;
        server.signal(Signal::TERM);
        assert_eq!(end(&following.rest().await)["state"], "interrupted");
        assert!(server.wait().success());
        let server = serve(&database, &models, &[]);
        assert_eq!(messages(&server, &chat).await[1]["content"][0]["state"], "interrupted");
    }
}
