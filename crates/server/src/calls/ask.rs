//! Asking for a call: is there such a tool, do the arguments fit, is there room; then it is recorded, and runs or waits for a yes.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kitbag_mcp::lasting::Lasting;
use kitbag_model::{
    Action, Audience, CallStatus, ChatId, Content, ContentHash, Hasher, ManifestId, MessageId, NewMessage, NewToolCall,
    OrgId, Parent, Role, Timestamp, ToolCall, ToolCallId, ToolId,
};
use kitbag_runner::{ArgumentError, Ready};
use kitbag_store::{AddMessageError, StoreError, WriteTx, asked_details};
use serde_json::{Map, Value, json};

use super::behind::Record;
use super::company::Answered;
use super::live::Live;
use super::queue::too_many;
use super::{Calls, Company};
use crate::api::error::{ApiError, Code};
use crate::resolution::Bounds;
use crate::rules::Quota;
use crate::toolsets::Callable;

/// What is asked for.
pub(crate) struct Ask {
    pub(crate) chat: ChatId,
    /// The state that the chat's workspace is at ([`Calls::stand`]): whoever asks has seen that there is such a chat.
    pub(crate) stand: Option<ManifestId>,
    pub(crate) tool: ToolId,
    pub(crate) args: Map<String, Value>,
    /// The message that it belongs to; none adds one.
    pub(crate) message: Option<MessageId>,
    /// The caller's own name for this request.
    pub(crate) key: Option<String>,
    /// Whether the caller is told that it was taken, and not how it ended.
    pub(crate) at_once: bool,
    pub(crate) who: String,
    /// Whose eyes look for the tool.
    pub(crate) audience: Audience,
    /// Which tools may be called at all.
    pub(crate) bounds: Bounds,
    /// Who made it, if that matters to how it is made.
    pub(crate) company: Option<Arc<Company>>,
}

impl Ask {
    /// What another request under the same key must be.
    fn digest(&self) -> ContentHash {
        let mut hasher = Hasher::default();
        let message = self.message.map(|id| id.to_string()).unwrap_or_default();
        hasher.update(format!("kitbag ask 1\n{}\n{message}\n", self.tool).as_bytes());
        hasher.update(Value::Object(self.args.clone()).to_string().as_bytes());
        hasher.finish()
    }
}

/// A call that was asked for.
#[derive(Clone)]
pub(crate) struct Asked {
    pub(crate) call: Arc<ToolCall>,
    /// What is known of it while it runs, if whoever asked for it has it.
    pub(super) live: Option<Arc<Live>>,
    /// What makes it run, if that is up to whoever waits for it. It goes on by itself when nobody can any more.
    work: Option<Arc<Mutex<Option<Lasting>>>>,
}

impl Asked {
    /// One that runs by itself, or not at all.
    pub(super) fn new(call: Arc<ToolCall>, live: Option<Arc<Live>>) -> Self {
        Self { call, live, work: None }
    }

    /// The same for one that whoever waits for it makes run.
    pub(super) fn with_work(self, work: Lasting) -> Self {
        Self { work: Some(Arc::new(Mutex::new(Some(work)))), ..self }
    }

