//! Writes many calls in one transaction: their messages, themselves, and a line of the audit for each.
//!
//! One that cannot be written, because its chat was deleted meanwhile, say, does not keep the others from being written.

use std::collections::BTreeMap;
use std::sync::Arc;

use kitbag_model::{Action, CallStatus, ChatId, Content, OrgId, Role, Timestamp, ToolCall, ToolId};

use super::queue::Line;
use crate::audit::{AskedDetails, NewLine};
use crate::calls::to_json;
use crate::error::StoreError;
use crate::messages::StandRow;
use crate::row::{At, SharedAt};
use crate::store::Database;
use crate::tx::{Edition, Tx, WriteTx, execute, insert_often, on};

/// Writes the lines. Those that are left were not written and are to be tried again.
pub(super) async fn write(database: &Database, org: &OrgId, lines: &mut Vec<Line>) -> Result<(), StoreError> {
    match write_all(database, org, lines).await {
        Ok(()) => lines.clear(),
        Err(error) if is_passing(&error) => return Err(error),
        Err(_) => write_each(database, org, lines).await?,
    }
    Ok(())
}

/// Each in a transaction of its own: at least one of them cannot be written at all.
async fn write_each(database: &Database, org: &OrgId, lines: &mut Vec<Line>) -> Result<(), StoreError> {
    while let Some(line) = lines.first() {
        let mut written = write_all(database, org, std::slice::from_ref(line)).await;
        if matches!(written, Err(StoreError::Exists)) && line.call.finished_at.is_some() {
            // An earlier try did more than it knew; what is missing is the end.
            written = write_end(database, org, &line.call).await;
        }
        match written {
            Ok(()) | Err(StoreError::Exists) => {}
            Err(error) if is_passing(&error) => return Err(error),
            Err(error) => tracing::error!(%error, call = %line.call.id, "a call cannot be recorded, and is not"),
        }
        lines.remove(0);
    }
    Ok(())
}

fn is_passing(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Full)
}

async fn begin(database: &Database, org: &OrgId) -> Result<WriteTx, StoreError> {
    // It is nobody's edition: what is remembered of the database stays true.
    Tx::bind(database.begin_write().await?, org, Edition::default(), None).await
}

async fn write_end(database: &Database, org: &OrgId, call: &ToolCall) -> Result<(), StoreError> {
    let mut tx = begin(database, org).await?;
    tx.end_recorded(call).await?;
    tx.commit_chat().await
}

async fn write_all(database: &Database, org: &OrgId, lines: &[Line]) -> Result<(), StoreError> {
    let mut tx = begin(database, org).await?;
    // By chat, in the order of their ids: two servers that lock the same chats must not wait for each other.
    let mut asked: BTreeMap<ChatId, Vec<&Line>> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.asked_at.is_some()) {
        asked.entry(line.call.chat_id).or_default().push(line);
    }
    for (chat, lines) in asked {
        tx.record_chat(chat, &lines).await?;
    }
    for line in lines.iter().filter(|line| line.asked_at.is_none()) {
        tx.end_recorded(&line.call).await?;
    }
    tx.commit_chat().await
}

/// A call and its message, with what several of their rows have in common written once.
struct Recorded<'a> {
    line: &'a Line,
    id: Arc<str>,
    message: Arc<str>,
    above: Option<Arc<str>>,
    position: i64,
    manifest: Option<String>,
    tool: Arc<str>,
    asked_by: Arc<str>,
    generation: Option<Arc<str>>,
    started: SharedAt,
}

/// Texts that are mostly the same as those of the line before.
#[derive(Default)]
struct Last {
    tool: Option<(ToolId, Arc<str>)>,
    asked_by: Option<Arc<str>>,
    generation: Option<Arc<str>>,
}

impl Last {
    fn tool(&mut self, tool: &ToolId) -> Arc<str> {
        match &self.tool {
            Some((known, text)) if known == tool => Arc::clone(text),
            _ => Arc::clone(&self.tool.insert((tool.clone(), tool.to_string().into())).1),
        }
    }
}

/// The text, which may be the last one again.
fn same(last: &mut Option<Arc<str>>, text: &str) -> Arc<str> {
    match last {
        Some(known) if **known == *text => Arc::clone(known),
        _ => Arc::clone(last.insert(text.into())),
    }
}

