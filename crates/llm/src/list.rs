//! Which models a provider has.

use serde::Deserialize;
use tokio::time::{Instant, sleep, timeout_at};

use crate::error::{LlmError, Waited};
use crate::models::Models;
use crate::provider::{Provider, Wire};
use crate::question::Question;
use crate::retry::luck;

/// The most bytes of a list. Brokers with hundreds of models describe each at length.
const LONGEST: usize = 8 * 1024 * 1024;

#[derive(Deserialize)]
struct List {
    data: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    id: String,
}

pub(crate) async fn list(models: &Models, provider: &Provider) -> Result<Vec<String>, LlmError> {
    let mut url = provider.place("models");
    if provider.wire == Wire::Anthropic {
        // It shows twenty otherwise.
        url.query_pairs_mut().append_pair("limit", "1000");
    }
    let question = Question::get(models, provider, url);
    let limits = &models.limits;
    let deadline = Instant::now() + limits.total;
    let late = || LlmError::TooSlow { waited: Waited::Total, limit: limits.total };
    let mut attempt = 1;
    let body = loop {
        let error = match timeout_at(deadline, question.send_for_all(LONGEST)).await.map_err(|_| late())? {
            Ok(body) => break body,
            Err(error) => error,
        };
        let pause = if error.is_passing() { limits.retry.pause(attempt, error.retry_after(), luck()) } else { None };
        let Some(pause) = pause.filter(|pause| Instant::now() + *pause < deadline) else { return Err(error) };
        sleep(pause).await;
        attempt += 1;
    };
    let list: List = serde_json::from_slice(&body)
        .map_err(|_| LlmError::Malformed("it is no list of models; is the address the right one?".to_owned()))?;
    Ok(list.data.into_iter().map(|entry| entry.id).collect())
}
