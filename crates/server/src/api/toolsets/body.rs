//! A toolset as people write it. What is in it is read by hand (`toolsets::draft`): everything that is wrong is told at once, and no value is
//! repeated. What stands here is what the document says of it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use utoipa::ToSchema;

use crate::api::input::nullable;
use crate::toolsets::{Draft, RawDraft};

/// How many bytes a body with skills may have: three skills of the largest size in base64, and some.
pub(crate) const LARGEST: usize = 64 << 20;

/// A toolset to make, or what to change about one.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ToolsetBody {
    /// Its id. Absent: made from the name, with a number if that is taken. A toolset keeps its id.
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    id: Option<String>,
    /// What people call it; needed for a new one.
    #[schema(max_length = 120)]
    name: Option<String>,
    /// What it is for; null or empty: nothing is said.
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, max_length = 2000)]
    description: Option<Option<String>>,
    /// `private` (whoever made it, and who manages the organisation) or `org`. A new one is `private`, in the organisation `local` `org`.
    visibility: Option<String>,
    /// All its servers. Absent: none for a new toolset, else those it has.
    #[schema(value_type = Option<Vec<ServerEntry>>)]
    mcp_servers: Option<Vec<Value>>,
    /// All its skills. Absent: none for a new toolset, else those it has.
    #[schema(value_type = Option<Vec<SkillEntry>>)]
    agent_skills: Option<Vec<Value>>,
    /// Whether its servers may start. Absent: those that are new here, and those that are changed and could start before. `true`: all of
    /// them. `false`: none of those that are new or changed, until somebody trusts them.
    trust: Option<bool>,
}

impl ToolsetBody {
    pub(crate) fn read(self) -> Draft {
        Draft::read(RawDraft {
            id: self.id,
            name: self.name,
            description: self.description,
            visibility: self.visibility,
            servers: self.mcp_servers,
            skills: self.agent_skills,
            trust: self.trust,
        })
    }
}

/// A server of a toolset.
#[derive(ToSchema)]
#[schema(as = McpServerEntry, rename_all = "camelCase")]
#[allow(dead_code, reason = "it describes what is read by hand")]
pub(crate) struct ServerEntry {
    /// Its name, unique in the toolset. `name` is accepted too.
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,63}$")]
    id: String,
    /// `stdio`, `sse` or `streamable-http` (`http`); absent: from command or url. `transport` and `type` are accepted too.
    server_type: Option<String>,
    /// The program to start. No shell is involved.
    #[schema(max_length = 200)]
    command: Option<String>,
    /// At most 50, each of 1 to 200 characters.
    args: Option<Vec<String>>,
    /// The folder it is started in.
    cwd: Option<String>,
    /// Variables. In organisations other than `local` each value is `${ENV:NAME}` and nothing else. Null keeps the value that the server has.
    env: Option<BTreeMap<String, Option<String>>>,
    /// The address to dial.
    #[schema(max_length = 2000)]
    url: Option<String>,
    /// What every request carries, with the rule of `env`.
    headers: Option<BTreeMap<String, Option<String>>>,
    /// Whether it is used; absent: as it was, true for a new one.
    enabled: Option<bool>,
    /// Whether a person is asked before each call of its tools; true if absent.
    requires_confirmation: Option<bool>,
    #[schema(max_length = 2000)]
    description: Option<String>,
}

/// A skill of a toolset, with its files; or without them, if they are to stay as they are.
#[derive(ToSchema)]
#[schema(as = AgentSkillEntry, rename_all = "camelCase")]
#[allow(dead_code, reason = "it describes what is read by hand")]
pub(crate) struct SkillEntry {
    /// `agentskills-v1`; needed with files.
    format: Option<String>,
    /// Unique in the toolset, and the `name` in its `SKILL.md`.
    #[schema(pattern = "^[a-z0-9]+(-[a-z0-9]+)*$", max_length = 64)]
    id: String,
    /// Needed with files. What is kept and shown is what `SKILL.md` says.
    #[schema(max_length = 120)]
    name: Option<String>,
    #[schema(max_length = 2000)]
    description: Option<String>,
    /// `SKILL.md`; needed with files.
    entry: Option<String>,
    /// At most 512 of 2,000,000 bytes each and 16 MiB together, `SKILL.md` among them. Absent: those that the skill has.
    files: Option<Vec<SkillFile>>,
    /// Whether it is used; absent: as it was, true for a new one.
    enabled: Option<bool>,
    /// Read and forgotten.
    #[schema(value_type = Option<Object>)]
    optional_dirs: Option<Value>,
}

/// A file of a skill.
#[derive(ToSchema)]
#[schema(as = AgentSkillFile)]
#[allow(dead_code, reason = "it describes what is read by hand")]
pub(crate) struct SkillFile {
    /// Relative, with `/` between names, at most 200 characters.
    path: String,
    content: String,
    /// `utf8` (if absent) or `base64`.
    encoding: Option<String>,
}
