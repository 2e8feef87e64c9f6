//! `POST /v1/orgs/{org}/toolsets/import`

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use kitbag_formats::bundle::Finding;
use kitbag_formats::import::{Kind, Options};
use kitbag_model::installed::unasked;
use kitbag_model::{Container, ImageSource, InstalledContainer, Launch, SourceType, Visibility};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::ToolsetDetail;
use super::arrive::{Arrived, ImportFrom, arrive};
use super::get::detail;
use super::view::tool_commands;
use crate::access::caller::MayManage;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::QueryOf;
use crate::app::App;
use crate::edge::refusing;
use crate::toolsets::{Import, Imported, Parcel, PlannedLaunch, ShownImages, VersionChange};
use crate::transfer::Staged;

/// How to import.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ImportQuery {
    /// Only say what would change.
    #[serde(default)]
    dry_run: bool,
    /// Let the servers that the bundle declares start, and let it say which calls need no question. Look at the dry run
    /// first.
    #[serde(default)]
    trust: bool,
    /// With `trust`: the images of containers that were shown, as the trust of a toolset takes them, in JSON: by the ids of containers `movedTo`, else
    /// `imageId` of the dry run, else null. A container whose name means another image than the one that was trusted stays held back unless that is
    /// named here, and if another one is, nothing is installed (`CONFLICT`).
    images: Option<String>,
    /// Install an older version over a newer one.
    #[serde(default)]
    force: bool,
    /// The `digest` of a dry run: if what comes now is something else, it is refused. Whoever trusts should give it.
    #[param(pattern = "^[0-9a-f]{64}$")]
    digest: Option<String>,
    /// In a file of another program: put placeholders in place of the values of variables and headers, and forget the values.
    /// Otherwise such a file is refused.
    #[serde(default)]
    replace_literals: bool,
    /// Where the bundle was on the caller's side, to be shown and for updates: a folder or a file.
    source_ref: Option<String>,
    /// `zip`, or `local` if it was made from a folder.
    source_type: Option<String>,
}

/// Ids that come, go, and are other than before.
#[derive(Serialize, ToSchema)]
pub(crate) struct ChangesView {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
}

/// A server that the bundle declares.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct LaunchView {
    /// The server key.
    id: String,
    /// The exact command line, or the address.
    command_line: String,
    /// The folder it starts in.
    #[schema(required)]
    cwd: Option<String>,
    /// What its environment gets: `NAME=value`, as the bundle says it.
    env: Vec<String>,
    /// What is sent to it: `Name: value`, as the bundle says it.
    headers: Vec<String>,
    /// Whether it may start: somebody trusted exactly this.
    trusted: bool,
}

/// What was imported, or would be.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportReport {
    dry_run: bool,
    /// What it was: `toolset`, `mcpb`, `plugin`, `skill`, `mcp-servers` or `server-json`.
    format: &'static str,
    /// The toolset's id.
    id: String,
    name: String,
    /// `install`, `upgrade`, `reinstall` or `downgrade`.
    change: &'static str,
    /// The version that was installed before.
    #[schema(required)]
    from_version: Option<String>,
    version: String,
    tool_count: usize,
    file_count: usize,
    tools: ChangesView,
    mcp_servers: ChangesView,
    agent_skills: ChangesView,
    /// The hash of what came. Give it when importing what was looked at.
    digest: String,
    /// What would start once it is trusted.
    launches: Vec<LaunchView>,
    /// What its containers would be made of and may do, once it is trusted.
    containers: Vec<PlannedContainer>,
    /// Tools for which it wants no question before calls. It counts once it is trusted.
    unasked: Vec<String>,
    /// What its tools may do once it is trusted: `network`, `listen`.
    permissions: Vec<&'static str>,
    /// Files that it names and that were not fetched: their addresses.
    downloads: Vec<String>,
    /// What whoever installs it should know.
    #[schema(value_type = Vec<Object>)]
    warnings: Vec<Finding>,
    /// The toolset as it is now; null in a dry run.
    #[schema(required)]
    toolset: Option<ToolsetDetail>,
}

