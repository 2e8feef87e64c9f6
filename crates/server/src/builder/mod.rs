//! The builder: a conversation with a model in which a toolset is put together from a catalogue of ours. It makes drafts, never toolsets.
//!
//! What a person writes loses its secrets at the door, before it is kept and before a model sees it; so does what the model writes.

mod answer;
mod ask;
mod catalogue;
mod draft;
mod prompt;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use kitbag_model::builder::{
    BuilderLlm, BuilderRole, BuilderSession, BuilderStatus, BuilderTurn, MOST_TURNS, NewBuilderSession,
};
use kitbag_model::redaction::Kind;
use kitbag_model::{Action, BuilderSessionId, OrgId, redact};
use kitbag_store::{Store, StoreError};
use serde_json::{Value, json};

use crate::access::caller::Author;
use crate::api::error::{ApiError, Code};
use crate::app::App;
use crate::bounded::{Bounded, Full as NoPlace};
use crate::toolsets::ToolsetError;

pub(crate) use ask::{AnswerError, Answers, OrganizationModels};
pub(crate) use catalogue::{Component, catalogue};
pub(crate) use draft::Wishes;

/// What is said to who wants nothing yet.
const GREETING: &str = "Hello! Tell me what your agents should be able to do, and I will suggest MCP servers and skills from the catalogue. \
    Please do not paste secrets here: values are set as environment variables later.";

/// Why the builder cannot go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuilderError {
    /// There is no such conversation, or it is somebody else's.
    #[error("there is no builder session {0:?}")]
    NotFound(String),
    /// It is over.
    #[error("this session is {0}: begin another one")]
    Over(BuilderStatus),
    /// It is long enough.
    #[error("this session has its {MOST_TURNS} turns: finalize it, or begin another one")]
    Full,
    /// Somebody chose what is not in the catalogue.
    #[error("selectedComponentKeys: there is no component {}", .0.iter().map(|key| format!("{key:?}")).collect::<Vec<_>>().join(", "))]
    UnknownKeys(Vec<String>),
    /// What somebody wants of the draft no toolset may have.
    #[error(transparent)]
    Wishes(#[from] ToolsetError),
    /// The model answered twice, and neither answer can be used.
    #[error("the model gave no answer that can be used: {0}")]
    InvalidOutput(String),
    /// Too many have models think just now.
    #[error(transparent)]
    Busy(#[from] NoPlace),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<BuilderError> for ApiError {
    fn from(error: BuilderError) -> Self {
        let message = error.to_string();
        match error {
            BuilderError::NotFound(_) => Self::new(Code::ToolsetBuilderSessionNotFound, message),
            BuilderError::Over(_) => Self::new(Code::ToolsetBuilderSessionFinalized, message),
            BuilderError::Full => Self::new(Code::ToolsetBuilderSessionFull, message),
            BuilderError::UnknownKeys(keys) => {
                Self::new(Code::BadRequest, message).with_details(json!({ "invalid": keys }))
            }
            BuilderError::Wishes(error) => error.into(),
            BuilderError::InvalidOutput(reason) => {
                Self::new(Code::ToolsetBuilderInvalidModelOutput, message).with_details(json!({ "reason": reason }))
            }
            BuilderError::Busy(full) => full.into(),
            BuilderError::Answer(AnswerError::SecretRequired(_)) => Self::new(Code::LlmSecretRequired, message),
            BuilderError::Answer(AnswerError::Unavailable(_)) => Self::new(Code::LlmUnavailable, message),
            BuilderError::Answer(AnswerError::TooLong) => Self::new(Code::ToolsetBuilderInvalidModelOutput, message),
            BuilderError::Store(error) => error.into(),
        }
    }
}

/// Where a conversation stands after a turn.
#[derive(Debug)]
pub(crate) struct Turned {
    pub(crate) id: BuilderSessionId,
    /// What the person said, as it was kept.
    pub(crate) asked: Option<String>,
    pub(crate) message: String,
    pub(crate) suggested: Vec<String>,
    pub(crate) selected: Vec<String>,
    /// The catalogue, what fits best first.
    pub(crate) components: Vec<&'static Component>,
    pub(crate) warnings: Vec<String>,
}

/// A draft, and what must be known before it becomes a toolset.
#[derive(Debug)]
pub(crate) struct Finalized {
    pub(crate) draft: Value,
    pub(crate) warnings: Vec<String>,
}

/// The builder, for one request.
pub(crate) struct Builder<'a> {
    pub(crate) store: &'a Store,
    pub(crate) answers: &'a dyn Answers,
    pub(crate) org: &'a OrgId,
    /// A question takes one of these, from before a model is asked until its answer is kept.
    pub(crate) places: &'a Bounded,
    pub(crate) by: Author,
}

