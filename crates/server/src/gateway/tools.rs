//! Calls of tools. They go through the same calls as everybody's: the same arguments are taken, the same people are asked, the same
//! is recorded. What a server answers goes back as it came.
//!
//! What few calls need (a yes, a task, the end before the time) is boxed where it is awaited: else every call's future has room for it.

use std::sync::Arc;

use kitbag_mcp::serve::{Client, Fault, check_arguments, code};
use kitbag_mcp::shallow::Shallow;
use kitbag_model::{CallErrorCode, CallStatus, ChatId, ToolCall, ToolCallId, ToolId};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::beside::Beside;
use super::menu::{Entry, Menu};
use super::state::State;
use super::tasks;
use super::tasks::begin::SOON;
use super::tasks::questions::Questions;
use super::upstream::{of_call, rename_links};
use super::view::View;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::calls::{Answered, Ask, Asked, Company};
use crate::toolsets::server_of;

/// A call that a client asks for.
pub(super) struct Wanted {
    pub(super) params: Shallow,
    pub(super) client: Client,
    /// The arguments that came in headers too, where they have to.
    pub(super) headers: Option<Vec<(String, String)>>,
}

impl View {
    /// `tools/call`.
    pub(super) async fn call_tool(self: Arc<Self>, wanted: Wanted) -> Result<Box<RawValue>, Fault> {
        let name = wanted.params.text("name").ok_or_else(|| Fault::params("`name` must be the name of a tool"))?;
        let menu = self.whole_menu().await?;
        if menu.dynamic {
            return Box::pin(self.call_meta(&name, wanted)).await;
        }
        let entry = menu.find(&name).ok_or_else(|| unknown(&name))?;
        self.call_entry(&menu, entry, wanted).await
    }

    /// Calls a tool that is on the menu.
    pub(super) async fn call_entry(
        &self,
        menu: &Menu,
        entry: &Entry,
        mut wanted: Wanted,
    ) -> Result<Box<RawValue>, Fault> {
        let args = arguments(&wanted.params)?;
        if let (Some(headers), Value::Object(schema)) = (&wanted.headers, &entry.tool.input_schema) {
            check_arguments(schema, &args, headers)?;
        }
        let state = match wanted.params.text("requestState") {
            Some(text) => {
                let whose = (&self.org, self.who.as_str());
                Box::pin(State::unseal(&text, &self.app, whose, "tools/call", &wanted.params)).await?
            }
            None => State::default(),
        };
        let asked_for = wanted.params.clone();
        wanted.params.remove("requestState");
        if let Some(theirs) = &state.theirs {
            wanted.params.set_value("requestState", &theirs.as_str().into());
        }
        let chat = self.chat().await?;
        let called = match self.run(chat, entry, args, wanted, state.approved.as_deref()).await? {
            Run::Called(called) => called,
            Run::Refused(error) => return refused(error, &entry.name),
            Run::Task(task) => return Ok(task),
        };
        let Called { call, answer, client } = called;
        match answer {
            Some(Answered::Refused { code, message, data }) => {
                let fault = Fault::new(code, message);
                Err(data.into_iter().fold(fault, Fault::with_data))
            }
            Some(Answered::Result(raw)) => {
                let raw = self.carried(&raw, &asked_for, &call).await?;
                let raw = if self.own_tasks() { self.named_task(raw, &call).await? } else { raw };
                let raw = if menu.plain { raw } else { rename_links(raw, &entry.tool.id) };
                Ok(of_call(raw, client.peer().stateless))
            }
            None => Ok(of_call(Box::pin(self.ended(&call)).await?, client.peer().stateless)),
        }
    }

