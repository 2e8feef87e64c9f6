//! `kitbag runs executors`

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::cli::ExecutorsCommand;
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};

const EXECUTORS: &str = "/v1/orgs/local/executors";

pub(super) async fn dispatch(client: &Client, command: ExecutorsCommand, output: &Output) -> Result<ExitCode, Failure> {
    let of = |executor: &str| format!("{EXECUTORS}/{}", segment(executor));
    match command {
        ExecutorsCommand::List => {
            let all = client.list(EXECUTORS, &None, None).await?;
            output.result(&json!({ "items": all }), |_| table_of(&all))
        }
        ExecutorsCommand::Invite { label, managed } => {
            let pool = if managed { "managed" } else { "byon" };
            let body = json!({ "labels": label, "pool": pool });
            let made = client.post(&format!("{EXECUTORS}/pairing-tokens"), &body).await?;
            output.result(&made, invitation)
        }
        ExecutorsCommand::Update { executor, name, label } => {
            let mut body = Map::new();
            body.extend(name.map(|name| ("name".to_owned(), json!(name))));
            if !label.is_empty() {
                let labels: Vec<String> = label.into_iter().filter(|label| !label.is_empty()).collect();
                body.insert("labels".to_owned(), json!(labels));
            }
            let shown = client.patch(&of(&executor), &Value::Object(body)).await?;
            output.result(&shown, |shown| table_of(std::slice::from_ref(shown)))
        }
        ExecutorsCommand::Revoke { executor } => {
            client.delete(&of(&executor)).await?;
            output.result(&json!({}), |_| format!("{executor} is out"))
        }
    }
}

fn invitation(made: &Value) -> String {
    format!(
        "On the machine that is to run agents:\n  kitbag executor pair {} --server {}\n  kitbag executor start\nThe token works once, until {}.",
        text(made, "pairingToken"),
        text(made, "server"),
        text(made, "expiresAt")
    )
}

fn table_of(all: &[Value]) -> String {
    if all.is_empty() {
        return "There are no executors. `kitbag runs executors invite` lets a machine become one.".to_owned();
    }
    let list = |value: &Value, of: &dyn Fn(&Value) -> Option<String>| {
        value.as_array().into_iter().flatten().filter_map(of).collect::<Vec<_>>().join(", ")
    };
    let row = |one: &Value| {
        let state = if one["connected"] == true { "connected" } else { "away" };
        let busy = format!("{}/{}", one["inFlight"], one["capacity"]);
        let engines = list(&one["engines"], &|engine| Some(engine["id"].as_str()?.to_owned()));
        let labels = list(&one["labels"], &|label| Some(label.as_str()?.to_owned()));
        [text(one, "id"), state, &busy, &engines, &labels, text(one, "name")].map(plain)
    };
    table(["EXECUTOR", "STATE", "BUSY", "ENGINES", "LABELS", "NAME"], &all.iter().map(row).collect::<Vec<_>>())
}
