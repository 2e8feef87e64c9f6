//! What happens at one node, told to the others: lines are rows of their organisation, and only their ids are sent around.
//!
//! Whoever cannot tell or could not listen for a while says so, and everybody takes everything for changed.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kitbag_model::{ChatId, OrgId, RunId, UserId};
use kitbag_store::{Listening, News as Heard, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};

use super::Nodes;
use crate::app::{App, WeakApp};
use crate::events::Events;

/// So many lines wait to be told; what comes when there are more is lost, and that is told.
const WAITING: usize = 4096;

/// So many are told at once.
const AT_ONCE: usize = 256;

/// So long is waited for more.
const SOON: Duration = Duration::from_millis(5);

/// So often what was told is removed.
const FORGET: Duration = Duration::from_secs(60);

/// How long a node waits before it listens again.
const AGAIN: Duration = Duration::from_secs(1);

/// Something that happened.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Line {
    /// For whoever listens to events.
    Event { chat: Option<ChatId>, private_to: Option<UserId>, name: String, data: Value },
    /// Tools came, went, or are other than before.
    Tools { toolset: String, reason: String },
    /// The files of a chat are others.
    Files { chat: ChatId },
    /// A chat may use other tools.
    Selectors { chat: ChatId },
    /// A toolset is not what it was, so that what runs of it ends.
    ToolsetEnded { toolset: String, what: String },
    /// The settings of an organisation.
    Rules,
    /// Somebody's rights may have ended.
    Rights,
    /// The workspaces of an organisation take so much more.
    Took { bytes: u64 },
    /// Something was written down of a run; executors with room look again.
    Run { run: RunId },
    /// Something was not told.
    Everything,
}

impl Nodes {
    /// Begins to tell the others what happens here. Nothing if it was begun before.
    pub(super) fn tell(self, events: &Events) -> Option<tokio::task::JoinHandle<()>> {
        let store = self.0.store.clone()?;
        let (sender, mut lines) = mpsc::channel::<(OrgId, Line)>(WAITING);
        let gap = events.wire(sender, self.clone())?;
        Some(tokio::spawn(async move {
            let (mut told, mut forgot): (BTreeSet<OrgId>, _) = (BTreeSet::new(), Instant::now());
            let mut batch = Vec::with_capacity(AT_ONCE);
            loop {
                // Whoever misses something is to hear so soon, and not with whatever happens next.
                let patience = if gap.load(Ordering::SeqCst) { AGAIN } else { FORGET };
                let more = tokio::time::timeout(patience, lines.recv_many(&mut batch, AT_ONCE)).await;
                if matches!(more, Ok(0)) {
                    return;
                }
                if more.is_ok() {
                    sleep(SOON).await;
                    while batch.len() < AT_ONCE
                        && let Ok(line) = lines.try_recv()
                    {
                        batch.push(line);
                    }
                }
                if gap.swap(false, Ordering::SeqCst) {
                    batch.push((OrgId::local(), Line::Everything));
                }
                // In order within each organisation.
                while let Some(org) = batch.first().map(|(org, _)| org.clone()) {
                    let (ours, others) = batch.drain(..).partition::<Vec<_>, _>(|(of, _)| *of == org);
                    batch.extend(others);
                    let lines: Vec<String> =
                        ours.iter().filter_map(|(_, line)| serde_json::to_string(line).ok()).collect();
                    if let Err(error) = store.tell(&org, &self.id(), &lines).await {
                        tracing::warn!(%error, "the other nodes could not be told what happened");
                        gap.store(true, Ordering::SeqCst);
                        sleep(AGAIN).await;
                    }
                    told.insert(org);
                }
                if forgot.elapsed() > FORGET {
                    forgot = Instant::now();
                    for org in std::mem::take(&mut told) {
                        if let Err(error) = store.forget_told(&org).await {
                            tracing::debug!(%error, "what the other nodes were told could not be removed");
                            told.insert(org);
                        }
                    }
                }
            }
        }))
    }

