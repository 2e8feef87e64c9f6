//! Messages: a tree per chat. A second child of one parent is a branch.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Value, json};

use crate::id::{ChatId, ManifestId, MessageId, ToolCallId};
use crate::time::Timestamp;
use crate::tool_id::ToolId;

/// Who a message is from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Role {
    /// A person.
    User,
    /// A model.
    Assistant,
    /// A tool call that no message asked for.
    Tool,
}

impl Role {
    /// Every role there is.
    pub const ALL: [Self; 3] = [Self::User, Self::Assistant, Self::Tool];

    /// As it is written in the API and the database.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A text that names no role.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("unknown role; the roles are user, assistant and tool")]
pub struct UnknownRole;

impl FromStr for Role {
    type Err = UnknownRole;

    fn from_str(text: &str) -> Result<Self, UnknownRole> {
        Self::ALL.into_iter().find(|role| role.as_str() == text).ok_or(UnknownRole)
    }
}

/// What a message says: a text, or a list of blocks, each an object with a `type`. Blocks are kept as they came,
/// unknown fields included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Content(Value);

impl Content {
    /// How deep lists and objects may be inside each other. Readers of JSON commonly stop at 128, and an answer wraps a
    /// message in some levels of its own.
    pub const DEEPEST: usize = 64;

    /// That of a message that is there for a call.
    pub fn of_call(id: ToolCallId, tool: &ToolId) -> Self {
        Self(json!([{ "type": "tool_call", "toolCallId": id, "toolId": tool }]))
    }

    /// The same as text, of the texts of both.
    pub fn text_of_call(id: &str, tool: &str) -> String {
        // An id needs no escaping; what a server calls a tool may.
        let tool = Value::from(tool);
        format!("[{{\"type\":\"tool_call\",\"toolCallId\":\"{id}\",\"toolId\":{tool}}}]")
    }

    /// A list of blocks that was put together here, each with its `type`. What is deeper than a reader follows is named in its place: a
    /// message that was written must never be one that cannot be read.
    pub fn of_blocks(blocks: Vec<Value>) -> Self {
        let mut content = Value::Array(blocks);
        flatten(&mut content, Self::DEEPEST);
        Self(content)
    }

    /// Whether the arguments of a call can stand in a block of a message.
    pub fn has_room_for(arguments: &Value) -> bool {
        // Around them are the block and the list of blocks.
        !is_deeper(arguments, Self::DEEPEST - 2)
    }

    /// The content as JSON.
    pub fn as_json(&self) -> &Value {
        &self.0
    }
}

/// Why a JSON value is no content.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ContentError {
    /// A number, an object, null…
    #[error("must be a text or a list of blocks")]
    NeitherTextNorBlocks,
    /// Lists and objects inside each other, deeper than whoever reads them later can follow.
    #[error("must not be nested deeper than {most} levels", most = Content::DEEPEST)]
    TooDeep,
    /// A block that is not an object.
    #[error("block {index} must be an object with a \"type\"")]
    Untyped {
        /// Which, counted from 0.
        index: usize,
    },
}

impl TryFrom<Value> for Content {
    type Error = ContentError;

    fn try_from(value: Value) -> Result<Self, ContentError> {
        if is_deeper(&value, Self::DEEPEST) {
            return Err(ContentError::TooDeep);
        }
        match &value {
            Value::String(_) => Ok(Self(value)),
            Value::Array(blocks) => match blocks.iter().position(|b| !b.get("type").is_some_and(Value::is_string)) {
                Some(index) => Err(ContentError::Untyped { index }),
                None => Ok(Self(value)),
            },
            _ => Err(ContentError::NeitherTextNorBlocks),
        }
    }
}

fn is_deeper(value: &Value, levels: usize) -> bool {
    let deeper = |inner: &Value| is_deeper(inner, levels.saturating_sub(1));
    match value {
        Value::Array(items) => levels == 0 || items.iter().any(deeper),
        Value::Object(fields) => levels == 0 || fields.values().any(deeper),
        _ => false,
    }
}

/// Has a text in the place of everything that is deeper than so many levels.
fn flatten(value: &mut Value, levels: usize) {
    match value {
        Value::Array(_) | Value::Object(_) if levels == 0 => *value = json!("[nested too deeply]"),
        Value::Array(items) => items.iter_mut().for_each(|inner| flatten(inner, levels - 1)),
        Value::Object(fields) => fields.values_mut().for_each(|inner| flatten(inner, levels - 1)),
        _ => {}
    }
}

/// Where in the tree a new message goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Parent {
    /// Below the message that the chat stands at, or at the top of an empty chat.
    ActiveLeaf,
    /// At the top, beside any others that are there.
    Root,
    /// Below this one.
    Message(MessageId),
}

/// A message about to be added.
#[derive(Clone, Debug)]
pub struct NewMessage {
    /// Where it goes.
    pub parent: Parent,
    /// Who it is from.
    pub role: Role,
    /// What it says.
    pub content: Content,
}

/// A message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its id.
    pub id: MessageId,
    /// The chat whose tree it is in.
    pub chat_id: ChatId,
    /// The message above it; none for one at the top.
    pub parent_id: Option<MessageId>,
    /// Who it is from.
    pub role: Role,
    /// What it says.
    pub content: Content,
    /// The workspace's state after it, where that differs from its nearest ancestor's.
    pub manifest_id: Option<ManifestId>,
    /// When it was added.
    pub created_at: Timestamp,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content() {
        for good in [json!(""), json!("a\u{0}b"), json!([]), json!([{"type": "text", "text": "a", "x": 1}])] {
            assert_eq!(Content::try_from(good.clone()).map(|c| c.0), Ok(good));
        }
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
        let block = |levels| json!([{ "type": "x", "deep": nested(levels) }]);
        assert!(Content::try_from(block(62)).is_ok());
        assert_eq!(Content::try_from(block(63)), Err(ContentError::TooDeep));
        for bad in [json!(null), json!(1), json!({"type": "text"}), json!(true)] {
            assert_eq!(Content::try_from(bad), Err(ContentError::NeitherTextNorBlocks));
        }
        for bad in [json!([{"type": "a"}, "b"]), json!([{"type": "a"}, {"type": 1}]), json!([{"type": "a"}, {}])] {
            assert_eq!(Content::try_from(bad), Err(ContentError::Untyped { index: 1 }));
        }
    }

    #[test]
    fn what_is_put_together_here_can_always_be_read() {
        let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!({ "a": inner }));
        for (levels, fits) in [(62, true), (63, false), (120, false)] {
            let block = json!({ "type": "tool_call", "arguments": nested(levels) });
            let content = Content::of_blocks(vec![block.clone(), json!({ "type": "text" })]);
            assert_eq!(Content::try_from(content.0.clone()), Ok(content.clone()), "{levels}");
            assert_eq!(content.0[0] == block, fits, "{levels}");
            assert_eq!(Content::has_room_for(&nested(levels)), fits, "{levels}");
        }
    }

    #[test]
    fn the_content_of_a_call_is_the_same_as_text() {
        for tool in ["read_file", "mcp:a~b:say \"it\"\n\u{1}é"] {
            let (id, tool): (ToolCallId, ToolId) = (ToolCallId::generate(), tool.parse().unwrap());
            let text = Content::text_of_call(&id.to_string(), &tool.to_string());
            assert_eq!(text, Content::of_call(id, &tool).as_json().to_string());
        }
    }

    #[test]
    fn roles() {
        for role in Role::ALL {
            assert_eq!(role.as_str().parse(), Ok(role));
        }
        assert_eq!("system".parse::<Role>(), Err(UnknownRole));
    }
}
