//! Installing a toolset: all of its rows in one transaction, so that there is the old one or the new one and nothing between.

use kitbag_model::installed::trust_fingerprint;
use kitbag_model::{ContentHash, Install, Launch, McpServer, Override, OverrideKey, Template, Timestamp, ToolsetId};
use serde::Serialize;

use super::overrides::Stored;
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{WriteTx, execute, insert_many, on};

/// Why a toolset was not installed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// Somebody else installed, changed or removed it in the meantime.
    #[error("the toolset has changed in the meantime")]
    Conflict,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for InstallError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl WriteTx {
    /// Installs a toolset, in place of the one with `replaces` as its generation if there is one of its id. What a person
    /// said about it stays: whether it is on, overrides, trust in what has not changed.
    pub async fn install_toolset(
        &mut self,
        new: &Install,
        replaces: Option<&Option<String>>,
    ) -> Result<(), InstallError> {
        let id = &new.definition.id;
        let was_there = self.upsert_head(new, replaces).await?;
        if was_there {
            self.clear_parts(id).await?;
        }
        self.insert_files(new).await?;
        self.insert_tools(new).await?;
        self.replace_servers(new).await?;
        self.replace_containers(new).await?;
        self.replace_skills(new).await?;
        self.insert_bundle_overrides(id, &new.definition.overrides).await?;
        self.void_trust(new).await?;
        Ok(())
    }

    /// Whether there was one of this id.
    async fn upsert_head(&mut self, new: &Install, replaces: Option<&Option<String>>) -> Result<bool, InstallError> {
        let definition = &new.definition;
        let now = At(Timestamp::now());
        let (python, permissions) = (to_json(&definition.python), to_json(&definition.permissions));
        let description = definition.description.as_ref().map(|text| text.as_str());
        let Some(replaces) = replaces else {
            let inserted = execute!(
                self,
                sqlx::query(
                    "INSERT INTO toolsets (organization_id, id, name, version, description, enabled, user_mcp, installed_at,
                         updated_at, source_type, source_ref, manifest_version, visibility, python, permissions, generation,
                         adopted_from, created_by_user_id, updated_by_user_id)
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $8, $9, $10, '1', $11, $12, $13, $14, $15, $16, $16)
                     ON CONFLICT (organization_id, id) DO NOTHING"
                )
                .bind(self.org.as_str())
                .bind(definition.id.as_str())
                .bind(definition.name.as_str())
                .bind(definition.version.to_string())
                .bind(description)
                .bind(true)
                .bind(new.user_mcp)
                .bind(now)
                .bind(new.source_type.as_str())
                .bind(new.source_ref.as_deref())
                .bind(new.visibility.as_str())
                .bind(python)
                .bind(permissions)
                .bind(new.generation.as_deref())
                .bind(new.adopted_from.as_ref().map(to_json))
                .bind(new.by.map(|user| user.to_string()))
            )?;
            return if inserted == 1 { Ok(false) } else { Err(InstallError::Conflict) };
        };
        let updated = execute!(
            self,
            sqlx::query(
                "UPDATE toolsets SET name = $3, version = $4, description = $5, user_mcp = $6, updated_at = $7,
                     source_type = $8, source_ref = $9, python = $10, permissions = $11, generation = $12,
                     updated_by_user_id = $15
                 WHERE organization_id = $1 AND id = $2 AND (generation = $13 OR (generation IS NULL AND $14))"
            )
            .bind(self.org.as_str())
            .bind(definition.id.as_str())
            .bind(definition.name.as_str())
            .bind(definition.version.to_string())
            .bind(description)
            .bind(new.user_mcp)
            .bind(now)
            .bind(new.source_type.as_str())
            .bind(new.source_ref.as_deref())
            .bind(python)
            .bind(permissions)
            .bind(new.generation.as_deref())
            .bind(replaces.as_deref())
            .bind(replaces.is_none())
            .bind(new.by.map(|user| user.to_string()))
        )?;
        if updated == 1 { Ok(true) } else { Err(InstallError::Conflict) }
    }

    async fn clear_parts(&mut self, id: &ToolsetId) -> Result<(), StoreError> {
        for statement in [
            "DELETE FROM toolset_files WHERE organization_id = $1 AND toolset_id = $2",
            "DELETE FROM tools WHERE organization_id = $1 AND toolset_id = $2",
            "DELETE FROM tool_overrides WHERE organization_id = $1 AND toolset_id = $2 AND origin = 'bundle'",
        ] {
            execute!(self, sqlx::query(statement).bind(self.org.as_str()).bind(id.as_str()))?;
        }
        Ok(())
    }

    async fn insert_files(&mut self, new: &Install) -> Result<(), StoreError> {
        let (org, id) = (self.org.to_string(), &new.definition.id);
        insert_many!(
            self,
            "INSERT INTO toolset_files (organization_id, toolset_id, path, kind, sha256, size, executable, stored_path) ",
            &new.files,
            |row, file| {
                row.push_bind(org.clone())
                    .push_bind(id.to_string())
                    .push_bind(file.path.to_string())
                    .push_bind(file.kind.as_str())
                    .push_bind(file.sha256.to_string())
                    .push_bind(file.size as i64)
                    .push_bind(file.executable)
                    .push_bind(format!("{id}/{}", file.path));
            }
        );
        Ok(())
    }

    async fn insert_tools(&mut self, new: &Install) -> Result<(), StoreError> {
        let (org, id) = (self.org.to_string(), &new.definition.id);
        let tools: Vec<_> = new.definition.tools.iter().enumerate().collect();
        insert_many!(
            self,
            "INSERT INTO tools (organization_id, tool_id, toolset_id, position, name, description, input_schema,
                 requires_confirmation, enabled, entrypoint) ",
            &tools,
            |row, tool| {
                let (position, tool) = tool;
                row.push_bind(org.clone())
                    .push_bind(format!("{id}:{}", tool.id))
                    .push_bind(id.to_string())
                    .push_bind(*position as i64)
                    .push_bind(tool.name.as_ref().map(ToString::to_string))
                    .push_bind(tool.description.as_ref().map(ToString::to_string))
                    .push_bind(tool.input_schema.as_ref().map(to_json))
                    .push_bind(tool.requires_confirmation)
                    .push_bind(tool.enabled)
                    .push_bind(tool.entrypoint.to_string());
            }
        );
        Ok(())
    }

    /// Servers keep when they were first declared and what a person said about them.
    async fn replace_servers(&mut self, new: &Install) -> Result<(), StoreError> {
        let id = &new.definition.id;
        let known: Vec<String> = on!(self, c => sqlx::query_scalar(
            "SELECT id FROM toolset_mcp_servers WHERE organization_id = $1 AND toolset_id = $2")
            .bind(self.org.as_str()).bind(id.as_str()).fetch_all(c))?;
        for gone in
            known.iter().filter(|known| new.definition.servers.iter().all(|server| server.id.as_str() != **known))
        {
            for statement in [
                "DELETE FROM toolset_mcp_servers WHERE organization_id = $1 AND toolset_id = $2 AND id = $3",
                "DELETE FROM trust_records WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3",
            ] {
                execute!(self, sqlx::query(statement).bind(self.org.as_str()).bind(id.as_str()).bind(gone.as_str()))?;
            }
        }
        for (position, server) in new.definition.servers.iter().enumerate() {
            self.put_server(id, position, server).await?;
        }
        Ok(())
    }

    /// Takes back what a person trusted and what is something else now. Should it ever be the same again, it needs a new yes.
    async fn void_trust(&mut self, new: &Install) -> Result<(), StoreError> {
        let definition = &new.definition;
        let itself = trust_fingerprint(
            &definition.id,
            &definition.tools,
            &definition.containers,
            &definition.overrides,
            definition.permissions,
        );
        let servers = definition.servers.iter().map(|server| (server.id.as_str(), server.fingerprint()));
        for (server, now) in servers.chain([("", itself)]) {
            self.void_trust_in(&definition.id, server, &now).await?;
        }
        Ok(())
    }

    /// Takes back trust in a server, or in the toolset itself (`""`), unless it is trust in what it is now.
    pub(super) async fn void_trust_in(
        &mut self,
        id: &ToolsetId,
        server: &str,
        now: &ContentHash,
    ) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "DELETE FROM trust_records
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3 AND config_sha256 <> $4"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(server)
            .bind(now.to_string())
        )?;
        Ok(())
    }

    async fn put_server(&mut self, id: &ToolsetId, position: usize, server: &McpServer) -> Result<(), StoreError> {
        let columns = launch_columns(&server.launch);
        execute!(
            self,
            sqlx::query(
                "INSERT INTO toolset_mcp_servers (organization_id, toolset_id, id, position, server_type, enabled, command,
                     args, cwd, url, headers, env, requires_confirmation, description, created_at)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
                 ON CONFLICT (organization_id, toolset_id, id) DO UPDATE SET position = excluded.position,
                     server_type = excluded.server_type, enabled = excluded.enabled, command = excluded.command,
                     args = excluded.args, cwd = excluded.cwd, url = excluded.url, headers = excluded.headers,
                     env = excluded.env, requires_confirmation = excluded.requires_confirmation,
                     description = excluded.description"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(server.id.as_str())
            .bind(position as i64)
            .bind(server.launch.server_type().as_str())
            .bind(server.enabled)
            .bind(columns.command)
            .bind(columns.args)
            .bind(columns.cwd)
            .bind(columns.url)
            .bind(columns.headers)
            .bind(columns.env)
            .bind(server.requires_confirmation)
            .bind(server.description.as_ref().map(|text| text.as_str()))
            .bind(At(Timestamp::now()))
        )?;
        Ok(())
    }

    async fn replace_skills(&mut self, new: &Install) -> Result<(), StoreError> {
        let id = &new.definition.id;
        let said: Vec<(String, Option<bool>)> = on!(self, c => sqlx::query_as(
            "SELECT id, user_enabled FROM toolset_skills WHERE organization_id = $1 AND toolset_id = $2")
            .bind(self.org.as_str()).bind(id.as_str()).fetch_all(c))?;
        execute!(
            self,
            sqlx::query("DELETE FROM toolset_skills WHERE organization_id = $1 AND toolset_id = $2")
                .bind(self.org.as_str())
                .bind(id.as_str())
        )?;
        let org = self.org.to_string();
        let skills: Vec<_> = new.skills.iter().enumerate().collect();
        insert_many!(
            self,
            "INSERT INTO toolset_skills (organization_id, toolset_id, id, position, listed, name, description, path, enabled,
                 user_enabled) ",
            &skills,
            |row, skill| {
                let (position, skill) = skill;
                let user_enabled = said.iter().find(|(known, _)| *known == skill.reference.id.as_str());
                row.push_bind(org.clone())
                    .push_bind(id.to_string())
                    .push_bind(skill.reference.id.to_string())
                    .push_bind(*position as i64)
                    .push_bind(skill.listed)
                    .push_bind(skill.name.clone())
                    .push_bind(skill.description.clone())
                    .push_bind(skill.reference.path.to_string())
                    .push_bind(skill.reference.enabled)
                    .push_bind(user_enabled.and_then(|(_, said)| *said));
            }
        );
        Ok(())
    }

    async fn insert_bundle_overrides(
        &mut self,
        id: &ToolsetId,
        overrides: &[(OverrideKey, Override)],
    ) -> Result<(), StoreError> {
        for (position, (key, over)) in overrides.iter().enumerate() {
            self.insert_override(id, key, &Stored::new(over), "bundle", position).await?;
        }
        Ok(())
    }
}

/// A launch in the form that columns have.
#[derive(Default)]
pub(super) struct LaunchColumns<'a> {
    pub(super) command: Option<&'a str>,
    pub(super) args: Option<String>,
    pub(super) cwd: Option<&'a str>,
    pub(super) env: Option<String>,
    pub(super) url: Option<&'a str>,
    pub(super) headers: Option<String>,
}

pub(super) fn launch_columns(launch: &Launch) -> LaunchColumns<'_> {
    match launch {
        Launch::Stdio { command, args, cwd, env } => LaunchColumns {
            command: Some(command),
            args: Some(to_json(&args.iter().map(Template::as_str).collect::<Vec<_>>())),
            cwd: cwd.as_ref().map(Template::as_str),
            env: Some(to_json(env)),
            ..LaunchColumns::default()
        },
        Launch::Remote { url, headers, .. } => {
            LaunchColumns { url: Some(url.as_str()), headers: Some(to_json(headers)), ..LaunchColumns::default() }
        }
    }
}

pub(crate) fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("what the model holds can be written as JSON")
}
