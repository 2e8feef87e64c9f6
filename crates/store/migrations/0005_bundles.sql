-- Why: from this version on toolsets are installed. Until now nothing wrote the tables that are made anew here; what they
-- lacked is what a bundle says: the order of its parts, what it leaves open (NULL), and which files may be executed.

DROP TABLE tool_pins;
DROP TABLE toolset_mcp_servers;
DROP TABLE toolset_skills;
DROP TABLE tools;
DROP TABLE toolset_files;

-- What its Python tools need, and what they may do.
ALTER TABLE toolsets ADD COLUMN python JSON;
ALTER TABLE toolsets ADD COLUMN permissions JSON;
-- Which set of files is meant. Files and rows cannot change in one act: the rows do first, and this says which files are
-- theirs, wherever a crash left them. NULL: it has no files.
ALTER TABLE toolsets ADD COLUMN generation TEXT;

CREATE TABLE toolset_files (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    path ID NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('python', 'artifact', 'asset', 'config')),
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    executable BOOLEAN NOT NULL,
    stored_path TEXT NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, path),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

-- Python and container tools. Built-in tools are compiled in and MCP tools live on their server: neither has rows.
CREATE TABLE tools (
    organization_id ID NOT NULL,
    tool_id ID NOT NULL,
    toolset_id ID NOT NULL,
    position INTEGER NOT NULL,
    name TEXT,
    description TEXT,
    input_schema JSON,
    -- NULL: the manifest does not say.
    requires_confirmation BOOLEAN,
    enabled BOOLEAN NOT NULL,
    entrypoint TEXT,
    PRIMARY KEY (organization_id, tool_id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX tools_by_toolset ON tools (organization_id, toolset_id, position);

CREATE TABLE toolset_mcp_servers (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    id ID NOT NULL,
    position INTEGER NOT NULL,
    server_type TEXT NOT NULL CHECK (server_type IN ('stdio', 'sse', 'streamable-http')),
    enabled BOOLEAN NOT NULL,
    -- What a person said instead; it survives a new version of the bundle.
    user_enabled BOOLEAN,
    command TEXT,
    args JSON,
    cwd TEXT,
    url TEXT,
    headers JSON,
    env JSON,
    requires_confirmation BOOLEAN,
    description TEXT,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);
-- A plain server id names a server only while it is the only one of that name.
CREATE INDEX toolset_mcp_servers_by_id ON toolset_mcp_servers (organization_id, id);

-- The files of a skill are files of its toolset, below `path`.
CREATE TABLE toolset_skills (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    id ID NOT NULL,
    position INTEGER NOT NULL,
    -- Whether the manifest lists it; if not, it was found by its folder.
    listed BOOLEAN NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    path TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    user_enabled BOOLEAN,
    PRIMARY KEY (organization_id, toolset_id, id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

-- The definition that a server's tool had when it was last accepted. What is live wins; this is how a change is
-- noticed and shown.
CREATE TABLE tool_pins (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    server_id ID NOT NULL,
    tool_name ID NOT NULL,
    definition_sha256 TEXT NOT NULL,
    definition JSON NOT NULL,
    pinned_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, server_id, tool_name),
    FOREIGN KEY (organization_id, toolset_id, server_id)
        REFERENCES toolset_mcp_servers (organization_id, toolset_id, id) ON DELETE CASCADE
);

ALTER TABLE tool_overrides ADD COLUMN position INTEGER NOT NULL DEFAULT 0;

-- What an organisation changed about the tools that are compiled in. They belong to no toolset that has a row.
CREATE TABLE builtin_overrides (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    tool_id ID NOT NULL,
    renderer TEXT,
    renderer_config JSON,
    name_override TEXT,
    description_override TEXT,
    requires_confirmation BOOLEAN,
    enabled BOOLEAN,
    PRIMARY KEY (organization_id, tool_id)
);

--@postgres SELECT kitbag_protect('toolset_files');
--@postgres SELECT kitbag_protect('tools');
--@postgres SELECT kitbag_protect('toolset_mcp_servers');
--@postgres SELECT kitbag_protect('toolset_skills');
--@postgres SELECT kitbag_protect('tool_pins');
--@postgres SELECT kitbag_protect('builtin_overrides');
