//! `GET /v1/orgs/{org}/connections`

use axum::Json;
use axum::extract::State;
use kitbag_formats::clients::reach::{self, NAME, by_address, by_process, reachable, segment};
use kitbag_formats::clients::{Client, Way};
use kitbag_model::{OrgId, ToolsetId};
use serde::{Deserialize, Serialize};
use url::Url;
use utoipa::{IntoParams, ToSchema};

use crate::access::caller::MayDecide;
use crate::api::error::{ApiError, Code, ErrorBody};
use crate::api::input::QueryOf;
use crate::app::App;

/// What stands where the token belongs. Nothing in a configuration that quotes texts needs to be escaped for it.
const PLACE: &str = "KITBAG_TOKEN";

/// What a program is to be connected with.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConnectionsQuery {
    /// Only the tools of this toolset; all of the organisation's if absent.
    toolset: Option<String>,
    /// Where the program reaches the server, such as `https://kitbag.example.org`; the address that it listens on if absent.
    address: Option<String>,
}

/// What programs need to use Kitbag.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Connections)]
pub(crate) struct ConnectionsView {
    items: Vec<ConnectionView>,
    /// What stands in a configuration where a token belongs, which `POST …/tokens` makes. The scope `use` is enough.
    token_place: &'static str,
}

/// What one program needs.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Connection)]
pub(crate) struct ConnectionView {
    /// The program, as `kitbag mcp config` calls it.
    client: &'static str,
    /// As people call it.
    name: &'static str,
    /// Where it keeps its servers, in words.
    file: &'static str,
    /// `json` or `toml`.
    language: &'static str,
    /// What to put there.
    configuration: String,
    /// The address that it dials; null if it starts a process.
    #[schema(required)]
    url: Option<String>,
    /// Whether a token must be put into the configuration.
    needs_token: bool,
    /// What does the same on the command line of this machine; null for organisations other than `local`.
    #[schema(required)]
    command: Option<String>,
}

/// Show what MCP clients need in their configuration to use the tools: what `kitbag mcp config` prints, with a place for a token
#[utoipa::path(
    get, path = "/v1/orgs/{org}/connections", tag = "tokens",
    params(("org" = String, Path, description = "The organisation; `local` in the embedded mode."), ConnectionsQuery),
    responses((status = 200, body = ConnectionsView), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn list_connections(
    State(app): State<App>,
    caller: MayDecide,
    QueryOf(query): QueryOf<ConnectionsQuery>,
) -> Result<Json<ConnectionsView>, ApiError> {
    let base = match &query.address {
        Some(address) => origin(address)?,
        None => reachable(&format!("http://{}", app.settings().address)),
    };
    let own = caller.org == OrgId::local();
    if let Some(id) = &query.toolset {
        let missing = || ApiError::new(Code::ToolsetNotFound, format!("there is no toolset {id:?}"));
        let known: ToolsetId = id.parse().map_err(|_| missing())?;
        let found = app.store().read(&caller.org).await?.toolset(&known).await?;
        found.filter(|toolset| caller.audience().sees(toolset)).ok_or_else(missing)?;
    }
    let org = format!("/v1/orgs/{}", segment(caller.org.as_str()));
    let url = match &query.toolset {
        Some(id) => format!("{base}{org}/toolsets/{}/mcp", segment(id)),
        None if own => format!("{base}/mcp"),
        None => format!("{base}{org}/mcp"),
    };
    let prefix = &app.settings().resolution.header_prefix;
    let one = |client: Client| {
        let way = match client.dials() {
            true => by_address(&url, prefix, PLACE, &[]),
            // It starts a process of this machine.
            false => process(&app, query.toolset.as_deref()).filter(|_| own)?,
        };
        let toolset = match (&query.toolset, client.dials()) {
            (Some(id), true) => format!(" --toolset {id}"),
            (Some(id), false) => format!(" --toolsets {id}"),
            (None, _) => String::new(),
        };
        Some(ConnectionView {
            client: client.key(),
            name: client.name(),
            file: client.usual_file(),
            language: if client == Client::Codex { "toml" } else { "json" },
            configuration: client.configuration(NAME, &way),
            needs_token: client.dials(),
            url: match way {
                Way::Http { url, .. } => Some(url),
                Way::Stdio { .. } => None,
            },
            command: own.then(|| format!("kitbag mcp config {}{toolset} --install", client.key())),
        })
    };
    Ok(Json(ConnectionsView { items: Client::WRITABLE.into_iter().filter_map(one).collect(), token_place: PLACE }))
}

/// `kitbag mcp stdio` on this data folder; none if a path of it cannot be written down.
fn process(app: &App, toolset: Option<&str>) -> Option<Way> {
    let settings: Vec<(&'static str, String)> = toolset.map(|id| ("toolsets", id.to_owned())).into_iter().collect();
    let command = std::env::current_exe().ok()?.to_str()?.to_owned();
    let data = app.settings().data.to_str()?.to_owned();
    let config = match &app.settings().config {
        Some(file) => Some(file.to_str()?.to_owned()),
        None => None,
    };
    Some(by_process(command, data, config, &settings as &reach::Settings))
}

/// Scheme, host and port, and nothing else.
fn origin(address: &str) -> Result<String, ApiError> {
    let url = Url::parse(address).ok().filter(|url| {
        let plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        matches!(url.scheme(), "http" | "https") && plain && url.username().is_empty() && url.password().is_none()
    });
    let url = url.ok_or_else(|| {
        ApiError::invalid("address", "must be http:// or https:// with a host, and a port if it has one")
    })?;
    Ok(url.origin().ascii_serialization())
}
