-- Why: a chat is a tree of messages with a folder of its own; every state of that folder and every tool call in it is
-- kept. All references carry organisation and chat, so that none can lead into another chat.

CREATE TABLE chats (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    title TEXT,
    tool_selectors JSON,
    active_leaf_message_id ID,
    active_manifest_id ID,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
--@sqlite     FOREIGN KEY (organization_id, id, active_leaf_message_id) REFERENCES messages (organization_id, chat_id, id),
--@sqlite     FOREIGN KEY (organization_id, id, active_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id),
    PRIMARY KEY (organization_id, id)
);

CREATE TABLE workspace_manifests (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    id ID NOT NULL,
    parent_id ID,
    -- The name of the tree's top node. The map from path to hash that callers see is read from the tree: kept whole with
    -- every manifest, it would grow with the workspace instead of with what changed.
    root TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('initial', 'user_upload', 'tool_run', 'branch', 'edit')),
    source_ref TEXT,
    PRIMARY KEY (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE,
    FOREIGN KEY (organization_id, chat_id, parent_id) REFERENCES workspace_manifests (organization_id, chat_id, id)
);

-- The nodes of the trees, by the hash of their bytes: two manifests share those that are equal.
CREATE TABLE workspace_nodes (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    hash ID NOT NULL,
    bytes BYTES NOT NULL,
    PRIMARY KEY (organization_id, chat_id, hash),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE
);

CREATE TABLE messages (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    id ID NOT NULL,
    -- The order in which they were added. Ids follow the clock, and clocks are set back.
    position INTEGER NOT NULL,
    parent_id ID,
    role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
    content JSON NOT NULL,
    manifest_id ID,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, chat_id, id),
    UNIQUE (organization_id, chat_id, position),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE,
    FOREIGN KEY (organization_id, chat_id, parent_id) REFERENCES messages (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id)
);
CREATE INDEX messages_by_parent ON messages (organization_id, chat_id, parent_id);

--@postgres ALTER TABLE chats ADD FOREIGN KEY (organization_id, id, active_leaf_message_id) REFERENCES messages (organization_id, chat_id, id);
--@postgres ALTER TABLE chats ADD FOREIGN KEY (organization_id, id, active_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id);

CREATE TABLE tool_calls (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    id ID NOT NULL,
    message_id ID NOT NULL,
    tool_id TEXT NOT NULL,
    args JSON NOT NULL,
    result JSON,
    render_plan JSON,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'error')),
    error JSON,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    pre_manifest_id ID,
    post_manifest_id ID,
    logs JSON,
    PRIMARY KEY (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE,
    FOREIGN KEY (organization_id, chat_id, message_id) REFERENCES messages (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, pre_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, post_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id)
);
CREATE INDEX tool_calls_by_message ON tool_calls (organization_id, chat_id, message_id);
-- The next start looks for calls that a crash cut off.
CREATE INDEX tool_calls_unfinished ON tool_calls (organization_id, status) WHERE status IN ('pending', 'running');
