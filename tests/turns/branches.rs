//! Answering again and saying something else: branches, each with its own workspace.

use kitbag_testkit::model::{Anthropic, StandIn};
use kitbag_testkit::on_both;
use serde_json::json;

use crate::kit::{CHATS, end, file, messages, new_chat, serve, turn};

on_both! {
    async fn a_branch_begins_with_the_workspace_as_it_was(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        for (id, name) in [("toolu_1", "first"), ("toolu_2", "second")] {
            let arguments = json!({ "path": format!("{name}.txt"), "content": name }).to_string();
            models.messages(Anthropic::new().tool_call(id, "write_file", &[&arguments]).ends("tool_use"));
            models.messages(Anthropic::new().text(&[name]).ends("end_turn"));
        }
        let events = turn(&server, &chat, &json!({ "content": "Write a file." })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        assert!(file(&server, &chat, "first.txt").await.is_some());
        let asked = messages(&server, &chat).await[0]["id"].clone();
        // Again: the file of the first answer is not there, and the model is not told of it.
        let events = turn(&server, &chat, &json!({ "messageId": asked })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        assert_eq!((file(&server, &chat, "first.txt").await, file(&server, &chat, "second.txt").await.as_deref()), (None, Some("second")));
        assert_eq!(models.asked()[2].body["messages"].as_array().unwrap().len(), 1);
        // Going back brings the first one's.
        let all = messages(&server, &chat).await;
        assert_eq!(all.len(), 3);
        assert_eq!((&all[1]["parentId"], &all[2]["parentId"]), (&asked, &asked));
        server.post(&format!("{CHATS}/{chat}/active-leaf"), &json!({ "messageId": all[1]["id"] })).await.expect(200);
        assert_eq!((file(&server, &chat, "first.txt").await.as_deref(), file(&server, &chat, "second.txt").await), (Some("first"), None));
        // Something else in place of what was said: a branch beside it, with an empty workspace.
        models.messages(Anthropic::new().text(&["Nothing."]).ends("end_turn"));
        let events = turn(&server, &chat, &json!({ "content": "Write none.", "parentId": null })).await;
        assert_eq!(end(&events)["state"], "done", "{events:#?}");
        assert_eq!(file(&server, &chat, "first.txt").await, None);
        assert!(!models.asked().last().unwrap().body.to_string().contains("Write a file."));
    }

    async fn what_cannot_be_answered(database: TestDatabase) {
        let models = StandIn::start();
        let server = serve(&database, &models, &[]);
        let chat = new_chat(&server).await;
        let path = format!("{CHATS}/{chat}/stream");
        let added = server.post(&format!("{CHATS}/{chat}/messages"), &json!({ "role": "assistant", "content": "Hi." })).await.expect(201);
        for (body, field) in [
            (json!({}), "content"),
            (json!({ "content": "x", "messageId": added["id"] }), "content"),
            (json!({ "messageId": added["id"] }), "messageId"),
            (json!({ "messageId": "nothing" }), "messageId"),
            (json!({ "messageId": added["id"], "parentId": null }), "parentId"),
            (json!({ "content": 7 }), "content"),
            (json!({ "content": "x", "model": "claude" }), "model"),
            (json!({ "content": "x", "limits": { "maxSteps": 0 } }), "limits.maxSteps"),
            (json!({ "content": "x", "limits": { "timeoutMs": 10 } }), "limits.timeoutMs"),
        ] {
            let refused = server.post(&path, &body).await;
            refused.expect_error(400, "BAD_REQUEST");
            assert_eq!(refused.body["details"]["field"], field, "{}", refused.body);
        }
        let nowhere = format!("{CHATS}/01890a5d-ac96-774b-bcce-b302099a8057/stream");
        server.post(&nowhere, &json!({ "content": "x" })).await.expect_error(404, "NOT_FOUND");
        assert_eq!(messages(&server, &chat).await.len(), 1, "nothing of it is kept");
        assert!(models.asked().is_empty());
    }
}
