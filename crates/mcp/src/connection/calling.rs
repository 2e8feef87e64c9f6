//! One request that may take rounds, a call of a tool most often: a server of the newest revision may answer with questions,
//! and the request is then made again with the answers.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::ask::Question;
use super::headers::of_arguments;
use super::{Answers, Call, CallError, Connection};
use crate::shallow::Shallow;

/// How often a call is made again because the server asks.
const ROUNDS: usize = 10;

/// The headers are not what the tool's schema wants: it has changed since it was listed.
const HEADER_MISMATCH: i64 = -32020;

/// The little of a result that says what it is.
#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "resultType")]
    kind: Option<Value>,
}

impl Connection {
    /// Makes a request and brings its result as it is. Many may be under way at the same time. When it is stopped, late or
    /// dropped, the server is told and nobody waits for it.
    pub async fn call(&self, call: Call) -> Result<Box<RawValue>, CallError> {
        if call.as_task && self.has_tasks() {
            // Boxed: few are.
            return Box::pin(self.call_as_task(call)).await;
        }
        let Call { method, mut params, deadline, progress, mut stop, beside, relay, as_task: _ } = call;
        let end = Instant::now() + deadline;
        let mut stale = true;
        for _ in 0..ROUNDS {
            let headers = if method == "tools/call" { self.argument_headers(&params).await? } else { Vec::new() };
            let question = Question {
                method: &method,
                params: &mut params,
                beside: self.shared.agreed.beside.as_ref(),
                version: Some(self.shared.agreed.version.clone()),
                headers,
                deadline: Some(end.saturating_duration_since(Instant::now())),
                stop: Some(&mut stop),
                progress: progress.clone(),
                company: beside.clone(),
                tell: true,
            };
            let result = match self.shared.asker.ask(question).await {
                Err(CallError::Timeout(_)) => return Err(CallError::Timeout(deadline)),
                Err(CallError::Refused { code: HEADER_MISMATCH, .. }) if stale && self.has_headers() => {
                    stale = false;
                    Box::pin(self.tools()).await?;
                    continue;
                }
                other => other?,
            };
            let Ok(Kind { kind }) = serde_json::from_str(result.get()) else {
                return Err(CallError::Nonsense("its result is no object".to_owned()));
            };
            match kind.as_ref().and_then(Value::as_str) {
                None | Some("complete") => return Ok(result),
                Some("input_required") if !(relay && beside.as_deref().is_none_or(Answers::relays)) => {
                    let answers = beside.as_deref().unwrap_or(&*self.shared.answers);
                    timeout_at(end, Box::pin(another_round(answers, &mut params, &result)))
                        .await
                        .map_err(|_| CallError::Timeout(deadline))??;
                }
                Some(_) if relay => return Ok(result),
                Some(other) => return Err(CallError::Nonsense(format!("a result of the type `{other:.40}`"))),
            }
        }
        Err(CallError::Nonsense(format!("the server still asks after {ROUNDS} rounds")))
    }

    async fn argument_headers(&self, params: &Shallow) -> Result<Vec<(String, String)>, CallError> {
        if !self.has_headers() {
            return Ok(Vec::new());
        }
        if self.promoted().is_none() {
            Box::pin(self.tools()).await?;
        }
        let promoted = self.promoted();
        let marks = promoted.as_ref().and_then(|promoted| promoted.get(&params.text("name")?));
        let Some(marks) = marks.filter(|marks| !marks.is_empty()) else { return Ok(Vec::new()) };
        let arguments: Value = params.parse("arguments").unwrap_or_default();
        Ok(of_arguments(marks, &arguments))
    }
}

/// Answers what the server asks and puts it into the parameters of the next round.
async fn another_round(answers: &dyn Answers, params: &mut Shallow, result: &RawValue) -> Result<(), CallError> {
    let mut result = super::value(result)?;
    let mut responses = Map::new();
    if let Some(Value::Object(questions)) = result.get_mut("inputRequests").map(Value::take) {
        for (key, mut question) in questions {
            let asked = question.get_mut("params").map(Value::take).unwrap_or_default();
            let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
            let refused = || CallError::Nonsense(format!("it asks for `{method:.60}`, which is not offered"));
            let answer = answers.answer(method, asked).ok_or_else(refused)?;
            responses.insert(key, answer.await.map_err(|refusal| CallError::Nonsense(refusal.message))?);
        }
    }
    // Neither of them is carried over from the round before.
    params.remove("inputResponses");
    params.remove("requestState");
    if !responses.is_empty() {
        params.set_value("inputResponses", &Value::Object(responses));
    }
    if let Some(state) = result.get("requestState") {
        params.set_value("requestState", state);
    }
    Ok(())
}
