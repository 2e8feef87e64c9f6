//! What a model answers: JSON, alone, in a fence or with words around it. Anything else is told, never guessed at.

use serde_json::{Map, Value};

/// How long what a model says may be.
const LONGEST_MESSAGE: usize = 20_000;
/// How many keys it may name.
const MOST_KEYS: usize = 50;
/// How many skills it may write.
const MOST_SKILLS: usize = 20;

/// What a model says in a conversation.
#[derive(Debug, Eq, PartialEq)]
pub(super) struct Said {
    pub(super) message: String,
    pub(super) suggested: Vec<String>,
}

/// What a model makes of a conversation in the end.
#[derive(Debug, PartialEq)]
pub(super) struct Drafted {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) skills: Vec<Value>,
    /// Fields that are none of its business, which nobody read.
    pub(super) ignored: Vec<String>,
}

pub(super) fn said(text: &str) -> Result<Said, String> {
    let mut fields = object(text)?;
    let message = match fields.remove("message") {
        Some(Value::String(message)) if !message.trim().is_empty() => message,
        _ => return Err("`message` must be a text that is not empty".to_owned()),
    };
    if message.chars().count() > LONGEST_MESSAGE {
        return Err(format!("`message` must have at most {LONGEST_MESSAGE} characters"));
    }
    let keys = match fields.remove("suggestedComponentKeys") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(keys)) => keys,
        Some(_) => return Err("`suggestedComponentKeys` must be a list of texts".to_owned()),
    };
    let mut suggested: Vec<String> = Vec::new();
    for key in keys.into_iter().take(MOST_KEYS) {
        let Value::String(key) = key else { return Err("`suggestedComponentKeys` must be a list of texts".to_owned()) };
        if !suggested.contains(&key) {
            suggested.push(key);
        }
    }
    Ok(Said { message: message.replace('\0', ""), suggested })
}

pub(super) fn drafted(text: &str) -> Result<Drafted, String> {
    let mut fields = object(text)?;
    let Some(Value::String(name)) = fields.remove("name") else { return Err("`name` must be a text".to_owned()) };
    let description = match fields.remove("description") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err("`description` must be a text".to_owned()),
    };
    let mut skills = match fields.remove("agentSkills") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(skills)) => skills,
        Some(_) => return Err("`agentSkills` must be a list of objects".to_owned()),
    };
    if skills.len() > MOST_SKILLS {
        return Err(format!("`agentSkills` must have at most {MOST_SKILLS} entries"));
    }
    for skill in &mut skills {
        let Value::Object(skill) = skill else { return Err("`agentSkills` must be a list of objects".to_owned()) };
        if skill.get("files").is_none_or(Value::is_null) {
            return Err("every entry of `agentSkills` must have `files`".to_owned());
        }
        skill.entry("format").or_insert_with(|| "agentskills-v1".into());
        skill.entry("entry").or_insert_with(|| "SKILL.md".into());
    }
    Ok(Drafted { name, description, skills, ignored: fields.keys().cloned().collect() })
}

/// The object that an answer is, or has inside.
fn object(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.trim();
    let fenced = text.split_once("```").and_then(|(_, rest)| {
        let rest = rest.strip_prefix("json").or_else(|| rest.strip_prefix("JSON")).unwrap_or(rest);
        rest.rsplit_once("```").map(|(inside, _)| inside.trim())
    });
    let between = text.find('{').zip(text.rfind('}')).and_then(|(from, to)| text.get(from..=to));
    let mut wrong = "it is no JSON object".to_owned();
    for candidate in [Some(text), fenced, between].into_iter().flatten() {
        match serde_json::from_str(candidate) {
            Ok(Value::Object(fields)) => return Ok(fields),
            Ok(_) => "it must be a JSON object".clone_into(&mut wrong),
            Err(error) => wrong = format!("it is no JSON: {error}"),
        }
    }
    Err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read() {
        let json = r#"{"message":"Hello {you}","suggestedComponentKeys":["mcp.git","mcp.git"]}"#;
        let want = Said { message: "Hello {you}".to_owned(), suggested: vec!["mcp.git".to_owned()] };
        for text in [
            json.to_owned(),
            format!("\n  {json}\n"),
            format!("```json\n{json}\n```"),
            format!("```\n{json}\n```"),
            format!("Of course! Here it is:\n```json\n{json}\n```\nAnything else?"),
            format!("Of course: {json} (done)"),
        ] {
            assert_eq!(said(&text).as_ref(), Ok(&want), "{text}");
        }
    }

    #[test]
    fn what_cannot() {
        for text in [
            "",
            "Hello",
            "[]",
            "null",
            "{",
            "{}",
            r#"{"message":""}"#,
            r#"{"message":1}"#,
            r#"{"message":"a","suggestedComponentKeys":"x"}"#,
            r#"{"message":"a","suggestedComponentKeys":[1]}"#,
            r#"{"message":"a"} {"message":"b"}"#,
        ] {
            assert!(said(text).is_err(), "{text}");
        }
        for text in [
            "{}",
            r#"{"name":1}"#,
            r#"{"name":"a","agentSkills":{}}"#,
            r#"{"name":"a","agentSkills":[1]}"#,
            r#"{"name":"a","agentSkills":[{"id":"x"}]}"#,
            r#"{"name":"a","description":[]}"#,
        ] {
            assert!(drafted(text).is_err(), "{text}");
        }
    }
}
