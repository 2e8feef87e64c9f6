//! Messages: a tree below a chat.

use kitbag_testkit::{Server, on_both};
use serde_json::{Value, json};

use crate::{CHATS, new_chat, serve, whole_list};

async fn say(server: &Server, chat: &str, body: Value) -> Value {
    server.post(&format!("{CHATS}/{chat}/messages"), &body).await.expect(201)
}

on_both! {
    async fn a_second_child_is_a_branch(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let question = say(&server, &chat, json!({ "role": "user", "content": "a question" })).await;
        let answer = say(&server, &chat, json!({ "role": "assistant", "content": [{ "type": "text", "text": "x", "more": 1 }] })).await;
        let again = say(&server, &chat, json!({ "role": "assistant", "content": "another", "parentId": question["id"] })).await;
        let top = say(&server, &chat, json!({ "role": "user", "content": "a new start", "parentId": null })).await;
        assert!(question["parentId"].is_null() && top["parentId"].is_null());
        assert_eq!((&answer["parentId"], &again["parentId"]), (&question["id"], &question["id"]));
        assert_eq!(answer["chatId"], chat.as_str());
        let found = server.get(&format!("{CHATS}/{chat}")).await.expect(200);
        assert_eq!(found["activeLeafMessageId"], top["id"]);
        assert_eq!(whole_list(&server, &format!("{CHATS}/{chat}/messages"), 2).await, [question, answer, again, top]);
    }

    async fn large_messages_make_small_pages(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        for _ in 0..5 {
            say(&server, &chat, json!({ "role": "user", "content": "x".repeat(3_000_000) })).await;
        }
        let path = format!("{CHATS}/{chat}/messages");
        let part = server.get(&path).await.expect(200);
        assert_eq!(part["items"].as_array().unwrap().len(), 2);
        assert_eq!(whole_list(&server, &path, 200).await.len(), 5);
    }

    async fn a_parent_must_be_in_the_same_chat(database: TestDatabase) {
        let server = serve(&database);
        let (one, two) = (new_chat(&server).await, new_chat(&server).await);
        let elsewhere = say(&server, &one, json!({ "role": "user", "content": "x" })).await;
        for parent in [elsewhere["id"].clone(), json!("nonsense"), json!("01890a5d-ac96-774b-bcce-b302099a8057")] {
            let body = json!({ "role": "user", "content": "x", "parentId": parent });
            server.post(&format!("{CHATS}/{two}/messages"), &body).await.expect_error(400, "BAD_REQUEST");
        }
        assert!(whole_list(&server, &format!("{CHATS}/{two}/messages"), 9).await.is_empty());
    }

    async fn a_cursor_of_another_chat_is_refused(database: TestDatabase) {
        let server = serve(&database);
        let (one, two) = (new_chat(&server).await, new_chat(&server).await);
        for _ in 0..2 {
            say(&server, &one, json!({ "role": "user", "content": "x" })).await;
        }
        let part = server.get(&format!("{CHATS}/{one}/messages?limit=1")).await.expect(200);
        let cursor = part["nextCursor"].as_str().unwrap();
        server.get(&format!("{CHATS}/{one}/messages?cursor={cursor}")).await.expect(200);
        server.get(&format!("{CHATS}/{two}/messages?cursor={cursor}")).await.expect_error(400, "BAD_REQUEST");
        server.get(&format!("{CHATS}?cursor={cursor}")).await.expect_error(400, "BAD_REQUEST");
    }
}
