//! Programs that others wrote, as clients of Kitbag: the libraries that MCP clients are made of, and agents.
#![allow(clippy::unwrap_used, missing_docs)]

mod agents;
mod drive;
#[path = "../mcp/kit.rs"]
#[allow(dead_code, reason = "the tests of MCP servers need more of it")]
mod kit;
mod libraries;

use kitbag_testkit::{Server, TestDatabase};
use serde_json::Value;

use crate::kit::{CHATS, bundle, connect, import, new_chat, node, until};

const BINARY: &str = env!("CARGO_BIN_EXE_kitbag");

const WORDS: &str = "
from covalt_toolset import tool

@tool
def shout(text: str) -> str:
    \"\"\"Says it louder.\"\"\"
    return text.upper()

@tool
def count(text: str) -> int:
    \"\"\"Counts the words.\"\"\"
    return len(text.split())
";

/// What is served: a toolset with two tools of Python, and an MCP server with many.
const TOOLS: &str = "tools:\n  - {id: shout, entrypoint: 'words:shout'}\n  - {id: count, entrypoint: 'words:count'}\n";

/// A server with tools, and a chat in it.
async fn served(database: &TestDatabase) -> (Server, String) {
    let server = Server::start(BINARY, database, &[]);
    import(&server, bundle("words", "1.0.0", TOOLS, &[("tools/words.py", WORDS)])).await;
    connect(&server, "everything", node("server-everything", &["stdio"])).await;
    let chat = new_chat(&server).await;
    (server, chat)
}

/// The calls of a chat, once there are so many: those of MCP tools are written a moment later.
async fn calls(server: &Server, chat: &str, many: usize) -> Vec<Value> {
    let path = format!("{CHATS}/{chat}/tool-calls");
    let over = |call: &Value| call["status"] == "success" || call["status"] == "error";
    let enough = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        items.len() >= many && items.iter().all(over)
    };
    until(server, &path, enough).await["items"].as_array().unwrap().clone()
}

/// The ids of the tools that were called, and how each call ended.
fn ends(calls: &[Value]) -> Vec<(&str, &str)> {
    let mut ends: Vec<(&str, &str)> =
        calls.iter().map(|call| (call["toolId"].as_str().unwrap(), call["status"].as_str().unwrap())).collect();
    ends.sort_unstable();
    ends
}
