//! `kitbag mcp`

mod accept;
mod add;
mod client;
mod config;
mod import;
mod show;
mod sign_in;
mod stdio;

use std::io::{self, BufRead, Write};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::cli::{McpCommand, Place};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};

const SERVERS: &str = "/v1/orgs/local/mcp-servers";

pub(crate) async fn run(place: &Place, command: McpCommand, output: &Output) -> Result<ExitCode, Failure> {
    let command = match command {
        // It needs a server that outlives one request.
        McpCommand::Stdio(flags) => return stdio::run(place, flags).await,
        other => other,
    };
    let client = Client::open(place).await?;
    let done = match command {
        McpCommand::Config(flags) => config::run(&client, place, &flags, output).await,
        command => dispatch(&client, command, output).await,
    };
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: McpCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        McpCommand::Add(server) => {
            let added = client.post(SERVERS, &add::body(*server)?).await?;
            output.result(&added, |server| {
                format!("added {}:\n  {}", text(server, "id"), plain(text(server, "commandLine")))
            })
        }
        McpCommand::List => {
            let servers = client.get(SERVERS).await?;
            output.result(&servers, servers_table)
        }
        McpCommand::Show { server } => {
            let server = client.get(&address(&server)).await?;
            output.result(&server, show::server)
        }
        McpCommand::Remove { server } => {
            client.delete(&address(&server)).await?;
            output.result(&json!({ "removed": server }), |_| format!("removed {server}"))
        }
        McpCommand::Rename { server, id } => {
            let renamed = client.put(&address(&server), &json!({ "id": id })).await?;
            output.result(&renamed, |renamed| format!("{server} is {} now", text(renamed, "id")))
        }
        McpCommand::Enable { server } => enable(client, &server, true, output).await,
        McpCommand::Disable { server } => enable(client, &server, false, output).await,
        McpCommand::Trust { server } => {
            let path = address(&server);
            let shown = client.get(&path).await?;
            // Bound to what is there now: if it changes between the two requests, the answer is no.
            let body = json!({ "fingerprint": text(&shown, "fingerprint") });
            let trusted = client.post(&format!("{path}/trust"), &body).await?;
            output.result(&trusted, |server| {
                format!("trusted {}:\n  {}", text(server, "id"), plain(text(server, "commandLine")))
            })
        }
        McpCommand::Reconnect { server } => {
            let server = client.post_nothing(&format!("{}/reconnect", address(&server))).await?;
            output.result(&server, |server| format!("{} is {}", text(server, "id"), text(server, "status")))
        }
        McpCommand::SignIn { server, wait } => sign_in::run(client, &server, wait, output).await,
        McpCommand::SignOut { server } => {
            client.delete(&format!("{}/sign-in", address(&server))).await?;
            output.result(&json!({ "signedOut": server }), |_| format!("signed out of {server}"))
        }
        McpCommand::Client(flags) => client::run(client, flags, output).await,
        McpCommand::Test { server } => {
            let tested = client.post_nothing(&format!("{}/test", address(&server))).await?;
            output.result(&tested, |tested| {
                let server = &tested["server"];
                let took = tested["durationMs"].as_f64().unwrap_or_default();
                format!("{} answered in {took:.0} ms: {} tools", text(server, "id"), server["toolCount"])
            })
        }
        McpCommand::Accept { server, tools, yes } => accept::run(client, &server, &tools, yes, output).await,
        McpCommand::Policy { server, policy } => {
            let policy = if policy == "default" { Value::Null } else { Value::from(policy) };
            let changed = client.put(&address(&server), &json!({ "pinPolicy": policy })).await?;
            output.result(&changed, |server| format!("{}: {}", text(server, "id"), text(server, "pinPolicy")))
        }
        McpCommand::Import(flags) => import::run(client, &flags, output).await,
        // It needs to know the place, too, and was done before.
        McpCommand::Config(_) => Ok(ExitCode::SUCCESS),
        McpCommand::Stdio(_) => Err(Failure::failed("a bridge is no request")),
    }
}

fn address(server: &str) -> String {
    format!("{SERVERS}/{}", segment(server))
}

async fn enable(client: &Client, server: &str, enabled: bool, output: &Output) -> Result<ExitCode, Failure> {
    let server = client.put(&address(server), &json!({ "enabled": enabled })).await?;
    let word = if enabled { "enabled" } else { "disabled" };
    output.result(&server, |server| format!("{word} {}", text(server, "id")))
}

fn servers_table(servers: &Value) -> String {
    let items = servers["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.is_empty() {
        return "There is no server. Add one with: kitbag mcp add NAME -- COMMAND ARGS…, or: kitbag mcp import"
            .to_owned();
    }
    let row = |server: &Value| {
        let status = if server["enabled"] == true { text(server, "status") } else { "off" };
        let waiting = server["waitingCount"].as_u64().unwrap_or_default();
        let changed = if waiting > 0 { format!(" ({waiting} changed)") } else { String::new() };
        let tools = match server["toolsSeenAt"].is_null() {
            true => "?".to_owned(),
            false => format!("{}{changed}", server["toolCount"]),
        };
        [text(server, "id").to_owned(), status.to_owned(), tools, plain(text(server, "commandLine"))]
    };
    table(["SERVER", "STATUS", "TOOLS", "STARTS"], &items.iter().map(row).collect::<Vec<_>>())
}

/// Asks a question. What was answered.
fn ask(question: &str) -> Result<String, Failure> {
    let mut stderr = io::stderr();
    write!(stderr, "{question} ")?;
    stderr.flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(answer.trim().to_owned())
}

/// Asks a question that is answered with yes or no; no is meant where nothing is said.
fn agrees(question: &str) -> Result<bool, Failure> {
    Ok(matches!(ask(&format!("{question} [y/N]"))?.as_str(), "y" | "Y" | "yes"))
}
