//! The tools that a request resolves to, under the names that its client sees. Made once for each set of wishes and kept until
//! something changes: most requests find it ready.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kitbag_mcp::serve::Fault;
use kitbag_model::resolution::{Lists, Verdict};
use kitbag_model::tool_search::ToolSearch;
use kitbag_model::{Audience, OrgId, ServerKey, ToolId};
use kitbag_store::StoreError;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::apps;
use super::door::{Place, refused};
use super::skills::Served;
use super::view::Offer;
use crate::app::App;
use crate::resolution::{Bounds, Extent, ResolveError};
use crate::toolsets::{Provider, Tool, server_of};

/// So many are kept.
const MOST: usize = 256;

/// What the built-in tools are for.
const BUILTIN: &str = "Reads, writes and searches the files of the workspace, and runs commands in it.";

/// Whose tools, and whose eyes look at them.
type Whose<'a> = (&'a OrgId, Audience);

/// A tool on the menu.
pub(super) struct Entry {
    /// What the client calls it.
    pub(super) name: String,
    pub(super) tool: Tool,
    /// As lists show it.
    pub(super) shown: Map<String, Value>,
}

impl Entry {
    /// As a list shows it to clients of this era. A client with a session takes schemas of objects alone for what a tool returns, and one of
    /// another kind would cost it the whole list.
    pub(super) fn listed(&self, stateless: bool) -> Map<String, Value> {
        let mut listed = self.shown.clone();
        let is_object = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("object");
        if !stateless && !listed.get("outputSchema").is_none_or(is_object) {
            listed.remove("outputSchema");
        }
        listed
    }
}

/// The tools of a request, in the order of the catalogue.
pub(super) struct Menu {
    /// When it was made, where that says whether it is still true.
    edition: Option<(u64, u64)>,
    pub(super) entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
    /// By what tools are called elsewhere; nothing where that could mean several.
    by_other_name: HashMap<String, Option<usize>>,
    /// Whether the client gets tools about tools in place of them.
    pub(super) dynamic: bool,
    /// The servers that it may have to do with, in the order of the catalogue.
    pub(super) servers: Vec<ServerKey>,
    /// Whether what clients see of servers is under the servers' own names: there is one server at most.
    pub(super) plain: bool,
    /// The toolsets whose tools these are, with their names, or in dynamic mode with what they say that they are for.
    pub(super) toolsets: Vec<(String, String)>,
    /// The skills that it may read. A server's own endpoint has its server's and none of ours.
    pub(super) skills: Vec<Served>,
    /// What its client is told that there is, if that is the same for all who have this menu.
    pub(super) offer: OnceLock<Arc<Offer>>,
    listed: OnceLock<[Arc<RawValue>; 2]>,
    index: OnceLock<ToolSearch>,
}

impl Menu {
    /// What the tools can be found by.
    pub(super) fn index(&self) -> &ToolSearch {
        self.index.get_or_init(|| super::dynamic::index(&self.entries))
    }

    /// Whether everything is as it was when it was made.
    pub(super) fn is_current(&self, app: &App) -> bool {
        self.edition.is_some() && self.edition == edition(app)
    }

    /// Whether nobody can say if it is still true.
    pub(super) fn is_dated(&self) -> bool {
        self.edition.is_none()
    }

