//! Pins: what the tools of servers are, and what of it was accepted. What a list means is the model's to say.

use kitbag_model::pin::{judge, waiting_hash};
use kitbag_model::{Acceptance, ContentHash, McpToolName, Pin, PinPolicy, Pinned, ServerKey, Sight, Timestamp};

use super::install::to_json;
use crate::error::StoreError;
use crate::row::{At, row};
use crate::tx::{Tx, WriteTx, execute, insert_many, on};

row!(PinRow {
    toolset_id: String,
    server_id: String,
    tool_name: String,
    position: i64,
    listed: bool,
    state: String,
    seen_sha256: String,
    seen: String,
    accepted_sha256: Option<String>,
    accepted: Option<String>,
    first_seen_at: At,
    last_seen_at: At,
});
row!(PolicyRow { pin_policy: Option<String>, tools_seen_at: Option<At>, user_mcp: bool });

/// Why a tool's definition was not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    /// There is no such tool, or no such server.
    #[error("there is no such tool")]
    NotFound,
    /// What is there now is not what was shown.
    #[error("what waits is not what was shown any more")]
    Differs,
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<sqlx::Error> for AcceptError {
    fn from(error: sqlx::Error) -> Self {
        Self::Store(error.into())
    }
}

impl TryFrom<PinRow> for Pin {
    type Error = StoreError;

    fn try_from(row: PinRow) -> Result<Self, StoreError> {
        let corrupt = |column| StoreError::Corrupt { column };
        let pinned = |sha256: &str, text: &str, column| {
            let read = || Some(Pinned { sha256: sha256.parse().ok()?, definition: serde_json::from_str(text).ok()? });
            read().ok_or(corrupt(column))
        };
        let seen = pinned(&row.seen_sha256, &row.seen, "tool_pins.seen")?;
        let accepted = match (row.accepted_sha256, row.accepted) {
            (None, None) => Acceptance::Never,
            (Some(sha256), None) if sha256 == row.seen_sha256 => Acceptance::AsSeen,
            (Some(sha256), Some(text)) => Acceptance::Other(pinned(&sha256, &text, "tool_pins.accepted")?),
            _ => return Err(corrupt("tool_pins.accepted")),
        };
        Ok(Self {
            server: ServerKey {
                toolset: row.toolset_id.parse().map_err(|_| corrupt("tool_pins.toolset_id"))?,
                server: row.server_id.parse().map_err(|_| corrupt("tool_pins.server_id"))?,
            },
            tool: row.tool_name.parse().map_err(|_| corrupt("tool_pins.tool_name"))?,
            position: usize::try_from(row.position).map_err(|_| corrupt("tool_pins.position"))?,
            listed: row.listed,
            state: row.state.parse().map_err(|_| corrupt("tool_pins.state"))?,
            seen,
            accepted,
            first_seen_at: row.first_seen_at.0,
            last_seen_at: row.last_seen_at.0,
        })
    }
}

/// What was accepted, in the form that columns have: the hash, and the definition where it is not the one that was seen.
fn accepted_columns(pin: &Pin) -> (Option<String>, Option<String>) {
    match &pin.accepted {
        Acceptance::AsSeen => (Some(pin.seen.sha256.to_string()), None),
        Acceptance::Other(accepted) => (Some(accepted.sha256.to_string()), Some(to_json(&accepted.definition))),
        Acceptance::Never => (None, None),
    }
}

impl<Mode> Tx<Mode> {
    /// What is remembered of a server's tools, in the server's order; those that are not listed any more come last.
    pub async fn pins(&mut self, server: &ServerKey) -> Result<Vec<Pin>, StoreError> {
        let rows: Vec<PinRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, server_id, tool_name, position, listed, state, seen_sha256, seen, accepted_sha256, accepted,
                    first_seen_at, last_seen_at
             FROM tool_pins WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3
             ORDER BY listed DESC, position, tool_name")
            .bind(self.org.as_str()).bind(server.toolset.as_str()).bind(server.server.as_str()).fetch_all(c))?;
        rows.into_iter().map(Pin::try_from).collect()
    }

    /// What is remembered of the tools of all servers, server by server.
    pub async fn all_pins(&mut self) -> Result<Vec<Pin>, StoreError> {
        let rows: Vec<PinRow> = on!(self, c => sqlx::query_as(
            "SELECT toolset_id, server_id, tool_name, position, listed, state, seen_sha256, seen, accepted_sha256, accepted,
                    first_seen_at, last_seen_at
             FROM tool_pins WHERE organization_id = $1
             ORDER BY toolset_id, server_id, listed DESC, position, tool_name")
            .bind(self.org.as_str()).fetch_all(c))?;
        rows.into_iter().map(Pin::try_from).collect()
    }
}

