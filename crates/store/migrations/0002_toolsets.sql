-- Why: a toolset is a namespace over tools of several providers; these are its parts, what a person changed about
-- them, and what a person has trusted.

CREATE TABLE toolsets (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    description TEXT,
    enabled BOOLEAN NOT NULL,
    -- Where the page lists it: under "MCP Servers" if true, else under "Toolsets". No other difference.
    user_mcp BOOLEAN NOT NULL,
    installed_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    source_type TEXT NOT NULL CHECK (source_type IN ('zip', 'local', 'url')),
    source_ref TEXT,
    manifest_version TEXT NOT NULL,
    visibility TEXT NOT NULL CHECK (visibility IN ('private', 'org', 'public')),
    public_slug TEXT,
    published_at TIMESTAMP,
    adopted_from JSON,
    created_by_user_id ID,
    updated_by_user_id ID,
    PRIMARY KEY (organization_id, id),
    CHECK ((visibility = 'public') = (public_slug IS NOT NULL))
);

CREATE TABLE toolset_files (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    path ID NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('python', 'artifact', 'asset', 'config')),
    sha256 TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size >= 0),
    stored_path TEXT NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, path),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

-- Python and container tools. Built-in tools are compiled in and MCP tools live on their server: neither has rows.
CREATE TABLE tools (
    organization_id ID NOT NULL,
    tool_id ID NOT NULL,
    toolset_id ID NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    input_schema JSON,
    requires_confirmation BOOLEAN NOT NULL,
    enabled BOOLEAN NOT NULL,
    entrypoint TEXT,
    PRIMARY KEY (organization_id, tool_id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX tools_by_toolset ON tools (organization_id, toolset_id);

-- A null property is not overridden. What the bundle brought and what a person set are kept apart, so that a new
-- version of the bundle replaces the one and keeps the other.
CREATE TABLE tool_overrides (
    organization_id ID NOT NULL,
    id ID NOT NULL,
    toolset_id ID NOT NULL,
    tool_id ID NOT NULL,
    origin TEXT NOT NULL CHECK (origin IN ('bundle', 'user')),
    renderer TEXT,
    renderer_config JSON,
    name_override TEXT,
    description_override TEXT,
    requires_confirmation BOOLEAN,
    enabled BOOLEAN,
    PRIMARY KEY (organization_id, id),
    UNIQUE (organization_id, toolset_id, tool_id, origin),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

CREATE TABLE toolset_mcp_servers (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    id ID NOT NULL,
    server_type TEXT NOT NULL CHECK (server_type IN ('stdio', 'sse', 'streamable-http')),
    enabled BOOLEAN NOT NULL,
    command TEXT,
    args JSON,
    cwd TEXT,
    url TEXT,
    headers JSON,
    env JSON,
    requires_confirmation BOOLEAN NOT NULL,
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
    name TEXT NOT NULL,
    description TEXT,
    path TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

-- Trust is bound to a hash of what was shown when it was given; a changed configuration is not trusted.
CREATE TABLE trust_records (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    -- The server that is trusted, or '' for the toolset itself.
    server_id ID NOT NULL,
    config_sha256 TEXT NOT NULL,
    trusted_by_user_id ID,
    trusted_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, server_id),
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
