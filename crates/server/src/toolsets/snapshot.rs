//! A toolset as it is now, for a run of an agent: what is on, with the files that it is made of. Later changes do not reach the run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use kitbag_model::run::wire::{
    ContainerSnapshot, FileRef, ProgramSnapshot, ServerSnapshot, SkillSnapshot, ToolSnapshot, ToolsetSnapshot,
};
use kitbag_model::{
    Audience, ImageSource, Installed, InstalledContainer, OrgId, PythonTool, RawLaunch, ToolsetFile, ToolsetId,
    WorkPath,
};
use kitbag_store::StoreError;
use serde_json::Value;

use super::catalogue::of_toolset;
use super::{OfferedSkill, ToolsetError, Toolsets, contained};
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
        let generation = one.toolset.generation.clone().unwrap_or_default();
        self.lay_out(org, Some(&generation)).await.map_err(ToolsetError::from)?;
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
        let containers = self.containers_of(org, &one, &folder, &mut files).await?;
        let toolset = ToolsetSnapshot {
            id: one.toolset.id.to_string(),
            name: one.toolset.name.to_string(),
            version: one.toolset.version.to_string(),
            mcp_servers: one.servers.iter().map(server).collect(),
            agent_skills,
            program,
            containers,
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
        for row in self.all_files(org, &one.toolset.id).await? {
            files.push((folder.join(row.path.as_str()), reference(&row)));
            named.insert(row.path.clone(), reference(&row));
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

    /// Its containers that have a tool that is on. What each is made of must be settled now: the executor takes no other image.
    async fn containers_of(
        &self,
        org: &OrgId,
        one: &Installed,
        folder: &std::path::Path,
        files: &mut Vec<(PathBuf, FileRef)>,
    ) -> Result<Vec<ContainerSnapshot>, ApiError> {
        let mut now = one.clone();
        for container in now.containers.iter_mut().filter(|one| one.container.enabled) {
            let has_own = !container.container.tools.is_empty();
            if has_own && contained::for_agents(one, container).is_empty() {
                continue;
            }
            *container = self.settled(org, one, container).await?;
        }
        let mut snapshots = Vec::new();
        for container in now.containers.iter().filter(|one| one.container.enabled) {
            let id = &container.container.id;
            let tools = contained::for_agents(&now, container);
            if tools.is_empty() {
                continue;
            }
            let mut named = BTreeMap::new();
            if let ImageSource::Build(below) = &container.container.source {
                for row in self.all_files(org, &one.toolset.id).await? {
                    let inside = row.path.as_str().strip_prefix(below.as_str()).and_then(|rest| rest.strip_prefix('/'));
                    if let Some(inside) = inside.and_then(|inside| inside.parse().ok()) {
                        files.push((folder.join(row.path.as_str()), reference(&row)));
                        named.insert(inside, reference(&row));
                    }
                }
            }
            let by_name = matches!(container.container.source, ImageSource::Image(_));
            snapshots.push(ContainerSnapshot {
                id: id.clone(),
                source: container.container.source.clone(),
                image_id: container.pinned.as_ref().filter(|_| by_name).map(|pinned| pinned.id.clone()),
                fingerprint: container.fingerprint(),
                speaks_mcp: container.speaks_mcp(),
                command: container.container.command.clone(),
                env: RawLaunch::from(&container.container.launch()).env,
                // Executors serve every organisation.
                network: container.container.network && self.servers.may_be_in_network(org),
                limits: container.container.limits,
                files: named,
                tools,
            });
        }
        Ok(snapshots)
    }

    /// A container with the image that it is, if that must be said beside what its toolset says. It is found out if nobody knows yet, which takes
    /// an engine here.
    async fn settled(
        &self,
        org: &OrgId,
        one: &Installed,
        container: &InstalledContainer,
    ) -> Result<InstalledContainer, ApiError> {
        self.containers.may_have(org, &container.container.source)?;
        let says_itself = match &container.container.source {
            ImageSource::Image(name) => name.has_digest(),
            ImageSource::Build(_) => true,
        };
        let is_known = container.settled().is_some() && container.moved_to.is_none();
        if is_known || (says_itself && !container.container.tools.is_empty()) {
            return Ok(container.clone());
        }
        let prepared = self.containers.prepare_soon(org, &one.toolset.id, &container.container.id).await?;
        let now = prepared.installed.container(container.container.id.as_str());
        let same = now.filter(|now| now.fingerprint() == container.fingerprint());
        same.cloned().ok_or_else(|| ApiError::new(Code::Conflict, "a container was changed just now; try again"))
    }

    /// All files of a toolset.
    pub(super) async fn all_files(&self, org: &OrgId, id: &ToolsetId) -> Result<Vec<ToolsetFile>, StoreError> {
        let mut files: Vec<ToolsetFile> = Vec::new();
        loop {
            let mut tx = self.store.read_beside(org).await?;
            let page = tx.toolset_files(id, files.last().map(|file| &file.path), PART).await?;
            files.extend(page.items);
            if !page.has_more {
                return Ok(files);
            }
        }
    }
}

/// Servers and containers of a toolset start on somebody's machine: only what a person trusted does.
fn check_trust(one: &Installed) -> Result<(), ApiError> {
    let untrusted = one.containers.iter().filter(|one| one.container.enabled && !one.is_trusted());
    let ids: Vec<String> = untrusted.map(|one| one.container.id.to_string()).collect();
    if !ids.is_empty() {
        let message = format!("these containers must be trusted before an agent can use them: {}", ids.join(", "));
        return Err(ApiError::new(Code::NeedsTrust, message).with_details(serde_json::json!({ "containers": ids })));
    }
    let untrusted = one.servers.iter().filter(|server| server.is_enabled() && !server.is_trusted());
    let keys: Vec<String> = untrusted.map(|server| one.server_key(&server.server).to_string()).collect();
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!("these MCP servers must be trusted before an agent can use them: {}", keys.join(", "));
    Err(ApiError::new(Code::NeedsTrust, message).with_details(serde_json::json!({ "serverKeys": keys })))
}

pub(super) fn reference(file: &ToolsetFile) -> FileRef {
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
