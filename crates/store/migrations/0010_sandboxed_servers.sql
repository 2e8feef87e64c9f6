-- Why: a person may want a server's process in the sandbox that servers of other organisations than `local` always run in.

ALTER TABLE toolset_mcp_servers ADD COLUMN sandbox BOOLEAN NOT NULL DEFAULT FALSE;