    /// What a client means by a name: one that was listed, else one that can mean a single tool of these. An app of a server calls its
    /// tools by the names that they have there, and what another toolset brings must not take a name from who has learnt it.
    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        let at = self.by_name.get(name).or_else(|| self.by_other_name.get(name)?.as_ref());
        at.map(|at| &self.entries[*at])
    }

    /// The server whose own page this is, if the tools say so of one alone. An app asks for it by the address that it has there.
    pub(super) fn page_of(&self, uri: &str) -> Option<&ServerKey> {
        let is_its = |entry: &&Entry| apps::own_pages(&entry.tool).any(|own| own == uri);
        let mut servers = self.entries.iter().filter(is_its).filter_map(|entry| server_of(&entry.tool.id));
        let first = servers.next()?;
        servers.all(|server| server == first).then_some(first)
    }

    /// The answer to `tools/list`.
    pub(super) fn listed(&self, stateless: bool) -> Arc<RawValue> {
        let [session, newest] = self.listed.get_or_init(|| {
            let tools = |stateless: bool| -> Vec<Value> {
                match self.dynamic {
                    true => super::dynamic::listed(),
                    false => self.entries.iter().map(|entry| Value::Object(entry.listed(stateless))).collect(),
                }
            };
            let newest = json!({ "tools": tools(true), "ttlMs": 0, "cacheScope": "private" });
            [raw(&json!({ "tools": tools(false) })), raw(&newest)]
        });
        Arc::clone(if stateless { newest } else { session })
    }

    async fn make(
        app: &App,
        whose: Whose<'_>,
        place: &Place,
        lists: &Lists,
        selectors: &[String],
    ) -> Result<Self, Fault> {
        let (org, audience) = whose;
        if !is_there(app, whose, place).await? {
            let message = match place {
                Place::Everything => String::new(),
                Place::Toolset(id) => format!("there is no toolset {:?}", id.as_str()),
                Place::Server(key) => format!("there is no MCP server {:?}", key.to_string()),
            };
            return Err(Fault::params(message).with_status(404));
        }
        let extent = match place {
            Place::Everything => Extent::Everything,
            Place::Toolset(id) => Extent::Toolset(id.as_str()),
            Place::Server(key) => Extent::Server(key),
        };
        let resolution = app.resolve_in(org, audience, extent, lists).await.map_err(|error| match error {
            ResolveError::Lists(problems) => refused(&problems.to_string()),
            ResolveError::Toolsets(error) => super::tools::fault(error.into()),
            ResolveError::Store(error) => super::tools::fault(error.into()),
        })?;
        let dynamic = resolution.resolved.dynamic;
        let mut servers = resolution.servers();
        let bare: Vec<ServerKey> = resolution.bare().cloned().collect();
        let (mut tools, skills) = resolution.into_tools();
        // A call is made by the name that a list gave, whatever the chat has left out since: a chat takes away and renames nothing.
        let (mut names, plain) = (names(place, &tools), is_plain(place, &servers));
        if !selectors.is_empty() {
            let selectors = Bounds::of_selectors(selectors).selectors(app.toolsets(), org, audience).await;
            let selectors = selectors.map_err(super::tools::fault)?;
            let is_in = |tool: &Tool| selectors.verdict(&tool.id, &tool.toolset.0) == Verdict::In;
            let of: HashSet<ServerKey> = tools.iter().filter_map(|tool| server_of(&tool.id)).cloned().collect();
            (tools, names) = tools.into_iter().zip(names).filter(|(tool, _)| is_in(tool)).unzip();
            let left: HashSet<&ServerKey> = tools.iter().filter_map(|tool| server_of(&tool.id)).collect();
            servers.retain(|server| match (of.contains(server), bare.contains(server)) {
                (true, _) => left.contains(server),
                (false, true) => selectors.has_all_of(server),
                (false, false) => true,
            });
        }
        let skills = match place {
            Place::Server(_) => Vec::new(),
            _ => skills.into_iter().map(Served::new).collect(),
        };
        let mut toolsets: Vec<(String, String)> = Vec::new();
        for tool in &tools {
            if !toolsets.contains(&tool.toolset) {
                toolsets.push(tool.toolset.clone());
            }
        }
        if dynamic {
            describe(app, org, &mut toolsets).await.map_err(|error| super::tools::fault(error.into()))?;
        }
        let entry = |(tool, name): (Tool, String)| {
            let mut shown = shown(&tool, &name);
            if !matches!(place, Place::Server(_)) {
                apps::mark(&tool, &mut shown, plain);
            }
            Entry { shown, name, tool }
        };
        let entries: Vec<Entry> = tools.into_iter().zip(names).map(entry).collect();
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.name.clone(), at)).collect();
        let by_other_name = other_names(&entries);
        let (offer, listed, index) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Ok(Self {
            edition: None,
            entries,
            by_name,
            by_other_name,
            dynamic,
            servers,
            plain,
            toolsets,
            skills,
            offer,
            listed,
            index,
        })
    }
}

/// Puts what toolsets say that they are for in the place of their names, where they say so.
async fn describe(app: &App, org: &OrgId, toolsets: &mut [(String, String)]) -> Result<(), StoreError> {
    let all = app.store().read_beside(org).await?.all_installed().await?;
    for (id, said) in toolsets {
        let found = all.iter().find(|one| one.toolset.id.as_str() == id.as_str());
        match found.and_then(|one| one.toolset.description.as_ref()) {
            Some(description) => *said = description.to_string(),
            None if id == "builtin" => *said = BUILTIN.to_owned(),
            None => {}
        }
    }
    Ok(())
}

/// Whether there is what an address is about.
async fn is_there(app: &App, (org, audience): Whose<'_>, place: &Place) -> Result<bool, Fault> {
    let toolset = match place {
        Place::Everything => return Ok(true),
        Place::Toolset(id) if id.as_str() == "builtin" => return Ok(true),
        Place::Toolset(id) => id,
        Place::Server(key) => &key.toolset,
    };
    let read = async { app.store().read_beside(org).await?.installed(toolset).await };
    let found = read.await.map_err(|error| super::tools::fault(error.into()))?;
    Ok(found.filter(|one| audience.sees(&one.toolset)).is_some_and(|one| match place {
        Place::Server(key) => one.servers.iter().any(|server| one.server_key(&server.server) == *key),
        _ => true,
    }))
}

/// Whether there is one server at most behind an address.
fn is_plain(place: &Place, servers: &[ServerKey]) -> bool {
    !matches!(place, Place::Everything) && servers.len() <= 1
}

/// What tools are called where they come from, and what models call them everywhere.
fn other_names(entries: &[Entry]) -> HashMap<String, Option<usize>> {
    let mut names: HashMap<String, Option<usize>> = HashMap::new();
    for (at, entry) in entries.iter().enumerate() {
        for name in [own(&entry.tool), entry.tool.model_name.clone()] {
            let meant = names.entry(name).or_insert(Some(at));
            if *meant != Some(at) {
                *meant = None;
            }
        }
    }
    names
}

