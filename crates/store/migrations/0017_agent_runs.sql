-- Why: from this version on agents run, on machines that were paired with an organisation. Until now nothing wrote any of this.

-- A way in for a machine, once and for a quarter of an hour. A row that was used stays until it would have ended, so that it can be
-- told that it was used.
CREATE TABLE executor_pairings (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    secret_sha256 TEXT NOT NULL,
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    labels JSON NOT NULL,
    created_by TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    used_at TIMESTAMP,
    PRIMARY KEY (organization_id, id)
);

-- The machines. Name, pool and labels are what the organisation says of one; version, engines and capacity what it says itself.
CREATE TABLE executors (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    name TEXT NOT NULL,
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    labels JSON NOT NULL,
    secret_sha256 TEXT NOT NULL,
    version TEXT NOT NULL,
    engines JSON NOT NULL,
    capacity INTEGER NOT NULL,
    created_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP,
    -- It stays: runs name it.
    revoked_at TIMESTAMP,
    PRIMARY KEY (organization_id, id)
);

-- The workspace of a run that named no chat is a chat that lists leave out.
ALTER TABLE chats ADD COLUMN of_run BOOLEAN NOT NULL DEFAULT FALSE;

CREATE TABLE agent_runs (
    organization_id ID NOT NULL,
    id ID NOT NULL,
    name TEXT,
    -- Exactly what was asked for, and the toolset exactly as it was then.
    config JSON NOT NULL,
    application JSON NOT NULL,
    toolset JSON,
    chat_id ID NOT NULL,
    pre_manifest_id ID,
    post_manifest_id ID,
    apply BOOLEAN NOT NULL,
    retry_of ID,
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out')),
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    -- Who has it, or had it last. It may be an executor of the operator's, which is no row of this organisation.
    executor_id ID,
    lease_until TIMESTAMP,
    cancel_requested BOOLEAN NOT NULL,
    output JSON,
    error JSON,
    usage JSON,
    -- How many events there are; the next one's number follows.
    events INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    private_to ID,
    created_at TIMESTAMP NOT NULL,
    started_at TIMESTAMP,
    finished_at TIMESTAMP,
    PRIMARY KEY (organization_id, id),
    CHECK ((state IN ('leased', 'running')) = (lease_until IS NOT NULL)),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled', 'timed_out')) = (finished_at IS NOT NULL)),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE,
    FOREIGN KEY (organization_id, chat_id, pre_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id),
    FOREIGN KEY (organization_id, chat_id, post_manifest_id) REFERENCES workspace_manifests (organization_id, chat_id, id)
);
-- Runs of a chat go with it, and its collection asks which blobs they need.
CREATE INDEX agent_runs_by_chat ON agent_runs (organization_id, chat_id, id);
-- What an executor has, to be compared with what it says it has.
CREATE INDEX agent_runs_held ON agent_runs (organization_id, executor_id, id) WHERE state IN ('leased', 'running');

-- What happened in a run, in the order in which it became known. What an executor tells is numbered by it as well, in each attempt, so that
-- what comes twice counts once.
CREATE TABLE agent_run_events (
    organization_id ID NOT NULL,
    run_id ID NOT NULL,
    n INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    seq INTEGER,
    at TIMESTAMP NOT NULL,
    event JSON NOT NULL,
    PRIMARY KEY (organization_id, run_id, n),
    UNIQUE (organization_id, run_id, attempt, seq),
    FOREIGN KEY (organization_id, run_id) REFERENCES agent_runs (organization_id, id) ON DELETE CASCADE
);

-- Who waits and who is held, for the operator's executors, which serve all organisations, and for the clock that looks for leases that
-- ended. It has nothing but that, since it is what may be read of all organisations at once.
CREATE TABLE run_queue (
    organization_id ID NOT NULL,
    run_id ID NOT NULL,
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    engine TEXT NOT NULL,
    -- When it was put here, or back here.
    since TIMESTAMP NOT NULL,
    -- NULL: it waits.
    lease_until TIMESTAMP,
    PRIMARY KEY (organization_id, run_id),
    FOREIGN KEY (organization_id, run_id) REFERENCES agent_runs (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX run_queue_waiting ON run_queue (organization_id, pool, since, run_id) WHERE lease_until IS NULL;

--@postgres SELECT kitbag_protect('executor_pairings');
--@postgres SELECT kitbag_protect('executors');
--@postgres SELECT kitbag_protect('agent_runs');
--@postgres SELECT kitbag_protect('agent_run_events');
--@postgres SELECT kitbag_protect('run_queue');
--@postgres CREATE POLICY kitbag_system_select ON run_queue FOR SELECT
--@postgres     USING ((SELECT current_setting('kitbag.system', true)) = 'on');