impl WriteTx {
    /// A server listed these tools: remembers them as its policy says. None if there is no such server.
    pub async fn see_tools(
        &mut self,
        server: &ServerKey,
        list: &[(McpToolName, Pinned)],
    ) -> Result<Option<Sight>, StoreError> {
        let Some((policy, seen_at)) = self.lock_pins(server).await? else { return Ok(None) };
        let before = self.pins(server).await?;
        let now = Timestamp::now();
        let sight = judge(server, policy, seen_at.is_none(), before.clone(), list, now);
        self.write_pins(server, &before, &sight.pins, now).await?;
        execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET tools_seen_at = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(At(now))
        )?;
        Ok(Some(sight))
    }

    /// Accepts what a tool has become, if that is what was shown.
    pub async fn accept_pin(
        &mut self,
        server: &ServerKey,
        tool: &McpToolName,
        shown: &ContentHash,
    ) -> Result<(), AcceptError> {
        self.lock_pins(server).await?.ok_or(AcceptError::NotFound)?;
        let accepted = execute!(
            self,
            sqlx::query(
                "UPDATE tool_pins SET accepted_sha256 = seen_sha256, accepted = NULL, state = 'accepted'
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3 AND tool_name = $4 AND seen_sha256 = $5"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(tool.as_str())
            .bind(shown.to_string())
        )?;
        if accepted > 0 {
            return Ok(());
        }
        let is_there = self.pins(server).await?.iter().any(|pin| pin.tool == *tool);
        Err(if is_there { AcceptError::Differs } else { AcceptError::NotFound })
    }

    /// Accepts everything that waits, if it is what was shown (by its [`waiting_hash`]). How many tools that were.
    pub async fn accept_all(&mut self, server: &ServerKey, shown: Option<&ContentHash>) -> Result<u64, AcceptError> {
        self.lock_pins(server).await?.ok_or(AcceptError::NotFound)?;
        if let Some(shown) = shown
            && waiting_hash(&self.pins(server).await?) != *shown
        {
            return Err(AcceptError::Differs);
        }
        Ok(self.accept_waiting(server).await?)
    }

    /// Sets what happens when a server changes its tools; none: what holds by default. What waits is treated accordingly.
    /// Whether there is such a server.
    pub async fn set_pin_policy(&mut self, server: &ServerKey, policy: Option<PinPolicy>) -> Result<bool, StoreError> {
        if !self.lock_server(server).await? {
            return Ok(false);
        }
        execute!(
            self,
            sqlx::query(
                "UPDATE toolset_mcp_servers SET pin_policy = $4
                 WHERE organization_id = $1 AND toolset_id = $2 AND id = $3"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(policy.map(PinPolicy::as_str))
        )?;
        let Some((policy, _)) = self.lock_pins(server).await? else { return Ok(false) };
        if policy == PinPolicy::Accept {
            self.accept_waiting(server).await?;
            return Ok(true);
        }
        let state = if policy == PinPolicy::Quarantine { "quarantined" } else { "accepted" };
        execute!(
            self,
            sqlx::query(
                "UPDATE tool_pins SET state = $4 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3
                     AND (accepted_sha256 IS NULL OR accepted_sha256 <> seen_sha256)"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(state)
        )?;
        Ok(true)
    }

    /// Keeps everybody else from changing a server's pins until the transaction ends. Its policy, and when its tools were last
    /// listed; none if there is no such server.
    async fn lock_pins(&mut self, server: &ServerKey) -> Result<Option<(PinPolicy, Option<Timestamp>)>, StoreError> {
        if !self.lock_server(server).await? {
            return Ok(None);
        }
        let row: Option<PolicyRow> = on!(self, c => sqlx::query_as(
            "SELECT s.pin_policy, s.tools_seen_at, t.user_mcp
             FROM toolset_mcp_servers s JOIN toolsets t ON t.organization_id = s.organization_id AND t.id = s.toolset_id
             WHERE s.organization_id = $1 AND s.toolset_id = $2 AND s.id = $3")
            .bind(self.org.as_str()).bind(server.toolset.as_str()).bind(server.server.as_str()).fetch_optional(c))?;
        let Some(row) = row else { return Ok(None) };
        let said = row.pin_policy.map(|text| text.parse()).transpose();
        let said = said.map_err(|_| StoreError::Corrupt { column: "toolset_mcp_servers.pin_policy" })?;
        Ok(Some((said.unwrap_or(PinPolicy::default_for(row.user_mcp)), row.tools_seen_at.map(|at| at.0))))
    }

    async fn accept_waiting(&mut self, server: &ServerKey) -> Result<u64, StoreError> {
        Ok(execute!(
            self,
            sqlx::query(
                "UPDATE tool_pins SET accepted_sha256 = seen_sha256, accepted = NULL, state = 'accepted'
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3
                     AND (accepted_sha256 IS NULL OR accepted_sha256 <> seen_sha256)"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
        )?)
    }

    /// Brings the rows from `before` to `after`. Most lists say what the list before said, and then one statement does.
    async fn write_pins(
        &mut self,
        server: &ServerKey,
        before: &[Pin],
        after: &[Pin],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let known: std::collections::HashMap<&McpToolName, &Pin> = before.iter().map(|pin| (&pin.tool, pin)).collect();
        let kept: std::collections::HashSet<&McpToolName> = after.iter().map(|pin| &pin.tool).collect();
        for gone in before.iter().filter(|pin| !kept.contains(&pin.tool)) {
            execute!(
                self,
                sqlx::query(
                    "DELETE FROM tool_pins
                     WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3 AND tool_name = $4"
                )
                .bind(self.org.as_str())
                .bind(server.toolset.as_str())
                .bind(server.server.as_str())
                .bind(gone.tool.as_str())
            )?;
        }
        let is_same = |old: &Pin, new: &Pin| Pin { last_seen_at: new.last_seen_at, ..old.clone() } == *new;
        for pin in after.iter().filter(|pin| known.get(&pin.tool).is_some_and(|old| !is_same(old, pin))) {
            self.update_pin(pin).await?;
        }
        let new: Vec<&Pin> = after.iter().filter(|pin| !known.contains_key(&pin.tool)).collect();
        self.insert_pins(&new).await?;
        execute!(
            self,
            sqlx::query(
                "UPDATE tool_pins SET last_seen_at = $5
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3 AND listed = $4"
            )
            .bind(self.org.as_str())
            .bind(server.toolset.as_str())
            .bind(server.server.as_str())
            .bind(true)
            .bind(At(now))
        )?;
        Ok(())
    }

    async fn update_pin(&mut self, pin: &Pin) -> Result<(), StoreError> {
        let (accepted_sha256, accepted) = accepted_columns(pin);
        execute!(
            self,
            sqlx::query(
                "UPDATE tool_pins SET position = $5, listed = $6, state = $7, seen_sha256 = $8, seen = $9,
                     accepted_sha256 = $10, accepted = $11
                 WHERE organization_id = $1 AND toolset_id = $2 AND server_id = $3 AND tool_name = $4"
            )
            .bind(self.org.as_str())
            .bind(pin.server.toolset.as_str())
            .bind(pin.server.server.as_str())
            .bind(pin.tool.as_str())
            .bind(pin.position as i64)
            .bind(pin.listed)
            .bind(pin.state.as_str())
            .bind(pin.seen.sha256.to_string())
            .bind(to_json(&pin.seen.definition))
            .bind(accepted_sha256)
            .bind(accepted)
        )?;
        Ok(())
    }

    async fn insert_pins(&mut self, pins: &[&Pin]) -> Result<(), StoreError> {
        let org = self.org.to_string();
        insert_many!(
            self,
            "INSERT INTO tool_pins (organization_id, toolset_id, server_id, tool_name, position, listed, state, seen_sha256,
                 seen, accepted_sha256, accepted, first_seen_at, last_seen_at) ",
            pins,
            |row, pin| {
                let (accepted_sha256, accepted) = accepted_columns(pin);
                row.push_bind(org.clone())
                    .push_bind(pin.server.toolset.to_string())
                    .push_bind(pin.server.server.to_string())
                    .push_bind(pin.tool.to_string())
                    .push_bind(pin.position as i64)
                    .push_bind(pin.listed)
                    .push_bind(pin.state.as_str())
                    .push_bind(pin.seen.sha256.to_string())
                    .push_bind(to_json(&pin.seen.definition))
                    .push_bind(accepted_sha256)
                    .push_bind(accepted)
                    .push_bind(At(pin.first_seen_at))
                    .push_bind(At(pin.last_seen_at));
            }
        );
        Ok(())
    }
}