    /// What makes it run, for the first who waits.
    pub(super) fn take_work(&self) -> Option<Lasting> {
        self.work.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// What its server answered, as it came, when it is over.
    pub(crate) fn answered(&self) -> Option<Answered> {
        self.live.as_ref()?.answered()
    }
}

impl From<ToolCall> for Asked {
    fn from(call: ToolCall) -> Self {
        Self::new(Arc::new(call), None)
    }
}

impl Calls {
    /// Asks for a call. Two requests of one key are one call: then it is the one that was asked for before.
    pub(crate) async fn ask(&self, org: &OrgId, mut ask: Ask) -> Result<Asked, ApiError> {
        ask.tool = self.0.toolsets.canonical(org, ask.audience, ask.tool).await?;
        // What few calls need is boxed, or every call's future has room for it.
        if let Some(key) = &ask.key
            && let Some(call) = Box::pin(self.asked_before(org, &ask, key)).await?
        {
            return Ok(call.into());
        }
        ask.bounds.check(&self.0.toolsets, org, ask.audience, &ask.tool).await?;
        // Before the tool is looked for: that may start a server, or have an image fetched or asked.
        let rules = self.0.rules.of(org).await?;
        self.0.pace.take(org, rules.calls_per_minute().as_ref(), &self.0.nodes).await?;
        let callable = self.0.toolsets.callable(org, ask.audience, &ask.tool).await?;
        if let Err(error) = self.check(&callable, &ask.args).await {
            self.0.pace.give_back(org, rules.calls_per_minute().as_ref(), &self.0.nodes);
            return Err(error);
        }
        let most = self.with_others(org, rules.concurrent_calls()).await?;
        if self.may_follow(&ask, &callable)
            && let Some(asked) = self.ask_behind(org, &ask, &callable, most.as_ref()).await?
        {
            return Ok(asked);
        }
        let asks_somebody = callable.tool.effective.requires_confirmation.value;
        // Boxed, like what follows from it: the calls that are many do not come here.
        match Box::pin(self.record(org, &ask, &callable, asks_somebody, most.as_ref())).await {
            Err(RecordError::KeyTaken) => {
                let call = match &ask.key {
                    Some(key) => Box::pin(self.asked_before(org, &ask, key)).await?,
                    None => None,
                };
                let gone = || ApiError::new(Code::Conflict, "another request with this key came at the same moment");
                call.map(Asked::from).ok_or_else(gone)
            }
            Err(RecordError::Refused(error)) => Err(error),
            Ok(Recorded { call, running }) => {
                self.tell(org, &call);
                let call = Arc::new(call);
                let live = running.as_ref().map(super::run::Place::live);
                match running {
                    Some(place) => self.start(place, Arc::clone(&call), callable, Record::Now).detach(),
                    None => self.expire_later(org, call.expires_at),
                }
                Ok(Asked::new(call, live))
            }
        }
    }

    async fn asked_before(&self, org: &OrgId, ask: &Ask, key: &str) -> Result<Option<ToolCall>, ApiError> {
        let found = self.0.store.read(org).await?.tool_call_by_key(ask.chat, key).await?;
        match found {
            Some(call) if call.request_sha256 != Some(ask.digest()) => {
                let message =
                    format!("the key {key:?} was used for another request (call {}); take a new one", call.id);
                Err(ApiError::new(Code::Conflict, message).with_details(json!({ "callId": call.id.to_string() })))
            }
            found => Ok(found),
        }
    }

    /// Whether the arguments fit the tool's schema.
    pub(super) async fn check(&self, callable: &Callable, args: &Map<String, Value>) -> Result<(), ApiError> {
        let checked = self.fits(&callable.input, &callable.tool.input_schema, args).await;
        checked.map_err(|error| {
            let message = format!("{}: {error}", callable.tool.id);
            match error {
                ArgumentError::Invalid(problems) => {
                    let details = json!({ "problems": problems, "inputSchema": callable.tool.input_schema });
                    ApiError::new(Code::InvalidArguments, message).with_details(details)
                }
                ArgumentError::Schema(_) => ApiError::new(Code::Conflict, message),
            }
        })
    }

    /// Whether values fit a schema, which is made ready once. A stranger's schema may take its time: then nobody else waits.
    pub(super) async fn fits(
        &self,
        ready: &OnceLock<Ready>,
        schema: &Value,
        values: &Map<String, Value>,
    ) -> Result<(), ArgumentError> {
        if let Some(ready) = ready.get().filter(|ready| ready.is_quick(values)) {
            return ready.check(schema, values);
        }
        let (schemas, schema, values) = (self.0.schemas.clone(), schema.clone(), values.clone());
        let work = tokio::task::spawn_blocking(move || {
            let ready = schemas.ready(&schema);
            let checked = ready.check(&schema, &values);
            (ready, checked)
        });
        let (made, checked) = work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
        ready.get_or_init(|| made);
        checked
    }

    /// The same for any value, such as a result.
    pub(super) async fn fits_value(
        &self,
        ready: &OnceLock<Ready>,
        schema: &Value,
        value: &Value,
    ) -> Result<(), ArgumentError> {
        if let Value::Object(values) = value {
            return self.fits(ready, schema, values).await;
        }
        let (schemas, schema, value) = (self.0.schemas.clone(), schema.clone(), value.clone());
        let work = tokio::task::spawn_blocking(move || schemas.ready(&schema).check_value(&schema, &value));
        work.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
    }

