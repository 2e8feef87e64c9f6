-- Why: which revision of the protocol a server speaks is found out when it is connected, and that takes time where a server is
-- silent about what it does not know. From this version on it is remembered what was agreed on, and with which launch: another
-- launch may be another program, whose revision and whose tools nobody knows yet.

-- All three NULL: it was not connected since they are there.
ALTER TABLE toolset_mcp_servers ADD COLUMN agreed_revision TEXT;
-- The fingerprint of the launch that worked.
ALTER TABLE toolset_mcp_servers ADD COLUMN agreed_launch_sha256 TEXT;
-- When it was found out. It is found out again now and then: the same launch may bring a newer program.
ALTER TABLE toolset_mcp_servers ADD COLUMN agreed_at TIMESTAMP;
