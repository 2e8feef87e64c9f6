//! What a run needs of the executor that takes it. All runs that need the same are of one *kind*, which has a short name: whoever looks for
//! work decides once for a kind, and not for each of the runs of it that wait.

use serde::{Deserialize, Serialize};

use super::config::{EngineId, RunConfig};
use super::executor::Executor;
use crate::hash::ContentHash;
use crate::id::ExecutorId;

/// What is between the engine and the rest in the name of a kind.
const BETWEEN: char = '/';

/// What comes next after that: no name of the engine's kinds is behind it.
const BEHIND: char = '0';

/// What a run needs. The pool that it is for is not a part: each pool has a queue of its own.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Needs {
    engine: EngineId,
    /// Sorted, each once.
    labels: Vec<String>,
    group: Option<String>,
    executor_id: Option<ExecutorId>,
    containers: bool,
}

impl Needs {
    /// What a run needs that was asked for with a configuration. `containers` says that its toolset has some that run there.
    pub fn of(config: &RunConfig, containers: bool) -> Self {
        let selector = &config.execution.selector;
        let mut labels: Vec<String> = selector.labels.iter().chain(&selector.tag).cloned().collect();
        labels.sort();
        labels.dedup();
        Self {
            engine: config.engine.id,
            labels,
            group: selector.group.clone(),
            executor_id: selector.executor_id,
            containers,
        }
    }

    /// As it is kept.
    pub fn to_text(&self) -> String {
        serde_json::to_string(self).expect("names are JSON")
    }

    /// The name of the kind: the engine first, so that the kinds of one lie together, and then a hash. What somebody calls their labels is
    /// nobody else's business, and may be long.
    pub fn kind(&self) -> String {
        format!("{}{BETWEEN}{}", self.engine, ContentHash::of(self.to_text().as_bytes()))
    }

    /// Between these two are the names of all kinds that need an engine.
    pub fn kinds_of(engine: EngineId) -> (String, String) {
        (format!("{engine}{BETWEEN}"), format!("{engine}{BEHIND}"))
    }

    /// Whether an executor has all of it.
    pub fn are_met_by(&self, executor: &Executor) -> bool {
        let has = |label: &str| executor.labels.iter().any(|own| own == label);
        executor.engines.iter().any(|found| found.id == self.engine)
            && (executor.containers || !self.containers)
            && self.executor_id.is_none_or(|id| id == executor.id)
            && self.labels.iter().all(|label| has(label))
            && self.group.as_ref().is_none_or(|group| has(group) || has(&format!("group:{group}")))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::run::Pool;
    use crate::run::wire::FoundEngine;
    use crate::secret::SecretHash;
    use crate::time::Timestamp;

    fn config(selector: Value) -> RunConfig {
        let config =
            json!({ "prompt": "x", "engine": { "id": "gateway.codex.v2" }, "execution": { "selector": selector } });
        RunConfig::read(&config).unwrap()
    }

    fn needs(selector: Value) -> Needs {
        Needs::of(&config(selector), false)
    }

    #[test]
    fn who_needs_the_same_is_of_one_kind() {
        let kind = |selector| needs(selector).kind();
        assert_eq!(kind(json!({ "labels": ["a", "b", "a"] })), kind(json!({ "labels": ["b"], "tag": "a" })));
        assert_ne!(kind(json!({ "labels": ["a"] })), kind(json!({ "labels": ["b"] })));
        assert_ne!(kind(json!({ "labels": ["a"] })), kind(json!({ "group": "a" })));
        assert_ne!(kind(json!({})), Needs::of(&config(json!({})), true).kind());
        let one = needs(json!({ "labels": ["a"], "group": "west" }));
        assert_eq!(serde_json::from_str::<Needs>(&one.to_text()).unwrap(), one);
    }

    #[test]
    fn the_kinds_of_an_engine_lie_together() {
        for engine in EngineId::ALL {
            let (first, last) = Needs::kinds_of(*engine);
            let kind = needs(json!({})).kind();
            assert_eq!((first..last).contains(&kind), *engine == EngineId::Codex, "{engine}");
        }
    }

    /// A kind is passed over without a look at its runs, so that what it needs must be what its selector asks for.
    #[test]
    fn whoever_a_selector_admits_meets_the_needs() {
        let mut executor = Executor {
            id: ExecutorId::generate(),
            name: "one".into(),
            version: "1".into(),
            pool: Pool::Byon,
            labels: ["gpu", "group:west", "eu"].map(str::to_owned).to_vec(),
            engines: vec![FoundEngine { id: EngineId::Codex, version: "1".into() }],
            capacity: 1,
            containers: false,
            hash: SecretHash::from_hex(&"0".repeat(64)).unwrap(),
            created_at: Timestamp::EPOCH,
            last_seen_at: None,
            revoked_at: None,
        };
        let mut met = Vec::new();
        for selector in [
            json!({}),
            json!({ "labels": ["gpu", "eu"] }),
            json!({ "labels": ["gpu", "us"] }),
            json!({ "tag": "gpu" }),
            json!({ "tag": "west" }),
            json!({ "group": "west" }),
            json!({ "group": "gpu" }),
            json!({ "group": "east" }),
            json!({ "executorId": executor.id }),
            json!({ "executorId": ExecutorId::generate() }),
        ] {
            let config = config(selector.clone());
            let admitted = config.execution.selector.admits(config.engine.id, &executor.candidate());
            assert_eq!(Needs::of(&config, false).are_met_by(&executor), admitted, "{selector}");
            assert!(!Needs::of(&config, true).are_met_by(&executor), "{selector}: it runs no containers");
            met.push(admitted);
        }
        assert_eq!(met.iter().filter(|met| **met).count(), 6);
        executor.engines.clear();
        assert!(!needs(json!({})).are_met_by(&executor), "it has no such engine");
    }
}