    async fn record(
        &self,
        org: &OrgId,
        ask: &Ask,
        callable: &Callable,
        asks_somebody: bool,
        most: Option<&Quota>,
    ) -> Result<Recorded, RecordError> {
        let id = ToolCallId::generate();
        // Before the record: whoever finds it must find that it runs. What is not recorded gives its place back.
        let running = match asks_somebody {
            true => None,
            false => Some(self.take_place(org, ask.chat, id, callable, ask.company.clone(), most)?),
        };
        let call = self.insert(org, ask, callable, id, asks_somebody).await?;
        Ok(Recorded { call, running })
    }

    async fn insert(
        &self,
        org: &OrgId,
        ask: &Ask,
        callable: &Callable,
        id: ToolCallId,
        asks_somebody: bool,
    ) -> Result<ToolCall, RecordError> {
        let mut tx = self.0.store.write(org).await?;
        if asks_somebody {
            let (waiting, most) = (tx.pending_calls(ask.chat).await?, self.0.settings.max_queue_per_chat);
            if waiting >= most as u64 {
                return Err(too_many(&format!("{waiting} calls of this chat wait for a yes"), most).into());
            }
        }
        let message_id = message(&mut tx, ask, id).await?;
        let timeout = u32::try_from(self.0.settings.confirmation_timeout.as_secs()).unwrap_or(u32::MAX);
        let new = NewToolCall {
            id,
            chat_id: ask.chat,
            message_id,
            tool_id: ask.tool.clone(),
            generation: Some(callable.generation.clone()),
            args: ask.args.clone(),
            expires_at: asks_somebody.then(|| Timestamp::now().plus_seconds(timeout)),
            asked_by: ask.who.clone(),
            idempotency: ask.key.clone().map(|key| (key, ask.digest())),
            node: self.0.nodes.id().to_string(),
        };
        let call = tx.insert_call(&new).await.map_err(|error| match error {
            StoreError::Exists if ask.key.is_some() => RecordError::KeyTaken,
            error => error.into(),
        })?;
        let details = asked_details(&call, call.status);
        tx.audit(&ask.who, Action::ToolCallAsked, &id.to_string(), &details).await?;
        tx.commit_chat().await.inspect_err(|_| self.doubt(org, ask.chat, id))?;
        debug_assert_eq!(asks_somebody, call.status == CallStatus::Pending);
        Ok(call)
    }
}

/// The message that a call belongs to.
async fn message(tx: &mut WriteTx, ask: &Ask, id: ToolCallId) -> Result<MessageId, RecordError> {
    let no_chat = || ApiError::not_found("chat", &ask.chat.to_string());
    if let Some(message) = ask.message {
        tx.chat(ask.chat).await?.ok_or_else(no_chat)?;
        if !tx.has_message(ask.chat, message).await? {
            return Err(ApiError::invalid("messageId", "is not a message of this chat").into());
        }
        if !tx.is_on_active_line(ask.chat, message).await? {
            let text = "the message is on another branch than the one that the chat stands at, which has another \
                        workspace; go there first (active-leaf)";
            return Err(ApiError::new(Code::Conflict, text).into());
        }
        return Ok(message);
    }
    let content = Content::of_call(id, &ask.tool);
    let new = NewMessage { parent: Parent::ActiveLeaf, role: Role::Tool, content };
    match tx.add_message(ask.chat, &new).await {
        Ok(message) => Ok(message.id),
        Err(AddMessageError::NoChat | AddMessageError::NoParent) => Err(no_chat().into()),
        Err(AddMessageError::Store(error)) => Err(error.into()),
    }
}

/// A call that was recorded.
struct Recorded {
    call: ToolCall,
    /// What makes it run; none if it waits for a yes.
    running: Option<super::run::Place>,
}

enum RecordError {
    /// Somebody else was quicker with the same key.
    KeyTaken,
    Refused(ApiError),
}

impl From<ApiError> for RecordError {
    fn from(error: ApiError) -> Self {
        Self::Refused(error)
    }
}

impl From<StoreError> for RecordError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error.into())
    }
}
