-- Why: every executor looked at every run of an organisation that waited, one by one, every two seconds, also at those that fit nobody. Now runs
-- that need the same of an executor (the engine, labels, a group, an executor, containers) are of one kind, and a kind is looked at once. What a
-- kind needs is with the runs, which are their organisation's alone; the queue, which all may be read of at once, has only the kind's name.

-- Empty: put here by a program that knows no kinds. Whoever looks next finds out which it is.
ALTER TABLE run_queue ADD COLUMN kind ID NOT NULL DEFAULT '';
-- NULL: by such a program.
ALTER TABLE agent_runs ADD COLUMN needs JSON;

-- Which kinds of runs wait, without a look at the runs; and those of one kind, the oldest first.
CREATE INDEX run_queue_kinds ON run_queue (organization_id, pool, kind, since, run_id) WHERE lease_until IS NULL;
-- What executors have, which is little, however much waits: for those who count it, and for the clock that looks for leases that ended.
CREATE INDEX run_queue_held ON run_queue (organization_id, lease_until, run_id) WHERE lease_until IS NOT NULL;
