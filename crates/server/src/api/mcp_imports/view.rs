//! A server of another program, as the API shows it: names of variables and headers, never their values.

use std::path::Path;

use kitbag_formats::clients::{Client, WrittenOut};
use kitbag_model::{Launch, OrgId, export, safe_text};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::mcp_servers::Shown;
use crate::app::App;
use crate::elsewhere::{Candidate, Unread};

/// What was found.
#[derive(Serialize, ToSchema)]
pub(crate) struct ImportableServers {
    pub(super) items: Vec<ImportableServer>,
    /// Files that are there and could not be read.
    pub(super) unread: Vec<UnreadFile>,
}

impl ImportableServers {
    pub(super) fn new(app: &App, org: &OrgId, found: &[Candidate], unread: &[Unread]) -> Self {
        Self {
            items: found.iter().map(|one| ImportableServer::new(app, org, one)).collect(),
            unread: unread.iter().map(UnreadFile::from).collect(),
        }
    }
}

/// An MCP server that another program has.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImportableServer {
    /// What stands for it as it is shown; what to send to take it.
    id: String,
    name: String,
    /// The program's key, such as `claude-desktop`; null if the program is not known.
    #[schema(required)]
    program: Option<&'static str>,
    /// What people call the program.
    #[schema(required)]
    program_name: Option<&'static str>,
    /// The file that it is in; null for a text.
    #[schema(required)]
    file: Option<String>,
    /// The folder that it is for, if it is a project's.
    #[schema(required)]
    project: Option<String>,
    /// Whether it is in a file of the user's own. Any other is not trusted by being taken.
    own: bool,
    /// Whether exactly this server is there already, or stands further up in the list.
    known: bool,
    /// Why it cannot be taken; empty if it can.
    problems: Vec<String>,
    /// What whoever takes it should know.
    notes: Vec<String>,
    /// `stdio`, `sse` or `streamable-http`; null if it cannot be taken.
    #[schema(required)]
    server_type: Option<String>,
    /// The command line, or the address. What looks like a secret is `***`.
    #[schema(required)]
    command_line: Option<String>,
    #[schema(required)]
    cwd: Option<String>,
    env_names: Vec<String>,
    header_names: Vec<String>,
    /// Values that look like secrets. Each becomes a reference to its variable, unless its value is kept.
    written_out: Vec<WrittenOutValue>,
    /// Variables that it refers to and that have no value where Kitbag runs.
    missing_variables: Vec<String>,
}

/// A value that looks like a secret and stands in a file. The value itself is not shown.
#[derive(Serialize, ToSchema)]
pub(crate) struct WrittenOutValue {
    /// Whose value: `env.API_KEY`, `headers.Authorization`.
    place: String,
    /// The variable that takes its place.
    variable: String,
}

impl From<&WrittenOut> for WrittenOutValue {
    fn from(one: &WrittenOut) -> Self {
        Self { place: safe_text(&one.place), variable: one.variable.clone() }
    }
}

/// A file that is there and could not be read.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnreadFile {
    file: String,
    reason: String,
}

impl From<&Unread> for UnreadFile {
    fn from(one: &Unread) -> Self {
        Self { file: told(&one.file), reason: safe_text(&one.reason) }
    }
}

fn told(path: &Path) -> String {
    safe_text(&path.to_string_lossy())
}

fn texts(texts: &[String]) -> Vec<String> {
    texts.iter().map(|text| safe_text(text)).collect()
}

impl ImportableServer {
    fn new(app: &App, org: &OrgId, one: &Candidate) -> Self {
        let readable = one.server.as_ref().ok();
        let masked = readable.map(|readable| export::masked(&readable.server));
        let shown = masked.as_ref().map(Shown::new).unwrap_or_default();
        Self {
            id: one.id().to_string(),
            name: one.display_name(),
            program: one.program.map(Client::key),
            program_name: one.program.map(Client::name),
            file: (!one.file.as_os_str().is_empty()).then(|| told(&one.file)),
            project: one.project.as_deref().map(safe_text),
            own: one.own,
            known: one.known,
            problems: one.server.as_ref().err().map(|why| texts(&why.problems)).unwrap_or_default(),
            notes: readable.map(|readable| texts(&readable.notes)).unwrap_or_default(),
            server_type: masked.as_ref().map(|launch| launch.server_type().to_string()),
            command_line: masked.as_ref().map(Launch::command_line),
            cwd: shown.cwd,
            env_names: shown.env_names,
            header_names: shown.header_names,
            written_out: readable
                .map(|readable| readable.written_out.iter().map(WrittenOutValue::from).collect())
                .unwrap_or_default(),
            missing_variables: readable
                .map(|readable| app.servers().missing_variables(org, &readable.server.launch))
                .unwrap_or_default(),
        }
    }
}

/// A server that was not taken.
#[derive(Serialize, ToSchema)]
pub(crate) struct NotTaken {
    pub(super) id: String,
    /// What it is called; null if it was not found.
    #[schema(required)]
    pub(super) name: Option<String>,
    /// What kind of reason it is: a code such as errors have.
    #[schema(value_type = String)]
    pub(super) code: &'static str,
    /// Why.
    pub(super) message: String,
}
