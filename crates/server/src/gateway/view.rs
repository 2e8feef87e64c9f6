//! What one client is served: a session's for as long as it lasts, else one request's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use futures_util::future::join_all;
use kitbag_mcp::connection::Boxed;
use kitbag_mcp::manager::{APP, ServerState, UI};
use kitbag_mcp::serve::{Ask, Client, Fault, Hello, Service, Voice};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::resolution::Lists;
use kitbag_model::{Audience, ChatId, OrgId, ServerKey};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::timeout;

use super::beside::{LogLevel, who_of};
use super::door::{Guest, Place, Wishes};
use super::listen::Wants;
use super::lists::{PATIENCE, nothing};
use super::menu::{Menu, Menus};
use super::progress::Tokens;
use super::skills::Served;
use super::state::State;
use super::tasks::TASKS;
use super::tools::{Wanted, fault};
use super::{chat, instructions, traced, upstream};
use crate::app::App;

/// How long a client waits for the only server that it came for.
const ARRIVAL: std::time::Duration = std::time::Duration::from_secs(10);

pub(super) struct View {
    pub(super) app: App,
    pub(super) org: OrgId,
    /// Who it is, as records tell it.
    pub(super) who: String,
    /// The same, for who must be told apart from all others.
    pub(super) owner: String,
    /// Whose eyes look at the toolsets.
    pub(super) audience: Audience,
    pub(super) place: Place,
    lists: Lists,
    named: Option<ChatId>,
    offer: Arc<Offer>,
    /// The tools that there were when it was opened.
    first: Arc<Menu>,
    /// Whether it is there for longer than one request.
    lasts: AtomicBool,
    pub(super) level: LogLevel,
    wanted: Wants,
    /// Whose questions its client is at.
    pub(super) tokens: Tokens,
    /// Which client of its owner it is, once it has a session.
    me: OnceLock<String>,
    /// What there is beside tools that the client may know of.
    known: Mutex<Beside>,
    /// Turns to true when nobody is there any more. Made for the first who wants to know: a view of one call has nobody.
    gone: OnceLock<watch::Sender<bool>>,
}

/// What lists of prompts and resources are made of, as far as it shows here: the skills, and the servers with what they say that they have.
struct Beside {
    skills: Vec<String>,
    servers: Vec<String>,
}

impl Beside {
    fn of(app: &App, org: &OrgId, menu: &Menu) -> Self {
        let mark = |server: &ServerKey| {
            let offers = app.servers().state(org, server).and_then(|state| state.offers);
            format!("{server} {offers:?}")
        };
        Self {
            skills: menu.skills.iter().map(Served::mark).collect(),
            servers: menu.servers.iter().map(mark).collect(),
        }
    }
}

/// What of it is other than before.
#[derive(Clone, Copy, Default)]
pub(super) struct Changed {
    pub(super) skills: bool,
    pub(super) servers: bool,
}

/// What a client is told that there is.
pub(super) struct Offer {
    hello: Hello,
    /// Whether tasks are calls of ours. Else they are the only server's own.
    own_tasks: bool,
}

impl Offer {
    fn new(mut hello: Hello) -> Arc<Self> {
        let own_tasks = offer_tasks(&mut hello.capabilities);
        Arc::new(Self { hello, own_tasks })
    }
}

impl View {
    /// What a guest with these wishes is served. Wrong wishes are told, and serve nothing.
    pub(super) async fn open(app: &App, guest: Guest, owner: String, wishes: Wishes) -> Result<Arc<Self>, Fault> {
        let Guest { org, who, audience, place } = guest;
        let named = match &wishes.chat {
            Some(text) => Some(chat::named(app, &org, text).await?),
            None => None,
        };
        let menu = Menus::get(app, (&org, audience), &place, &wishes.lists, &Arc::default()).await?;
        let offer = offer(app, &org, &place, &menu).await?;
        let known = Beside::of(app, &org, &menu);
        Ok(Arc::new(Self {
            app: app.clone(),
            org,
            who,
            owner,
            audience,
            place,
            lists: wishes.lists,
            named,
            offer,
            lasts: AtomicBool::new(false),
            level: LogLevel::default(),
            wanted: Wants::default(),
            tokens: Tokens::default(),
            me: OnceLock::new(),
            known: Mutex::new(known),
            first: menu,
            gone: OnceLock::new(),
        }))
    }

