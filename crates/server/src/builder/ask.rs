//! How a model is asked: once, and once more if its answer cannot be used; within a time and a length.
//!
//! Which client speaks to the models is known in one place, [`OrganizationModels`].

use std::pin::Pin;
use std::time::Duration;

use kitbag_llm::{AnswerLimits, LlmError};
use kitbag_model::builder::BuilderLlm;
use kitbag_model::{OrgId, redact};

use super::BuilderError;
use crate::api::error::Code;
use crate::app::App;

/// How long a model may take for an answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(25);
/// How many tokens a model may write: about as many as the characters below.
const MOST_TOKENS: u32 = 16_000;

/// How many characters an answer may have.
pub(super) const LONGEST_ANSWER: usize = 80_000;

/// Why there is no answer.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub(crate) enum AnswerError {
    /// The organisation gave no key for the model.
    #[error("{0}")]
    SecretRequired(String),
    /// The model cannot be reached, or refuses. The text is for people and has no secret in it.
    #[error("{0}")]
    Unavailable(String),
    /// The model says more than is taken, and was not listened to until its end.
    #[error("it has more than {LONGEST_ANSWER} characters, and no more are taken")]
    TooLong,
}

/// What a model will have said.
pub(crate) type Answer<'a> = Pin<Box<dyn Future<Output = Result<String, AnswerError>> + Send + 'a>>;

/// Whoever has models answer. Nothing comes here that was not redacted.
pub(crate) trait Answers: Send + Sync {
    /// One answer of one model, as text.
    fn answer<'a>(&'a self, org: &'a OrgId, llm: &'a BuilderLlm, system: &'a str, prompt: &'a str) -> Answer<'a>;
}

/// The models that an organisation has a key for.
pub(crate) struct OrganizationModels(pub(crate) App);

impl Answers for OrganizationModels {
    fn answer<'a>(&'a self, org: &'a OrgId, llm: &'a BuilderLlm, system: &'a str, prompt: &'a str) -> Answer<'a> {
        Box::pin(async move {
            let app = &self.0;
            let provider = app.provider(org, llm.provider).await.map_err(|error| {
                let message = error.message().to_owned();
                match error.code() {
                    Code::LlmSecretRequired => AnswerError::SecretRequired(message),
                    _ => AnswerError::Unavailable(message),
                }
            })?;
            let question = kitbag_llm::Ask {
                model: llm.model.clone(),
                system: Some(system.to_owned()),
                messages: vec![kitbag_llm::Message::User(vec![kitbag_llm::Part::Text(prompt.to_owned())])],
                tools: Vec::new(),
                max_output_tokens: MOST_TOKENS,
                thinking: None,
            };
            let limits = AnswerLimits { time: PATIENCE, output_chars: LONGEST_ANSWER };
            let models = app.turns().models().under(app.model_policy());
            match models.answer(&provider, &question, limits).await {
                Ok(answer) => Ok(answer.text),
                Err(LlmError::TooLarge { .. }) => Err(AnswerError::TooLong),
                Err(error) => Err(AnswerError::Unavailable(error.to_string())),
            }
        })
    }
}

/// Asks for something of a form that `read` knows. What is wrong with an answer is told to the model, once.
pub(super) async fn ask<T>(
    answers: &dyn Answers,
    org: &OrgId,
    llm: &BuilderLlm,
    (system, prompt): (&str, &str),
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<T, BuilderError> {
    // What is wrong goes to the log and to who asked, and may repeat a word of the answer.
    let read = |text: Result<String, String>| text.and_then(|text| read(&text)).map_err(|wrong| redact(&wrong).text);
    let wrong = match read(once(answers, org, llm, system, prompt).await?) {
        Ok(value) => return Ok(value),
        Err(wrong) => wrong,
    };
    tracing::info!(%org, wrong, "a model's answer cannot be used; it is asked again");
    let again = format!(
        "{prompt}\n\nYour last answer could not be used: {wrong}\nAnswer again, with the JSON object alone, and mend that."
    );
    read(once(answers, org, llm, system, &again).await?).map_err(BuilderError::InvalidOutput)
}

/// One answer, or what is wrong with how long it is.
async fn once(
    answers: &dyn Answers,
    org: &OrgId,
    llm: &BuilderLlm,
    system: &str,
    prompt: &str,
) -> Result<Result<String, String>, BuilderError> {
    let late = || {
        let message = format!("the model did not answer within {} seconds; try again", PATIENCE.as_secs());
        AnswerError::Unavailable(message)
    };
    let answer = tokio::time::timeout(PATIENCE, answers.answer(org, llm, system, prompt)).await.map_err(|_| late())?;
    match answer {
        Ok(text) if text.chars().count() <= LONGEST_ANSWER => Ok(Ok(text)),
        Ok(_) | Err(AnswerError::TooLong) => Ok(Err(AnswerError::TooLong.to_string())),
        Err(error) => Err(error.into()),
    }
}
