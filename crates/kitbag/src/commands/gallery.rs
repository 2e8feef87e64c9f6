//! `kitbag gallery`

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::cli::{GalleryCommand, Place};
use crate::client::{Client, segment};
use crate::failure::Failure;
use crate::output::{Output, plain, table, text};
use crate::visible;

const GALLERY: &str = "/v1/toolset-gallery";

pub(crate) async fn run(place: &Place, command: GalleryCommand, output: &Output) -> Result<ExitCode, Failure> {
    let client = Client::open(place).await?;
    let done = dispatch(&client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: GalleryCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        GalleryCommand::List { words, limit } => {
            let words = words.join(" ");
            let filter = (!words.is_empty()).then(|| format!("q={}", segment(&words)));
            let cards = client.list(GALLERY, &filter, limit).await?;
            output.result(&json!({ "items": cards }), |_| cards_table(&cards, !words.is_empty()))
        }
        GalleryCommand::Show { slug } => {
            let entry = client.get(&format!("{GALLERY}/{}", segment(&slug))).await?;
            output.result(&entry, shown)
        }
        GalleryCommand::Adopt { slug, id, name, description } => {
            let given = [("id", id), ("name", name), ("description", description)];
            let body: Map<String, Value> =
                given.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?.into()))).collect();
            let path = format!("/v1/orgs/local/toolset-gallery/{}/adopt", segment(&slug));
            let toolset = client.post(&path, &Value::Object(body)).await?;
            output.result(&toolset, adopted)
        }
    }
}

fn cards_table(cards: &[Value], searched: bool) -> String {
    if cards.is_empty() {
        return if searched { "Nothing that is published has these words." } else { "Nothing is published." }
            .to_owned();
    }
    let row = |card: &Value| {
        let count = |field: &str| card[field].as_u64().unwrap_or_default();
        let has = [("tools", "toolCount"), ("servers", "mcpServerCount"), ("skills", "agentSkillCount")]
            .into_iter()
            .filter(|(_, field)| count(field) > 0)
            .map(|(word, field)| format!("{} {word}", count(field)));
        let has = has.collect::<Vec<_>>().join(", ");
        [text(card, "publicSlug").to_owned(), text(card, "version").to_owned(), has, plain(text(card, "name"))]
    };
    table(["PUBLISHED AS", "VERSION", "HAS", "NAME"], &cards.iter().map(row).collect::<Vec<_>>())
}

fn shown(entry: &Value) -> String {
    let items = |field: &str| entry[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines =
        vec![format!("{} {}  {}", text(entry, "publicSlug"), text(entry, "version"), plain(text(entry, "name")))];
    if let Some(description) = entry["description"].as_str() {
        lines.push(visible::lines(description));
    }
    let part = |part: &Value| [text(part, "id"), text(part, "name"), text(part, "description")].map(plain);
    for (head, field) in [("TOOL", "tools"), ("SKILL", "agentSkills")] {
        let rows: Vec<_> = items(field).iter().map(part).collect();
        if !rows.is_empty() {
            lines.push(format!("\n{}", table([head, "NAME", "FOR"], &rows)));
        }
    }
    let server = |server: &Value| {
        let what = server["commandLine"].as_str().or(server["urlHost"].as_str()).unwrap_or_default();
        let names = |field: &str| server[field].as_array().into_iter().flatten().filter_map(Value::as_str);
        let needs = names("envNames").chain(names("headerNames")).collect::<Vec<_>>().join(", ");
        [text(server, "id"), what, &needs].map(plain)
    };
    let servers: Vec<_> = items("mcpServers").iter().map(server).collect();
    if !servers.is_empty() {
        lines.push(format!("\n{}", table(["SERVER", "STARTS OR DIALS", "NEEDS"], &servers)));
    }
    let wants = ["network", "listen"].into_iter().filter(|right| entry["permissions"][right] == true);
    let wants = wants.collect::<Vec<_>>().join(", ");
    if !wants.is_empty() {
        lines.push(format!("\nOnce trusted its tools may: {wants}"));
    }
    lines.push(format!("\n{} files", entry["fileCount"]));
    lines.join("\n")
}

fn adopted(toolset: &Value) -> String {
    let id = text(toolset, "id");
    let mut line = format!("adopted {} as {id}", text(&toolset["adoptedFrom"], "publicSlug"));
    if toolset["mcpServers"].as_array().is_some_and(|servers| !servers.is_empty()) {
        line.push_str(&format!(
            "\nIts servers start once you trust it: kitbag toolset show {id}, kitbag toolset trust {id}"
        ));
    }
    line
}
