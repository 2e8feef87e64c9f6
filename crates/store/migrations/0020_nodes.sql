-- Why: from this version on several servers (nodes) serve one database. Each says that it is alive, who holds a chat is written down with
-- a number that fences off whoever held it before, and what happens at one is told to the others. All of it is new: a server of the version
-- before does not look at these tables.

-- The processes that serve. Of one that was not heard of until `expires_at` another may say that it is dead, which is for good: whoever
-- is dead comes back under another id, without anything that it held.
CREATE TABLE nodes (
    id ID NOT NULL PRIMARY KEY,
    -- The data folder that it works in, by the name in its file `node`.
    home TEXT NOT NULL,
    -- Where the other nodes reach it. NULL: nowhere.
    address TEXT,
    version TEXT NOT NULL,
    started_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    draining BOOLEAN NOT NULL,
    dead BOOLEAN NOT NULL
);

-- Who may change a chat's workspace. It holds until its node is dead or gone.
CREATE TABLE chat_leases (
    organization_id ID NOT NULL,
    chat_id ID NOT NULL,
    node_id ID NOT NULL,
    -- The folder that has the workspace as it was last.
    home TEXT NOT NULL,
    -- Counts the holders. What an earlier one writes is refused.
    epoch INTEGER NOT NULL,
    taken_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, chat_id),
    FOREIGN KEY (organization_id, chat_id) REFERENCES chats (organization_id, id) ON DELETE CASCADE
);

-- What happened at one node, for the others to read within a minute. Only its ids are sent around.
CREATE TABLE node_lines (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    line JSON NOT NULL,
    PRIMARY KEY (organization_id, id)
);
-- What is left of an organisation's calls in a minute, for all nodes together.
CREATE TABLE call_budgets (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- Thousandths of calls, at that time.
    thousandths INTEGER NOT NULL,
    at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id)
);

-- After a crash of the database everybody looks at everything again, so nothing of this need survive one.
--@postgres ALTER TABLE node_lines SET UNLOGGED;

--@postgres SELECT kitbag_protect('chat_leases');
--@postgres SELECT kitbag_protect('node_lines');
--@postgres SELECT kitbag_protect('call_budgets');
-- Nodes are of no organisation and say nothing of any.
--@postgres ALTER TABLE nodes ENABLE ROW LEVEL SECURITY;
--@postgres ALTER TABLE nodes FORCE ROW LEVEL SECURITY;
--@postgres CREATE POLICY kitbag_nodes ON nodes USING (TRUE) WITH CHECK (TRUE);
