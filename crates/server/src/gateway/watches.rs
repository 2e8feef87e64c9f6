//! Resources of servers behind us that clients want to hear of. Each is asked for once, however many want to hear of it and however often
//! they say so; again when its server has another connection, which knows nothing of what was wanted on the one before; and no more
//! when nobody wants to hear of it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use kitbag_mcp::connection::{Answers, Boxed, Call, Refusal};
use kitbag_mcp::manager::Status;
use kitbag_mcp::serve::{Client, Fault};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{OrgId, ServerKey};
use serde_json::{Map, Value, json};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::beside::who_of;
use super::lists::PATIENCE;
use super::tools::internal;
use super::upstream::refused;
use super::view::View;
use crate::app::App;
use crate::events::News;

/// As long as a subscription at a server without sessions may last.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// So long is waited before it is asked for again, at first and at the longest.
const SOONEST: Duration = Duration::from_secs(1);
const LATEST: Duration = Duration::from_secs(60);

/// Whose resource it is, who wants to hear of it, and its address. Clients are told apart since some have connections of their own.
type Of = (OrgId, ServerKey, String, String);

/// All that are asked for.
#[derive(Clone, Default)]
pub(super) struct Watches(Arc<Mutex<HashMap<Of, Weak<Asked>>>>);

/// One that is asked for, as long as somebody wants it.
struct Asked {
    watches: Watches,
    of: Of,
    stop: watch::Sender<bool>,
    begun: watch::Receiver<Begun>,
}

/// What came of asking for it, once that is known.
type Begun = Option<Result<(), Fault>>;

/// What whoever asks for it needs: what says when nobody wants it any more, and what takes what came of it.
type Ends = (watch::Receiver<bool>, watch::Sender<Begun>);

/// The wish to hear of one. With the last it is not asked for any more.
#[derive(Clone)]
pub(super) struct Wish(Arc<Asked>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let mut all = self.watches.all();
        if all.get(&self.of).is_some_and(|asked| asked.strong_count() == 0) {
            all.remove(&self.of);
        }
    }
}

impl Watches {
    fn all(&self) -> MutexGuard<'_, HashMap<Of, Weak<Asked>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more wants it. If nobody did before, it is to be asked for.
    fn want(&self, of: &Of) -> (Wish, Option<Ends>) {
        let mut all = self.all();
        let is_refused = |asked: &Arc<Asked>| matches!(&*asked.begun.borrow(), Some(Err(_)));
        if let Some(asked) = all.get(of).and_then(Weak::upgrade).filter(|asked| !is_refused(asked)) {
            return (Wish(asked), None);
        }
        let ((stop, stopped), (told, begun)) = (watch::channel(false), watch::channel(None));
        let asked = Arc::new(Asked { watches: self.clone(), of: of.clone(), stop, begun });
        all.insert(of.clone(), Arc::downgrade(&asked));
        (Wish(asked), Some((stopped, told)))
    }

    /// Whether somebody wants it, on whichever connection.
    fn has_others(&self, of: &Of) -> bool {
        let same = |other: &Of| (&other.0, &other.1, &other.3) == (&of.0, &of.1, &of.3);
        self.all().iter().any(|(other, asked)| same(other) && asked.strong_count() > 0)
    }
}

impl View {
    /// Wants to hear when a resource of a server is other than before. A server with sessions may refuse that.
    pub(super) async fn wish(&self, server: &ServerKey, own: &str, client: &Client) -> Result<Wish, Fault> {
        let who = who_of(client, &self.owner);
        let of = (self.org.clone(), server.clone(), who.clone(), own.to_owned());
        let (wish, new) = self.app.gateway().watches.want(&of);
        if let Some((stop, told)) = new {
            let company = Arc::new(Absent { who, capabilities: client.peer().capabilities.clone() });
            let watching = Watching { app: self.app.clone(), of, company, stop, stateless: client.peer().stateless };
            tokio::spawn(watching.keep(told));
        }
        let mut begun = wish.0.begun.clone();
        let late = || internal(&format!("{server} does not answer"));
        let begun = timeout(PATIENCE, begun.wait_for(Option::is_some)).await.map_err(|_| late())?;
        begun.map_err(|_| late())?.clone().unwrap_or(Ok(()))?;
        Ok(wish)
    }
}

