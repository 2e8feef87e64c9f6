//! A run is asked for: everything that it will need is settled now, so that nothing that changes later changes it.

use kitbag_model::run::apply::application;
use kitbag_model::run::{Application, NewRun, Run, RunConfig, RunName};
use kitbag_model::toolset::Visibility;
use kitbag_model::{Action, Audience, ChatId, ChatTitle, ManifestId, NewChat, OrgId, RunId};
use serde_json::json;

use super::{AgentRuns, traced};
use crate::api::error::{ApiError, Code};
use crate::api::workspace::explain;
use crate::rules::Quota;
use crate::toolsets::Snapshot;

/// Who finds no place is told to come again after so many seconds: an executor takes some time for a run.
const AGAIN: u32 = 10;

/// What somebody asks for.
pub(crate) struct Ask {
    pub(crate) name: Option<RunName>,
    pub(crate) config: RunConfig,
    /// Whose workspace; one of its own, if absent.
    pub(crate) chat: Option<ChatId>,
    /// Which state of it; the current one, if absent.
    pub(crate) manifest: Option<ManifestId>,
    /// Whether what it leaves becomes the chat's next state. If absent: only where the chat is its own.
    pub(crate) apply: Option<bool>,
    pub(crate) retry_of: Option<RunId>,
}

impl AgentRuns {
    /// Puts a run into the queue.
    pub(crate) async fn ask(&self, org: &OrgId, audience: Audience, who: &str, ask: Ask) -> Result<Run, ApiError> {
        self.check_named(org, &ask.config).await?;
        let rules = self.0.rules.of(org).await?;
        let quota = rules.queued_runs();
        // Before anything is made for it. Whether there still is a place when it is kept is looked at once more, then for sure.
        let mut tx = self.0.store.read_beside(org).await?;
        has_place(tx.runs_waiting(quota.most).await?, &quota)?;
        drop(tx);
        let application = application(&ask.config, rules.default_toolset());
        let mut snapshot = match &application {
            Application::Toolset { toolset_id, .. } => Some(self.0.toolsets.snapshot(org, audience, toolset_id).await?),
            Application::Nothing(_) => None,
        };
        let renderings = self.0.toolsets.renderings(org, snapshot.as_mut()).await?;
        let own = ask.chat.is_none();
        let (chat, began_with) = match ask.chat {
            Some(chat) => (chat, self.state_of(org, chat, ask.manifest).await?),
            None => (self.own_chat(org, ask.name.as_ref()).await?, None),
        };
        let new = NewRun {
            id: RunId::generate(),
            name: ask.name,
            config: ask.config,
            application,
            toolset: snapshot.as_ref().map(|snapshot| snapshot.toolset.clone()),
            renderings,
            chat_id: chat,
            pre_manifest_id: began_with,
            apply: ask.apply.unwrap_or(own),
            retry_of: ask.retry_of,
            created_by: who.to_owned(),
            private_to: snapshot.as_ref().and_then(private_to),
            trace: kitbag_trace::current().map(traced::told),
        };
        let kept = self.keep(org, &new, snapshot, &quota).await;
        if kept.is_err() && own {
            // Nobody will ever hear of it.
            if let Ok(lease) = self.0.workspaces.lease(org, chat).await {
                let _ = lease.delete_chat(who).await;
            }
        }
        let run = kept?;
        self.tell_state(org, &run);
        Ok(run)
    }

    /// Whoever names one executor means one that is there: nothing would ever come of a run for another.
    async fn check_named(&self, org: &OrgId, config: &RunConfig) -> Result<(), ApiError> {
        let selector = &config.execution.selector;
        let Some(id) = selector.executor_id else { return Ok(()) };
        let found = self.0.store.read_beside(&selector.home(org)).await?.executor(id).await?;
        match found.filter(|one| one.revoked_at.is_none() && one.pool == selector.pool) {
            Some(_) => Ok(()),
            None => {
                let reason = format!("there is no executor {id}; it may have been taken out");
                Err(ApiError::invalid("config.execution.selector.executorId", reason))
            }
        }
    }

    /// The files first, then the row that names them.
    async fn keep(
        &self,
        org: &OrgId,
        new: &NewRun,
        snapshot: Option<Snapshot>,
        quota: &Quota,
    ) -> Result<Run, ApiError> {
        if let Some(snapshot) = snapshot {
            let files = snapshot.files.into_iter().map(|(path, file)| (path, file.sha256)).collect();
            self.0.workspaces.look(org, new.chat_id).await.take_files(files).await?;
        }
        let mut tx = self.0.store.write(org).await?;
        tx.lock_queue().await?;
        has_place(tx.runs_waiting(quota.most).await?, quota)?;
        let run = tx.create_run(new).await?;
        let details = json!({
            "engine": new.config.engine.id, "toolset": new.toolset.as_ref().map(|toolset| &toolset.id),
            "chat": new.chat_id, "retryOf": new.retry_of,
        });
        tx.audit(&new.created_by, Action::AgentRunAsked, &run.id.to_string(), &details).await?;
        tx.commit_chat().await?;
        Ok(run)
    }

    /// The state of a chat that a run begins with. What was changed in the folder since is kept first.
    async fn state_of(
        &self,
        org: &OrgId,
        chat: ChatId,
        named: Option<ManifestId>,
    ) -> Result<Option<ManifestId>, ApiError> {
        let lease = self.0.workspaces.look(org, chat).await;
        let found = match named {
            Some(id) => lease.manifest(id).await.map(Some),
            None if self.0.workspaces.exists(org, chat) => lease.current().await,
            None => lease.active().await,
        };
        Ok(found.map_err(explain(chat))?.map(|manifest| manifest.id))
    }

    async fn own_chat(&self, org: &OrgId, name: Option<&RunName>) -> Result<ChatId, ApiError> {
        let title: Option<ChatTitle> = name.and_then(|name| name.as_str().parse().ok());
        let mut tx = self.0.store.write(org).await?;
        let chat = tx.create_chat(&NewChat { title, tool_selectors: None, of_run: true }).await?;
        tx.commit_chat().await?;
        Ok(chat.id)
    }
}

/// Whether one more may wait. The queue is in the database, so this holds whichever server is asked; what goes back into it was in it before.
fn has_place(waiting: u64, quota: &Quota) -> Result<(), ApiError> {
    if waiting < quota.most {
        return Ok(());
    }
    let message = quota.told(&format!("{waiting} runs of this organisation wait for an executor"));
    Err(ApiError::new(Code::QuotaExceeded, message).retry_after(AGAIN))
}

/// Whose toolset it is, if it is private.
fn private_to(snapshot: &Snapshot) -> Option<kitbag_model::UserId> {
    let toolset = &snapshot.installed.toolset;
    toolset.created_by.filter(|_| toolset.visibility == Visibility::Private)
}