/// What a tool is called where it comes from.
fn own(tool: &Tool) -> String {
    match &tool.id {
        ToolId::Mcp { tool, .. } | ToolId::LegacyMcp { tool, .. } => tool.to_string(),
        ToolId::Toolset { tool, .. } => tool.to_string(),
        ToolId::Builtin(name) => name.to_string(),
    }
}

/// The names of tools where a client finds them: their own where that is clear, else those that models see everywhere.
fn names(place: &Place, tools: &[Tool]) -> Vec<String> {
    match place {
        Place::Everything => tools.iter().map(|tool| tool.model_name.clone()).collect(),
        // Nothing is renamed there.
        Place::Server(_) => tools.iter().map(own).collect(),
        Place::Toolset(_) => {
            let mut count: HashMap<String, usize> = HashMap::new();
            tools.iter().for_each(|tool| *count.entry(own(tool)).or_default() += 1);
            let is_legal = |name: &str| {
                let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
                (1..=64).contains(&name.len()) && name.bytes().all(legal)
            };
            let named = |tool: &Tool| {
                let name = own(tool);
                if is_legal(&name) && count.get(&name) == Some(&1) { name } else { tool.model_name.clone() }
            };
            tools.iter().map(named).collect()
        }
    }
}

/// A tool as clients of all tools see it listed.
pub(crate) fn listed(tool: &Tool) -> Map<String, Value> {
    let mut shown = shown(tool, &tool.model_name);
    apps::mark(tool, &mut shown, false);
    shown
}

/// A tool as lists show it: what its server says of it and nothing less, but for its name and what somebody overrides.
fn shown(tool: &Tool, name: &str) -> Map<String, Value> {
    let mut shown = tool.definition.clone().unwrap_or_default();
    shown.insert("name".to_owned(), name.into());
    // That it is a task for its server is between the two of us: here it is called like any other.
    if let Some(Value::Object(mut execution)) = shown.remove("execution") {
        execution.remove("taskSupport");
        if !execution.is_empty() {
            shown.insert("execution".to_owned(), execution.into());
        }
    }
    let effective = &tool.effective;
    let said = shown.get("title").and_then(Value::as_str) == Some(effective.name.value.as_str());
    if tool.provider != Provider::Mcp || effective.name.origin.is_override() && !said {
        shown.insert("title".to_owned(), effective.name.value.clone().into());
    }
    match &effective.description.value {
        Some(description) if tool.provider != Provider::Mcp || effective.description.origin.is_override() => {
            shown.insert("description".to_owned(), description.clone().into());
        }
        _ => {}
    }
    if tool.provider != Provider::Mcp {
        shown.insert("inputSchema".to_owned(), tool.input_schema.clone());
        // A text is all of what the content says, and to quote it there again would only make it harder to read.
        let is_text = |schema: &Value| schema.get("type").and_then(Value::as_str) == Some("string");
        if let Some(schema) = tool.output_schema.as_ref().filter(|schema| !is_text(schema)) {
            shown.insert("outputSchema".to_owned(), schema.clone());
        }
    }
    shown.entry("inputSchema").or_insert_with(|| json!({ "type": "object" }));
    shown
}

fn raw(value: &Value) -> Arc<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned()).into()
}

/// Whose menu, of what, with which wishes, in a chat with which selectors.
type Key = (OrgId, Audience, Place, Lists, Arc<[String]>);

/// The menus that were made lately.
#[derive(Default)]
pub(super) struct Menus(Mutex<HashMap<Key, Arc<Menu>>>);

/// While this is the same, menus are what they were. None where others write to the database too: there nobody knows what is still true.
fn edition(app: &App) -> Option<(u64, u64)> {
    Some((app.store().edition()?, app.servers().version()))
}

impl App {
    /// Drops the menus that were made. Whoever comes next has theirs made anew.
    pub fn forget_menus(&self) {
        *self.gateway().menus.0.lock().unwrap_or_else(PoisonError::into_inner) = HashMap::new();
    }
}

impl Menus {
    /// The menu for these wishes, of what a chat's selectors leave.
    pub(super) async fn get(
        app: &App,
        whose: Whose<'_>,
        place: &Place,
        lists: &Lists,
        selectors: &Arc<[String]>,
    ) -> Result<Arc<Menu>, Fault> {
        let Some(edition) = edition(app) else {
            return Box::pin(Menu::make(app, whose, place, lists, selectors)).await.map(Arc::new);
        };
        let key = (whose.0.clone(), whose.1, place.clone(), lists.clone(), Arc::clone(selectors));
        let menus = &app.gateway().menus.0;
        if let Some(menu) = menus.lock().unwrap_or_else(PoisonError::into_inner).get(&key)
            && menu.edition == Some(edition)
        {
            return Ok(Arc::clone(menu));
        }
        let menu = Box::pin(Menu::make(app, whose, place, lists, selectors)).await?;
        let menu = Arc::new(Menu { edition: Some(edition), ..menu });
        let mut kept = menus.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&menu));
        Ok(menu)
    }
}
