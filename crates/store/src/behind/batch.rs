//! Writes many calls in one transaction: their messages, themselves, and a line of the audit for each.
//!
//! One that cannot be written, because its chat was deleted meanwhile, say, does not keep the others from being written.

use std::collections::BTreeMap;

use kitbag_model::{Action, CallStatus, ChatId, Content, OrgId, Role, Timestamp, ToolCall};

use super::queue::Line;
use crate::audit::{NewLine, asked_details};
use crate::calls::to_json;
use crate::error::StoreError;
use crate::messages::StandRow;
use crate::row::At;
use crate::store::Database;
use crate::tx::{Edition, Tx, WriteTx, execute, insert_many, on};

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
    Tx::bind(database.begin_write().await?, org, Edition::default()).await
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

/// A message that a call adds.
struct Added<'a> {
    call: &'a ToolCall,
    position: i64,
    parent: Option<String>,
    manifest: Option<String>,
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
        let (mut parent, mut added) = (stand.active_leaf_message_id, Vec::with_capacity(lines.len()));
        for (line, position) in lines.iter().zip(position + 1..) {
            let id = line.call.message_id.to_string();
            let above = parent.replace(id);
            added.push(Added { call: &line.call, position, parent: above, manifest: manifest.take() });
        }
        self.add_messages(&added).await?;
        execute!(
            self,
            sqlx::query("UPDATE chats SET active_leaf_message_id = $3 WHERE organization_id = $1 AND id = $2")
                .bind(self.org.as_str())
                .bind(chat.to_string())
                .bind(last.call.message_id.to_string())
        )?;
        self.add_calls(lines).await?;
        self.add_audit(lines).await
    }

    async fn add_messages(&mut self, added: &[Added<'_>]) -> Result<(), StoreError> {
        let org = self.org.to_string();
        insert_many!(
            self,
            "INSERT INTO messages (organization_id, chat_id, id, position, parent_id, role, content, manifest_id, created_at) ",
            added,
            |row, one| {
                let content = Content::of_call(one.call.id, &one.call.tool_id);
                row.push_bind(org.clone())
                    .push_bind(one.call.chat_id.to_string())
                    .push_bind(one.call.message_id.to_string())
                    .push_bind(one.position)
                    .push_bind(one.parent.clone())
                    .push_bind(Role::Tool.as_str())
                    .push_bind(content.as_json().to_string())
                    .push_bind(one.manifest.clone())
                    .push_bind(At(one.call.started_at));
            }
        );
        Ok(())
    }

    async fn add_calls(&mut self, lines: &[&Line]) -> Result<(), StoreError> {
        let org = self.org.to_string();
        insert_many!(
            self,
            "INSERT INTO tool_calls (organization_id, chat_id, id, message_id, tool_id, generation, args, args_sha256, asked_by,
                                     node_id, status, result, result_sha256, render_plan, artifact_sha256, error, warnings, logs,
                                     logs_cut, sandbox, started_at, finished_at, pre_manifest_id, post_manifest_id) ",
            lines,
            |row, line| {
                let (call, end) = (&line.call, &line.call.outcome);
                let is_over = call.finished_at.is_some();
                row.push_bind(org.clone())
                    .push_bind(call.chat_id.to_string())
                    .push_bind(call.id.to_string())
                    .push_bind(call.message_id.to_string())
                    .push_bind(call.tool_id.to_string())
                    .push_bind(call.generation.clone())
                    .push_bind(to_json(&call.args))
                    .push_bind(call.args_sha256.to_string())
                    .push_bind(call.asked_by.clone())
                    .push_bind(line.asked_at.as_deref().map(ToOwned::to_owned))
                    .push_bind(call.status.as_str())
                    .push_bind(end.result.as_ref().map(to_json))
                    .push_bind(end.result_sha256.map(|hash| hash.to_string()))
                    .push_bind(end.render_plan.as_ref().map(to_json))
                    .push_bind(end.artifact_sha256.map(|hash| hash.to_string()))
                    .push_bind(end.error.as_ref().map(to_json))
                    .push_bind(is_over.then(|| to_json(&end.warnings)))
                    .push_bind(is_over.then(|| to_json(&end.logs)))
                    .push_bind(i64::try_from(end.logs_cut).unwrap_or(i64::MAX))
                    .push_bind(end.sandbox.as_ref().map(to_json))
                    .push_bind(At(call.started_at))
                    .push_bind(call.finished_at.map(At))
                    .push_bind(end.pre_manifest_id.map(|id| id.to_string()))
                    .push_bind(end.post_manifest_id.map(|id| id.to_string()));
            }
        );
        Ok(())
    }

    async fn add_audit(&mut self, lines: &[&Line]) -> Result<(), StoreError> {
        fn asked<'a>(line: &&'a Line) -> NewLine<'a> {
            NewLine {
                at: line.call.started_at,
                actor: &line.call.asked_by,
                action: Action::ToolCallAsked,
                subject: line.call.id.to_string(),
                details: asked_details(&line.call, CallStatus::Running),
            }
        }
        self.add_lines(&lines.iter().map(asked).collect::<Vec<_>>()).await
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
