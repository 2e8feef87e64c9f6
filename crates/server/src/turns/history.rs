//! What a model is told of the conversation so far: the line of messages down to the one it answers, put together as its provider wants it.

use std::collections::HashMap;

use kitbag_llm::{Message as Said, Part, ToolResult, check_image};
use kitbag_model::{ChatId, Content, Maker, Message, MessageId, OrgId, Role, ToolCall, ToolCallId};
use kitbag_store::{Store, StoreError};
use serde_json::Value;

use super::blocks::Head;
use super::result::told;

/// A conversation as a model is told it.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) messages: Vec<Said>,
    /// Tools that were found in it before, by the names that models see.
    pub(crate) found: Vec<String>,
}

impl History {
    /// The conversation down to a message.
    pub(crate) async fn read(
        store: &Store,
        org: &OrgId,
        chat: ChatId,
        leaf: MessageId,
        maker: Maker,
    ) -> Result<Self, StoreError> {
        let mut tx = store.read(org).await?;
        let line = tx.line_to(chat, leaf).await?;
        let mut calls = HashMap::new();
        for id in line.iter().flat_map(|message| call_ids(&message.content)) {
            if let Some(call) = tx.tool_call(chat, id).await? {
                calls.insert(id, call);
            }
        }
        Ok(Self::of(&line, &calls, maker))
    }

    fn of(line: &[Message], calls: &HashMap<ToolCallId, ToolCall>, maker: Maker) -> Self {
        let mut history = Self::default();
        for message in line {
            match message.role {
                Role::User => history.push(Said::User(parts_of_person(&message.content))),
                Role::Tool => history.push(Said::User(parts_of_call(&message.content, calls))),
                Role::Assistant => history.push_turn(&message.content, calls, maker),
            }
        }
        history
    }

    /// Providers want no two messages of a person in a row, and none that is empty.
    fn push(&mut self, said: Said) {
        match (self.messages.last_mut(), said) {
            (_, Said::User(parts) | Said::Assistant(parts)) if parts.is_empty() => {}
            (Some(Said::User(before)), Said::User(parts)) => before.extend(parts),
            (_, said) => self.messages.push(said),
        }
    }

    fn push_turn(&mut self, content: &Content, calls: &HashMap<ToolCallId, ToolCall>, maker: Maker) {
        let Some(blocks) = content.as_json().as_array() else {
            let text = content.as_json().as_str().unwrap_or_default();
            return self.push(Said::Assistant(texts(text)));
        };
        // Proofs mean nothing to another provider, and without them thinking is not taken back.
        let keeps_thinking = Head::of(content).is_some_and(|head| head.maker == maker);
        let mut step = None;
        let (mut parts, mut results) = (Vec::new(), Vec::new());
        for block in blocks {
            let own = block.get("step").and_then(Value::as_u64);
            if own != step {
                self.push_step(&mut parts, &mut results);
                step = own;
            }
            let part = part_of(block).filter(|part| keeps_thinking || !matches!(part, Part::Thinking { .. }));
            let Some(part) = part else { continue };
            if let Part::ToolCall { id, .. } | Part::BadToolCall { id, .. } = &part {
                results.push(result_of(id, block, calls));
                let found = block.get("found").and_then(Value::as_array).into_iter().flatten();
                self.found.extend(found.filter_map(|one| Some(one.get("name")?.as_str()?.to_owned())));
            }
            parts.push(part);
        }
        self.push_step(&mut parts, &mut results);
    }

    fn push_step(&mut self, parts: &mut Vec<Part>, results: &mut Vec<ToolResult>) {
        self.push(Said::Assistant(std::mem::take(parts)));
        if !results.is_empty() {
            self.messages.push(Said::Results(std::mem::take(results)));
        }
    }
}

fn call_ids(content: &Content) -> impl Iterator<Item = ToolCallId> {
    let blocks = content.as_json().as_array().into_iter().flatten();
    blocks.filter_map(|block| block.get("toolCallId")?.as_str()?.parse().ok())
}

fn texts(text: &str) -> Vec<Part> {
    if text.trim().is_empty() { Vec::new() } else { vec![Part::Text(text.to_owned())] }
}

