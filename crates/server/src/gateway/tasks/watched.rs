//! Tasks that a client wants to hear of on its subscription (`taskIds`). It is told how they are, each time that changes.

use std::sync::Arc;
use std::time::Duration;

use kitbag_mcp::serve::{Client, Fault};
use kitbag_model::{Timestamp, ToolCallId};
use serde_json::{Map, Value};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Interval, interval};

use super::{needed, offers, theirs};
use crate::events::Event;
use crate::gateway::view::View;

/// So often it is looked whether a server asked something, which only memory knows.
const LOOK: Duration = Duration::from_millis(500);

pub(in crate::gateway) struct Watched {
    bus: Receiver<Arc<Event>>,
    look: Interval,
    tasks: Vec<One>,
}

struct One {
    name: String,
    call: ToolCallId,
    /// When something was asked or answered last, as far as it was told.
    changed: Option<Timestamp>,
    /// Whether it must be told how it is.
    news: bool,
}

impl Watched {
    /// The names of those that are told of.
    pub(in crate::gateway) fn names(&self) -> Vec<&str> {
        self.tasks.iter().map(|one| one.name.as_str()).collect()
    }
}

impl View {
    /// Watches those of these that are there. Those of servers behind us are asked for, and not told of.
    pub(in crate::gateway) async fn watched(&self, names: &[String], client: &Client) -> Result<Watched, Fault> {
        let (bus, look) = (self.app.events().listen(), interval(LOOK));
        let mut watched = Watched { bus, look, tasks: Vec::new() };
        if !names.is_empty() && !offers(client) {
            return Err(needed("`taskIds`"));
        }
        for name in names {
            if let Ok(call) = self.call_of(name).await
                && theirs(&call).is_none()
                && !watched.tasks.iter().any(|one| one.name == *name)
            {
                // How it is now is told first: it may have changed before somebody listened.
                watched.tasks.push(One { name: name.clone(), call: call.id, changed: None, news: true });
            }
        }
        Ok(watched)
    }

    /// Waits until one is other than it was told. How it is now.
    pub(in crate::gateway) async fn changed(&self, watched: &mut Watched, client: &Client) -> Map<String, Value> {
        loop {
            if watched.tasks.is_empty() {
                std::future::pending::<()>().await;
            }
            if let Some(one) = watched.tasks.iter_mut().find(|one| one.news) {
                let shown = match self.call_of(&one.name).await {
                    Ok(call) => self.shown(&call, client).await.ok(),
                    Err(_) => None,
                };
                // Not before: whoever waits for this may stop and come back.
                one.news = false;
                if let Some(mut shown) = shown.and_then(|raw| serde_json::from_str::<Map<_, _>>(raw.get()).ok()) {
                    shown.remove("resultType");
                    return shown;
                }
                continue;
            }
            tokio::select! {
                event = watched.bus.recv() => match event {
                    Ok(event) if event.name == "tool_call" && event.org == self.org => {
                        let id = event.data.get("id").and_then(Value::as_str).unwrap_or_default();
                        let of_it = watched.tasks.iter_mut().filter(|one| one.call.to_string() == id);
                        of_it.for_each(|one| one.news = true);
                    }
                    Ok(_) => {}
                    // What was missed may have been anything.
                    Err(RecvError::Lagged(_)) => watched.tasks.iter_mut().for_each(|one| one.news = true),
                    Err(RecvError::Closed) => std::future::pending().await,
                },
                _ = watched.look.tick() => {
                    for one in &mut watched.tasks {
                        let task = self.app.gateway().tasks.find(one.call);
                        let changed = task.map(|task| task.questions.changed());
                        if changed > one.changed {
                            (one.changed, one.news) = (changed, true);
                        }
                    }
                }
            }
        }
    }
}
