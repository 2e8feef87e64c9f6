//! The conformance suite through Kitbag: what a fixture can do alone, it can do behind a toolset's endpoint and behind its own,
//! for clients of its era and of the other one.

use kitbag_testkit::{Server, TestDatabase};
use serde_json::json;

use crate::BINARY;
use crate::conformance::{Fixture, conforms};
use crate::kit::{SERVERS, TOOLSETS, connect};

/// Puts a fixture behind Kitbag and runs the suite against one of its two endpoints. The suite sends no token.
async fn through(way: &str, fixture: &str, revision: &str) {
    let behind = Fixture::start(fixture).await;
    let database = TestDatabase::sqlite();
    let server = Server::start(BINARY, &database, &["--no-auth"]);
    connect(&server, "fixture", json!({ "serverType": "streamable-http", "url": behind.url })).await;
    let path = match way {
        "toolset" => format!("{TOOLSETS}/fixture/mcp"),
        "server" => format!("{SERVERS}/fixture~fixture/mcp"),
        other => panic!("there is no way {other}"),
    };
    conforms(way, fixture, revision, &format!("{}{path}", server.url)).await;
}

macro_rules! through {
    ($($name:ident: $way:literal, $fixture:literal, $revision:literal;)+) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                through($way, $fixture, $revision).await;
            }
        )+
    };
}

through! {
    a_toolset_for_clients_of_its_servers_session_era: "toolset", "session", "2025-11-25";
    a_toolset_for_clients_of_its_servers_stateless_era: "toolset", "stateless", "2026-07-28";
    a_toolset_of_the_session_era_for_stateless_clients: "toolset", "session", "2026-07-28";
    a_toolset_of_the_stateless_era_for_clients_with_sessions: "toolset", "stateless", "2025-11-25";
    one_server_for_clients_of_its_session_era: "server", "session", "2025-11-25";
    one_server_for_clients_of_its_stateless_era: "server", "stateless", "2026-07-28";
    one_server_of_the_session_era_for_stateless_clients: "server", "session", "2026-07-28";
    one_server_of_the_stateless_era_for_clients_with_sessions: "server", "stateless", "2025-11-25";
}
