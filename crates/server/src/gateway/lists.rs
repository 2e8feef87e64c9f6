//! Prompts, resources and their templates: those of the servers behind us, and our own.

use std::time::Duration;

use futures_util::future::join_all;
use kitbag_mcp::manager::{ServerState, Status};
use kitbag_mcp::serve::{Client, Fault, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::menu::Menu;
use super::skills::Served;
use super::tools::internal;
use super::upstream::{SKILLS, cached};
use super::view::View;
use super::{apps, door::Place, files, names, renamed, skills};

/// How many pages of one server's list are asked for where there are many servers.
const PAGES: usize = 50;

/// So long one server of many may take to be woken and to tell a list, or to take what all are told.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// What lists there are beside that of tools: the method, what is in its answer, and the field that names an entry.
const LISTS: [(&str, &str, &str); 3] = [
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"),
    ("prompts/list", "prompts", "name"),
];

impl View {
    /// The only server, where there is one.
    pub(super) fn only<'a>(&'a self, menu: &'a Menu) -> Option<&'a ServerKey> {
        match &self.place {
            Place::Server(key) => Some(key),
            _ if menu.plain => menu.servers.first(),
            _ => None,
        }
    }

    /// A list of something.
    pub(super) async fn list(&self, method: &str, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let Some((_, what, field)) = LISTS.into_iter().find(|(known, ..)| *known == method) else {
            return Err(Fault::no_method(method));
        };
        let (menu, stateless) = (self.menu().await?, client.peer().stateless);
        if what == "resources"
            && !matches!(self.place, Place::Server(_))
            && let Some(behind) = files::behind(&params)?
        {
            let (files, next) = files::list(self, Some(&behind)).await?;
            let raw = to_raw_value(&json!({ what: [] })).map_err(|error| internal(&error))?;
            return Ok(cached(with_own(raw, what, files, next), stateless));
        }
        let (own, next) = self.own(&menu, what).await?;
        if let Some(server) = self.only(&menu) {
            let raw = match self.forward(server, method, params, client).await {
                // It has none, but we may have some. One that is not there must not hide our skills.
                Err(fault) if self.can_do_without(&menu, &fault) => {
                    to_raw_value(&json!({ what: [] })).map_err(|error| internal(&error))?
                }
                other => other?,
            };
            return Ok(cached(with_own(raw, what, own, next), stateless));
        }
        if params.get("cursor").is_some() {
            return Err(Fault::params("there is one page; `cursor` is none that was given"));
        }
        let theirs = self.all_of(&menu.servers, (method, what, field), client).await;
        let theirs = theirs.into_iter().flat_map(|(_, entries)| entries).map(|entry| entry.raw());
        let result = list_of(what, own.iter().filter_map(|entry| to_raw_value(entry).ok()).chain(theirs), next)?;
        Ok(cached(result, stateless))
    }

    /// Whether there is something to list beside what the only server has.
    fn can_do_without(&self, menu: &Menu, fault: &Fault) -> bool {
        let alone = fault.code == code::METHOD_NOT_FOUND || fault.code == code::INTERNAL && !menu.skills.is_empty();
        alone && !matches!(self.place, Place::Server(_))
    }

    /// All that servers have of something, under names that say whose it is, in the order of the servers. They are asked at once, and each
    /// has only so much time: one that hangs must not keep what the others have from a client. One that is not there in time has
    /// nothing now.
    pub(super) async fn all_of<'a>(
        &self,
        servers: impl IntoIterator<Item = &'a ServerKey>,
        list: (&str, &str, &str),
        client: &Client,
    ) -> Vec<(&'a ServerKey, Vec<Shallow>)> {
        let asking = servers.into_iter().map(|server| async move {
            let found = timeout(PATIENCE, Box::pin(self.of_one(server, list, client))).await;
            let late = || tracing::debug!(%server, method = list.0, "a list is left out: it took too long");
            (server, found.inspect_err(|_| late()).unwrap_or_default())
        });
        join_all(asking).await
    }

    async fn of_one(&self, server: &ServerKey, list: (&str, &str, &str), client: &Client) -> Vec<Shallow> {
        let (method, what, field) = list;
        if !self.can_list(server, method, what).await {
            return Vec::new();
        }
        let (mut found, mut params) = (Vec::new(), Shallow::default());
        for _ in 0..PAGES {
            let Ok(page) = self.forward(server, method, params, client).await else { break };
            let Some(page) = Shallow::read(&page) else { break };
            let entries: Vec<Box<RawValue>> = page.parse(what).unwrap_or_default();
            found.extend(entries.iter().filter_map(|entry| {
                let mut entry = Shallow::read(entry)?;
                let own = entry.text(field)?;
                let name = match field {
                    "name" => names::prompt(server, &own),
                    _ => names::resource(server, &own),
                };
                entry.set_value(field, &name.into());
                Some(entry)
            }));
            let Some(next) = page.text("nextCursor") else { break };
            params = Shallow::default();
            params.set_value("cursor", &next.into());
        }
        found
    }

    /// Whether a server has such a list. One that sleeps is woken for it, if it said that it has, or if nobody knows; one that has
    /// never been here yet and is just being connected is not waited for.
    async fn can_list(&self, server: &ServerKey, method: &str, what: &str) -> bool {
        let can = match method {
            "skills/list" => SKILLS,
            _ => what.strip_prefix("resourceT").map_or(what, |_| "resources"),
        };
        let says = |state: &ServerState| state.offers.as_ref().map(|offers| offers.iter().any(|name| name == can));
        let servers = self.app.servers();
        let Some(state) = servers.state(&self.org, server) else { return false };
        let comes = match (state.status, says(&state)) {
            (Status::Connected, said) => return said == Some(true),
            (Status::Disconnected, said) => state.hopeful && said != Some(false),
            (Status::Connecting, said) => state.hopeful && said == Some(true),
            _ => false,
        };
        if !comes {
            return false;
        }
        let state = servers.arrived(&self.org, server, PATIENCE).await;
        state.is_some_and(|state| state.status == Status::Connected && says(&state) == Some(true))
    }

    /// What Kitbag itself has, and where that goes on.
    async fn own(&self, menu: &Menu, what: &str) -> Result<(Vec<Value>, Option<String>), Fault> {
        Ok(match (what, &self.place) {
            (_, Place::Server(_)) => (Vec::new(), None),
            ("resources", _) => {
                let (files, next) = files::list(self, None).await?;
                (menu.skills.iter().map(Served::resource).chain(files).collect(), next)
            }
            ("resourceTemplates", _) => (vec![files::template()], None),
            ("prompts", _) => (menu.skills.iter().map(Served::shown_prompt).collect(), None),
            _ => (Vec::new(), None),
        })
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
                None => match menu.page_of(&uri) {
                    Some(server) => (server.clone(), uri.clone()),
                    None => return Err(no_resource(&uri, stateless)),
                },
            },
        };
        params.set_value("uri", &own.as_str().into());
        let raw = self.relayed(&server, method, params, client).await?;
        if own == uri || method != "resources/read" {
            return Ok(if method == "resources/read" { cached(raw, stateless) } else { raw });
        }
        // What was asked for under one name must not come back under another.
        let rename = |content: &mut Shallow| renamed::address(content, "uri", &server);
        Ok(cached(renamed::result(raw, |result| renamed::each(result, "contents", rename)), stateless))
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
        let raw = self.relayed(&server, "prompts/get", params, client).await?;
        if self.only(&menu).is_some() || !raw.get().contains("\"resource") {
            return Ok(raw);
        }
        // What a prompt points to can be read under the name that it has there.
        let rename = |message: &mut Shallow| renamed::links(message, "content", &server);
        Ok(renamed::result(raw, |result| renamed::each(result, "messages", rename)))
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

/// The answer with a list of something, which may go on.
fn list_of(
    what: &str,
    entries: impl Iterator<Item = Box<RawValue>>,
    next: Option<String>,
) -> Result<Box<RawValue>, Fault> {
    let mut result = Shallow::default();
    result.set(what, to_raw_value(&entries.collect::<Vec<_>>()).map_err(|error| internal(&error))?);
    next.iter().for_each(|next| result.set_value("nextCursor", &next.as_str().into()));
    Ok(result.raw())
}

/// Ours after theirs, on the last page.
fn with_own(raw: Box<RawValue>, what: &str, own: Vec<Value>, next: Option<String>) -> Box<RawValue> {
    let Some(mut result) = Shallow::read(&raw).filter(|_| !own.is_empty()) else { return raw };
    if result.get("nextCursor").is_some_and(|next| next.get() != "null") {
        return raw;
    }
    let mut all: Vec<Box<RawValue>> = result.parse(what).unwrap_or_default();
    all.extend(own.iter().filter_map(|entry| to_raw_value(entry).ok()));
    if let Ok(all) = to_raw_value(&all) {
        result.set(what, all);
    }
    next.iter().for_each(|next| result.set_value("nextCursor", &next.as_str().into()));
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
