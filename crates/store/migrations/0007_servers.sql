-- Why: from this version on MCP servers are connected. What their tools are is remembered: what somebody accepted, what the
-- server said last, and whether the difference between the two keeps a tool from being called. Until now nothing wrote
-- tool_pins, so it is made anew. And what servers are signed in with is kept, encrypted.

-- What happens when a server changes a tool. NULL: `quarantine` for what a bundle brought, `accept` for what a person added.
ALTER TABLE toolset_mcp_servers ADD COLUMN pin_policy TEXT CHECK (pin_policy IN ('warn', 'quarantine', 'accept'));
-- When its tools were last listed. NULL: never, so that nobody knows yet what is new.
ALTER TABLE toolset_mcp_servers ADD COLUMN tools_seen_at TIMESTAMP;

DROP TABLE tool_pins;

-- What a server's tool is, and what it was when it was accepted. What is live wins; this is how lists are answered while the
-- server is not there, and how a change is noticed and shown.
CREATE TABLE tool_pins (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    server_id ID NOT NULL,
    tool_name ID NOT NULL,
    -- Its place in the server's list.
    position INTEGER NOT NULL,
    -- Whether the last list had it. One that went is remembered: it must not come back as something else.
    listed BOOLEAN NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('accepted', 'quarantined')),
    seen_sha256 TEXT NOT NULL,
    seen JSON NOT NULL,
    -- NULL: nobody has accepted any definition of it.
    accepted_sha256 TEXT,
    -- NULL: it is the one that was seen last.
    accepted JSON,
    first_seen_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, server_id, tool_name),
    CHECK (state = 'accepted' OR accepted_sha256 IS NULL OR accepted_sha256 <> seen_sha256),
    CHECK ((accepted IS NOT NULL) = (accepted_sha256 IS NOT NULL AND accepted_sha256 <> seen_sha256)),
    FOREIGN KEY (organization_id, toolset_id, server_id)
        REFERENCES toolset_mcp_servers (organization_id, toolset_id, id) ON DELETE CASCADE
);

-- Values that only this installation can read: they are encrypted before they come here.
CREATE TABLE secrets (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    kind ID NOT NULL,
    name ID NOT NULL,
    sealed BYTES NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, kind, name)
);

--@postgres SELECT kitbag_protect('tool_pins');
--@postgres SELECT kitbag_protect('secrets');
