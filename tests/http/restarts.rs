//! What a restart does to calls: those that ran are over, those that wait go on waiting, those of another server are left alone.

use kitbag_model::{ChatId, Content, NewMessage, NewToolCall, OrgId, Parent, Role, Timestamp, ToolCallId};
use kitbag_store::Location;
use kitbag_testkit::{TestDatabase, on_both};
use serde_json::{Map, json};

use crate::calls::{at, calls, pending};
use crate::{new_chat, serve};

/// A call as a server that was killed in the middle left it.
async fn left_behind(database: &TestDatabase, chat: &str, node: &str, expires_at: Option<Timestamp>) -> String {
    let store = database.open().await;
    let mut tx = store.write(&OrgId::local()).await.unwrap();
    let chat_id: ChatId = chat.parse().unwrap();
    let content = Content::try_from(json!("a call")).unwrap();
    let message = NewMessage { parent: Parent::ActiveLeaf, role: Role::Tool, content };
    let new = NewToolCall {
        id: ToolCallId::generate(),
        chat_id,
        message_id: tx.add_message(chat_id, &message).await.unwrap().id,
        tool_id: "run_command".parse().unwrap(),
        generation: None,
        args: Map::new(),
        expires_at,
        asked_by: "a test".to_owned(),
        idempotency: None,
        node: node.to_owned(),
    };
    tx.insert_call(&new).await.unwrap();
    tx.commit().await.unwrap();
    store.close().await;
    format!("{}/{}", calls(chat), new.id)
}

/// A node that is alive.
const ANOTHER: &str = "INSERT INTO nodes (id, home, version, started_at, expires_at, draining, dead)
     VALUES ('another server', 'elsewhere', '1', now(), now() + interval '1 hour', false, false)";

on_both! {
    async fn no_call_stays_running(database: TestDatabase) {
        let server = serve(&database);
        let chat = new_chat(&server).await;
        let waits = pending(&server, &chat).await;
        drop(server);
        let node = std::fs::read_to_string(database.data().join("node")).unwrap();
        if matches!(database.location(), Location::Postgres(_)) {
            // What is of nobody that there is ends, too (`tests/nodes/anew.rs`).
            database.change(ANOTHER).await;
        }
        let mine = left_behind(&database, &chat, &node, None).await;
        let others = left_behind(&database, &chat, "another server", None).await;
        let late = left_behind(&database, &chat, &node, Some(Timestamp::now())).await;

        let server = serve(&database);
        let over = server.get(&mine).await.expect(200);
        assert_eq!((&over["status"], &over["error"]["code"]), (&json!("error"), &json!("INTERRUPTED")));
        assert!(over["finishedAt"].is_string());
        assert_eq!(server.get(&others).await.expect(200)["status"], "running", "another server's call is left alone");
        server.post(&format!("{others}/cancel"), &json!({})).await.expect_error(409, "CONFLICT");
        let late = server.get(&late).await.expect(200);
        assert_eq!((&late["status"], &late["error"]["code"]), (&json!("error"), &json!("DENIED")));
        // One that waits for a yes survives, and can still be decided.
        assert_eq!(server.get(&at(&waits)).await.expect(200)["status"], "pending");
        let decided = server.post(&format!("{}/decision", at(&waits)), &json!({ "approve": false })).await.expect(200);
        assert_eq!(decided["error"]["code"], "DENIED");
        assert_eq!(std::fs::read_to_string(database.data().join("node")).unwrap(), node, "a folder keeps its name");
    }
}