    /// Hears what the others tell, for as long as there is somebody to hear it for.
    pub(super) async fn hear(self, listening: Option<Listening>, app: WeakApp) {
        let mut listening = listening;
        loop {
            if let Some(from) = &mut listening {
                let next = from.next().await;
                let Some(app) = app.upgrade() else { return };
                match next {
                    Ok(heard) => app.heard(heard).await,
                    Err(error) => {
                        tracing::warn!(%error, "the other nodes are not heard");
                        listening = None;
                    }
                }
                continue;
            }
            sleep(AGAIN).await;
            match self.listen().await {
                Ok(again) => {
                    // From here on nothing is missed; what was before is not known.
                    listening = again;
                    let Some(app) = app.upgrade() else { return };
                    app.everything_changed().await;
                }
                Err(error) => tracing::warn!(%error, "the other nodes cannot be heard yet"),
            }
        }
    }

    /// Begins to hear the others.
    pub(super) async fn listen(&self) -> Result<Option<Listening>, StoreError> {
        match &self.0.store {
            Some(store) => store.listen(self.0.settings.lease).await.map(Some),
            None => Ok(None),
        }
    }
}

impl App {
    async fn heard(&self, heard: Heard) {
        let nodes = self.nodes();
        if *heard.from == *nodes.id() {
            // Also when somebody said that this very node is dead.
            if heard.org.is_none() {
                nodes.0.beat_now.notify_one();
            }
            return;
        }
        let (Some(org), Some(store)) = (&heard.org, &nodes.0.store) else {
            if let Err(error) = nodes.look_around().await {
                tracing::warn!(%error, "which nodes there are could not be read");
            }
            return;
        };
        match store.told(org, &heard.ids).await {
            Ok(lines) => {
                let is_all = lines.len() == heard.ids.len();
                for line in lines {
                    match serde_json::from_str(&line) {
                        Ok(line) => self.take_in(org, line).await,
                        // Another version's.
                        Err(error) => tracing::debug!(%error, "what another node told cannot be read"),
                    }
                }
                if !is_all {
                    tracing::warn!(%org, "something that another node told was removed before it was read here");
                    self.everything_changed().await;
                }
            }
            Err(error) => {
                tracing::warn!(%error, "what another node told could not be read");
                self.everything_changed().await;
            }
        }
    }

    /// Something happened at another node.
    async fn take_in(&self, org: &OrgId, line: Line) {
        match line {
            Line::Event { chat, private_to, name, data } => self.events().pass_on(org, chat, private_to, name, data),
            Line::Tools { toolset, reason } => {
                self.servers().follow(org).await;
                self.containers().follow(org, &toolset);
                self.events().tools_changed_elsewhere(org, &toolset, &reason);
            }
            Line::Files { chat } => self.events().told(crate::events::News::Files(org.clone(), chat)),
            Line::Selectors { chat } => self.events().told(crate::events::News::Selectors(org.clone(), chat)),
            Line::ToolsetEnded { toolset, what } => self.calls().end_toolset_here(org, &toolset, &what).await,
            Line::Rules => {
                if let Err(error) = self.rules().changed(org).await {
                    tracing::error!(%error, %org, "settings that were changed could not be read again");
                }
            }
            Line::Rights => self.rights().changed(),
            Line::Took { bytes } => self.workspaces().taken_elsewhere(org, bytes),
            Line::Run { run } => self.runs().heard_elsewhere(org, run),
            Line::Everything => self.everything_changed().await,
        }
    }

    /// Nobody knows what changed at other nodes: whoever remembers something looks again.
    pub(crate) async fn everything_changed(&self) {
        if let Err(error) = self.nodes().look_around().await {
            tracing::warn!(%error, "which nodes there are could not be read");
        }
        self.rights().changed();
        self.runs().look_again();
        let read = async { self.store().system().await?.organization_ids().await };
        match read.await {
            Ok(orgs) => {
                for org in orgs {
                    if let Err(error) = self.rules().changed(&org).await {
                        tracing::warn!(%error, %org, "what holds for an organisation could not be read again");
                    }
                    self.servers().follow(&org).await;
                    self.events().told(crate::events::News::Tools(org));
                }
            }
            Err(error) => tracing::warn!(%error, "which organisations there are could not be read"),
        }
        self.events().missed();
    }
}
