-- Why: from this version on a model helps to put a toolset together. Nothing that is said here has a secret in it that was recognised as one.

-- A conversation. It is its author's, and over when it has a draft.
CREATE TABLE toolset_builder_sessions (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'FINALIZED', 'ARCHIVED')),
    llm JSON NOT NULL,
    latest_intent TEXT,
    selected_component_keys JSON NOT NULL,
    final_draft JSON,
    -- What must be known of the draft: whoever reads it again must know it, too.
    final_warnings JSON NOT NULL,
    -- How many turns there are; the next one's number follows.
    turns INTEGER NOT NULL,
    -- Whose it is; NULL: of the token that began it, which is nobody's.
    user_id ID,
    created_by TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    updated_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, id),
    CHECK ((status = 'FINALIZED') = (final_draft IS NOT NULL))
);

CREATE TABLE toolset_builder_turns (
    organization_id ID NOT NULL,
    session_id ID NOT NULL,
    n INTEGER NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('USER', 'ASSISTANT')),
    message_text TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, session_id, n),
    FOREIGN KEY (organization_id, session_id) REFERENCES toolset_builder_sessions (organization_id, id) ON DELETE CASCADE
);

--@postgres SELECT kitbag_protect('toolset_builder_sessions');
--@postgres SELECT kitbag_protect('toolset_builder_turns');
