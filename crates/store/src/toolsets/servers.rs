//! Changing one server of an installed toolset: what it starts, whether it is used, what it is called.

use kitbag_model::{AgreedRevision, Description, DisplayName, McpServer, ServerKey, Timestamp, ToolsetId};

use super::install::launch_columns;
use crate::error::StoreError;
use crate::row::At;
use crate::tx::{WriteTx, execute, on};

impl WriteTx {
    /// Keeps everybody else from changing a server, or its toolset, until the transaction ends. Whether there is such a server.
    ///
    /// The toolset comes first, as for who removes it: two who lock the same rows in another order wait for each other for ever. And it
    /// must be said: PostgreSQL locks what a row refers to by itself only at the row's second change in a transaction.
    pub async fn lock_server(&mut self, server: &ServerKey) -> Result<bool, StoreError> {
        if !self.hold_toolset(&server.toolset).await? {
            return Ok(false);
        }
        let found: Option<bool> = on!(self, c => sqlx::query_scalar(
            "SELECT TRUE FROM toolset_mcp_servers WHERE organization_id = $1 AND toolset_id = $2 AND id = $3")
            .bind(self.org.as_str()).bind(server.toolset.as_str()).bind(server.server.as_str()).fetch_optional(c))?;
        Ok(found.is_some())
    }

