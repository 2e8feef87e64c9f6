//! What changes, told to clients: over their session, or on a subscription of a client without one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use kitbag_mcp::serve::{Client, Fault, Voice};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{OrgId, ServerKey};
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::beside::who_of;
use super::door::Place;
use super::lists::{no_resource, nothing};
use super::tools::internal;
use super::view::View;
use super::watches::Wish;
use super::{apps, files, names, skills};
use crate::events::News;

/// So long is waited for more of the same: a server that says it all the time is not passed on all the time.
const SETTLE: Duration = Duration::from_millis(50);

/// What a client wants to hear.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wanted {
    tools_list_changed: bool,
    prompts_list_changed: bool,
    resources_list_changed: bool,
    resource_subscriptions: Vec<String>,
    task_ids: Vec<String>,
}

/// A resource that somebody wants to hear of.
pub(super) enum Heeded {
    /// A file of the workspace, and what it was when it was looked at last.
    File(Option<String>),
    /// Something of a toolset, which is what it is until the toolset is another.
    Ours,
    /// A server's. With the wish it is not asked for any more.
    Theirs { _wish: Wish },
}

/// The resources that somebody wants to hear of, by their addresses.
#[derive(Default)]
pub(super) struct Wants(Mutex<HashMap<String, Heeded>>);

impl Wants {
    pub(super) fn clear(&self) {
        let all = std::mem::take(&mut *self.all());
        drop(all);
    }

    fn has(&self, uri: &str) -> bool {
        self.all().contains_key(uri)
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Heeded>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Those that are something of a toolset.
    fn ours(&self) -> Vec<String> {
        let is_ours = |(uri, heeded): (&String, &Heeded)| matches!(heeded, Heeded::Ours).then(|| uri.clone());
        self.all().iter().filter_map(is_ours).collect()
    }

    /// The files that are not any more what they were.
    async fn changed_files(&self, view: &View) -> Vec<String> {
        let is_file = |(uri, heeded): (&String, &Heeded)| matches!(heeded, Heeded::File(_)).then(|| uri.clone());
        let known: Vec<String> = self.all().iter().filter_map(is_file).collect();
        let mut changed = Vec::new();
        for uri in known {
            let Ok(now) = files::mark(view, &uri).await else { continue };
            if let Some(Heeded::File(before)) = self.all().get_mut(&uri)
                && *before != now
            {
                *before = now;
                changed.push(uri);
            }
        }
        changed
    }
}

/// Who listens, and to what.
struct Ear<'a> {
    who: &'a str,
    wants: &'a Wants,
}

/// Something to say.
#[derive(Clone, PartialEq)]
enum Said {
    /// It is said once, however often it happens meanwhile.
    List(&'static str),
    /// The same.
    Updated(String),
    /// A server's own words.
    Passed(String, Value),
}

impl View {
    /// Tells a session what changes, for as long as it lasts.
    pub(super) fn tell(self: Arc<Self>, voice: Voice) {
        let mut news = self.app.events().news();
        let mut over = self.app.events().over();
        let Some(who) = voice.client().map(|client| who_of(&client, &self.owner)) else { return };
        let view = Arc::downgrade(&self);
        drop(self);
        tokio::spawn(async move {
            loop {
                let first = tokio::select! {
                    first = news.recv() => first,
                    () = until(&mut over) => return,
                };
                let Some(view) = view.upgrade() else { return };
                let ear = Ear { who: &who, wants: view.wanted() };
                let Some(all) = view.heard(first, &mut news, &ear).await else { return };
                for said in all {
                    let alive = match &said {
                        Said::List(method) => voice.say(method, None),
                        Said::Updated(uri) => {
                            voice.say("notifications/resources/updated", Some(&json!({ "uri": uri })))
                        }
                        Said::Passed(method, params) => voice.say(method, Some(params)),
                    };
                    if !alive {
                        return;
                    }
                }
            }
        });
    }

