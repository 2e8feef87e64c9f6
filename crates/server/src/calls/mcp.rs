//! A call of an MCP server's tool. It has no workspace: it waits for nobody's turn, leaves no state, and many run at once.

use kitbag_mcp::connection::Call;
use kitbag_model::{CallErrorCode, CallOutcome, McpToolName, ServerKey, ToolCall};
use kitbag_python::Event;
use kitbag_runner::Ran;
use kitbag_store::FinishError;
use serde_json::Value;
use tokio::sync::mpsc::unbounded_channel;

use super::live::Live;
use super::run::RunError;
use super::{Calls, hear};
use crate::toolsets::Callable;
use crate::workspaces::WorkspaceError;

impl Calls {
    pub(super) async fn run_mcp(
        &self,
        live: &Live,
        call: ToolCall,
        callable: &Callable,
        server: &ServerKey,
        tool: &McpToolName,
    ) -> Result<(), RunError> {
        let ran = self.ask_server(live, &call, server, tool).await;
        let outcome = self.judged(live, &call, callable, ran).await?;
        let call = self.record_answer(live, outcome).await?;
        self.announce(live, call);
        Ok(())
    }

    async fn ask_server(&self, live: &Live, call: &ToolCall, server: &ServerKey, tool: &McpToolName) -> Ran {
        let (told, mut progress) = unbounded_channel();
        let (sender, heard) = unbounded_channel();
        tokio::spawn(hear::pass_on(self.0.events.clone(), live.key.clone(), heard));
        tokio::spawn(async move {
            while let Some((fraction, message)) = progress.recv().await {
                // Who does not listen any more misses nothing.
                let _ = sender.send(Event::Progress { fraction, message });
            }
        });
        let made = Call {
            tool: tool.to_string(),
            args: call.args.clone(),
            deadline: self.0.settings.tool_timeout,
            progress: Some(told),
            stop: live.stop(),
        };
        let org = &live.key.0;
        let mut ran = kitbag_runner::run_mcp(self.0.servers.manager(org), org, server, made).await;
        if let (Err(error), Some(why)) = (&mut ran.result, live.why())
            && error.code == CallErrorCode::Cancelled
        {
            *error = why;
        }
        ran
    }

    /// What is kept of the answer.
    async fn judged(
        &self,
        live: &Live,
        call: &ToolCall,
        callable: &Callable,
        ran: Ran,
    ) -> Result<CallOutcome, RunError> {
        let (org, chat, _) = &live.key;
        let mut outcome = CallOutcome::default();
        match ran.result {
            Err(error) => outcome.error = Some(error),
            Ok(answer) => {
                outcome.warnings.extend(self.misfit(callable, &answer).await);
                // To keep a blob; the folder is not touched, and nobody has to wait.
                let lease = self.0.workspaces.look(org, *chat).await;
                let shown = kitbag_runner::returned(&answer);
                self.plan(org, &lease, call, callable, &shown, &mut outcome).await?;
                self.keep_result(&lease, answer, &mut outcome).await?;
            }
        }
        Ok(outcome)
    }

    /// Whether the structured answer is what the server said that it would be. If it is not, it is kept and said.
    async fn misfit(&self, callable: &Callable, answer: &Value) -> Option<String> {
        let schema = callable.tool.output_schema.clone()?;
        let structured = match answer.get("structuredContent") {
            Some(Value::Object(structured)) => structured.clone(),
            _ => return Some("the server declares structured results, and this one is not".to_owned()),
        };
        let schemas = self.0.schemas.clone();
        let checked = tokio::task::spawn_blocking(move || schemas.check(&schema, &structured)).await;
        let error = checked.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic())).err()?;
        Some(format!("the structured result is not what the server declares: {error}"))
    }

    async fn record_answer(&self, live: &Live, mut outcome: CallOutcome) -> Result<ToolCall, RunError> {
        let (org, chat, id) = &live.key;
        let mut tx = self.0.store.write(org).await?;
        let state = tx.chat(*chat).await?.ok_or(WorkspaceError::NoChat)?.active_manifest_id;
        (outcome.pre_manifest_id, outcome.post_manifest_id) = (state, state);
        let (call, _) = tx.finish_call(*chat, *id, &outcome, None).await.map_err(|error| match error {
            FinishError::NotRunning => RunError::Workspace(WorkspaceError::Conflict),
            FinishError::Keep(error) => RunError::Workspace(error.into()),
            FinishError::Store(error) => RunError::Store(error),
        })?;
        tx.commit_chat().await?;
        Ok(call)
    }
}