    /// What a person says about a server's being used; none: what its toolset says. Whether there is such a server.
    pub async fn enable_server(&mut self, server: &ServerKey, enabled: Option<bool>) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET user_enabled = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(enabled)
        )?;
        Ok(changed > 0)
    }

    /// Whether every call of a server's tools is recorded before it runs, and again before its end is told. Whether there is such
    /// a server.
    pub async fn set_strict_records(&mut self, server: &ServerKey, strict: bool) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET strict_records = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(strict)
        )?;
        Ok(changed > 0)
    }

    /// A server was connected, and this was agreed on. Whether there is such a server.
    pub async fn remember_revision(&mut self, server: &ServerKey, agreed: &AgreedRevision) -> Result<bool, StoreError> {
        let offers = agreed.offers.as_ref().and_then(|offers| serde_json::to_string(offers).ok());
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET agreed_revision = $4, agreed_launch_sha256 = $5, agreed_at = $6,
                     agreed_offers = $7
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(&agreed.revision)
            .bind(agreed.launch.to_string())
            .bind(At(agreed.at))
            .bind(offers)
        )?;
        Ok(changed > 0)
    }

    /// Whether a person wants a server's process in the sandbox. Whether there is such a server.
    pub async fn sandbox_server(&mut self, server: &ServerKey, sandbox: bool) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET sandbox = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(sandbox)
        )?;
        Ok(changed > 0)
    }

    /// Puts another declaration in place of the one a server has. Trust in what it was is void if it would start something
    /// else, or ask less. Whether there is such a server.
    pub async fn replace_server(&mut self, toolset: &ToolsetId, server: &McpServer) -> Result<bool, StoreError> {
        let columns = launch_columns(&server.launch);
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET server_type = $4, enabled = $5, command = $6, args = $7, cwd = $8, url = $9,
                     headers = $10, env = $11, requires_confirmation = $12, description = $13
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(toolset.as_str())
            .bind(server.id.as_str())
            .bind(server.launch.server_type().as_str())
            .bind(server.enabled)
            .bind(columns.command)
            .bind(columns.args)
            .bind(columns.cwd)
            .bind(columns.url)
            .bind(columns.headers)
            .bind(columns.env)
            .bind(server.requires_confirmation)
            .bind(server.description.as_ref().map(Description::as_str))
        )?;
        self.void_trust_in(toolset, server.id.as_str(), &server.fingerprint()).await?;
        Ok(changed > 0)
    }

    /// Changes what a toolset is called and what is said of it. Whether there is one.
    pub async fn describe_toolset(
        &mut self,
        id: &ToolsetId,
        name: &DisplayName,
        description: Option<&Description>,
    ) -> Result<bool, StoreError> {
        let changed = execute!(
            self,
            sqlx::query(
                "UPDATE toolsets SET name = $3, description = $4, updated_at = $5 WHERE organization_id = $1 AND id = $2"
            )
            .bind(self.org.as_str())
            .bind(id.as_str())
            .bind(name.as_str())
            .bind(description.map(Description::as_str))
            .bind(At(Timestamp::now()))
        )?;
        Ok(changed > 0)
    }

    /// Gives a toolset that was made for one server, and that server, another id. Everything goes along: overrides, pins, trust,
    /// the finished calls of its tools, and the chats that name them. [`StoreError::Exists`] if the id is taken; whether there
    /// is such a server.
    ///
    /// Such a toolset has no files: this moves rows alone.
    pub async fn rename_server(&mut self, from: &ServerKey, to: &ServerKey) -> Result<bool, StoreError> {
        if !self.copy_under(from, to).await? {
            return Ok(false);
        }
        let own = format!("{}:", from.server);
        let new_own = format!("{}:", to.server);
        for (statement, old, new) in [
            (
                "UPDATE tool_pins SET toolset_id = $4, server_id = $5
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3",
                from.server.as_str(),
                to.server.as_str(),
            ),
            (
                "UPDATE trust_records SET toolset_id = $4, server_id = $5
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3",
                from.server.as_str(),
                to.server.as_str(),
            ),
            // The toolset's own trust has no server's name.
            (
                "UPDATE trust_records SET toolset_id = $4, server_id = $5
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3",
                "",
                "",
            ),
            (
                "UPDATE gallery_toolsets SET toolset_id = $4 WHERE organization_id = $1 AND toolset_id = $2 AND $3 = $5",
                "",
                "",
            ),
            (
                "UPDATE tool_overrides SET toolset_id = $4,
                     tool_id = CASE WHEN substr(tool_id, 1, length($3)) = $3 THEN $5 || substr(tool_id, length($3) + 1)
                               ELSE tool_id END
                 WHERE organization_id = $1 AND toolset_id = $2",
                &own,
                &new_own,
            ),
        ] {
            execute!(
                self,
                sqlx::query(statement)
                    .bind(self.org.as_str())
                    .bind(from.toolset.as_str())
                    .bind(old)
                    .bind(to.toolset.as_str())
                    .bind(new)
            )?;
        }
        self.rename_in_calls(&format!("mcp:{from}:"), &format!("mcp:{to}:")).await?;
        self.rename_in_chats(from, to).await?;
        self.replace_default_toolset(&from.toolset, Some(&to.toolset)).await?;
        self.uninstall_toolset(&from.toolset).await
    }

    /// The rows of a toolset and its server once more, under other ids. Whether there are any.
    async fn copy_under(&mut self, from: &ServerKey, to: &ServerKey) -> Result<bool, StoreError> {
        let mut copied = 0;
        for (statement, old, new) in [
            (
                "INSERT INTO toolsets (organization_id, id, name, version, description, enabled, user_mcp, installed_at,
                     updated_at, source_type, source_ref, manifest_version, visibility, public_slug, published_at,
                     adopted_from, created_by_user_id, updated_by_user_id, python, permissions, generation)
                 SELECT organization_id, $4, name, version, description, enabled, user_mcp, installed_at,
                     updated_at, source_type, source_ref, manifest_version, visibility, public_slug, published_at,
                     adopted_from, created_by_user_id, updated_by_user_id, python, permissions, generation
                 FROM toolsets WHERE organization_id = $1 AND id = $2 AND $3 = $5",
                "",
                "",
            ),
            (
                "INSERT INTO toolset_mcp_servers (organization_id, toolset_id, id, position, server_type, enabled,
                     user_enabled, command, args, cwd, url, headers, env, requires_confirmation, description, created_at,
                     pin_policy, strict_records, tools_seen_at, agreed_revision, agreed_launch_sha256, agreed_at, agreed_offers,
                     sandbox)
                 SELECT organization_id, $4, $5, position, server_type, enabled, user_enabled, command, args, cwd, url,
                     headers, env, requires_confirmation, description, created_at, pin_policy, strict_records, tools_seen_at,
                     agreed_revision, agreed_launch_sha256, agreed_at, agreed_offers, sandbox
                 FROM toolset_mcp_servers WHERE organization_id = $1 AND toolset_id = $2 AND id = $3",
                from.server.as_str(),
                to.server.as_str(),
            ),
        ] {
            copied += execute!(
                self,
                sqlx::query(statement)
                    .bind(self.org.as_str())
                    .bind(from.toolset.as_str())
                    .bind(old)
                    .bind(to.toolset.as_str())
                    .bind(new)
            )?;
        }
        Ok(copied == 2)
    }

    /// A call that is not over keeps the id under which it was asked for: a yes is bound to it.
    async fn rename_in_calls(&mut self, old: &str, new: &str) -> Result<(), StoreError> {
        execute!(
            self,
            sqlx::query(
                "UPDATE tool_calls SET tool_id = $3 || substr(tool_id, length($2) + 1)
                 WHERE organization_id = $1 AND substr(tool_id, 1, length($2)) = $2 AND status IN ('success', 'error')"
            )
            .bind(self.org.as_str())
            .bind(old)
            .bind(new)
        )?;
        Ok(())
    }

    async fn rename_in_chats(&mut self, from: &ServerKey, to: &ServerKey) -> Result<(), StoreError> {
        let chats: Vec<(String, String)> = on!(self, c => sqlx::query_as(
            "SELECT id, tool_selectors FROM chats WHERE organization_id = $1 AND tool_selectors IS NOT NULL")
            .bind(self.org.as_str()).fetch_all(c))?;
        for (chat, text) in chats {
            let corrupt = |_| StoreError::Corrupt { column: "chats.tool_selectors" };
            let selectors: Vec<String> = serde_json::from_str(&text).map_err(corrupt)?;
            let renamed: Vec<String> = selectors.iter().map(|selector| rename_selector(selector, from, to)).collect();
            if renamed != selectors {
                execute!(
                    self,
                    sqlx::query("UPDATE chats SET tool_selectors = $3 WHERE organization_id = $1 AND id = $2")
                        .bind(self.org.as_str())
                        .bind(chat)
                        .bind(super::install::to_json(&renamed))
                )?;
            }
        }
        Ok(())
    }
}

/// A selector with a server's new id where it names the server or its toolset by the old one. Patterns stay as they are.
fn rename_selector(selector: &str, from: &ServerKey, to: &ServerKey) -> String {
    let (sign, rest) = match selector.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", selector),
    };
    if rest == format!("toolset:{}", from.toolset) {
        return format!("{sign}toolset:{}", to.toolset);
    }
    match rest.strip_prefix(&format!("mcp:{from}")) {
        Some(tail) if tail.is_empty() || tail.starts_with(':') => format!("{sign}mcp:{to}{tail}"),
        _ => selector.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors() {
        let (from, to) = ("a~a".parse().unwrap(), "b~b".parse().unwrap());
        for (before, after) in [
            ("mcp:a~a", "mcp:b~b"),
            ("-mcp:a~a:x:y", "-mcp:b~b:x:y"),
            ("toolset:a", "toolset:b"),
            ("-toolset:a", "-toolset:b"),
            ("toolset:ab", "toolset:ab"),
            ("mcp:a~ab:x", "mcp:a~ab:x"),
            ("mcp:*:x", "mcp:*:x"),
            ("a:x", "a:x"),
        ] {
            assert_eq!(rename_selector(before, &from, &to), after);
        }
    }
}