/// A container that a bundle declares.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedContainer {
    id: String,
    /// The image that would be fetched, or the folder that it would be built from.
    image: String,
    /// Whether it would be built from a folder of the bundle.
    builds: bool,
    /// The image that it is, if it was trusted before as it is.
    #[schema(required)]
    image_id: Option<String>,
    /// The image that its name means now, if that is another one. It is the one that is trusted, if somebody does.
    #[schema(required)]
    moved_to: Option<String>,
    command: Vec<String>,
    /// What would be started in place of that, by the ids of the tools for which it is something else.
    tool_commands: BTreeMap<String, Vec<String>>,
    /// Its variables, as they are written.
    env: Vec<String>,
    /// Whether it would reach the network.
    network: bool,
    /// What it may use: `memory` in bytes, `milliCpus`, `pids`, `seconds`.
    #[schema(value_type = Object)]
    limits: serde_json::Value,
}

impl PlannedContainer {
    /// A container, and what is known of those that are there.
    fn new(container: &Container, before: &[InstalledContainer]) -> Self {
        let (image, builds) = match &container.source {
            ImageSource::Image(name) => (name.to_string(), false),
            ImageSource::Build(folder) => (folder.to_string(), true),
        };
        // What one is built from is known when it is installed; what it was built into then is no name that could mean another.
        let same = before.iter().find(|known| {
            !builds && known.container.id == container.id && known.fingerprint() == container.fingerprint(None)
        });
        Self {
            id: container.id.to_string(),
            image,
            builds,
            image_id: same.and_then(|same| same.pinned.as_ref()).map(|pinned| pinned.id.clone()),
            moved_to: same.and_then(|same| same.moved_to.clone()),
            command: container.command.clone(),
            tool_commands: tool_commands(&container.tools),
            env: container.env.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            network: container.network,
            limits: serde_json::json!(container.limits),
        }
    }
}

/// A form with a bundle.
#[derive(ToSchema)]
#[allow(dead_code, reason = "it describes the form; the part is read by hand")]
pub(crate) struct ImportForm {
    #[schema(value_type = String, format = Binary)]
    file: Vec<u8>,
}

/// Import a toolset
///
/// A ZIP as the body, or in the field `file` of a form, or the URL of one. All of it is installed or nothing is. No code of
/// it is run, and none of its servers starts before somebody trusts it. An installed toolset of the same id is replaced; what
/// a person changed about it stays.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/toolsets/import", tag = "toolsets",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ImportQuery),
    request_body(content((Vec<u8> = "application/zip"), (ImportForm = "multipart/form-data"), (ImportFrom = "application/json"))),
    responses((status = 200, body = ImportReport), (status = 201, body = ImportReport), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn import_toolset(
    State(app): State<App>,
    caller: MayManage,
    QueryOf(query): QueryOf<ImportQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let _arrival = match app.fair().arrivals.take(&caller.org, &caller.who) {
        Ok(arrival) => arrival,
        Err(error) => return Err(refusing(request.into_body(), error).await),
    };
    let Arrived { file, source_type, source_ref, only } = arrive(&app, &caller.org, request).await?;
    let source_type = match query.source_type.as_deref() {
        None => source_type,
        Some(_) if source_type == SourceType::Url => {
            return Err(ApiError::invalid("sourceType", "is not for bundles that come from an address"));
        }
        Some("zip") => SourceType::Zip,
        Some("local") => SourceType::Local,
        Some(_) => return Err(ApiError::invalid("sourceType", "must be zip or local")),
    };
    let source_ref = source_ref_of(query.source_ref.or(source_ref))?;
    let digest = query.digest.map(|text| text.parse()).transpose();
    let digest =
        digest.map_err(|_| ApiError::invalid("digest", "must be the digest of a dry run: 64 hexadecimal digits"))?;
    let images = query.images.as_deref().map(serde_json::from_str::<ShownImages>).transpose();
    let images = images
        .map_err(|_| ApiError::invalid("images", "must be JSON: an image or null for each container's id"))?
        .unwrap_or_default();
    let how = Import {
        source_type,
        source_ref,
        only,
        digest,
        dry_run: query.dry_run,
        trust: query.trust,
        images,
        force: query.force,
        visibility: Visibility::Org,
        adopted_from: None,
        by: caller.author(),
    };
    let options = Options { replace_literals: query.replace_literals };
    install(&app, &caller, file, how, options).await
}

async fn install(
    app: &App,
    caller: &MayManage,
    arrived: Staged,
    how: Import,
    options: Options,
) -> Result<Response, ApiError> {
    let (dry_run, trust) = (how.dry_run, how.trust);
    let _place = app.fair().imports.enter(&caller.org).await?;
    let opened = {
        // The last part of where it came from: a toolset gets its id from it where nothing in the file says one.
        let name = how.source_ref.as_deref().and_then(|from| from.split(['?', '#']).next()?.rsplit('/').next());
        let name = name.map(ToOwned::to_owned);
        tokio::task::spawn_blocking(move || Parcel::open(&arrived, name.as_deref(), &options)).await
    };
    let parcel = opened.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    let done = app.toolsets().import(&caller.org, parcel, how).await?;
    if !dry_run {
        app.calls().end_toolset(&caller.org, done.id.as_str(), "replaced").await;
        app.tools_changed(&caller.org, done.id.as_str(), "import").await;
    }
    let toolset = if dry_run { None } else { detail(app, &caller.org, &done.id, true).await? };
    let status = match done.plan.change {
        VersionChange::Install if !dry_run => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok((status, Json(report(done, dry_run, trust && !dry_run, toolset))).into_response())
}

fn launch_view(launch: PlannedLaunch, trusted: bool) -> LaunchView {
    let (cwd, env, headers) = match &launch.launch {
        Launch::Stdio { cwd, env, .. } => {
            let env = env.iter().map(|(name, value)| format!("{name}={value}")).collect();
            (cwd.as_ref().map(ToString::to_string), env, Vec::new())
        }
        Launch::Remote { headers, .. } => {
            (None, Vec::new(), headers.iter().map(|(name, value)| format!("{name}: {value}")).collect())
        }
    };
    LaunchView {
        id: launch.key.to_string(),
        command_line: launch.launch.command_line(),
        cwd,
        env,
        headers,
        trusted: launch.trusted || trusted,
    }
}

fn format_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Toolset => "toolset",
        Kind::Mcpb => "mcpb",
        Kind::Marketplace => "marketplace",
        Kind::Plugin => "plugin",
        Kind::Skill => "skill",
        Kind::McpServersJson => "mcp-servers",
        Kind::ServerJson => "server-json",
    }
}

