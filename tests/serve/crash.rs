//! `kill -9` while many clients write: what was acknowledged is there, and nothing is half there.

use std::collections::HashMap;
use std::sync::Arc;

use kitbag_testkit::on_both;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::serve;

const WRITERS: usize = 8;
const ACKNOWLEDGED_BEFORE_THE_KILL: usize = 60;

on_both! {
    async fn what_was_acknowledged_is_there(database: TestDatabase) {
        let mut acknowledged: HashMap<String, Vec<Value>> = HashMap::new();
        for round in 0..3 {
            let mut server = serve(&database);
            let enough = Arc::new(Notify::new());
            let (send, mut acknowledgements) = tokio::sync::mpsc::unbounded_channel();
            let mut writers = tokio::task::JoinSet::new();
            for writer in 0..WRITERS {
                let chat = server.post("/v1/orgs/local/chats", &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
                acknowledged.entry(chat.clone()).or_default();
                let path = format!("/v1/orgs/local/chats/{chat}/messages");
                let (url, send) = (server.request(Method::POST, &path), send.clone());
                writers.spawn(async move {
                    for count in 0.. {
                        let body = json!({ "role": "user", "content": format!("{round}.{writer}.{count}") });
                        let Ok(response) = url.try_clone().unwrap().json(&body).send().await else { return };
                        if response.status().as_u16() != 201 { return }
                        let Ok(message) = response.json::<Value>().await else { return };
                        send.send((chat.clone(), message)).unwrap();
                    }
                });
            }
            drop(send);
            let killer = { let enough = Arc::clone(&enough); async move { enough.notified().await } };
            let collect = async {
                let mut count = 0;
                while let Some((chat, message)) = acknowledgements.recv().await {
                    acknowledged.get_mut(&chat).unwrap().push(message);
                    count += 1;
                    if count == ACKNOWLEDGED_BEFORE_THE_KILL { enough.notify_one() }
                }
            };
            let kill = async { killer.await; server.signal(Signal::KILL) };
            tokio::join!(collect, kill);
            server.wait();
            writers.join_all().await;
        }

        let server = serve(&database);
        let mut total = 0;
        for (chat, messages) in &acknowledged {
            let found = server.get(&format!("/v1/orgs/local/chats/{chat}")).await.expect(200);
            let mut kept = Vec::new();
            let mut query = "?limit=200".to_owned();
            loop {
                let part = server.get(&format!("/v1/orgs/local/chats/{chat}/messages{query}")).await.expect(200);
                kept.extend(part["items"].as_array().unwrap().iter().cloned());
                let Some(cursor) = part["nextCursor"].as_str() else { break };
                query = format!("?limit=200&cursor={cursor}");
            }
            for message in messages {
                assert!(kept.contains(message), "{message} was acknowledged and is gone");
            }
            // One writer per chat: its messages are one chain, and the chat stands at the end of it.
            let mut parent = Value::Null;
            for message in &kept {
                assert_eq!(message["parentId"], parent, "{message} is not below the one before");
                parent = message["id"].clone();
            }
            assert_eq!(found["activeLeafMessageId"], parent, "the chat does not stand at its last message");
            total += messages.len();
        }
        assert!(total >= 3 * ACKNOWLEDGED_BEFORE_THE_KILL);
    }
}
