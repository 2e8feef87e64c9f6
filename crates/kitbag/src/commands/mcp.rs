//! `kitbag mcp`

use std::process::ExitCode;

use serde_json::{Value, json};

use super::toolset::server_row;
use crate::cli::{McpCommand, Place};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};

const SERVERS: &str = "/v1/orgs/local/mcp-servers";

pub(crate) async fn run(place: &Place, command: McpCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(&client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: McpCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        McpCommand::List => {
            let servers = client.get(SERVERS).await?;
            output.result(&servers, servers_table)
        }
        McpCommand::Trust { server } => {
            let path = format!("{SERVERS}/{}", segment(&server));
            let shown = client.get(&path).await?;
            // Bound to what is there now: if it changes between the two requests, the answer is no.
            let body = json!({ "fingerprint": text(&shown, "fingerprint") });
            let trusted = client.post(&format!("{path}/trust"), &body).await?;
            output.result(&trusted, |server| {
                format!("trusted {}:\n  {}", text(server, "id"), plain(text(server, "commandLine")))
            })
        }
    }
}

fn servers_table(servers: &Value) -> String {
    let items = servers["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "No toolset declares a server.".to_owned();
    }
    table(["SERVER", "", "STARTS"], &items.iter().map(server_row).collect::<Vec<_>>())
}