/// One that is asked for, until nobody wants it.
struct Watching {
    app: App,
    of: Of,
    company: Arc<Absent>,
    stop: watch::Receiver<bool>,
    /// Whether errors are for a client without sessions.
    stateless: bool,
}

impl Watching {
    async fn keep(mut self, told: watch::Sender<Begun>) {
        let mut pause = SOONEST;
        let (org, server, who, uri) = self.of.clone();
        let manager = self.app.servers().manager(&org).clone();
        loop {
            let is_stateless = self.app.servers().is_stateless(&org, &server);
            if is_stateless {
                // It says nothing before the end.
                self.begun(&told);
            }
            let asked = self.ask(is_stateless).await;
            if *self.stop.borrow() {
                break;
            }
            match asked {
                Ok(()) if is_stateless => {}
                Ok(()) => {
                    pause = SOONEST;
                    self.begun(&told);
                    tokio::select! {
                        () = manager.until_other(&org, &server, &who) => {}
                        () = stopped(&mut self.stop) => break,
                    }
                }
                Err(fault) => {
                    if told.borrow().is_none() {
                        told.send_replace(Some(Err(fault)));
                        return;
                    }
                    tracing::debug!(error = fault.message, %server, uri, "a resource cannot be watched now");
                    pause = (pause * 2).min(LATEST);
                }
            }
            // A server that sleeps is not woken for this: whoever uses it does that.
            let again = async {
                sleep(pause).await;
                manager.until_connected(&org, &server).await;
            };
            tokio::select! {
                () = again => {}
                () = stopped(&mut self.stop) => return,
            }
        }
        let is_there = self.app.servers().state(&org, &server).is_some_and(|state| state.status == Status::Connected);
        let is_stateless = self.app.servers().is_stateless(&org, &server);
        if is_there && !is_stateless && !self.app.gateway().watches.has_others(&self.of) {
            let _ = self.call("resources/unsubscribe", PATIENCE, watch::channel(false).1).await;
        }
    }

    /// It is asked for. What happened to it while nobody listened nobody knows, so who had asked before is told to look.
    fn begun(&self, told: &watch::Sender<Begun>) {
        if told.borrow().is_none() {
            told.send_replace(Some(Ok(())));
            return;
        }
        let (org, key, who, uri) = self.of.clone();
        let (method, params) = ("notifications/resources/updated".to_owned(), json!({ "uri": uri }));
        self.app.events().told(News::Told { org, key, method, params, whom: Some(who) });
    }

    /// Asks for it. Without sessions that takes as long as it is heard of.
    async fn ask(&self, is_stateless: bool) -> Result<(), Fault> {
        match is_stateless {
            true => self.call("subscriptions/listen", LONG, self.stop.clone()).await,
            false => self.call("resources/subscribe", PATIENCE, self.stop.clone()).await,
        }
    }

    async fn call(&self, method: &str, deadline: Duration, stop: watch::Receiver<bool>) -> Result<(), Fault> {
        let (org, server, _, uri) = &self.of;
        let mut params = Shallow::default();
        match method {
            "subscriptions/listen" => {
                params.set_value("notifications", &json!({ "resourceSubscriptions": [uri] }));
            }
            _ => params.set_value("uri", &uri.as_str().into()),
        }
        let mut call = Call::new(method, params, deadline, stop);
        call.beside = Some(Arc::clone(&self.company) as _);
        let answer = self.app.servers().manager(org).call(org, server, call).await;
        answer.map(drop).map_err(|error| refused(server, error, self.stateless))
    }
}

async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Who could stop it is gone: that is the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A client that is not there: what it wants goes where its calls go, and nobody can be asked.
struct Absent {
    who: String,
    capabilities: Map<String, Value>,
}

impl Answers for Absent {
    fn capabilities(&self, _stateless: bool) -> Map<String, Value> {
        self.capabilities.clone()
    }

    fn answer(&self, _method: &str, _params: Value) -> Option<Boxed<'static, Result<Value, Refusal>>> {
        None
    }

    fn who(&self) -> &str {
        &self.who
    }
}