/// What a person said. Blocks that a model cannot be shown are named, so that it knows that there was something.
fn parts_of_person(content: &Content) -> Vec<Part> {
    let Some(blocks) = content.as_json().as_array() else {
        return texts(content.as_json().as_str().unwrap_or_default());
    };
    let part = |block: &Value| match part_of(block) {
        Some(part @ (Part::Text(_) | Part::Image { .. })) => part,
        _ => Part::Text(format!("[a block of the type {}]", block.get("type").unwrap_or(&Value::Null))),
    };
    blocks.iter().map(part).filter(|part| !matches!(part, Part::Text(text) if text.trim().is_empty())).collect()
}

/// Whether a model can be shown what a person says now. What was said before is shown as well as may be; now it can still be said another way.
pub(crate) fn check_person(content: &Content) -> Result<(), String> {
    for (index, block) in content.as_json().as_array().into_iter().flatten().enumerate() {
        if block.get("type").and_then(Value::as_str) != Some("image") {
            continue;
        }
        let Some(Part::Image { mime, base64 }) = part_of(block) else {
            return Err(format!("block {index} is an image, which has a `mimeType` and, as base64, its `data`"));
        };
        check_image(&mime, &base64)
            .map_err(|problem| format!("block {index} is an image that no model is shown: {problem}"))?;
    }
    if says_something(content) { Ok(()) } else { Err("must say something".to_owned()) }
}

/// Whether there is anything to answer.
pub(crate) fn says_something(content: &Content) -> bool {
    !parts_of_person(content).is_empty()
}

/// A call that no model asked for, as a model is told of it.
fn parts_of_call(content: &Content, calls: &HashMap<ToolCallId, ToolCall>) -> Vec<Part> {
    let mut parts = Vec::new();
    for call in call_ids(content).filter_map(|id| calls.get(&id)) {
        let args = Value::Object(call.args.clone());
        parts.push(Part::Text(format!("[The tool {} was called by hand with {args}. It returned:]", call.tool_id)));
        parts.extend(told(call).0);
    }
    parts
}

fn part_of(block: &Value) -> Option<Part> {
    let text = |name: &str| block.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    match block.get("type")?.as_str()? {
        "text" => Some(Part::Text(text("text")?)),
        "thinking" => {
            let proof = block.get("proof").filter(|proof| !proof.is_null()).cloned();
            Some(Part::Thinking { text: text("text")?, proof })
        }
        "image" => Some(Part::Image { mime: text("mimeType")?, base64: text("data")? }),
        "tool_call" | "tool_search" => match text("raw") {
            Some(raw) => {
                let problem = text("error").unwrap_or_default();
                Some(Part::BadToolCall { id: text("id")?, name: text("name")?, raw, problem })
            }
            None => Some(Part::ToolCall {
                id: text("id")?,
                name: text("name")?,
                arguments: block.get("arguments")?.clone(),
            }),
        },
        _ => None,
    }
}

fn result_of(id: &str, block: &Value, calls: &HashMap<ToolCallId, ToolCall>) -> ToolResult {
    let said = |text: String, is_error| ToolResult { id: id.to_owned(), content: vec![Part::Text(text)], is_error };
    if let Some(found) = block.get("found") {
        return said(found.to_string(), false);
    }
    if let Some(error) = block.get("error").and_then(Value::as_str) {
        return said(error.to_owned(), true);
    }
    let call = block.get("toolCallId").and_then(Value::as_str).and_then(|id| id.parse().ok());
    match call.and_then(|id: ToolCallId| calls.get(&id)) {
        Some(call) => {
            let (content, is_error) = told(call);
            ToolResult { id: id.to_owned(), content, is_error }
        }
        None => said("it was never called: the turn ended before".to_owned(), true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_a_person_may_say() {
        let check = |content: Value| check_person(&Content::try_from(content).unwrap());
        let image = |mime: &str, data: &str| json!([{ "type": "image", "mimeType": mime, "data": data }]);
        for good in [
            json!("Hi"),
            json!([{ "type": "text", "text": "Hi" }]),
            image("image/png", "iVBORw0="),
            json!([{ "type": "place" }]),
        ] {
            assert_eq!(check(good.clone()), Ok(()), "{good}");
        }
        for empty in [json!(""), json!(" \n"), json!([]), json!([{ "type": "text", "text": " " }])] {
            assert_eq!(check(empty.clone()), Err("must say something".to_owned()), "{empty}");
        }
        for bad in
            [image("image/svg+xml", "iVBORw0="), image("image/png", "?"), json!([{ "type": "image", "url": "x" }])]
        {
            assert!(check(bad.clone()).unwrap_err().starts_with("block 0 is an image"), "{bad}");
        }
    }
}
