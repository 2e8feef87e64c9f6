//! One call of a tool, with the rounds that it may take: a server of the newest revision may answer a call with questions,
//! and the call is then made again with the answers.

use serde_json::{Map, Value};
use tokio::time::{Instant, timeout_at};

use super::ask::Question;
use super::headers::of_arguments;
use super::{Call, CallError, Connection};

/// How often a call is made again because the server asks.
const ROUNDS: usize = 10;

/// The headers are not what the tool's schema wants: it has changed since it was listed.
const HEADER_MISMATCH: i64 = -32020;

impl Connection {
    /// Calls a tool and brings its result as it is. Many calls may be under way at the same time. When the call is stopped,
    /// late or dropped, the server is told and nobody waits for it.
    pub async fn call(&self, call: Call) -> Result<Value, CallError> {
        let Call { tool, args, deadline, progress, mut stop } = call;
        let end = Instant::now() + deadline;
        let mut params = Map::from_iter([
            ("name".to_owned(), Value::String(tool.clone())),
            ("arguments".to_owned(), Value::Object(args)),
        ]);
        let mut stale = true;
        for _ in 0..ROUNDS {
            let headers = self.argument_headers(&tool, &params).await?;
            let question = Question {
                method: "tools/call",
                params: &mut params,
                beside: self.shared.agreed.beside.as_ref(),
                version: Some(self.shared.agreed.version.clone()),
                headers,
                deadline: Some(end.saturating_duration_since(Instant::now())),
                stop: Some(&mut stop),
                progress: progress.clone(),
                tell: true,
            };
            let result = match self.shared.asker.ask(question).await {
                Err(CallError::Timeout(_)) => return Err(CallError::Timeout(deadline)),
                Err(CallError::Refused { code: HEADER_MISMATCH, .. }) if stale && self.has_headers() => {
                    stale = false;
                    self.tools().await?;
                    continue;
                }
                other => other?,
            };
            let Value::Object(result) = result else {
                return Err(CallError::Nonsense("its result is no object".to_owned()));
            };
            match result.get("resultType").and_then(Value::as_str) {
                None | Some("complete") => return Ok(Value::Object(result)),
                Some("input_required") => timeout_at(end, self.another_round(&mut params, result))
                    .await
                    .map_err(|_| CallError::Timeout(deadline))??,
                Some(other) => return Err(CallError::Nonsense(format!("a result of the type `{other:.40}`"))),
            }
        }
        Err(CallError::Nonsense(format!("the server still asks after {ROUNDS} rounds")))
    }

    async fn argument_headers(
        &self,
        tool: &str,
        params: &Map<String, Value>,
    ) -> Result<Vec<(String, String)>, CallError> {
        if !self.has_headers() {
            return Ok(Vec::new());
        }
        if self.promoted().is_none() {
            self.tools().await?;
        }
        let arguments = params.get("arguments").unwrap_or(&Value::Null);
        let promoted = self.promoted();
        let marks = promoted.as_ref().and_then(|promoted| promoted.get(tool));
        Ok(marks.map_or_else(Vec::new, |marks| of_arguments(marks, arguments)))
    }

    /// Answers what the server asks and puts it into the parameters of the next round.
    async fn another_round(
        &self,
        params: &mut Map<String, Value>,
        mut result: Map<String, Value>,
    ) -> Result<(), CallError> {
        let mut responses = Map::new();
        if let Some(Value::Object(questions)) = result.remove("inputRequests") {
            for (key, mut question) in questions {
                let asked = question.get_mut("params").map(Value::take).unwrap_or_default();
                let method = question.get("method").and_then(Value::as_str).unwrap_or_default();
                let refused = || CallError::Nonsense(format!("it asks for `{method:.60}`, which is not offered"));
                let answer = self.shared.answers.answer(method, asked).ok_or_else(refused)?;
                responses.insert(key, answer.await.map_err(|(_, why)| CallError::Nonsense(why))?);
            }
        }
        // Neither of them is carried over from the round before.
        params.remove("inputResponses");
        params.remove("requestState");
        if !responses.is_empty() {
            params.insert("inputResponses".to_owned(), Value::Object(responses));
        }
        if let Some(state) = result.remove("requestState") {
            params.insert("requestState".to_owned(), state);
        }
        Ok(())
    }
}