    /// The tools that there are now, in the chat whose workspace they use.
    pub(super) async fn menu(&self) -> Result<Arc<Menu>, Fault> {
        let stand = match self.known_chat().await? {
            Some(chat) => self.app.calls().stand(&self.org, chat).await.map_err(fault)?,
            None => None,
        };
        match stand {
            Some(stand) if !stand.selectors().is_empty() => self.menu_of(stand.selectors()).await,
            _ => self.whole_menu().await,
        }
    }

    /// The tools that there are now in some chat. A call looks here: it is told by the chat itself what that leaves out.
    pub(super) async fn whole_menu(&self) -> Result<Arc<Menu>, Fault> {
        // What one request was opened with holds for all of it, where nobody can say whether it is still true.
        if self.first.is_current(&self.app) || self.first.is_dated() && !self.lasts.load(Ordering::Relaxed) {
            return Ok(Arc::clone(&self.first));
        }
        self.menu_of(&Arc::default()).await
    }

    /// From now on it is there for longer than one request.
    pub(super) fn last(&self) {
        self.lasts.store(true, Ordering::Relaxed);
    }

    async fn menu_of(&self, selectors: &Arc<[String]>) -> Result<Arc<Menu>, Fault> {
        Menus::get(&self.app, (&self.org, self.audience), &self.place, &self.lists, selectors).await
    }

    /// Whether tasks are calls of ours. Else they are the only server's own.
    pub(super) fn own_tasks(&self) -> bool {
        self.offer.own_tasks
    }

    /// The chat whose workspace the tools use.
    pub(super) async fn chat(&self) -> Result<ChatId, Fault> {
        match self.named {
            Some(chat) => Ok(chat),
            None => chat::own(&self.app, &self.org, &self.who).await.map_err(fault),
        }
    }

    /// The same, if there is one yet.
    pub(super) async fn known_chat(&self) -> Result<Option<ChatId>, Fault> {
        match self.named {
            Some(chat) => Ok(Some(chat)),
            None => chat::known(&self.app, &self.org, &self.who).await.map_err(fault),
        }
    }

    /// What beside the tools is other than the client may know of. It is told once.
    pub(super) async fn changed_beside(&self) -> Changed {
        let Ok(menu) = self.menu().await else { return Changed::default() };
        let now = Beside::of(&self.app, &self.org, &menu);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = Changed { skills: known.skills != now.skills, servers: known.servers != now.servers };
        *known = now;
        changed
    }

    /// Turns to true when nobody is there any more.
    pub(super) fn gone(&self) -> &watch::Sender<bool> {
        self.gone.get_or_init(|| watch::Sender::new(false))
    }

    /// What its session wants to hear of.
    pub(super) fn wanted(&self) -> &Wants {
        &self.wanted
    }

    /// A request to a server that may answer with questions: what it wants to see again goes through the client's hands, sealed.
    pub(super) async fn relayed(
        &self,
        server: &ServerKey,
        method: &str,
        mut params: Shallow,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let whose = (&self.org, self.who.as_str());
        let asked = params.clone();
        if let Some(text) = params.text("requestState") {
            let state = State::unseal(&text, &self.app, whose, method, &asked).await?;
            params.remove("requestState");
            if let Some(theirs) = state.theirs {
                params.set_value("requestState", &theirs.into());
            }
        }
        let raw = self.forward(server, method, params, client).await?;
        if !raw.get().contains("requestState") {
            return Ok(raw);
        }
        let Some(mut result) = Shallow::read(&raw) else { return Ok(raw) };
        if let Some(theirs) = result.text("requestState") {
            let state = State::new(Some(theirs), None);
            result.set_value("requestState", &state.seal(&self.app, whose, method, &asked).await?.into());
        }
        Ok(result.raw())
    }

