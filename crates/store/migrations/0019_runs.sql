-- Why: from this version on agents are run on executors. An executor is a machine of an organisation's own, or of the operator's;
-- a run waits until one takes it, and everything that happens to it is written down.

-- A way for a machine to become an executor: whoever holds the secret, once, for a quarter of an hour.
CREATE TABLE executor_pairing_tokens (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    secret_sha256 TEXT NOT NULL,
    -- What the executor will be; only whoever manages may say it.
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    labels JSON NOT NULL,
    created_by TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, id)
);

CREATE TABLE executors (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    name TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    -- What it is found by. It is said here and never by the executor.
    labels JSON NOT NULL,
    -- What it says of itself each time it comes.
    version TEXT NOT NULL,
    engines JSON NOT NULL,
    capacity INTEGER NOT NULL CHECK (capacity > 0),
    created_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP,
    -- It was taken out; its secret proves nothing any more.
    revoked_at TIMESTAMP,
    PRIMARY KEY (organization_id, id)
);

CREATE TABLE agent_runs (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    name TEXT,
    -- As it was given, and the toolset as it was then: what ran can be told for good.
    config JSON NOT NULL,
    application JSON NOT NULL,
    toolset JSON,
    engine TEXT NOT NULL,
    pool TEXT NOT NULL CHECK (pool IN ('byon', 'managed')),
    state TEXT NOT NULL CHECK (state IN ('queued', 'leased', 'running', 'succeeded', 'failed', 'cancelled', 'timed_out')),
    -- Which attempt it is at, from 1 once it was leased.
    attempt INTEGER NOT NULL,
    most_attempts INTEGER NOT NULL,
    -- When it may be taken: later than now after an attempt that was lost.
    available_at TIMESTAMP NOT NULL,
    executor_organization_id ID,
    executor_id ID,
    -- Until when the executor must have said that it is alive.
    leased_until TIMESTAMP,
    -- Somebody wants it to end; the executor that has it is told.
    cancelled_by TEXT,
    output JSON,
    error JSON,
    usage JSON,
    created_by TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    started_at TIMESTAMP,
    finished_at TIMESTAMP,
    PRIMARY KEY (organization_id, id),
    CHECK ((state IN ('succeeded', 'failed', 'cancelled', 'timed_out')) = (finished_at IS NOT NULL)),
    CHECK ((state IN ('leased', 'running')) = (leased_until IS NOT NULL))
);
-- What may be taken, the oldest first; and what was lost, by when.
CREATE INDEX agent_runs_waiting ON agent_runs (organization_id, pool, available_at, id) WHERE state = 'queued';
CREATE INDEX agent_runs_leased ON agent_runs (organization_id, leased_until) WHERE state IN ('leased', 'running');

CREATE TABLE agent_run_events (
    organization_id ID NOT NULL,
    run_id ID NOT NULL,
    -- The order in which they are told: those of the server and those of all attempts.
    position INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    -- The executor's own number, by which one that comes twice counts once. 0: the server says it.
    seq INTEGER NOT NULL,
    at TIMESTAMP NOT NULL,
    event JSON NOT NULL,
    PRIMARY KEY (organization_id, run_id, position),
    FOREIGN KEY (organization_id, run_id) REFERENCES agent_runs (organization_id, id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX agent_run_events_once ON agent_run_events (organization_id, run_id, attempt, seq) WHERE seq > 0;

--@postgres SELECT kitbag_protect('executor_pairing_tokens');
--@postgres SELECT kitbag_protect('executors');
--@postgres SELECT kitbag_protect('agent_runs');
--@postgres SELECT kitbag_protect('agent_run_events');
