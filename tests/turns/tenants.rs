//! Whose turn it is: tools that a chat leaves out are not there, and nobody follows another chat's turn.

use kitbag_testkit::model::{Anthropic, StandIn};
use kitbag_testkit::on_both;
use serde_json::json;

use crate::kit::{CHATS, end, new_chat, serve, turn};

on_both! {
    async fn a_chat_has_the_tools_that_it_selects(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = server.post(CHATS, &json!({ "toolSelectors": ["write_file"] })).await.expect(201)["id"].as_str().unwrap().to_owned();
        models.messages(Anthropic::new().tool_call("toolu_1", "run_command", &[r#"{"command":"true"}"#]).ends("tool_use"));
        models.messages(Anthropic::new().text(&["So be it."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "Run it." })).await)["state"], "done");
        let asked = models.asked();
        assert_eq!(asked[0].body["tools"].as_array().unwrap().len(), 1);
        assert!(asked[1].body["messages"].to_string().contains("there is no tool"), "{}", asked[1].body);
        let calls = server.get(&format!("{CHATS}/{chat}/tool-calls")).await.expect(200);
        assert_eq!(calls["items"], json!([]));
    }

    async fn a_turn_is_found_in_its_own_chat_alone(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let (chat, other) = (new_chat(&server).await, new_chat(&server).await);
        models.messages(Anthropic::new().text(&["Hi."]).ends("end_turn"));
        let events = turn(&server, &chat, &json!({ "content": "Hello." })).await;
        let id = events[0].data["turnId"].as_str().unwrap();
        for path in [format!("{CHATS}/{other}/turns/{id}/events"), format!("{CHATS}/{chat}/turns/{chat}/events"), format!("{CHATS}/{chat}/turns/x/events")] {
            server.get(&path).await.expect_error(404, "NOT_FOUND");
        }
        server.post(&format!("{CHATS}/{other}/turns/{id}/cancel"), &json!({})).await.expect_error(404, "NOT_FOUND");
        server.get(&format!("{CHATS}/{chat}/turns/{id}/events?after=x")).await.expect_error(400, "BAD_REQUEST");
    }
}
