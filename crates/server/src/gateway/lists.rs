//! Prompts, resources and their templates: those of the servers behind us, and our own.

use kitbag_mcp::manager::Status;
use kitbag_mcp::serve::{Client, Fault, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::menu::{Menu, is_plain};
use super::skills::Served;
use super::tools::internal;
use super::upstream::{cached, is_extension};
use super::view::View;
use super::{apps, door::Place, files, names, skills};

/// How many pages of one server's list are asked for where there are many servers.
const PAGES: usize = 50;

/// What lists there are beside that of tools: the method, what is in its answer, and the field that names an entry.
const LISTS: [(&str, &str, &str); 3] = [
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
];

impl View {
    /// Whether what clients see here are the servers' own names: there is one server at most.
    pub(super) fn is_plain(&self, menu: &Menu) -> bool {
        is_plain(&self.place, &menu.servers)
    }

    /// The only server, where there is one.
    pub(super) fn only<'a>(&'a self, menu: &'a Menu) -> Option<&'a ServerKey> {
        match &self.place {
            Place::Server(key) => Some(key),
            _ if self.is_plain(menu) => menu.servers.first(),
            _ => None,
        }
    }

    /// A list of something.
    pub(super) async fn list(&self, method: &str, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let Some((_, what, field)) = LISTS.into_iter().find(|(known, ..)| *known == method) else {
            return Err(Fault::no_method(method));
        };
        let (menu, stateless) = (self.menu().await?, client.peer().stateless);
        let own = self.own(&menu, what).await?;
        if let Some(server) = self.only(&menu) {
            let raw = match self.forward(server, method, params, client).await {
                // It has none, but we may have some. One that is not there must not hide our skills.
                Err(fault) if self.can_do_without(&menu, &fault) => {
                    to_raw_value(&json!({ what: [] })).map_err(|error| internal(&error))?
                }
                other => other?,
            };
            return Ok(cached(with_own(raw, what, own), stateless));
        }
        if params.get("cursor").is_some() {
            return Err(Fault::params("there is one page; `cursor` is none that was given"));
        }
        let mut all = own;
        for server in &menu.servers {
            all.extend(self.all_of(server, (method, what, field), client).await);
        }
        let result = to_raw_value(&json!({ what: all })).map_err(|error| internal(&error))?;
        Ok(cached(result, stateless))
    }

    /// Whether there is something to list beside what the only server has.
    fn can_do_without(&self, menu: &Menu, fault: &Fault) -> bool {
        let alone = fault.code == code::METHOD_NOT_FOUND || fault.code == code::INTERNAL && !menu.skills.is_empty();
        alone && !matches!(self.place, Place::Server(_))
    }

    /// All that a server has of something, under names that say whose it is. One that is not there has nothing now; it is
    /// told when it comes.
    pub(super) async fn all_of(&self, server: &ServerKey, list: (&str, &str, &str), client: &Client) -> Vec<Value> {
        let (method, what, field) = list;
        let state = self.app.servers().state(&self.org, server);
        let can = what.strip_prefix("resourceT").map_or(what, |_| "resources");
        let says = |all: &Value| all.get(can).is_some() || is_extension(all, method);
        let has = |state: &kitbag_mcp::manager::ServerState| {
            state.status == Status::Connected && state.capabilities.as_ref().is_some_and(says)
        };
        if !state.as_ref().is_some_and(has) {
            return Vec::new();
        }
        let (mut found, mut params) = (Vec::new(), Shallow::default());
        for _ in 0..PAGES {
            let Ok(page) = self.forward(server, method, params, client).await else { break };
            let Ok(mut page) = serde_json::from_str::<Value>(page.get()) else { break };
            if let Some(Value::Array(entries)) = page.get_mut(what).map(Value::take) {
                found.extend(entries.into_iter().filter_map(|mut entry| {
                    let own = entry.get(field)?.as_str()?.to_owned();
                    entry[field] = match field {
                        "name" => names::prompt(server, &own),
                        _ => names::resource(server, &own),
                    }
                    .into();
                    Some(entry)
                }));
            }
            let Some(next) = page.get("nextCursor").filter(|next| next.is_string()) else { break };
            params = Shallow::default();
            params.set_value("cursor", next);
        }
        found
    }

    /// What Kitbag itself has.
    async fn own(&self, menu: &Menu, what: &str) -> Result<Vec<Value>, Fault> {
        match (what, &self.place) {
            (_, Place::Server(_)) => Ok(Vec::new()),
            ("resources", _) => {
                let skills = menu.skills.iter().map(Served::resource);
                Ok(skills.chain(files::list(self).await?).collect())
            }
            ("resourceTemplates", _) => Ok(vec![files::template()]),
            ("prompts", _) => Ok(menu.skills.iter().map(Served::shown_prompt).collect()),
            _ => Ok(Vec::new()),
        }
    }

    /// `resources/read`, and what is asked about a resource in the same way.
    pub(super) async fn resource(
        &self,
        method: &str,
        mut params: Shallow,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let uri = params.text("uri").ok_or_else(|| Fault::params("`uri` must be the address of a resource"))?;
        let (menu, stateless) = (self.menu().await?, client.peer().stateless);
        if files::is_file(&uri) && !matches!(self.place, Place::Server(_)) {
            return match method {
                "resources/read" => Ok(cached(files::read(self, &uri, stateless).await?, stateless)),
                _ => Ok(nothing()),
            };
        }
        if let Some(served) = skills::of(&menu, &uri) {
            return match method {
                "resources/read" => Ok(cached(served.read(self, &uri, stateless).await?, stateless)),
                _ => Ok(nothing()),
            };
        }
        if let Some(entry) = apps::of(&menu, &uri).filter(|_| !matches!(self.place, Place::Server(_))) {
            return match method {
                "resources/read" => Ok(cached(apps::read(self, &entry.tool, &uri, stateless).await?, stateless)),
                _ => Ok(nothing()),
            };
        }
        let (server, own) = match self.only(&menu) {
            Some(server) => (server.clone(), uri.clone()),
            None => match names::resource_of(&uri).filter(|(server, _)| menu.servers.contains(server)) {
                Some((server, own)) => (server, own.to_owned()),
                None => return Err(no_resource(&uri, stateless)),
            },
        };
        params.set_value("uri", &own.as_str().into());
        let raw = self.relayed(&server, method, params, client).await?;
        if own == uri || method != "resources/read" {
            return Ok(if method == "resources/read" { cached(raw, stateless) } else { raw });
        }
        // What was asked for under one name must not come back under another.
        let mut result: Value = serde_json::from_str(raw.get()).map_err(|error| internal(&error))?;
        for content in result.get_mut("contents").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(at) = content.get_mut("uri")
                && let Some(text) = at.as_str()
            {
                *at = names::resource(&server, text).into();
            }
        }
        let raw = to_raw_value(&result).map_err(|error| internal(&error))?;
        Ok(cached(raw, stateless))
    }

    /// `prompts/get`.
    pub(super) async fn prompt(&self, mut params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let name = params.text("name").ok_or_else(|| Fault::params("`name` must be the name of a prompt"))?;
        let menu = self.menu().await?;
        if let Some(served) = menu.skills.iter().find(|served| served.prompt == name) {
            return served.message(self).await;
        }
        let unknown = || Fault::params(format!("there is no prompt {name:?}"));
        let (server, own) = match self.only(&menu) {
            Some(server) => (server.clone(), name.clone()),
            None => names::prompt_of(&name)
                .filter(|(server, _)| menu.servers.contains(server))
                .map(|(server, own)| (server, own.to_owned()))
                .ok_or_else(unknown)?,
        };
        params.set_value("name", &own.into());
        self.relayed(&server, "prompts/get", params, client).await
    }

    /// `completion/complete`.
    pub(super) async fn complete(&self, mut params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let mut about: Value =
            params.parse("ref").ok_or_else(|| Fault::params("`ref` must say what is to be completed"))?;
        let menu = self.menu().await?;
        let server = match self.only(&menu) {
            Some(server) => server.clone(),
            None => {
                let field = if about.get("uri").is_some() { "uri" } else { "name" };
                let named = about.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
                let found = match field {
                    "uri" => names::resource_of(&named),
                    _ => names::prompt_of(&named),
                };
                let Some((server, own)) = found.filter(|(server, _)| menu.servers.contains(server)) else {
                    return Err(Fault::params(format!("there is no {named:?} here")));
                };
                about[field] = own.into();
                server
            }
        };
        params.set_value("ref", &about);
        self.forward(&server, "completion/complete", params, client).await
    }
}

/// Ours after theirs, on the last page.
fn with_own(raw: Box<RawValue>, what: &str, own: Vec<Value>) -> Box<RawValue> {
    let Some(mut result) = Shallow::read(&raw).filter(|_| !own.is_empty()) else { return raw };
    if result.get("nextCursor").is_some_and(|next| next.get() != "null") {
        return raw;
    }
    let mut all: Vec<Box<RawValue>> = result.parse(what).unwrap_or_default();
    all.extend(own.iter().filter_map(|entry| to_raw_value(entry).ok()));
    if let Ok(all) = to_raw_value(&all) {
        result.set(what, all);
    }
    result.raw()
}

/// There is no such resource for this client.
pub(super) fn no_resource(uri: &str, stateless: bool) -> Fault {
    let number = if stateless { code::INVALID_PARAMS } else { code::RESOURCE_NOT_FOUND };
    Fault::new(number, format!("there is no resource {uri:?}")).with_data(json!({ "uri": uri }))
}

/// An answer without anything in it.
pub(super) fn nothing() -> Box<RawValue> {
    to_raw_value(&json!({})).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
