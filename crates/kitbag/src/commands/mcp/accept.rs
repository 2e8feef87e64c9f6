//! `kitbag mcp accept`: what a server has changed about its tools, shown in full before it is accepted.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::{address, agrees};
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{Output, text};
use crate::visible;

pub(super) async fn run(
    client: &Client,
    server: &str,
    tools: &[String],
    yes: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let path = format!("{}/pins", address(server));
    let pins = client.get(&path).await?;
    let all = pins["pins"].as_array().map(Vec::as_slice).unwrap_or_default();
    if let Some(unknown) = tools.iter().find(|tool| all.iter().all(|pin| text(pin, "tool") != **tool)) {
        return Err(Failure::failed(format!("{server} has no tool {unknown:?}")));
    }
    let wanted = |pin: &&Value| tools.is_empty() || tools.iter().any(|tool| text(pin, "tool") == tool);
    let waiting: Vec<&Value> = all.iter().filter(|pin| pin["waiting"] == true).filter(wanted).collect();
    if waiting.is_empty() {
        return output.result(&json!({ "accepted": [] }), |_| "Nothing has changed that was not accepted.".to_owned());
    }
    if !output.is_json() {
        waiting.iter().for_each(|pin| output.note(&difference(pin)));
    }
    if !yes {
        if !output.has_person() {
            let message = "there is nobody to ask: look at what has changed (kitbag mcp accept SERVER), then say --yes";
            return Err(Failure::wrong_use(message));
        }
        if !agrees(&format!("Accept {} of {server}?", count(waiting.len())))? {
            return Err(Failure::failed("nothing was accepted"));
        }
    }
    let mut accepted = Vec::new();
    for pin in waiting {
        // Bound to what was shown: if the server changes it again in between, the answer is no.
        let body = json!({ "tool": pin["tool"], "sha256": pin["sha256"] });
        client.post(&format!("{path}/accept"), &body).await?;
        accepted.push(pin["tool"].clone());
    }
    let number = accepted.len();
    output.result(&json!({ "accepted": accepted }), |_| format!("accepted {}", count(number)))
}

fn count(number: usize) -> String {
    if number == 1 { "1 change".to_owned() } else { format!("{number} changes") }
}

/// What has changed, with nothing hidden: these are the words of a stranger.
fn difference(pin: &Value) -> String {
    let state = if pin["acceptedSha256"].is_null() { "new" } else { "changed" };
    let mut lines = vec![format!("{} ({state}, {})", visible::line(text(pin, "tool")), text(pin, "state"))];
    for change in pin["changes"].as_array().into_iter().flatten() {
        lines.push(format!("  {}", visible::line(text(change, "field"))));
        for (sign, side) in [('-', "before"), ('+', "after")] {
            let Some(value) = change.get(side) else { continue };
            let shown = match value {
                Value::String(said) => visible::lines(said),
                other => visible::json(other),
            };
            lines.extend(shown.lines().map(|line| format!("    {sign} {line}")));
        }
    }
    lines.join("\n")
}