impl<'a> Builder<'a> {
    /// That of a server's request.
    pub(crate) fn of(app: &'a App, answers: &'a dyn Answers, org: &'a OrgId, by: Author) -> Self {
        Self { store: app.store(), answers, org, places: app.turns().places(), by }
    }
}

impl Builder<'_> {
    /// Begins a conversation. Who says nothing is greeted, and no model is asked.
    pub(crate) async fn start(&self, llm: BuilderLlm, intent: Option<&str>) -> Result<Turned, BuilderError> {
        let id = BuilderSessionId::generate();
        let new = NewBuilderSession { id, llm: llm.clone(), user: self.by.user, created_by: self.by.who.clone() };
        let Some(intent) = intent.filter(|intent| !intent.trim().is_empty()) else {
            self.keep(Some(&new), id, &llm, &[(BuilderRole::Assistant, GREETING)], None, &[], 0).await?;
            let (message, components) = (GREETING.to_owned(), catalogue().all().iter().collect());
            return Ok(Turned {
                id,
                asked: None,
                message,
                suggested: Vec::new(),
                selected: Vec::new(),
                components,
                warnings: Vec::new(),
            });
        };
        let _place = self.places.enter(self.org)?;
        let intent = redact(intent);
        let mut warnings = redaction_warning(&intent.found).into_iter().collect();
        let prompt = prompt::chat(None, &[], &[], &intent.text);
        let said = ask::ask(self.answers, self.org, &llm, (prompt::CHAT, &prompt), answer::said).await?;
        let suggested = known(said.suggested, &mut warnings);
        let message = redact(&said.message).text;
        let turns = [(BuilderRole::User, intent.text.as_str()), (BuilderRole::Assistant, message.as_str())];
        self.keep(Some(&new), id, &llm, &turns, Some(&intent.text), &suggested, intent.count()).await?;
        let (selected, components) = (suggested.clone(), catalogue().ranked(&intent.text));
        Ok(Turned { id, asked: Some(intent.text), message, suggested, selected, components, warnings })
    }

    /// Goes on with a conversation. What is chosen from now on is what the person and the model choose.
    pub(crate) async fn chat(
        &self,
        id: &str,
        message: &str,
        selected: Option<Vec<String>>,
    ) -> Result<Turned, BuilderError> {
        let (session, turns) = self.going_on(id, prompt::SHOWN_TURNS).await?;
        let mut selected = chosen(&session, selected)?;
        if session.turns + 2 > MOST_TURNS {
            return Err(BuilderError::Full);
        }
        let _place = self.places.enter(self.org)?;
        let asked = redact(message);
        let mut warnings = redaction_warning(&asked.found).into_iter().collect();
        let prompt = prompt::chat(Some(&session), &turns, &selected, &asked.text);
        let said = ask::ask(self.answers, self.org, &session.llm, (prompt::CHAT, &prompt), answer::said).await?;
        let suggested = known(said.suggested, &mut warnings);
        let message = redact(&said.message).text;
        for key in &suggested {
            if !selected.contains(key) {
                selected.push(key.clone());
            }
        }
        let turns = [(BuilderRole::User, asked.text.as_str()), (BuilderRole::Assistant, message.as_str())];
        self.keep(None, session.id, &session.llm, &turns, Some(&asked.text), &selected, asked.count()).await?;
        let components = catalogue().ranked(&asked.text);
        Ok(Turned { id: session.id, asked: Some(asked.text), message, suggested, selected, components, warnings })
    }

    /// Makes a draft, which ends the conversation. Nothing else is made.
    pub(crate) async fn finalize(
        &self,
        id: &str,
        wishes: Wishes,
        selected: Option<Vec<String>>,
    ) -> Result<Finalized, BuilderError> {
        let (session, turns) = self.going_on(id, prompt::SHOWN_TURNS).await?;
        let selected = chosen(&session, selected)?;
        let (wishes, mut found) = without_secrets(wishes);
        wishes.check(self.org)?;
        let _place = self.places.enter(self.org)?;
        let prompt = prompt::finalize(&session, &turns, &selected);
        let read = |text: &str| wishes.fulfil(self.org, answer::drafted(text)?, &selected);
        let made = ask::ask(self.answers, self.org, &session.llm, (prompt::FINALIZE, &prompt), read).await?;
        for (kind, many) in made.found {
            *found.entry(kind).or_insert(0) += many;
        }
        let mut warnings: Vec<String> = redaction_warning(&found).into_iter().collect();
        if !made.ignored.is_empty() {
            let fields = some_of(&made.ignored);
            warnings
                .push(format!("The model also wrote {fields}, which was left out: servers come from the catalogue."));
        }
        warnings.extend(variables_warning(&selected));
        let mut tx = self.store.write(self.org).await?;
        if !tx.finalize_builder_session(session.id, &selected, &made.draft, &warnings).await? {
            drop(tx);
            return Err(self.why_not(&session).await?);
        }
        let details = json!({
            "provider": session.llm.provider.as_str(), "model": session.llm.model, "components": selected,
            "redacted": found.values().sum::<usize>(),
        });
        tx.audit(&self.by.who, Action::ToolsetBuilderFinalized, &session.id.to_string(), &details).await?;
        // Nothing is remembered of conversations, so whatever is stays true.
        tx.commit_chat().await?;
        Ok(Finalized { draft: made.draft, warnings })
    }

    /// A conversation of the caller's, with so many of its newest turns.
    pub(crate) async fn read(&self, id: &str, turns: u32) -> Result<(BuilderSession, Vec<BuilderTurn>), BuilderError> {
        let missing = || BuilderError::NotFound(id.to_owned());
        let parsed: BuilderSessionId = id.parse().map_err(|_| missing())?;
        let mut tx = self.store.read_beside(self.org).await?;
        let session = tx.builder_session(parsed).await?.filter(|session| self.began(session)).ok_or_else(missing)?;
        let turns = tx.builder_turns(session.id, turns).await?;
        Ok((session, turns))
    }

    /// Whether a conversation is the caller's: the person's, by whatever means they come; or the token's that began it, if that is nobody's.
    /// Two tokens of nobody are two.
    fn began(&self, session: &BuilderSession) -> bool {
        session.user == self.by.user && (session.user.is_some() || session.created_by == self.by.who)
    }

    /// The same, if it is not over.
    async fn going_on(&self, id: &str, turns: u32) -> Result<(BuilderSession, Vec<BuilderTurn>), BuilderError> {
        let (session, turns) = self.read(id, turns).await?;
        match session.status {
            BuilderStatus::Active => Ok((session, turns)),
            over => Err(BuilderError::Over(over)),
        }
    }

    /// What became of a conversation meanwhile.
    async fn why_not(&self, session: &BuilderSession) -> Result<BuilderError, BuilderError> {
        let (now, _) = self.read(&session.id.to_string(), 0).await?;
        Ok(match now.status {
            BuilderStatus::Active => BuilderError::Full,
            over => BuilderError::Over(over),
        })
    }

    /// Keeps what was said, in one transaction with its line of the audit: the question is not there without its answer.
    #[allow(clippy::too_many_arguments, reason = "it is one row")]
    async fn keep(
        &self,
        new: Option<&NewBuilderSession>,
        id: BuilderSessionId,
        llm: &BuilderLlm,
        turns: &[(BuilderRole, &str)],
        intent: Option<&str>,
        selected: &[String],
        redacted: usize,
    ) -> Result<(), BuilderError> {
        let mut tx = self.store.write(self.org).await?;
        let mut action = Action::ToolsetBuilderAsked;
        if let Some(new) = new {
            tx.create_builder_session(new).await?;
            action = Action::ToolsetBuilderStarted;
        }
        if !tx.add_builder_turns(id, turns, intent, selected).await? {
            drop(tx);
            let (session, _) = self.going_on(&id.to_string(), 0).await?;
            return Err(self.why_not(&session).await?);
        }
        let details = json!({ "provider": llm.provider.as_str(), "model": llm.model, "redacted": redacted });
        tx.audit(&self.by.who, action, &id.to_string(), &details).await?;
        tx.commit_chat().await?;
        Ok(())
    }
}

