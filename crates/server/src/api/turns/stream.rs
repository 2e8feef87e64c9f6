//! `POST /v1/orgs/{org}/chats/{chat}/stream`

use axum::extract::State;
use axum::response::Response;
use kitbag_llm::{Effort, Thinking};
use kitbag_model::{Content, NewMessage, Parent, Role};
use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use super::follow::follow;
use super::limits::LimitsBody;
use crate::access::caller::MayUse;
use crate::access::stay::Stay;
use crate::api::chats::ChatPath;
use crate::api::error::{ApiError, ErrorBody};
use crate::api::input::{JsonBody, PathOf, nullable};
use crate::api::messages::ContentShape;
use crate::app::App;
use crate::turns::{AskTurn, Begin, check_person};

/// The most characters of what a model is told before everything else.
const MOST_SYSTEM: usize = 100_000;

/// How hard the model should think before it answers.
#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EffortName {
    Low,
    Medium,
    High,
}

impl From<EffortName> for Thinking {
    fn from(effort: EffortName) -> Self {
        Self::Effort(match effort {
            EffortName::Low => Effort::Low,
            EffortName::Medium => Effort::Medium,
            EffortName::High => Effort::High,
        })
    }
}

/// What to answer, and how.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct StreamTurn {
    /// What a person says: a message of the role `user` is added, and answered. It must say something; images (`mimeType`, `data`) are png, jpeg,
    /// gif or webp in base64.
    #[schema(value_type = Option<ContentShape>)]
    content: Option<Value>,
    /// The message to add it below. Absent: the one the chat stands at. Null: the top. One that has children: a branch, with its own workspace.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>)]
    parent_id: Option<Option<String>>,
    /// In place of `content`: a message of the role `user` that is there. It is answered again, as a branch that begins with the workspace as it was.
    message_id: Option<String>,
    /// `anthropic/<model>` or `openai/<model>`. Absent: the server's own.
    model: Option<String>,
    /// What the model is told before everything else.
    #[schema(max_length = 100_000)]
    system: Option<String>,
    thinking: Option<EffortName>,
    #[serde(default)]
    limits: LimitsBody,
}

/// Have a model answer, with the chat's tools
///
/// Answers with server-sent events, numbered (`id:`), each with a name (`event:`) and a JSON object: `turn` (what it is: `turnId`, `messageId`, `model`, `tools`),
/// `text` and `thinking` (`index`, `delta`: pieces of the block `index`), `block` (that block, whole and kept: it takes the place of its pieces),
/// `tool_call_began`, `tool_call` (`index`, `call`: a call as it is now; `pending` waits for a yes at `decide_tool_call`; one that is over has its render plan),
/// `tool_call_progress`, `usage`, `error` (`code`, `message`) and at last `done` (`state`: `done`, `cancelled`, `failed`, `limited` or `interrupted`).
///
/// The turn goes on if the caller goes away; `turn_events` takes it up again.
#[utoipa::path(
    post, path = "/v1/orgs/{org}/chats/{chat}/stream", tag = "turns",
    params(ChatPath),
    request_body = StreamTurn,
    responses((status = 200, content_type = "text/event-stream", body = String), (status = "4XX", body = ErrorBody), (status = "5XX", body = ErrorBody)),
)]
pub(crate) async fn stream(
    State(app): State<App>,
    stay: Stay,
    of_turn: Stay,
    caller: MayUse,
    PathOf(path): PathOf<ChatPath>,
    JsonBody(body): JsonBody<StreamTurn>,
) -> Result<Response, ApiError> {
    let chat = path.id()?;
    let begin = begin(body.content, body.parent_id, body.message_id)?;
    let model = app.model_named(body.model.as_deref())?;
    if body.system.as_ref().is_some_and(|system| system.chars().count() > MOST_SYSTEM) {
        return Err(ApiError::invalid("system", format!("must have at most {MOST_SYSTEM} characters")));
    }
    let thinking = body.thinking.map(Thinking::from);
    // Before it begins: a turn that nobody could follow would only cost.
    let share = app.fair().streams.take(&caller.org, &caller.who)?;
    // Who may change the lists is not bound by them; an agent's token is.
    let lists = if caller.manages { None } else { Some(app.lists_of(&caller.org).await?) };
    let (audience, org) = (caller.audience(), caller.org.clone());
    let limits = body.limits.check()?;
    let ask = AskTurn { chat, begin, model, system: body.system, thinking, limits, who: caller.who, audience, lists };
    // From here on it is done to its end: a caller that goes away must not leave half of it.
    let asking = tokio::spawn(kitbag_trace::carried({
        let app = app.clone();
        async move { app.begin_turn(&org, ask, of_turn).await }
    }));
    let turn = asking.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))?;
    Ok(follow(turn, 0, stay, share))
}

fn begin(content: Option<Value>, parent: Option<Option<String>>, message: Option<String>) -> Result<Begin, ApiError> {
    match (content, message) {
        (Some(content), None) => {
            let no_parent = |_| ApiError::invalid("parentId", "is not a message of this chat");
            let parent = match parent {
                None => Parent::ActiveLeaf,
                Some(None) => Parent::Root,
                Some(Some(id)) => Parent::Message(id.parse().map_err(no_parent)?),
            };
            let content = Content::try_from(content).map_err(|reason| ApiError::invalid("content", reason))?;
            check_person(&content).map_err(|reason| ApiError::invalid("content", reason))?;
            Ok(Begin::Say(NewMessage { parent, role: Role::User, content }))
        }
        (None, Some(id)) if parent.is_none() => {
            let unknown = |_| ApiError::invalid("messageId", "is not a message of this chat");
            Ok(Begin::Answer(id.parse().map_err(unknown)?))
        }
        (None, Some(_)) => {
            Err(ApiError::invalid("parentId", "goes with `content`; a message that is there has its parent"))
        }
        _ => {
            let message = "give either `content`, which is added, or `messageId`, which is answered again";
            Err(ApiError::invalid("content", message))
        }
    }
}
