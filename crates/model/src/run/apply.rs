//! Whether a toolset applies to a run, and which. What does not apply is told with its reason: a run that silently has no tools is
//! the hardest to understand.

use serde::{Deserialize, Serialize};

use super::config::{ExecutionMode, RunConfig, ToolsExecution};
use crate::name::ToolsetId;

/// The two ways in which a toolset reaches an agent. They differ in where skills are put.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// Skills are in `skills/<id>/`.
    Gateway,
    /// Skills are in `.claude/skills/<id>/`.
    Node,
}

impl Profile {
    /// The folder below the run's own that skills are put in.
    pub fn skills_folder(self) -> &'static str {
        match self {
            Self::Gateway => "skills",
            Self::Node => ".claude/skills",
        }
    }
}

/// Who named the toolset.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolsetFrom {
    /// The run's configuration.
    Config,
    /// The organisation's default.
    Organization,
}

/// Why no toolset applies.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize, thiserror::Error)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "reason")]
pub enum NotApplied {
    /// Nobody named one.
    #[error("neither the run nor the organisation's settings name a toolset")]
    NoToolset,
    /// A gateway's run whose tools are elsewhere.
    #[error("toolsets apply with tools.execution \"executor\", and this run has {execution:?}")]
    ToolsElsewhere {
        /// Where they are.
        execution: String,
    },
    /// The mode and the engine do not go together.
    #[error("in the mode {mode:?} toolsets apply to {engines}, and this run has {engine:?}")]
    OtherEngine {
        /// The mode.
        mode: String,
        /// The engine that was asked for.
        engine: String,
        /// The engines that they apply to.
        engines: String,
    },
}

/// What applies to a run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "applied")]
pub enum Application {
    /// A toolset.
    #[serde(rename = "yes")]
    Toolset {
        /// Which one.
        toolset_id: ToolsetId,
        /// Who named it.
        from: ToolsetFrom,
        /// How it reaches the agent.
        profile: Profile,
    },
    /// None.
    #[serde(rename = "no")]
    Nothing(NotApplied),
}

/// Which toolset applies to a run, in an organisation with this default.
pub fn application(config: &RunConfig, default: Option<&ToolsetId>) -> Application {
    let profile = match profile(config) {
        Ok(profile) => profile,
        Err(reason) => return Application::Nothing(reason),
    };
    let chosen = config.toolset_id.as_ref().map(|id| (id, ToolsetFrom::Config));
    match chosen.or(default.map(|id| (id, ToolsetFrom::Organization))) {
        Some((id, from)) => Application::Toolset { toolset_id: id.clone(), from, profile },
        None => Application::Nothing(NotApplied::NoToolset),
    }
}

fn profile(config: &RunConfig) -> Result<Profile, NotApplied> {
    let (mode, engine, execution) = (config.execution.mode, config.engine.id, config.tools.execution);
    let other = |engines: &str| NotApplied::OtherEngine {
        mode: mode.to_string(),
        engine: engine.to_string(),
        engines: engines.to_owned(),
    };
    match mode {
        ExecutionMode::Gateway if !engine.is_gateway() => {
            Err(other("gateway.claude.v2, gateway.codex.v2 and gateway.opencode.v2"))
        }
        ExecutionMode::Gateway if execution != ToolsExecution::Executor => {
            Err(NotApplied::ToolsElsewhere { execution: execution.to_string() })
        }
        ExecutionMode::Gateway => Ok(Profile::Gateway),
        ExecutionMode::Node if engine.is_gateway() => Err(other("claude.agent-sdk.v1")),
        ExecutionMode::Node => Ok(Profile::Node),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(mode: &str, engine: &str, execution: &str, toolset: Option<&str>) -> RunConfig {
        RunConfig::read(&json!({
            "prompt": "x", "engine": { "id": engine }, "execution": { "mode": mode }, "tools": { "execution": execution },
            "toolsetId": toolset,
        }))
        .unwrap()
    }

    #[test]
    fn when_a_toolset_applies() {
        let default: ToolsetId = "house".parse().unwrap();
        for engine in ["gateway.claude.v2", "gateway.codex.v2", "gateway.opencode.v2"] {
            let own = application(&run("gateway", engine, "executor", Some("mine")), Some(&default));
            let (toolset_id, from, profile) = ("mine".parse().unwrap(), ToolsetFrom::Config, Profile::Gateway);
            assert_eq!(own, Application::Toolset { toolset_id, from, profile });
            let house = application(&run("gateway", engine, "executor", None), Some(&default));
            assert!(matches!(house, Application::Toolset { from: ToolsetFrom::Organization, .. }));
            let none = application(&run("gateway", engine, "executor", None), None);
            assert_eq!(none, Application::Nothing(NotApplied::NoToolset));
            let cloud = application(&run("gateway", engine, "cloud", Some("mine")), Some(&default));
            assert!(matches!(cloud, Application::Nothing(NotApplied::ToolsElsewhere { .. })));
            let node = application(&run("node", engine, "executor", Some("mine")), Some(&default));
            assert!(matches!(node, Application::Nothing(NotApplied::OtherEngine { .. })));
        }
        for execution in ["executor", "node", "cloud"] {
            let sdk = application(&run("node", "claude.agent-sdk.v1", execution, Some("mine")), None);
            assert!(matches!(sdk, Application::Toolset { profile: Profile::Node, .. }), "{execution}");
        }
        let sdk = application(&run("gateway", "claude.agent-sdk.v1", "executor", Some("mine")), None);
        assert!(matches!(sdk, Application::Nothing(NotApplied::OtherEngine { .. })));
        let told = serde_json::to_value(&sdk).unwrap();
        assert_eq!((&told["applied"], &told["reason"]), (&json!("no"), &json!("otherEngine")));
        assert_eq!(serde_json::from_value::<Application>(told).unwrap(), sdk);
    }
}
