//! What was said before and what a person says now, as providers take it.

use kitbag_testkit::model::{Anthropic, OpenAi, StandIn};
use kitbag_testkit::on_both;
use reqwest::Method;
use serde_json::{Value, json};

use crate::kit::{CHATS, Following, end, messages, new_chat, serve, turn};

on_both! {
    async fn odd_calls_go_back_as_every_provider_takes_them(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        models.completions(
            OpenAi::new()
                .tool_call("t", "foo.bar baz", &["{}"])
                .tool_call("t", "write_file", &[r#"{"path":"a.txt","content":"A"}"#])
                .tool_call("x y!", "write_file", &[r#"{"path":"b.txt","content":"B"}"#])
                .ends("tool_calls"),
        );
        models.completions(OpenAi::new().text(&["Done."]).ends("stop"));
        let events = turn(&server, &chat, &json!({ "content": "Go.", "model": "openai/any" })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        // The next turn, with the other maker, is told the same from what was kept.
        models.messages(Anthropic::new().text(&["I see."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": "And?" })).await)["state"], "done");
        let asked = models.asked();
        let at_once = &asked[1].body["messages"];
        let calls: Vec<&Value> = at_once[1]["tool_calls"].as_array().unwrap().iter().map(|call| &call["id"]).collect();
        assert_eq!(calls, ["t", "call_2", "call_3"]);
        assert_eq!(at_once[1]["tool_calls"][0]["function"]["name"], "foo_bar_baz");
        assert_eq!((&at_once[2]["tool_call_id"], &at_once[3]["tool_call_id"], &at_once[4]["tool_call_id"]), (&json!("t"), &json!("call_2"), &json!("call_3")));
        let later = &asked[2].body["messages"];
        let ids = |place: usize, name: &str| later[place]["content"].as_array().unwrap().iter().map(|block| block[name].clone()).collect::<Vec<_>>();
        assert_eq!((ids(1, "id"), ids(2, "tool_use_id")), (vec![json!("t"), json!("call_2"), json!("call_3")], vec![json!("t"), json!("call_2"), json!("call_3")]));
        assert_eq!(later[1]["content"][0]["name"], "foo_bar_baz");
    }

    async fn what_a_person_says_can_be_shown(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let image = |mime: &str, data: &str| json!([{ "type": "image", "mimeType": mime, "data": data }]);
        for content in [
            json!(""), json!("  \n"), json!([]), json!([{ "type": "text", "text": " " }]),
            image("image/svg+xml", "iVBORw0="), image("image/png", "no base64"), json!([{ "type": "image" }]),
        ] {
            let refused = server.post(&format!("{CHATS}/{chat}/stream"), &json!({ "content": content })).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["field"], "content", "{}", refused.body);
        }
        assert!(messages(&server, &chat).await.is_empty() && models.asked().is_empty());
        // What is there already is named, so that the chat can go on.
        let path = format!("{CHATS}/{chat}/messages");
        let blank = server.post(&path, &json!({ "role": "user", "content": " " })).await.expect(201);
        server.post(&path, &json!({ "role": "user", "content": image("image/tiff", "iVBORw0=") })).await.expect(201);
        models.messages(Anthropic::new().text(&["I see."]).ends("end_turn"));
        assert_eq!(end(&turn(&server, &chat, &json!({ "content": image("image/png", "iVBORw0=") })).await)["state"], "done");
        let told = models.asked()[0].body["messages"][0]["content"].clone();
        assert!(told[0]["text"].as_str().unwrap().contains("cannot be shown"), "{told}");
        assert_eq!(told[1]["source"]["media_type"], "image/png");
        let refused = server.post(&format!("{CHATS}/{chat}/stream"), &json!({ "messageId": blank["id"] })).await;
        refused.expect_error(400, "BAD_REQUEST");
    }

    async fn from_where_on_a_turn_is_taken_up(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        models.messages(Anthropic::new().text(&["Hel", "lo."]).ends("unheard_of"));
        let events = turn(&server, &chat, &json!({ "content": "Hello?" })).await;
        assert_eq!(end(&events)["stop"], "other", "a word that nobody knows is not repeated");
        let id = events[0].data["turnId"].as_str().unwrap();
        let request = server.request(Method::GET, &format!("{CHATS}/{chat}/turns/{id}/events")).header("Last-Event-ID", "");
        let all = Following::of(request.send().await.unwrap()).await.rest().await;
        assert_eq!((all[0].name.as_str(), all.last().unwrap().name.as_str()), ("turn", "done"));
        // Who has heard more than there is has heard everything.
        assert!(Following::again(&server, &chat, id, u64::MAX).await.rest().await.is_empty());
    }
}