    pub(super) async fn answer(self: Arc<Self>, ask: Ask) -> Result<Box<RawValue>, Fault> {
        let Ask { method, params, client, arguments } = ask;
        let params = match params {
            Some(raw) => Shallow::read(&raw).ok_or_else(|| Fault::params("`params` has a name twice"))?,
            None => Shallow::default(),
        };
        // What is boxed is so because the future of a call, of which there are many, has room for all that is not.
        match method.as_str() {
            "tools/list" => {
                if params.get("cursor").is_some_and(|cursor| cursor.get() != "null") {
                    return Err(Fault::params("there is one page; `cursor` is none that was given"));
                }
                Ok(RawValue::to_owned(&self.menu().await?.listed(client.peer().stateless)))
            }
            "tools/call" => self.call_tool(Wanted { params, client, headers: arguments }).await,
            "resources/list" | "resources/templates/list" | "prompts/list" => {
                Box::pin(self.list(&method, params, &client)).await
            }
            "resources/read" => Box::pin(self.resource(&method, params, &client)).await,
            "prompts/get" => Box::pin(self.prompt(params, &client)).await,
            "completion/complete" => Box::pin(self.complete(params, &client)).await,
            "resources/subscribe" | "resources/unsubscribe" => Box::pin(self.subscribe(&method, params, &client)).await,
            "subscriptions/listen" => Box::pin(self.listen(params, &client)).await,
            "skills/list" | "skills/get" | "resources/directory/read" if !matches!(self.place, Place::Server(_)) => {
                Box::pin(self.skills(&method, params, &client)).await
            }
            "logging/setLevel" => Box::pin(self.set_level(params, &client)).await,
            "tasks/get" | "tasks/update" | "tasks/cancel" if self.own_tasks() => {
                Box::pin(self.task(&method, params, &client)).await
            }
            other => match &self.place {
                // What we do not know the server may.
                Place::Server(server) => {
                    let raw = Box::pin(self.relayed(server, other, params, &client)).await?;
                    let is_kept = matches!(other, "skills/list" | "skills/get");
                    Ok(if is_kept { upstream::cached(raw, client.peer().stateless) } else { raw })
                }
                _ => Err(Fault::no_method(other)),
            },
        }
    }

    async fn set_level(&self, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let level = params.text("level").unwrap_or_default();
        if !self.level.set(&level) {
            return Err(Fault::params(format!("there is no level {level:?}")));
        }
        let menu = self.menu().await?;
        let servers = self.app.servers();
        let told = menu.servers.iter().filter(|server| {
            let logs = |state: ServerState| state.capabilities.is_some_and(|all| all.get("logging").is_some());
            !servers.is_stateless(&self.org, server) && servers.state(&self.org, server).is_some_and(logs)
        });
        // A server that does not say less says too much, which is left out here. One that hangs is not waited for.
        let telling = told.map(|server| {
            let told = self.forward(server, "logging/setLevel", params.clone(), client);
            timeout(PATIENCE, Box::pin(told))
        });
        join_all(telling).await;
        Ok(nothing())
    }
}

/// What there is behind an address. Of the only server behind it, what that says of itself.
async fn offer(app: &App, org: &OrgId, place: &Place, menu: &Menu) -> Result<Arc<Offer>, Fault> {
    let Place::Server(key) = place else {
        let made = menu.offer.get_or_init(|| {
            let hello = our_hello(!menu.servers.is_empty());
            Offer::new(Hello { instructions: instructions::of(app, org, menu), ..hello })
        });
        return Ok(Arc::clone(made));
    };
    let missing = || Fault::params(format!("there is no MCP server {key:?}")).with_status(404);
    let state = Box::pin(app.servers().arrived(org, key, ARRIVAL)).await.ok_or_else(missing)?;
    let capabilities = state.capabilities.clone().unwrap_or_else(|| json!({ "tools": { "listChanged": true } }));
    Ok(Offer::new(Hello {
        info: state.server_info.clone().filter(Value::is_object).unwrap_or_else(info),
        capabilities: offered(capabilities),
        instructions: state.instructions.clone(),
    }))
}

/// What Kitbag says of itself, with servers behind it or without.
fn our_hello(has_servers: bool) -> Hello {
    let mut capabilities = json!({
        "tools": { "listChanged": true },
        "resources": { "listChanged": true, "subscribe": true },
        "logging": {},
    });
    capabilities["prompts"] = json!({ "listChanged": true });
    capabilities["extensions"]["io.modelcontextprotocol/skills"] = json!({ "directoryRead": true });
    capabilities["extensions"][UI] = json!({ "mimeTypes": [APP] });
    if has_servers {
        capabilities["completions"] = json!({});
    }
    Hello { info: info(), capabilities, instructions: None }
}

/// What a server can, as far as we carry it.
fn offered(mut capabilities: Value) -> Value {
    if let Some(all) = capabilities.as_object_mut() {
        // We tell of changes whether or not it does: what is allowed of it may change too.
        all.insert("tools".to_owned(), json!({ "listChanged": true }));
        // Tasks as 2025-11-25 had them are not carried: a call is answered when it is over.
        all.remove("tasks");
    }
    capabilities
}

