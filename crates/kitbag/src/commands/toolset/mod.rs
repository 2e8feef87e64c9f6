//! `kitbag toolset`

mod import;
mod new;
mod pack;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;

use kitbag_formats::manifest;
use serde_json::{Map, Value, json};

use super::tool::Watch;
use crate::cli::{OverrideFlags, Place, PublishCommand, ToolsetCommand};
use crate::client::{Client, segment};
use crate::events::Events;
use crate::failure::Failure;
use crate::output::{Output, text};

pub(crate) use show::tool_row;

const TOOLSETS: &str = "/v1/orgs/local/toolsets";

pub(crate) async fn run(place: &Place, command: ToolsetCommand, output: &Output) -> Result<ExitCode, Failure> {
    let command = match command {
        ToolsetCommand::New { name, folder } => return new::run(&name, folder, output),
        ToolsetCommand::Schema => {
            let schema = manifest::schema();
            return output.result(&schema, |schema| serde_json::to_string_pretty(schema).unwrap_or_default());
        }
        command => command,
    };
    let client = Client::open(place).await?;
    let done = dispatch(&client, command, output).await;
    client.close().await;
    done
}

async fn dispatch(client: &Client, command: ToolsetCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        ToolsetCommand::New { .. } | ToolsetCommand::Schema => Err(Failure::failed("these need no data folder")),
        ToolsetCommand::Validate { source } => import::validate(client, &source, output).await,
        ToolsetCommand::Import { source, how } => import::import(client, &source, &how, output).await,
        ToolsetCommand::Update { id, how } => import::update(client, &id, &how, output).await,
        ToolsetCommand::Prepare { id } => prepare(client, &id, output).await,
        ToolsetCommand::List => {
            let toolsets = client.list(TOOLSETS, &None, None).await?;
            output.result(&json!({ "items": toolsets }), |_| show::toolset_table(&toolsets))
        }
        ToolsetCommand::Show { id } => {
            let toolset = client.get(&address(&id)).await?;
            output.result(&toolset, show::toolset)
        }
        ToolsetCommand::Export { id, output: target, force } => export(client, &id, target, force, output).await,
        ToolsetCommand::Enable { id } => enable(client, &id, true, output).await,
        ToolsetCommand::Disable { id } => enable(client, &id, false, output).await,
        ToolsetCommand::Trust { id } => {
            // What is trusted is what is told afterwards, and not what somebody else found in between.
            let shown = client.get(&address(&id)).await?;
            let body = json!({ "images": show::images(&shown) });
            let toolset = client.post(&format!("{}/trust", address(&id)), &body).await?;
            output.result(&toolset, |toolset| format!("trusted {}\n\n{}", text(toolset, "id"), show::toolset(toolset)))
        }
        ToolsetCommand::Uninstall { id } => {
            client.delete(&address(&id)).await?;
            output.result(&json!({ "uninstalled": id }), |_| format!("uninstalled {id}"))
        }
        ToolsetCommand::Publishing(command) => publish(client, command, output).await,
        ToolsetCommand::Overrides { id } => {
            let overrides = client.get(&format!("{}/overrides", address(&id))).await?;
            output.result(&overrides, show::overrides)
        }
        ToolsetCommand::Override { id, key, clear, flags } => {
            let path = format!("{}/overrides/{}", address(&id), segment(&key));
            if clear {
                client.delete(&path).await?;
                return output.result(&json!({ "cleared": key }), |_| format!("cleared {key}"));
            }
            let set = client.put(&path, &Value::Object(body(flags)?)).await?;
            output.result(&set, |set| show::overrides(&json!({ "items": [set] })))
        }
    }
}

fn address(id: &str) -> String {
    format!("{TOOLSETS}/{}", segment(id))
}

async fn enable(client: &Client, id: &str, enabled: bool, output: &Output) -> Result<ExitCode, Failure> {
    let toolset = client.post(&format!("{}/enable", address(id)), &json!({ "enabled": enabled })).await?;
    let word = if enabled { "enabled" } else { "disabled" };
    output.result(&toolset, |toolset| format!("{word} {}", text(toolset, "id")))
}

async fn publish(client: &Client, command: PublishCommand, output: &Output) -> Result<ExitCode, Failure> {
    match command {
        PublishCommand::Publish { id, slug } => {
            let toolset = client.post(&format!("{}/publish", address(&id)), &json!({ "publicSlug": slug })).await?;
            output.result(&toolset, |toolset| format!("published {id} as {}", text(toolset, "publicSlug")))
        }
        PublishCommand::Unpublish { id, private } => {
            let body = json!({ "visibility": if private { "private" } else { "org" } });
            let toolset = client.post(&format!("{}/unpublish", address(&id)), &body).await?;
            output.result(&toolset, |_| format!("unpublished {id}"))
        }
    }
}

async fn prepare(client: &Client, id: &str, output: &Output) -> Result<ExitCode, Failure> {
    let mut watch = Watch::new(Events::of_all(client).await?, &format!("preparing {id}"))?;
    let path = format!("{}/prepare", address(id));
    let Some(prepared) = watch.during(client.post_nothing(&path)).await? else {
        return Err(Failure::failed(format!("stopped before {id} was ready")));
    };
    drop(watch);
    output.result(&prepared, show::prepared)?;
    let broken = prepared["tools"].as_array().into_iter().flatten().any(|tool| !tool["problem"].is_null());
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn export(
    client: &Client,
    id: &str,
    target: Option<PathBuf>,
    force: bool,
    output: &Output,
) -> Result<ExitCode, Failure> {
    let toolset = client.get(&address(id)).await?;
    let name = || PathBuf::from(format!("{}-v{}.zip", text(&toolset, "id"), text(&toolset, "version")));
    let target = target.unwrap_or_else(name);
    let size = client.save(&format!("{}/export?force={force}", address(id)), &target).await?;
    output.result(&json!({ "path": target, "size": size }), |_| format!("{} ({size} bytes)", target.display()))
}

/// What the flags override.
fn body(flags: OverrideFlags) -> Result<Map<String, Value>, Failure> {
    let config = flags.renderer_config.map(|text| serde_json::from_str::<Value>(&text)).transpose();
    let config = config.map_err(|error| Failure::wrong_use(format!("--renderer-config is not JSON: {error}")))?;
    let fields = [
        ("renderer", flags.renderer.map(Value::from)),
        ("rendererConfig", config),
        ("nameOverride", flags.name.map(Value::from)),
        ("descriptionOverride", flags.description.map(Value::from)),
        ("requiresConfirmation", flags.confirm.map(Value::from)),
        ("enabled", flags.enabled.map(Value::from)),
    ];
    Ok(fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}