fn report(done: Imported, dry_run: bool, trusted: bool, toolset: Option<ToolsetDetail>) -> ImportReport {
    let changes = |changes: crate::toolsets::Changes| ChangesView {
        added: changes.added,
        removed: changes.removed,
        changed: changes.changed,
    };
    let definition = done.parcel.bundle.definition;
    ImportReport {
        dry_run,
        format: format_of(done.parcel.kind),
        id: done.id.to_string(),
        name: definition.name.to_string(),
        change: done.plan.change.as_str(),
        from_version: done.plan.installed.map(|version| version.to_string()),
        version: definition.version.to_string(),
        tool_count: definition.tools.len() + definition.containers.iter().map(|one| one.tools.len()).sum::<usize>(),
        file_count: done.parcel.files.len(),
        tools: changes(done.plan.tools),
        mcp_servers: changes(done.plan.servers),
        agent_skills: changes(done.plan.skills),
        digest: done.parcel.digest.to_string(),
        launches: done.plan.launches.into_iter().map(|launch| launch_view(launch, trusted)).collect(),
        containers: definition.containers.iter().map(|one| PlannedContainer::new(one, &done.containers)).collect(),
        unasked: unasked(&definition.overrides).map(ToString::to_string).collect(),
        permissions: [("network", definition.permissions.network), ("listen", definition.permissions.listen)]
            .into_iter()
            .filter_map(|(name, wanted)| wanted.then_some(name))
            .collect(),
        downloads: done.parcel.downloads.into_iter().map(|download| download.url).collect(),
        warnings: done.parcel.bundle.warnings,
        toolset,
    }
}

/// One line that people can read.
fn source_ref_of(text: Option<String>) -> Result<Option<String>, ApiError> {
    match &text {
        Some(text) if text.chars().count() > 2000 || text.chars().any(char::is_control) => {
            Err(ApiError::invalid("sourceRef", "must have at most 2000 characters and no control characters"))
        }
        _ => Ok(text),
    }
}