    async fn run(
        &self,
        chat: ChatId,
        entry: &Entry,
        args: Map<String, Value>,
        wanted: Wanted,
        approval: Option<&str>,
    ) -> Result<Run, Fault> {
        let Wanted { mut params, client, .. } = wanted;
        let questions = (self.own_tasks() && tasks::offers(&client)).then(|| Arc::new(Questions::new()));
        let of = server_of(&entry.tool.id).map(|server| (self.tokens.clone(), server.clone()));
        let beside = Beside::with_questions(&client, &self.owner, &self.level, of, questions.clone());
        let stateless = client.peer().stateless;
        params.remove("name");
        if params.get("arguments").is_some_and(|raw| raw.get() == "null") {
            // None are none, and those of the call are an object.
            params.remove("arguments");
        }
        // The way of 2025-11-25 to ask for a task. It means nothing here: whoever got one could not ask how it is.
        params.remove("task");
        let mut params = super::upstream::passed_on(params);
        beside.tell_level(&mut params);
        let company = Arc::new(Company { params, answers: Arc::clone(&beside) as _, relay: stateless });
        let stand = self.app.calls().stand(&self.org, chat).await.map_err(fault)?;
        let stand = stand.ok_or_else(|| Fault::params("the chat was deleted").with_status(404))?;
        let bounds = stand.bounds();
        // What the chat leaves out was not listed, either.
        if let Err(error) = bounds.check(self.app.toolsets(), &self.org, self.audience, &entry.tool.id).await {
            return match error.into_told() {
                (Code::Forbidden, ..) => Err(unknown(&entry.name)),
                (code, message, _) => Ok(Run::Refused(ApiError::new(code, message))),
            };
        }
        let ask = Ask {
            chat,
            stand: stand.manifest,
            tool: entry.tool.id.clone(),
            args,
            message: None,
            key: None,
            at_once: false,
            who: self.who.clone(),
            audience: self.audience,
            bounds,
            company: Some(Arc::clone(&company)),
        };
        let asked = match self.app.calls().ask(&self.org, ask).await {
            Ok(asked) => asked,
            Err(error) => return Ok(Run::Refused(error)),
        };
        let pending = asked.call.status == CallStatus::Pending;
        let approved = pending && approval.is_some_and(|name| self.app.gateway().approvals.spend(name, &asked.call));
        let asked = match (asked.call.status, &questions) {
            (CallStatus::Pending, Some(questions)) if !approved => {
                self.app.calls().accompany(asked.call.id, company);
                questions.become_task();
                return Box::pin(self.begin_task(asked, Arc::clone(questions), &client)).await.map(Run::Task);
            }
            (CallStatus::Pending, _) => {
                let guard = Accompanied::new(&self.app, asked.call.id, company);
                let decided = Box::pin(self.confirm(asked, entry, &client, approved)).await;
                drop(guard);
                match decided {
                    Ok(asked) => asked,
                    Err(error) => return Ok(Run::Refused(error)),
                }
            }
            _ => asked,
        };
        let waited = asked.clone();
        let Some(called) = self.wait(asked, &client, questions.as_deref()).await? else {
            let questions = questions.unwrap_or_else(|| Arc::new(Questions::new()));
            return Box::pin(self.begin_task(waited, questions, &client)).await.map(Run::Task);
        };
        match beside.lacking().filter(|_| called.call.outcome.error.is_some()) {
            Some(lacking) => Err(lacking),
            None => Ok(Run::Called(called)),
        }
    }

    /// Waits for the end of a call. A client that does not want it any more stops it. Nothing if it becomes a task first.
    async fn wait(
        &self,
        asked: Asked,
        client: &Client,
        questions: Option<&Questions>,
    ) -> Result<Option<Called>, Fault> {
        let calls = self.app.calls();
        let (chat, id) = (asked.call.chat_id, asked.call.id);
        let live = asked.clone();
        let mut waiting = std::pin::pin!(calls.wait(&self.org, asked));
        let long = async {
            match questions {
                Some(questions) => {
                    let _ = tokio::time::timeout(SOON, questions.asked()).await;
                    // One that is about to be answered with questions is none.
                    if !questions.become_task() {
                        std::future::pending::<()>().await;
                    }
                }
                None => std::future::pending().await,
            }
        };
        let over = tokio::select! {
            biased;
            over = &mut waiting => over,
            () = long => return Ok(None),
            () = client.gone() => {
                // It is over then, one way or the other. Both at once: the one may be what makes the other come to its end.
                let (_, over) = tokio::join!(Box::pin(calls.cancel(&self.org, chat, id, &self.who)), waiting);
                over
            }
        };
        let call = over.map_err(fault)?;
        Ok(Some(Called { answer: live.answered(), call, client: client.clone() }))
    }

    /// What a server wants to see again goes through the client's hands, sealed.
    async fn carried(&self, raw: &Arc<RawValue>, asked: &Shallow, call: &ToolCall) -> Result<Box<RawValue>, Fault> {
        let plain = || RawValue::to_owned(raw);
        if !raw.get().contains("input_required") {
            return Ok(plain());
        }
        let Some(mut result) = Shallow::read(raw) else { return Ok(plain()) };
        if result.text("resultType").as_deref() != Some("input_required") {
            return Ok(plain());
        }
        let theirs = result.text("requestState");
        let approved = self.app.gateway().approvals.of(call);
        if theirs.is_some() || approved.is_some() {
            let state = State::new(theirs, approved);
            let sealed = Box::pin(state.seal(&self.app, (&self.org, &self.who), "tools/call", asked)).await?;
            result.set_value("requestState", &sealed.into());
        }
        Ok(result.raw())
    }
}

/// What came of asking for a call.
enum Run {
    Called(Called),
    /// It was not taken.
    Refused(ApiError),
    /// It goes on as a task.
    Task(Box<RawValue>),
}

struct Called {
    call: Arc<ToolCall>,
    /// What its server said, if it has one and that said something.
    answer: Option<Answered>,
    client: Client,
}

