-- Why: from this version on tools are called. Until now nothing wrote tool_calls, so it is made anew with what was missing: who
-- asked, who decided, until when, under which key, what held the call, and which blobs it needs.

DROP TABLE tool_calls;

CREATE TABLE tool_calls (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    id ID NOT NULL,
    message_id ID NOT NULL,
    tool_id TEXT NOT NULL,
    -- The version of the tool's code. A yes is for that one. NULL: it has none.
    generation TEXT,
    args JSON NOT NULL,
    -- What a yes is bound to: the tool and these arguments.
    args_sha256 TEXT NOT NULL,
    asked_by TEXT NOT NULL,
    -- The caller's own name for the request, and the digest of what was asked under it.
    idempotency_key ID,
    request_sha256 TEXT,
    -- The server that runs it: after a crash it alone may say that the call is over.
    node_id TEXT NOT NULL,
    -- Until when somebody may decide. NULL: nobody is asked.
    expires_at TIMESTAMP,
    approved BOOLEAN,
    decided_by TEXT,
    decided_at TIMESTAMP,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'success', 'error')),
    -- What it returned; if that is large, a summary, and the blob that has all of it.
    result JSON,
    result_sha256 TEXT,
    render_plan JSON,
    artifact_sha256 TEXT,
    error JSON,
    warnings JSON,
    logs JSON,
    logs_cut INTEGER NOT NULL,
    sandbox JSON,
    started_at TIMESTAMP NOT NULL,
    finished_at TIMESTAMP,
    pre_manifest_id ID,
    post_manifest_id ID,
    PRIMARY KEY (organization_id, chat_id, id),
    CHECK ((status IN ('success', 'error')) = (finished_at IS NOT NULL)),
    CHECK (status <> 'pending' OR expires_at IS NOT NULL),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE,
    FOREIGN KEY (organization_id, chat_id, message_id) REFERENCES messages (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, pre_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, post_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id)
);
CREATE INDEX tool_calls_by_message ON tool_calls (organization_id, chat_id, message_id, id);
CREATE UNIQUE INDEX tool_calls_by_key ON tool_calls (organization_id, chat_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
-- The next start looks for calls that a crash cut off, and a clock for those that nobody decided.
CREATE INDEX tool_calls_unfinished ON tool_calls (organization_id, status) WHERE status IN ('pending', 'running');

-- What was found in a toolset's code. It is a cache: of other code (another generation) it says nothing.
CREATE TABLE tool_descriptions (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    generation TEXT NOT NULL,
    description JSON NOT NULL,
    made_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);

-- Who did what to what. The role that serves can add lines and read them; it can change none and take none away.
CREATE TABLE audit (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    at TIMESTAMP NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    details JSON NOT NULL,
    PRIMARY KEY (organization_id, id)
);

--@postgres SELECT kitbag_protect('tool_calls');
--@postgres SELECT kitbag_protect('tool_descriptions');
--@postgres SELECT kitbag_protect('audit');
-- What the app role is granted follows from the policies that there are.
--@postgres DROP POLICY kitbag_update ON audit;
--@postgres DROP POLICY kitbag_delete ON audit;
