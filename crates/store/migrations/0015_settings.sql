-- Why: organisations have settings and secrets of their own. The settings have had their column from the start; of a secret it was
-- not known who gave it. Retention looks for chats that nobody touched for long.

ALTER TABLE secrets ADD COLUMN updated_by TEXT;

CREATE INDEX chats_by_last_touch ON chats (organization_id, updated_at, id);