/// What somebody chose, or what is chosen already. A key that is not in the catalogue is theirs to mend.
fn chosen(session: &BuilderSession, selected: Option<Vec<String>>) -> Result<Vec<String>, BuilderError> {
    let (mut keys, mut unknown) = (Vec::new(), Vec::new());
    for key in selected.unwrap_or_else(|| session.selected.clone()) {
        let list = if catalogue().get(&key).is_some() { &mut keys } else { &mut unknown };
        if !list.contains(&key) {
            list.push(key);
        }
    }
    if unknown.is_empty() { Ok(keys) } else { Err(BuilderError::UnknownKeys(unknown)) }
}

/// What the model chose. A key that is not in the catalogue is nobody's fault who asked.
fn known(suggested: Vec<String>, warnings: &mut Vec<String>) -> Vec<String> {
    let (keys, unknown): (Vec<_>, Vec<_>) = suggested.into_iter().partition(|key| catalogue().get(key).is_some());
    if !unknown.is_empty() {
        let shown = redact(&some_of(&unknown)).text;
        warnings.push(format!("The model suggested what is not in the catalogue; it was left out: {shown}"));
    }
    keys
}

/// A few of the words that a model made up, as far as a person wants to read them.
fn some_of(words: &[String]) -> String {
    let shown: Vec<String> = words.iter().take(5).map(|word| word.chars().take(80).collect()).collect();
    shown.join(", ")
}

