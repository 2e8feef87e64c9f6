-- Why: from this version on the process of an MCP server is one node's, whom the others ask, and not each node's own. Who holds it is written
-- down like who holds a chat. A node of the version before does not look here and goes on with processes of its own until it is replaced.

-- What a server said that it can is remembered, too: its prompts and resources are listed while its process sleeps, and who lists them must
-- know whether it is worth being woken.

-- A JSON list of names, found out together with the revision. NULL: nobody looked yet.
ALTER TABLE toolset_mcp_servers ADD COLUMN agreed_offers TEXT;

-- Who has the process of a server. It holds until its node is dead or gone, or gave it back.
CREATE TABLE server_leases (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- Its key. Not a reference: of a server that was removed the process is still to be ended, and nobody else may have it until then.
    server_key ID NOT NULL,
    -- Empty: nobody.
    node_id ID NOT NULL,
    -- Counts the holders.
    epoch INTEGER NOT NULL,
    taken_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, server_key)
);

--@postgres SELECT kitbag_protect('server_leases');
