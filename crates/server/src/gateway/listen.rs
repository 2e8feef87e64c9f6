//! What changes, told to clients: over their session, or on a subscription of a client without one.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::connection::Call;
use kitbag_mcp::serve::{Client, Fault, Voice};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::ServerKey;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tokio::sync::broadcast::error::RecvError;

use super::door::Place;
use super::lists::nothing;
use super::names;
use super::tools::internal;
use super::view::View;
use crate::events::News;

/// So long is waited for more of the same: a server that says it all the time is not passed on all the time.
const SETTLE: Duration = Duration::from_millis(50);

/// As long as a subscription at a server may last.
const LONG: Duration = Duration::from_secs(24 * 3600);

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

/// Something to say, which is said once however often it happens meanwhile.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
enum Said {
    List(&'static str),
    Updated(String),
}

impl View {
    /// Tells a session what changes, for as long as it lasts.
    pub(super) fn tell(self: Arc<Self>, voice: Voice) {
        let mut news = self.app.events().news();
        let mut over = self.app.events().over();
        let view = Arc::downgrade(&self);
        drop(self);
        tokio::spawn(async move {
            loop {
                let first = tokio::select! {
                    first = news.recv() => first,
                    () = until(&mut over) => return,
                };
                let Some(view) = view.upgrade() else { return };
                let Some(all) = view.heard(first, &mut news).await else { return };
                for said in all {
                    let alive = match &said {
                        Said::List(method) => voice.say(method, None),
                        Said::Updated(uri) if !view.subscribed().contains(uri) => true,
                        Said::Updated(uri) => {
                            voice.say("notifications/resources/updated", Some(&json!({ "uri": uri })))
                        }
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
        if !wanted.resource_subscriptions.is_empty() {
            for uri in &wanted.resource_subscriptions {
                self.watch(uri).await;
            }
            honoured.insert("resourceSubscriptions".to_owned(), json!(wanted.resource_subscriptions));
        }
        let mut watched = self.watched(&wanted.task_ids, client).await?;
        if !watched.names().is_empty() {
            honoured.insert("taskIds".to_owned(), json!(watched.names()));
        }
        let acknowledged = tagged(Map::from_iter([("notifications".to_owned(), Value::Object(honoured))]));
        client.notify("notifications/subscriptions/acknowledged", acknowledged);
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
            let Some(all) = self.heard(first, &mut news).await else { break };
            for said in all {
                match said {
                    Said::List(method) if wanted.wants(method) => client.notify(method, tagged(Map::new())),
                    Said::Updated(uri) if wanted.resource_subscriptions.contains(&uri) => {
                        let params = tagged(Map::from_iter([("uri".to_owned(), uri.into())]));
                        client.notify("notifications/resources/updated", params);
                    }
                    _ => {}
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
    ) -> Option<BTreeSet<Said>> {
        let mut all = BTreeSet::new();
        let mut next = Ok(first);
        while let Ok(one) = next {
            match one {
                Ok(one) => all.extend(self.meaning(&one).await),
                // What was missed may have been anything.
                Err(RecvError::Lagged(missed)) => {
                    metrics::counter!("kitbag_events_dropped_total", "listener" => "mcp").increment(missed);
                    all.extend(["tools", "prompts", "resources"].map(|list| Said::List(list_changed(list))))
                }
                Err(RecvError::Closed) => return None,
            }
            next = tokio::time::timeout(SETTLE, news.recv()).await;
        }
        Some(all)
    }

    /// What a piece of news means to this client.
    async fn meaning(&self, news: &News) -> Vec<Said> {
        match news {
            News::Tools(org) if *org == self.org => {
                let mut all = vec![Said::List(list_changed("tools"))];
                if self.has_other_skills().await {
                    all.extend(["prompts", "resources"].map(|list| Said::List(list_changed(list))));
                }
                all
            }
            other => self.said(other).await.into_iter().collect(),
        }
    }

    async fn said(&self, news: &News) -> Option<Said> {
        match news {
            News::Tools(_) => None,
            News::Files(org, chat) => {
                let ours = *org == self.org && self.known_chat().await.ok().flatten() == Some(*chat);
                (ours && !matches!(self.place, Place::Server(_))).then(|| Said::List(list_changed("resources")))
            }
            News::Selectors(org, chat) => {
                let ours = *org == self.org && self.known_chat().await.ok().flatten() == Some(*chat);
                ours.then(|| Said::List(list_changed("tools")))
            }
            News::Told { org, key, method, params } => {
                if *org != self.org || !self.menu().await.is_ok_and(|menu| self.has(&menu, key)) {
                    return None;
                }
                match method.as_str() {
                    "notifications/tools/list_changed" => Some(Said::List(list_changed("tools"))),
                    "notifications/prompts/list_changed" => Some(Said::List(list_changed("prompts"))),
                    "notifications/resources/list_changed" => Some(Said::List(list_changed("resources"))),
                    _ => {
                        let uri = params.get("uri")?.as_str()?;
                        let menu = self.menu().await.ok()?;
                        let plain = self.only(&menu).is_some();
                        Some(Said::Updated(if plain { uri.to_owned() } else { names::resource(key, uri) }))
                    }
                }
            }
        }
    }

    fn has(&self, menu: &super::menu::Menu, key: &ServerKey) -> bool {
        match &self.place {
            Place::Server(own) => own == key,
            _ => menu.servers.contains(key),
        }
    }

    /// Wants to hear when a resource is other than before. A server without sessions is listened to for it.
    async fn watch(&self, uri: &str) {
        let Ok(menu) = self.menu().await else { return };
        let (server, own) = match self.only(&menu) {
            Some(server) => (server.clone(), uri.to_owned()),
            None => match names::resource_of(uri).filter(|(server, _)| menu.servers.contains(server)) {
                Some((server, own)) => (server, own.to_owned()),
                None => return,
            },
        };
        let manager = self.app.servers().manager(&self.org).clone();
        let org = self.org.clone();
        let newest = self.app.servers().is_stateless(&self.org, &server);
        // The one who could stop it is this view: with it, the wish is gone.
        let stop = self.gone().subscribe();
        tokio::spawn(async move {
            let mut params = Shallow::default();
            let call = if newest {
                params.set_value("notifications", &json!({ "resourceSubscriptions": [own] }));
                Call::new("subscriptions/listen", params, LONG, stop)
            } else {
                params.set_value("uri", &own.into());
                Call::new("resources/subscribe", params, Duration::from_secs(30), stop)
            };
            if let Err(error) = manager.call(&org, &server, call).await {
                tracing::debug!(%error, %server, "a resource cannot be watched");
            }
        });
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
            "resources/subscribe" => {
                let menu = self.menu().await?;
                let ours = super::skills::of(&menu, &uri).is_some() || super::apps::of(&menu, &uri).is_some();
                if !super::files::is_file(&uri) && (!ours || matches!(self.place, Place::Server(_))) {
                    let server = self.only(&menu).cloned().or_else(|| names::resource_of(&uri).map(|(key, _)| key));
                    let newest = server.is_some_and(|server| self.app.servers().is_stateless(&self.org, &server));
                    if newest {
                        self.watch(&uri).await;
                    } else {
                        self.resource(method, params, client).await?;
                    }
                }
                self.subscribed().insert(uri);
            }
            // Others may still want to hear of it at the server.
            _ => drop(self.subscribed().remove(&uri)),
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
