//! The methods of the skills extension: our own skills, then those of the servers behind us that have some.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kitbag_mcp::manager::ServerState;
use kitbag_mcp::serve::{Client, Fault};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use super::menu::Menu;
use super::skills::{self, no_folder};
use super::tools::internal;
use super::upstream::{SKILLS, cached};
use super::view::View;
use super::{names, renamed};

/// So many skills of our own are on one page.
const PAGE: usize = 50;

/// Where a list goes on. What comes back from a client is nothing but a place: what it may see is decided anew.
enum From {
    /// Behind this skill of ours.
    Ours(Option<String>),
    /// At this place in the list of the only server.
    Theirs(Option<String>),
}

impl From {
    fn read(params: &Shallow) -> Result<Self, Fault> {
        let wrong = || Fault::params("`cursor` is none that was given");
        let Some(raw) = params.get("cursor").filter(|raw| raw.get() != "null") else { return Ok(Self::Ours(None)) };
        let text: String = serde_json::from_str(raw.get()).map_err(|_| wrong())?;
        let (kind, rest) = text.split_once('.').ok_or_else(wrong)?;
        let place = URL_SAFE_NO_PAD.decode(rest).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        match (kind, place.ok_or_else(wrong)?) {
            ("k", place) => Ok(Self::Ours(Some(place))),
            ("s", place) => Ok(Self::Theirs(Some(place))),
            _ => Err(wrong()),
        }
    }

    fn write(&self) -> Option<String> {
        let (kind, place) = match self {
            Self::Ours(place) => ("k", place.as_ref()?),
            Self::Theirs(place) => ("s", place.as_ref()?),
        };
        Some(format!("{kind}.{}", URL_SAFE_NO_PAD.encode(place)))
    }
}

impl View {
    /// `skills/list`, `skills/get` and `resources/directory/read`.
    pub(super) async fn skills(&self, method: &str, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let (menu, stateless) = (self.menu().await?, client.peer().stateless);
        if method == "skills/list" {
            return Ok(cached(self.skill_list(&menu, &params, client).await?, stateless));
        }
        let uri = params.text("uri").ok_or_else(|| Fault::params("`uri` must be an address"))?;
        let ours = skills::of(&menu, &uri);
        match (method, ours) {
            ("skills/get", Some(served)) if served.uri() == uri => {
                Ok(cached(raw(&json!({ "skill": served.entry(self).await? }))?, stateless))
            }
            ("resources/directory/read", Some(served)) => {
                raw(&json!({ "resources": served.folder(self, &uri).await? }))
            }
            ("skills/get", None) => Ok(cached(self.of_server(&menu, method, params, &uri, client).await?, stateless)),
            (_, None) => self.of_server(&menu, method, params, &uri, client).await,
            _ => Err(Fault::params(format!("there is no skill {uri:?}")).with_data(json!({ "uri": uri }))),
        }
    }

    async fn skill_list(&self, menu: &Menu, params: &Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        let (mut found, mut next): (Vec<Box<RawValue>>, _) = (Vec::new(), From::Theirs(None));
        let theirs = match From::read(params)? {
            From::Theirs(place) => place,
            From::Ours(behind) => {
                let at = |uri: &String| menu.skills.iter().position(|served| served.base == *uri);
                // One that has gone since: what follows it nobody knows.
                let gone = || Fault::params("the skills are others by now; list them from the beginning");
                let start = behind.map_or(Ok(0), |uri| at(&uri).map(|at| at + 1).ok_or_else(gone))?;
                for served in menu.skills.iter().skip(start).take(PAGE) {
                    match served.entry(self).await {
                        Ok(entry) => found.push(raw(&entry)?),
                        // One that is damaged must not hide the others.
                        Err(fault) => {
                            tracing::warn!(skill = served.base, error = fault.message, "a skill is left out");
                        }
                    }
                }
                if start + PAGE < menu.skills.len() {
                    next = From::Ours(menu.skills.get(start + PAGE - 1).map(|served| served.base.clone()));
                }
                None
            }
        };
        if matches!(next, From::Theirs(_)) {
            match self.only(menu) {
                Some(server) if self.has_skills(server) => {
                    let mut params = Shallow::default();
                    theirs.iter().for_each(|cursor| params.set_value("cursor", &cursor.as_str().into()));
                    let page = self.forward(server, "skills/list", params, client).await;
                    let page = match page {
                        Ok(page) => Shallow::read(&page).unwrap_or_default(),
                        // A place that was theirs is theirs to refuse.
                        Err(fault) if theirs.is_some() => return Err(fault),
                        Err(_) => Shallow::default(),
                    };
                    found.extend(page.parse::<Vec<Box<RawValue>>>("skills").unwrap_or_default());
                    next = From::Theirs(page.text("nextCursor"));
                }
                Some(_) => {}
                None => {
                    for (server, all) in self.all_of(&menu.servers, ("skills/list", "skills", "uri"), client).await {
                        found.extend(all.into_iter().map(|mut entry| {
                            rename(server, &mut entry);
                            entry.raw()
                        }));
                    }
                }
            }
        }
        let mut page = Shallow::default();
        page.set("skills", to_raw_value(&found).map_err(|error| internal(&error))?);
        if let Some(next) = next.write() {
            page.set_value("nextCursor", &next.into());
        }
        Ok(page.raw())
    }

    /// What is asked of a skill that is none of ours.
    async fn of_server(
        &self,
        menu: &Menu,
        method: &str,
        mut params: Shallow,
        uri: &str,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let found = match self.only(menu) {
            Some(server) => Some((server.clone(), uri)),
            None => names::resource_of(uri).filter(|(server, _)| menu.servers.contains(server)),
        };
        let Some((server, own)) = found.filter(|(server, _)| self.has_skills(server)) else {
            return Err(no_folder(uri));
        };
        params.set_value("uri", &own.into());
        let answer = self.forward(&server, method, params, client).await?;
        if own == uri {
            return Ok(answer);
        }
        Ok(renamed::result(answer, |answer| {
            let skill = |skill: &mut Shallow| {
                let named = renamed::address(skill, "uri", &server);
                rename(&server, skill) || named
            };
            let own = rename(&server, answer);
            renamed::within(answer, "skill", skill) || own
        }))
    }

    /// Whether a server says that it has skills.
    fn has_skills(&self, server: &ServerKey) -> bool {
        let state = self.app.servers().state(&self.org, server);
        let says = |state: ServerState| state.offers.is_some_and(|offers| offers.iter().any(|name| name == SKILLS));
        state.is_some_and(says)
    }
}

/// Says of an object's resources whose they are.
fn rename(server: &ServerKey, object: &mut Shallow) -> bool {
    renamed::each(object, "resources", |resource| renamed::address(resource, "uri", server))
}

fn raw(value: &Value) -> Result<Box<RawValue>, Fault> {
    to_raw_value(value).map_err(|error| internal(&error))
}
