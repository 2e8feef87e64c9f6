//! A toolset as it is now, for a run of an agent: what is on, with the files that it is made of. Later changes do not reach the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kitbag_model::run::wire::{FileRef, ProgramSnapshot, ServerSnapshot, SkillSnapshot, ToolSnapshot, ToolsetSnapshot};
use kitbag_model::{Audience, Installed, OrgId, PythonTool, RawLaunch, ToolsetFile, ToolsetId, WorkPath};
use serde_json::Value;

use super::catalogue::of_toolset;
use super::{OfferedSkill, Toolsets};
use crate::api::error::{ApiError, Code};

/// So many files of a toolset are asked for at once.
const PART: u32 = 1000;

/// A toolset as it is now, and where its files are just now.
pub(crate) struct Snapshot {
    pub(crate) installed: Installed,
    pub(crate) toolset: ToolsetSnapshot,
    /// Each file that it names: where it is, and what its hash must be.
    pub(crate) files: Vec<(PathBuf, FileRef)>,
}

impl Toolsets {
    /// A toolset that an audience sees, as it is now. One that is off, or that would start something that nobody trusts, is refused.
    pub(crate) async fn snapshot(&self, org: &OrgId, audience: Audience, id: &ToolsetId) -> Result<Snapshot, ApiError> {
        let one = self.seen(org, audience, id).await?;
        if !one.toolset.enabled {
            return Err(ApiError::new(Code::Conflict, format!("the toolset {id} is off; turn it on to use it")));
        }
        check_trust(&one)?;
        check_containers(&one)?;
        let generation = one.toolset.generation.clone().unwrap_or_default();
        let folder = self.shelf(org).folder_of(id, &generation);
        let mut files = Vec::new();
        let mut agent_skills = Vec::new();
        for skill in OfferedSkill::all_of(&one) {
            let rows = self.skill_files(org, &skill).await?;
            let below =
                |path: &WorkPath| path.as_str().strip_prefix(skill.folder.as_str())?.strip_prefix('/')?.parse().ok();
            let named: BTreeMap<WorkPath, FileRef> =
                rows.iter().filter_map(|row| Some((below(&row.path)?, reference(row)))).collect();
            files.extend(rows.iter().map(|row| (folder.join(row.path.as_str()), reference(row))));
            agent_skills.push(SkillSnapshot { id: skill.id.to_string(), enabled: true, files: named });
        }
        let program = self.program_of(org, &one, &folder, &mut files).await?;
        let toolset = ToolsetSnapshot {
            id: one.toolset.id.to_string(),
            name: one.toolset.name.to_string(),
            version: one.toolset.version.to_string(),
            mcp_servers: one.servers.iter().map(server).collect(),
            agent_skills,
            program,
        };
        Ok(Snapshot { installed: one, toolset, files })
    }

    /// Its code, if one of its tools is on.
    async fn program_of(
        &self,
        org: &OrgId,
        one: &Installed,
        folder: &std::path::Path,
        files: &mut Vec<(PathBuf, FileRef)>,
    ) -> Result<Option<ProgramSnapshot>, ApiError> {
        if one.tools.is_empty() {
            return Ok(None);
        }
        let found = self.describe(org, one).await?;
        let tools: Vec<ToolSnapshot> = one.tools.iter().filter_map(|tool| offered(one, tool, &found)).collect();
        if tools.is_empty() {
            return Ok(None);
        }
        let mut named = BTreeMap::new();
        let mut after: Option<WorkPath> = None;
        loop {
            let mut tx = self.store.read_beside(org).await?;
            let page = tx.toolset_files(&one.toolset.id, after.as_ref(), PART).await?;
            after = page.items.last().map(|file| file.path.clone());
            for row in page.items {
                files.push((folder.join(row.path.as_str()), reference(&row)));
                named.insert(row.path.clone(), reference(&row));
            }
            if !page.has_more {
                break;
            }
        }
        let program = self.program(org, one);
        Ok(Some(ProgramSnapshot {
            generation: program.generation,
            files: named,
            tools,
            needs: program.needs,
            network: program.network,
            trusted: program.trusted,
        }))
    }
}

/// Servers of a toolset start on somebody's machine: only what a person trusted does.
fn check_trust(one: &Installed) -> Result<(), ApiError> {
    let untrusted = one.servers.iter().filter(|server| server.is_enabled() && !server.is_trusted());
    let keys: Vec<String> = untrusted.map(|server| one.server_key(&server.server).to_string()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!("these MCP servers must be trusted before an agent can use them: {}", keys.join(", "));
    Err(ApiError::new(Code::NeedsTrust, message).with_details(serde_json::json!({ "serverKeys": keys })))
}

/// An executor has no engine of containers: an agent would lack tools that its toolset has, and nobody would know.
fn check_containers(one: &Installed) -> Result<(), ApiError> {
    let on: Vec<String> =
        one.containers.iter().filter(|one| one.container.enabled).map(|one| one.container.id.to_string()).collect();
    if on.is_empty() {
        return Ok(());
    }
    let message = format!(
        "no executor runs containers, and the toolset {} has {}; switch them off in its manifest, or let the agent reach \
         the toolset over MCP",
        one.toolset.id,
        on.join(", ")
    );
    Err(ApiError::new(Code::Conflict, message).with_details(serde_json::json!({ "containers": on })))
}

fn reference(file: &ToolsetFile) -> FileRef {
    FileRef { sha256: file.sha256, size: file.size, executable: file.executable }
}

/// Of one that is off only that it is: its variables are nobody's business.
fn server(installed: &kitbag_model::InstalledServer) -> ServerSnapshot {
    let raw = RawLaunch::from(&installed.server.launch);
    ServerSnapshot {
        id: installed.server.id.to_string(),
        server_type: installed.server.launch.server_type().to_string(),
        enabled: installed.is_enabled(),
        command: raw.command,
        args: raw.args,
        cwd: raw.cwd,
        env: raw.env,
        url: raw.url,
        headers: raw.headers,
    }
}

/// A tool that is on and can be called.
fn offered(one: &Installed, tool: &PythonTool, found: &kitbag_python::Description) -> Option<ToolSnapshot> {
    let shown = of_toolset(one, tool, Some(found));
    let object = |value: Value| match value {
        Value::Object(map) => Some(map),
        _ => None,
    };
    shown.is_available().then(|| ToolSnapshot {
        id: tool.id.clone(),
        entrypoint: tool.entrypoint.clone(),
        title: shown.effective.name.value,
        description: shown.effective.description.value.unwrap_or_default(),
        input_schema: object(shown.input_schema).unwrap_or_default(),
        output_schema: shown.output_schema.and_then(object),
        requires_confirmation: shown.effective.requires_confirmation.value,
    })
}
