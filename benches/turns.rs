//! What a model's turn sends of two thousand tools, and how often the search finds the one that a task needs, against the ways without it.
//!
//! The server is the real program with fifty MCP servers of forty tools; the model is a stand-in that searches for fifty tasks at once.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout, reason = "a benchmark")]

#[path = "../tests/turns/services/mod.rs"]
mod services;

use kitbag_testkit::model::StandIn;
use kitbag_testkit::{Server, TestDatabase};
use serde_json::json;

/// A turn may send so many bytes of schemas.
const LIMIT: usize = 10_000;

#[tokio::main]
async fn main() {
    let (database, models) = (TestDatabase::sqlite(), StandIn::start());
    let url = models.url();
    let flags = ["--anthropic-url", &url, "--model", "anthropic/claude-test", "--log", "error"];
    let server = Server::start(env!("CARGO_BIN_EXE_kitbag"), &database, &flags);
    services::install(&server).await;
    let chat = server.post("/v1/orgs/local/chats", &json!({})).await.expect(201)["id"].as_str().unwrap().to_owned();
    let answered = services::ask_all(&server, &models, &chat).await;

    let messages = server.get(&format!("/v1/orgs/local/chats/{chat}/messages")).await.expect(200);
    let told = &messages["items"][1]["content"][0]["tools"];
    let all = told["bytes"].as_u64().unwrap() as usize;
    println!("{} tools, {all} bytes of schemas", told["count"]);
    for (when, asked) in ["before the first search", "after fifty searches"].iter().zip(models.asked()) {
        let sent = asked.body["tools"].to_string().len();
        println!(
            "  sent {when}: {sent} bytes, {:.4} of all, {:.2} of the limit of {LIMIT} ({})",
            sent as f64 / all as f64,
            sent as f64 / LIMIT as f64,
            if sent < LIMIT { "met" } else { "missed" },
        );
    }
    let within = |most: usize| answered.iter().filter(|one| one.rank.is_some_and(|rank| rank < most)).count();
    let (one, five, questions) = (within(1), within(5), answered.len());
    println!(
        "  recall at 5: {:.2} ({five} of {questions}); at 1: {:.2}",
        five as f64 / questions as f64,
        one as f64 / questions as f64
    );
    println!("  by chance five of all would find {:.4}", 5.0 / told["count"].as_f64().unwrap());
    for missed in answered.iter().filter(|one| one.rank.is_none()) {
        println!("  missed: {:?} wants {}, found {:?}", missed.question, missed.wanted, missed.found);
    }
}