impl WriteTx {
    /// Records calls of one chat, each with a message below the one before.
    async fn record_chat(&mut self, chat: ChatId, lines: &[&Line]) -> Result<(), StoreError> {
        let Some(last) = lines.last() else { return Ok(()) };
        // First, because it locks the chat's row.
        let stand: Option<StandRow> = on!(self, c => sqlx::query_as(
            "UPDATE chats SET updated_at = $3 WHERE organization_id = $1 AND id = $2
             RETURNING active_leaf_message_id, active_manifest_id")
            .bind(self.org.as_str()).bind(chat.to_string()).bind(At(last.call.started_at)).fetch_optional(c))?;
        let Some(stand) = stand else {
            tracing::warn!(%chat, calls = lines.len(), "calls are not recorded: their chat was deleted meanwhile");
            return Ok(());
        };
        let position: i64 = on!(self, c => sqlx::query_scalar(
            "SELECT coalesce(max(position), 0) FROM messages WHERE organization_id = $1 AND chat_id = $2")
            .bind(self.org.as_str()).bind(chat.to_string()).fetch_one(c))?;
        // What was in the workspace before there was a message is the first message's.
        let mut manifest = stand.active_manifest_id.filter(|_| stand.active_leaf_message_id.is_none());
        let mut above: Option<Arc<str>> = stand.active_leaf_message_id.map(Into::into);
        let (mut same_as, mut recorded) = (Last::default(), Vec::with_capacity(lines.len()));
        for (line, position) in lines.iter().zip(position + 1..) {
            let call = &line.call;
            let message: Arc<str> = call.message_id.to_string().into();
            recorded.push(Recorded {
                line,
                id: call.id.to_string().into(),
                above: above.replace(Arc::clone(&message)),
                message,
                position,
                manifest: manifest.take(),
                tool: same_as.tool(&call.tool_id),
                asked_by: same(&mut same_as.asked_by, &call.asked_by),
                generation: call.generation.as_deref().map(|text| same(&mut same_as.generation, text)),
                started: call.started_at.into(),
            });
        }
        let chat: Arc<str> = chat.to_string().into();
        self.add_messages(&chat, &recorded).await?;
        execute!(
            self,
            sqlx::query("UPDATE chats SET active_leaf_message_id = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(&*chat)
                .bind(above.as_deref())
        )?;
        self.add_calls(&chat, &recorded).await?;
        self.add_audit(&recorded).await
    }

    async fn add_messages(&mut self, chat: &Arc<str>, recorded: &[Recorded<'_>]) -> Result<(), StoreError> {
        let (org, role): (Arc<str>, Arc<str>) = (self.org.as_str().into(), Role::Tool.as_str().into());
        insert_often!(
            self,
            "messages",
            "id, position, parent_id, content, manifest_id, created_at",
            { "organization_id" => Arc::clone(&org), "chat_id" => Arc::clone(chat), "role" => Arc::clone(&role) },
            recorded,
            |row, one| {
                row.push_bind(Arc::clone(&one.message))
                    .push_bind(one.position)
                    .push_bind(one.above.clone())
                    .push_bind(Content::text_of_call(&one.id, &one.tool))
                    .push_bind(one.manifest.clone())
                    .push_bind(one.started.clone());
            }
        );
        Ok(())
    }

    async fn add_calls(&mut self, chat: &Arc<str>, recorded: &[Recorded<'_>]) -> Result<(), StoreError> {
        let (org, nothing): (Arc<str>, Arc<str>) = (self.org.as_str().into(), "[]".into());
        let mut status = None;
        // Most calls have none.
        let list = |is_over: bool, is_empty: bool, text: &dyn Fn() -> String| match (is_over, is_empty) {
            (false, _) => None,
            (true, true) => Some(Arc::clone(&nothing)),
            (true, false) => Some(text().into()),
        };
        // One chat is nearly always one caller's.
        let alike = |a: &Recorded<'_>, b: &Recorded<'_>| a.asked_by == b.asked_by && a.line.asked_at == b.line.asked_at;
        for recorded in recorded.chunk_by(alike) {
            let Some(first) = recorded.first() else { continue };
            insert_often!(
                self,
                "tool_calls",
                "id, message_id, tool_id, generation, args, args_sha256, status, result, result_sha256, render_plan,
                 artifact_sha256, error, warnings, logs, logs_cut, sandbox, started_at, finished_at, pre_manifest_id,
                 post_manifest_id",
                {
                    "organization_id" => Arc::clone(&org),
                    "chat_id" => Arc::clone(chat),
                    "asked_by" => Arc::clone(&first.asked_by),
                    "node_id" => first.line.asked_at.clone(),
                },
                recorded,
                |row, one| {
                    let (call, end) = (&one.line.call, &one.line.call.outcome);
                    let is_over = call.finished_at.is_some();
                    row.push_bind(Arc::clone(&one.id))
                        .push_bind(Arc::clone(&one.message))
                        .push_bind(Arc::clone(&one.tool))
                        .push_bind(one.generation.clone())
                        .push_bind(to_json(&call.args))
                        .push_bind(call.args_sha256.to_string())
                        .push_bind(same(&mut status, call.status.as_str()))
                        .push_bind(end.result.as_ref().map(to_json))
                        .push_bind(end.result_sha256.map(|hash| hash.to_string()))
                        .push_bind(end.render_plan.as_ref().map(to_json))
                        .push_bind(end.artifact_sha256.map(|hash| hash.to_string()))
                        .push_bind(end.error.as_ref().map(to_json))
                        .push_bind(list(is_over, end.warnings.is_empty(), &|| to_json(&end.warnings)))
                        .push_bind(list(is_over, end.logs.is_empty(), &|| to_json(&end.logs)))
                        .push_bind(i64::try_from(end.logs_cut).unwrap_or(i64::MAX))
                        .push_bind(end.sandbox.as_ref().map(to_json))
                        .push_bind(one.started.clone())
                        .push_bind(call.finished_at.map(At))
                        .push_bind(end.pre_manifest_id.map(|id| id.to_string()))
                        .push_bind(end.post_manifest_id.map(|id| id.to_string()));
                }
            );
        }
        Ok(())
    }

    async fn add_audit(&mut self, recorded: &[Recorded<'_>]) -> Result<(), StoreError> {
        let asked = |one: &Recorded<'_>| NewLine {
            at: one.started.clone(),
            actor: Arc::clone(&one.asked_by),
            action: Action::ToolCallAsked,
            subject: Arc::clone(&one.id),
            details: to_json(&AskedDetails::of(&one.line.call, CallStatus::Running)).into(),
        };
        self.add_lines(&recorded.iter().map(asked).collect::<Vec<_>>()).await
    }

    /// Records the end of a call that is recorded as running. If its chat is gone, so is the call.
    async fn end_recorded(&mut self, call: &ToolCall) -> Result<(), StoreError> {
        let at = call.finished_at.unwrap_or_else(Timestamp::now);
        if self.end_running(call.chat_id, call.id, &call.outcome, call.outcome.post_manifest_id, at).await?.is_none() {
            tracing::debug!(call = %call.id, "the end of a call is not recorded: it is over, or its chat is gone");
        }
        Ok(())
    }
}
