//! What an answer has to be: any text, JSON, or JSON that fits a schema. An answer that is not is none, whatever the engine promised.

use kitbag_model::run::Output;
use kitbag_runner::{ArgumentError, Ready, Schemas};
use serde_json::Value;

use crate::Failure;

/// The code of an answer that is not what was asked for.
const INVALID: &str = "INVALID_AGENT_OUTPUT";

/// What an answer has to be.
pub enum Form {
    /// Any text.
    Text,
    /// JSON.
    Json,
    /// JSON that fits.
    Schema(Value, Ready),
}

impl Form {
    /// A schema that is none is told before anybody is asked.
    pub async fn new(output: &Output) -> Result<Self, Failure> {
        let schema = match output {
            Output::Text => return Ok(Self::Text),
            Output::Json { json_schema: None } => return Ok(Self::Json),
            Output::Json { json_schema: Some(schema) } => Value::Object(schema.clone()),
        };
        let form = apart(move || {
            let ready = Schemas::default().ready(&schema);
            Self::Schema(schema, ready)
        });
        let form = form.await?;
        match form.fits(Value::Null).await? {
            Err(ArgumentError::Schema(reason)) => Err(Failure::new(
                "INVALID_AGENT_RUN_PAYLOAD",
                format_args!("output.jsonSchema is no JSON Schema: {reason}"),
            )),
            _ => Ok(form),
        }
    }

    /// The answer as it was asked for. An agent likes to put a fence around JSON.
    pub async fn read(&self, answer: String) -> Result<Value, Failure> {
        if let Self::Text = self {
            return Ok(Value::String(answer));
        }
        let inside =
            |open: &str| answer.split_once(open).and_then(|(_, rest)| rest.rsplit_once("```")).map(|(text, _)| text);
        let candidates = [Some(answer.as_str()), inside("```json"), inside("```")];
        let read = candidates.into_iter().flatten().find_map(|text| serde_json::from_str::<Value>(text.trim()).ok());
        let value = read.ok_or_else(|| Failure::new(INVALID, "JSON was asked for, and the answer is none"))?;
        match self.fits(value.clone()).await? {
            Ok(()) => Ok(value),
            Err(ArgumentError::Invalid(problems)) => {
                let told: Vec<String> =
                    problems.iter().map(|one| format!("{:?} {}", one.pointer, one.message)).collect();
                Err(Failure::new(
                    INVALID,
                    format_args!("the answer does not fit output.jsonSchema: {}", told.join("; ")),
                ))
            }
            Err(error) => Err(Failure::new(INVALID, error)),
        }
    }

    async fn fits(&self, value: Value) -> Result<Result<(), ArgumentError>, Failure> {
        let Self::Schema(schema, ready) = self else { return Ok(Ok(())) };
        let (schema, ready) = (schema.clone(), ready.clone());
        apart(move || ready.check_value(&schema, &value)).await
    }
}

/// A stranger's schema may take a while: others must not wait for it.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::new(INVALID, error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn form(schema: Option<Value>) -> Result<Form, Failure> {
        let json_schema = schema.map(|schema| schema.as_object().unwrap().clone());
        Form::new(&Output::Json { json_schema }).await
    }

    #[tokio::test]
    async fn an_answer_is_what_was_asked_for() {
        let text = Form::new(&Output::Text).await.unwrap();
        assert_eq!(text.read("{}".into()).await, Ok(json!("{}")));
        let any = form(None).await.unwrap();
        for answer in ["[1]", " [1]\n", "Here it is:\n```json\n[1]\n```\nDone.", "```\n[1]\n```"] {
            assert_eq!(any.read(answer.into()).await, Ok(json!([1])), "{answer}");
        }
        assert_eq!(any.read("It is done.".into()).await.unwrap_err().code, INVALID);
        let list = form(Some(json!({ "type": "array", "items": { "type": "integer" } }))).await.unwrap();
        assert_eq!(list.read("[1]".into()).await, Ok(json!([1])));
        let failure = list.read("[\"one\"]".into()).await.unwrap_err();
        assert!(failure.code == INVALID && failure.message.contains("/0"), "{failure}");
        let broken = form(Some(json!({ "type": "nonsense" }))).await.err().unwrap();
        assert_eq!(broken.code, "INVALID_AGENT_RUN_PAYLOAD");
    }
}