    /// `subscriptions/listen`: tells a client without a session what it wants to hear, until it hangs up.
    pub(super) async fn listen(&self, params: Shallow, client: &Client) -> Result<Box<RawValue>, Fault> {
        self.last();
        let wanted: Wanted =
            params.parse("notifications").ok_or_else(|| Fault::params("`notifications` must say what is wanted"))?;
        let mut news = self.app.events().news();
        let mut over = self.app.events().over();
        let id = client.request_id();
        let tagged = |mut params: Map<String, Value>| {
            params.insert("_meta".to_owned(), json!({ "io.modelcontextprotocol/subscriptionId": id }));
            Value::Object(params)
        };
        let mut honoured = Map::new();
        for (name, is_wanted) in [
            ("toolsListChanged", wanted.tools_list_changed),
            ("promptsListChanged", wanted.prompts_list_changed),
            ("resourcesListChanged", wanted.resources_list_changed),
        ] {
            if is_wanted {
                honoured.insert(name.to_owned(), Value::Bool(true));
            }
        }
        let (who, wants) = (who_of(client, &self.owner), Wants::default());
        if !wanted.resource_subscriptions.is_empty() {
            let heeding = wanted.resource_subscriptions.iter().map(|uri| self.heed(uri, &wants, client));
            let heeded = join_all(heeding).await;
            // What is not there, or cannot be heard of, is not honoured.
            let heeded = wanted.resource_subscriptions.iter().zip(heeded).filter(|(_, heeded)| heeded.is_ok());
            let heeded: Vec<&String> = heeded.map(|(uri, _)| uri).collect();
            honoured.insert("resourceSubscriptions".to_owned(), json!(heeded));
        }
        let mut watched = self.watched(&wanted.task_ids, client).await?;
        if !watched.names().is_empty() {
            honoured.insert("taskIds".to_owned(), json!(watched.names()));
        }
        let acknowledged = tagged(Map::from_iter([("notifications".to_owned(), Value::Object(honoured))]));
        client.notify("notifications/subscriptions/acknowledged", acknowledged);
        let ear = Ear { who: &who, wants: &wants };
        loop {
            let first = tokio::select! {
                first = news.recv() => first,
                task = self.changed(&mut watched, client) => {
                    client.notify("notifications/tasks", tagged(task));
                    continue;
                }
                () = client.gone() => break,
                () = until(&mut over) => break,
            };
            let Some(all) = self.heard(first, &mut news, &ear).await else { break };
            for said in all {
                match said {
                    Said::List(method) if wanted.wants(method) => client.notify(method, tagged(Map::new())),
                    Said::Updated(uri) => {
                        let params = tagged(Map::from_iter([("uri".to_owned(), uri.into())]));
                        client.notify("notifications/resources/updated", params);
                    }
                    // Without a session there is no place for words that belong to no request.
                    Said::List(_) | Said::Passed(..) => {}
                }
            }
        }
        let end = json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": id } });
        to_raw_value(&end).map_err(|error| internal(&error))
    }

    /// What there is to say, after this and what comes with it. None when there will be no more.
    async fn heard(
        &self,
        first: Result<Arc<News>, RecvError>,
        news: &mut tokio::sync::broadcast::Receiver<Arc<News>>,
        ear: &Ear<'_>,
    ) -> Option<Vec<Said>> {
        let mut all: Vec<Said> = Vec::new();
        let mut next = Ok(first);
        while let Ok(one) = next {
            let said = match one {
                Ok(one) => self.meaning(&one, ear).await,
                // What was missed may have been anything.
                Err(RecvError::Lagged(missed)) => {
                    metrics::counter!("kitbag_events_dropped_total", "listener" => "mcp").increment(missed);
                    ["tools", "prompts", "resources"].map(|list| Said::List(list_changed(list))).to_vec()
                }
                Err(RecvError::Closed) => return None,
            };
            for said in said {
                if matches!(said, Said::Passed(..)) || !all.contains(&said) {
                    all.push(said);
                }
            }
            next = tokio::time::timeout(SETTLE, news.recv()).await;
        }
        Some(all)
    }

