-- Why: from this version on calls of MCP servers' tools are recorded behind, so that a crash may lose the last of them. Somebody may
-- say of a server that this must not be.

ALTER TABLE toolset_mcp_servers ADD COLUMN strict_records BOOLEAN NOT NULL DEFAULT FALSE;