/// Says that there are tasks. False if the server behind says so already: then they are its own.
fn offer_tasks(capabilities: &mut Value) -> bool {
    let Some(all) = capabilities.as_object_mut() else { return false };
    let extensions = all.entry("extensions").or_insert_with(|| json!({}));
    if !extensions.is_object() {
        *extensions = json!({});
    }
    match extensions.get(TASKS) {
        Some(_) => false,
        None => {
            extensions[TASKS] = json!({});
            true
        }
    }
}

fn info() -> Value {
    json!({ "name": "kitbag", "title": "Kitbag", "version": env!("CARGO_PKG_VERSION") })
}

impl Service for View {
    fn hello(&self) -> Hello {
        self.offer.hello.clone()
    }

    fn knows(&self, method: &str, stateless: bool) -> bool {
        let capability = match method {
            "tools/list" | "tools/call" => "tools",
            "resources/list" | "resources/templates/list" | "resources/read" => "resources",
            "prompts/list" | "prompts/get" => "prompts",
            "completion/complete" => "completions",
            "subscriptions/listen" => return stateless,
            "resources/subscribe" | "resources/unsubscribe" | "logging/setLevel" => {
                let needed = if method == "logging/setLevel" { "logging" } else { "resources" };
                return !stateless && self.offer.hello.capabilities.get(needed).is_some();
            }
            "tasks/get" | "tasks/update" | "tasks/cancel" if self.own_tasks() => return stateless,
            // What is about the connection and not about what is served: a server behind us has another one, with us. So it is with
            // tasks, if they are ours: those of a connection that many share would be anybody's.
            "initialize" | "ping" | "server/discover" => return false,
            other if ["notifications/", "subscriptions/"].iter().any(|of| other.starts_with(of)) => return false,
            other if other.starts_with("tasks/") => {
                return !self.own_tasks() && upstream::is_extension(&self.offer.hello.capabilities, other);
            }
            other => {
                let capabilities = &self.offer.hello.capabilities;
                return matches!(self.place, Place::Server(_)) || upstream::is_extension(capabilities, other);
            }
        };
        self.offer.hello.capabilities.get(capability).is_some()
    }

    fn request(self: Arc<Self>, ask: Ask) -> Boxed<'static, Result<Box<RawValue>, Fault>> {
        match kitbag_trace::is_on() {
            true => Box::pin(traced::answer(self, ask)),
            false => Box::pin(self.answer(ask)),
        }
    }

    /// What a client says of itself goes to the servers that have a connection for it alone: others were told nothing of it. The only
    /// server behind an address is told all that is not about the connection to us.
    fn notified(self: Arc<Self>, method: String, params: Option<Box<RawValue>>) {
        let Some(me) = self.me.get().cloned() else { return };
        let params: Option<Value> = params.and_then(|params| serde_json::from_str(params.get()).ok());
        let manager = self.app.servers().manager(&self.org).clone();
        match (method.as_str(), &self.place) {
            ("notifications/initialized" | "notifications/cancelled", _) => {}
            ("notifications/progress", Place::Everything | Place::Toolset(_)) => {
                let server = params.as_ref().and_then(|params| self.tokens.server(params));
                if let Some(server) = server {
                    manager.notify(&self.org, &server, &me, &method, params.as_ref());
                }
            }
            ("notifications/roots/list_changed", Place::Everything | Place::Toolset(_)) => {
                tokio::spawn(async move {
                    let Ok(menu) = self.menu().await else { return };
                    for server in &menu.servers {
                        manager.notify(&self.org, server, &me, &method, params.as_ref());
                    }
                });
            }
            (_, Place::Server(server)) => {
                let ours = ["notifications/roots/list_changed", "notifications/progress"].contains(&method.as_str());
                if !manager.notify(&self.org, server, &me, &method, params.as_ref()) && !ours {
                    manager.notify_shared(&self.org, server, &method, params.as_ref());
                }
            }
            _ => {}
        }
    }

    fn joined(self: Arc<Self>, voice: Voice) {
        self.last();
        if let Some(client) = voice.client() {
            let _ = self.me.set(who_of(&client, &self.owner));
        }
        self.tell(voice);
    }

    fn left(&self) {
        self.wanted.clear();
        self.gone().send_replace(true);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        if let Some(gone) = self.gone.get() {
            gone.send_replace(true);
        }
    }
}
