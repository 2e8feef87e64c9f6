-- Why: what only one machine knew. That bytes of a deleted chat are still in the bucket was written down in the data folder of the node that deleted it,
-- and if that folder was lost nobody ever removed them; now it is a row, and any node finishes it. And each node opened what is sealed with whatever
-- master key it had; now the name of the installation's key is here, so that a node with another one does not start among the others.
CREATE TABLE deleted_chats (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- Not a reference: it is gone.
    chat_id ID NOT NULL,
    deleted_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, chat_id)
);

-- One row. Of a key only the name is here, which is made from it and does not give it away.
CREATE TABLE master_keys (
    place ID NOT NULL PRIMARY KEY CHECK (place = 'first'),
    key_id TEXT NOT NULL
);

--@postgres SELECT kitbag_protect('deleted_chats');
-- It is the whole installation's, and every sealed value names its key.
--@postgres ALTER TABLE master_keys ENABLE ROW LEVEL SECURITY;
--@postgres ALTER TABLE master_keys FORCE ROW LEVEL SECURITY;
--@postgres CREATE POLICY kitbag_master_keys ON master_keys USING (TRUE) WITH CHECK (TRUE);
