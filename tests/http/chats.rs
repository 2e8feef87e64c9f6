//! Chats: made, listed in parts, read, changed, deleted.

use kitbag_testkit::{Answer, on_both};
use reqwest::Method;
use serde_json::json;

use crate::{CHATS, new_chat, serve, whole_list};

on_both! {
    async fn a_chat_from_beginning_to_end(database: TestDatabase) {
        let server = serve(&database);
        let body = json!({ "title": "Grüße 👋", "toolSelectors": ["toolset:app", "-app:x"] });
        let made = server.post(CHATS, &body).await.expect(201);
        assert_eq!((&made["title"], &made["toolSelectors"]), (&body["title"], &body["toolSelectors"]));
        for field in ["activeLeafMessageId", "activeManifestId"] {
            assert!(made[field].is_null());
        }
        let path = format!("{CHATS}/{}", made["id"].as_str().unwrap());
        assert_eq!(server.get(&path).await.expect(200), made);

        let change = json!({ "title": null });
        let changed = Answer::of(server.request(Method::PATCH, &path).json(&change)).await.expect(200);
        assert_eq!((&changed["title"], &changed["toolSelectors"]), (&json!(null), &body["toolSelectors"]));
        assert_eq!(server.get(&path).await.expect(200), changed);

        server.delete(&path).await.expect(204);
        server.get(&path).await.expect_error(404, "NOT_FOUND");
        server.delete(&path).await.expect_error(404, "NOT_FOUND");
        assert!(whole_list(&server, CHATS, 10).await.is_empty());
    }

    async fn chats_are_listed_in_parts_newest_first(database: TestDatabase) {
        let server = serve(&database);
        let mut made = Vec::new();
        for _ in 0..7 {
            made.push(new_chat(&server).await);
        }
        made.reverse();
        for limit in [1, 3, 7, 200] {
            let ids: Vec<_> = whole_list(&server, CHATS, limit).await.iter().map(|chat| chat["id"].as_str().unwrap().to_owned()).collect();
            assert_eq!(ids, made, "in parts of {limit}");
        }
    }
}
