//! Which executors may take a run. An executor's labels, group and pool are what the server says of it, never what it says itself.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::config::{ConfigError, EngineId, checked, named};
use super::wire::FoundEngine;
use crate::id::{ExecutorId, OrgId, text_serde};
use crate::text::line_type;
use crate::toolset::words;

/// How many labels may be asked for, or given.
pub const MOST_LABELS: usize = 50;

line_type!(
    /// A word that an executor is found by.
    Label,
    64
);

words!(
    /// Whose executor it is.
    Pool, UnknownPool, "unknown pool; it is byon (the organisation's own) or managed (the operator's)", {
        /// The organisation's own.
        Byon = "byon",
        /// The operator's, for every organisation.
        Managed = "managed",
    }
);

/// What an executor must be to take a run.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Selector {
    /// Of which pool.
    pub pool: Pool,
    /// All of these labels.
    pub labels: Vec<String>,
    /// One more label, as older clients say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Of which group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// This one and no other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executor_id: Option<ExecutorId>,
}

impl Default for Selector {
    fn default() -> Self {
        Self { pool: Pool::Byon, labels: Vec::new(), tag: None, group: None, executor_id: None }
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RawSelector {
    pool: Option<String>,
    #[serde(default)]
    labels: Vec<String>,
    tag: Option<String>,
    group: Option<String>,
    executor_id: Option<String>,
}

impl RawSelector {
    pub(super) fn check(self) -> Result<Selector, ConfigError> {
        let at = |part: &str| format!("execution.selector.{part}");
        if self.labels.len() > MOST_LABELS {
            return Err(ConfigError::new(&at("labels"), format!("must have at most {MOST_LABELS} entries")));
        }
        let label = |part: &str, text: String| {
            let checked: Result<Label, _> = text.parse();
            checked.map(|label| label.as_str().to_owned()).map_err(|reason| ConfigError::new(&at(part), reason))
        };
        let pool = self.pool.map(|pool| checked(&at("pool"), &pool));
        let id = self.executor_id.map(|id| checked(&at("executorId"), &id));
        Ok(Selector {
            pool: pool.transpose()?.unwrap_or(Pool::Byon),
            labels: self.labels.into_iter().map(|one| label("labels", one)).collect::<Result<_, _>>()?,
            tag: self.tag.map(|tag| label("tag", tag)).transpose()?,
            group: self.group.map(|group| named(&at("group"), group)).transpose()?,
            executor_id: id.transpose()?,
        })
    }
}

/// What the server knows of an executor that asks for work.
#[derive(Clone, Debug)]
pub struct Candidate<'a> {
    /// Which one it is.
    pub id: ExecutorId,
    /// Whose it is.
    pub pool: Pool,
    /// Its labels; a group is the label `group:<name>`.
    pub labels: &'a [String],
    /// The agents that it found on its machine.
    pub engines: &'a [FoundEngine],
}

impl Selector {
    /// The organisation in which the executors are paired that a run of `org` may go to.
    pub fn home(&self, org: &OrgId) -> OrgId {
        match self.pool {
            Pool::Byon => org.clone(),
            Pool::Managed => OrgId::local(),
        }
    }

    /// Whether an executor may take a run of this engine.
    pub fn admits(&self, engine: EngineId, executor: &Candidate<'_>) -> bool {
        let has = |label: &str| executor.labels.iter().any(|own| own == label);
        executor.engines.iter().any(|found| found.id == engine)
            && self.pool == executor.pool
            && self.executor_id.is_none_or(|id| id == executor.id)
            && self.labels.iter().chain(&self.tag).all(|label| has(label))
            && self.group.as_ref().is_none_or(|group| has(group) || has(&format!("group:{group}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_fits_in_everything_may_take_it() {
        let id = ExecutorId::generate();
        let labels: Vec<String> = ["gpu", "group:west", "eu"].map(str::to_owned).to_vec();
        let engines = [FoundEngine { id: EngineId::Codex, version: "0.166.0".into() }];
        let candidate = Candidate { id, pool: Pool::Byon, labels: &labels, engines: &engines };
        let selector = |change: fn(&mut Selector)| {
            let mut selector = Selector::default();
            change(&mut selector);
            selector
        };
        let text = |text: &str| Some(text.to_owned());
        assert!(Selector::default().admits(EngineId::Codex, &candidate));
        assert!(!Selector::default().admits(EngineId::Claude, &candidate), "it has no such engine");
        assert!(!selector(|one| one.pool = Pool::Managed).admits(EngineId::Codex, &candidate));
        assert!(selector(|one| one.labels = vec!["gpu".into(), "eu".into()]).admits(EngineId::Codex, &candidate));
        assert!(!selector(|one| one.labels = vec!["gpu".into(), "us".into()]).admits(EngineId::Codex, &candidate));
        assert!(selector(|one| one.tag = Some("gpu".into())).admits(EngineId::Codex, &candidate));
        assert!(!selector(|one| one.tag = Some("west".into())).admits(EngineId::Codex, &candidate));
        assert!(Selector { group: text("west"), ..Selector::default() }.admits(EngineId::Codex, &candidate));
        assert!(!Selector { group: text("east"), ..Selector::default() }.admits(EngineId::Codex, &candidate));
        assert!(Selector { executor_id: Some(id), ..Selector::default() }.admits(EngineId::Codex, &candidate));
        let other = Some(ExecutorId::generate());
        assert!(!Selector { executor_id: other, ..Selector::default() }.admits(EngineId::Codex, &candidate));
    }
}
