//! `kitbag mcp sign-in`

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::address;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::visible;

/// So often is looked whether somebody has signed in.
const LOOK: Duration = Duration::from_millis(500);

/// Begins a sign-in, says where a browser must go, and waits until the server is connected.
pub(super) async fn run(client: &Client, server: &str, wait: u64, output: &Output) -> Result<ExitCode, Failure> {
    if client.is_inside() {
        let message = "the browser comes back to a running server, and there is none: start one with kitbag serve";
        return Err(Failure::failed(message));
    }
    let path = address(server);
    let started = client.post_nothing(&format!("{path}/sign-in")).await?;
    if wait == 0 {
        return output.result(&started, asked);
    }
    // Beside the result, which there is none of yet.
    writeln!(io::stderr(), "{}", asked(&started))?;
    let end = Instant::now() + Duration::from_secs(wait);
    loop {
        let shown = client.get(&path).await?;
        if text(&shown, "status") == "connected" {
            return output.result(&shown, |server| format!("signed in to {}", text(server, "id")));
        }
        if Instant::now() >= end {
            return Err(Failure::failed(format!("nobody signed in to {server} within {wait} seconds")));
        }
        tokio::time::sleep(LOOK).await;
    }
}

fn asked(started: &Value) -> String {
    let scopes = started["scopes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let scopes: Vec<String> = scopes.iter().filter_map(Value::as_str).map(visible::line).collect();
    let wanted = if scopes.is_empty() { String::new() } else { format!(", for: {}", scopes.join(" ")) };
    let (issuer, link) = (visible::line(text(started, "issuer")), visible::line(text(started, "authorizeUrl")));
    format!("{issuer} signs you in{wanted}. Open this with a browser:\n  {link}")
}