/// Who asked for a call that waits for a yes, for as long as they wait.
struct Accompanied<'a>(&'a App, ToolCallId);

impl<'a> Accompanied<'a> {
    fn new(app: &'a App, id: ToolCallId, company: Arc<Company>) -> Self {
        app.calls().accompany(id, company);
        Self(app, id)
    }
}

impl Drop for Accompanied<'_> {
    fn drop(&mut self) {
        self.0.calls().leave(self.1);
    }
}

/// The arguments of a call. None are none.
pub(super) fn arguments(params: &Shallow) -> Result<Map<String, Value>, Fault> {
    match params.get("arguments") {
        None => Ok(Map::new()),
        Some(raw) if raw.get() == "null" => Ok(Map::new()),
        Some(raw) => serde_json::from_str(raw.get())
            .map_err(|error| Fault::params(format!("`arguments` must be an object: {error}"))),
    }
}

/// There is no such tool for this client. Whether there is one for others is not told.
pub(super) fn unknown(name: &str) -> Fault {
    let shown: String = name.chars().take(200).collect();
    Fault::params(format!("Unknown tool: {shown}"))
}

/// An error of the API as one of the protocol.
pub(super) fn fault(error: ApiError) -> Fault {
    let (code, message, details) = error.into_told();
    let number = if code.status().is_server_error() { code::INTERNAL } else { code::INVALID_PARAMS };
    let mut data = json!({ "code": code.as_str() });
    if let Some(details) = details {
        data["details"] = details;
    }
    Fault::new(number, message).with_data(data)
}

/// A call that was not even taken. A name that means nothing is the client's mistake; all else a model can read, and mend or tell.
fn refused(error: ApiError, name: &str) -> Result<Box<RawValue>, Fault> {
    match error.into_told() {
        (Code::ToolNotFound, ..) => Err(unknown(name)),
        (code, message, _) => failed(&format!("{}: {message}", code.as_str())),
    }
}

/// A result that says that the tool failed.
pub(super) fn failed(text: &str) -> Result<Box<RawValue>, Fault> {
    let result = json!({ "content": [{ "type": "text", "text": text }], "isError": true });
    to_raw_value(&result).map_err(|error| internal(&error))
}

/// Something went wrong here, which the log tells.
pub(super) fn internal(error: &dyn std::fmt::Display) -> Fault {
    tracing::error!(%error, "an MCP request failed");
    Fault::new(code::INTERNAL, "something went wrong here; the log says what").with_status(500)
}

impl View {
    /// The end of a call that no server answered: of a tool of ours, or one that never got to its server. All of what it returned, which
    /// is no more than a tool may return: a record has only the beginning of what is large.
    pub(super) async fn ended(&self, call: &ToolCall) -> Result<Box<RawValue>, Fault> {
        let result = match (&call.outcome.error, call.outcome.result_sha256) {
            (Some(error), _) => {
                let mut text = match error.code {
                    CallErrorCode::ToolFailed => error.message.clone(),
                    code => format!("{}: {}", code.as_str(), error.message),
                };
                if error.code == CallErrorCode::Denied && call.decision.is_none() {
                    let place = self.where_to_approve(call);
                    text.push_str(&format!("; ask for it anew, and somebody can decide in time: {place}"));
                }
                return failed(&text);
            }
            (None, None) => call.outcome.result.clone(),
            (None, Some(hash)) => {
                let look = self.app.workspaces().look(&self.org, call.chat_id).await;
                let bytes = look.read(hash).await.map_err(|error| fault(ApiError::from(error)))?;
                Some(serde_json::from_slice(&bytes).map_err(|error| internal(&error))?)
            }
        };
        let result = match result {
            // What a server said is a result already.
            Some(answer @ Value::Object(_)) if matches!(call.tool_id, ToolId::Mcp { .. }) => answer,
            result => {
                let menu = self.whole_menu().await?;
                let of_call = |entry: &&Entry| entry.tool.id == call.tool_id;
                let declared =
                    menu.entries.iter().find(of_call).is_some_and(|it| it.shown.contains_key("outputSchema"));
                returned(result.unwrap_or(Value::Null), declared)
            }
        };
        to_raw_value(&result).map_err(|error| internal(&error))
    }
}

/// What a tool of ours returned, as a result. It is structured if it is an object, or if the tool says what it returns: then clients hold
/// it against that.
fn returned(value: Value, is_declared: bool) -> Value {
    let text = match &value {
        Value::String(text) => text.clone(),
        value => serde_json::to_string_pretty(value).unwrap_or_default(),
    };
    let mut result = json!({ "content": [{ "type": "text", "text": text }] });
    if is_declared || value.is_object() {
        result["structuredContent"] = value;
    }
    result
}