/// What somebody says of a draft is kept with it, so that it loses its secrets too.
fn without_secrets(mut wishes: Wishes) -> (Wishes, BTreeMap<Kind, usize>) {
    let mut found = BTreeMap::new();
    for text in [&mut wishes.name, &mut wishes.description].into_iter().flatten() {
        let redacted = redact(text);
        for (kind, many) in redacted.found {
            *found.entry(kind).or_insert(0) += many;
        }
        *text = redacted.text;
    }
    (wishes, found)
}

fn redaction_warning(found: &BTreeMap<Kind, usize>) -> Option<String> {
    let many: usize = found.values().sum();
    let kinds: Vec<&str> = found.keys().map(|kind| kind.as_str()).collect();
    (many > 0).then(|| {
        format!(
            "{many} {} that looked like a secret ({}) {} taken out before anything was kept or shown to the model. \
             If it is a real one, replace it where it came from; set secrets as environment variables.",
            if many == 1 { "text" } else { "texts" },
            kinds.join(", "),
            if many == 1 { "was" } else { "were" },
        )
    })
}

fn variables_warning(selected: &[String]) -> Option<String> {
    let components = selected.iter().filter_map(|key| catalogue().get(key));
    let names: BTreeSet<&str> = components.flat_map(|one| &one.required_env).map(String::as_str).collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| format!("This toolset requires environment variables: {}", names.join(", ")))
}