    /// What a piece of news means to this client.
    async fn meaning(&self, news: &News, ear: &Ear<'_>) -> Vec<Said> {
        match news {
            News::Tools(org) if *org == self.org => {
                let mut all = vec![Said::List(list_changed("tools"))];
                let changed = self.changed_beside().await;
                if changed.skills || changed.servers {
                    all.extend(["prompts", "resources"].map(|list| Said::List(list_changed(list))));
                }
                if changed.skills {
                    all.extend(ear.wants.ours().into_iter().map(Said::Updated));
                }
                all
            }
            News::Files(org, chat) if *org == self.org && !matches!(self.place, Place::Server(_)) => {
                if self.known_chat().await.ok().flatten() != Some(*chat) {
                    return Vec::new();
                }
                let mut all = vec![Said::List(list_changed("resources"))];
                all.extend(ear.wants.changed_files(self).await.into_iter().map(Said::Updated));
                all
            }
            News::Selectors(org, chat) if *org == self.org => {
                if self.known_chat().await.ok().flatten() != Some(*chat) {
                    return Vec::new();
                }
                let mut all = vec![Said::List(list_changed("tools"))];
                if self.changed_beside().await.servers {
                    all.extend(["prompts", "resources"].map(|list| Said::List(list_changed(list))));
                }
                all
            }
            News::Told { org, key, method, params, whom } if *org == self.org => {
                let is_for_all = whom.is_none();
                if is_for_all || whom.as_deref() == Some(ear.who) {
                    return self.told(key, (method, params), is_for_all, ear).await.into_iter().collect();
                }
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// What it means that a server said something.
    async fn told(
        &self,
        key: &ServerKey,
        (method, params): (&str, &Value),
        is_for_all: bool,
        ear: &Ear<'_>,
    ) -> Option<Said> {
        let menu = self.menu().await.ok().filter(|menu| self.has(menu, key))?;
        let is_only = self.only(&menu) == Some(key);
        match method {
            "notifications/tools/list_changed" => Some(Said::List(list_changed("tools"))),
            "notifications/prompts/list_changed" => Some(Said::List(list_changed("prompts"))),
            "notifications/resources/list_changed" => Some(Said::List(list_changed("resources"))),
            "notifications/message" => {
                // On a connection that many share a server says by itself what it would say to its only client: to those who came for it
                // alone. It may be about what somebody else did a moment ago, so it is told only where all are one person's clients.
                let may_hear = !is_for_all || is_only && self.org == OrgId::local();
                (may_hear && self.level.wants(params)).then(|| Said::Passed(method.to_owned(), params.clone()))
            }
            "notifications/elicitation/complete" => {
                (!is_for_all).then(|| Said::Passed(method.to_owned(), params.clone()))
            }
            _ => {
                let uri = params.get("uri")?.as_str()?;
                let uri = if is_only { uri.to_owned() } else { names::resource(key, uri) };
                ear.wants.has(&uri).then_some(Said::Updated(uri))
            }
        }
    }

    fn has(&self, menu: &super::menu::Menu, key: &ServerKey) -> bool {
        match &self.place {
            Place::Server(own) => own == key,
            _ => menu.servers.contains(key),
        }
    }

    /// Wants to hear when a resource is other than before, if there can be one of this address.
    async fn heed(&self, uri: &str, wants: &Wants, client: &Client) -> Result<(), Fault> {
        if wants.has(uri) {
            return Ok(());
        }
        let (menu, is_server) = (self.menu().await?, matches!(self.place, Place::Server(_)));
        let heeded = if files::is_file(uri) && !is_server {
            Heeded::File(files::mark(self, uri).await?)
        } else if !is_server && (skills::of(&menu, uri).is_some() || apps::of(&menu, uri).is_some()) {
            Heeded::Ours
        } else {
            let named = || names::resource_of(uri).filter(|(server, _)| menu.servers.contains(server));
            let found = match self.only(&menu) {
                Some(server) => Some((server.clone(), uri)),
                None => named(),
            };
            let (server, own) = found.ok_or_else(|| no_resource(uri, client.peer().stateless))?;
            Heeded::Theirs { _wish: self.wish(&server, own, client).await? }
        };
        // Of two who wanted it at once the second is as good.
        let before = wants.all().insert(uri.to_owned(), heeded);
        drop(before);
        Ok(())
    }

    /// `resources/subscribe` and `resources/unsubscribe` of a session.
    pub(super) async fn subscribe(
        &self,
        method: &str,
        params: Shallow,
        client: &Client,
    ) -> Result<Box<RawValue>, Fault> {
        let uri = params.text("uri").ok_or_else(|| Fault::params("`uri` must be the address of a resource"))?;
        match method {
            "resources/subscribe" => self.heed(&uri, self.wanted(), client).await?,
            _ => {
                let before = self.wanted().all().remove(&uri);
                drop(before);
            }
        }
        Ok(nothing())
    }
}

impl Wanted {
    fn wants(&self, method: &str) -> bool {
        match method {
            "notifications/tools/list_changed" => self.tools_list_changed,
            "notifications/prompts/list_changed" => self.prompts_list_changed,
            _ => self.resources_list_changed,
        }
    }
}

/// Until there will be no more news.
async fn until(over: &mut tokio::sync::watch::Receiver<bool>) {
    // Nobody is left who could have news if nobody can say so.
    let _ = over.wait_for(|over| *over).await;
}

fn list_changed(list: &str) -> &'static str {
    match list {
        "tools" => "notifications/tools/list_changed",
        "prompts" => "notifications/prompts/list_changed",
        _ => "notifications/resources/list_changed",
    }
}
