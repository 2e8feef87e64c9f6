//! The API from outside: the real program, both databases, a real HTTP client.
#![allow(clippy::unwrap_used, missing_docs)]

mod access;
mod audit;
mod browsers;
mod builder;
mod bundles;
mod calls;
mod chats;
mod decisions;
mod doors;
mod events;
mod exports;
mod from_urls;
mod gallery;
mod input;
mod kit;
mod machine;
mod mcp_imports;
mod mcp_servers;
mod messages;
mod operations;
mod org_toolsets;
mod overrides;
mod packages;
mod people;
mod permissions;
mod quotas;
mod resolution;
mod restarts;
mod running;
mod secrets;
mod settings;
mod tenants;
mod tokens;
mod toolsets;
mod transfer;
mod trust;
mod workspace;
/// Archives byte by byte, as the tests of the archive reader make them.
#[allow(dead_code, reason = "only some lies are told here")]
#[path = "../../crates/formats/tests/archive/build.rs"]
mod zip_build;

use kitbag_testkit::{Server, TestDatabase};
use serde_json::{Value, json};

const CHATS: &str = "/v1/orgs/local/chats";
const TOKENS: &str = "/v1/orgs/local/tokens";

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

/// Serves a test's database.
fn serve(database: &TestDatabase) -> Server {
    Server::start(BINARY, database, &[])
}

/// Makes a chat. Its id.
async fn new_chat(server: &Server) -> String {
    let chat = server.post(CHATS, &json!({ "title": "a chat" })).await.expect(201);
    chat["id"].as_str().unwrap().to_owned()
}

/// All items of a list, part by part.
async fn whole_list(server: &Server, path: &str, limit: usize) -> Vec<Value> {
    let mut items = Vec::new();
    let mut query = format!("?limit={limit}");
    loop {
        let part = server.get(&format!("{path}{query}")).await.expect(200);
        let part_items = part["items"].as_array().unwrap();
        assert!(part_items.len() <= limit);
        items.extend(part_items.iter().cloned());
        let Some(cursor) = part["nextCursor"].as_str() else { return items };
        query = format!("?limit={limit}&cursor={cursor}");
    }
}
