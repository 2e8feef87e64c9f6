-- Why: the audit can be asked now: by time, by who, by what was done and to what. Whoever acts is a text for people; the person and the
-- token in it stand beside it, so that one finds all of them whatever they are called. Lines that are older than this have none.

ALTER TABLE audit ADD COLUMN user_id ID;
ALTER TABLE audit ADD COLUMN token_id ID;

-- Names are compared by their bytes, so that all that begin alike are next to each other.
--@postgres ALTER TABLE audit ALTER COLUMN action TYPE TEXT COLLATE "C";
--@postgres ALTER TABLE audit ALTER COLUMN subject TYPE TEXT COLLATE "C";

CREATE INDEX audit_by_time ON audit (organization_id, at, id);
CREATE INDEX audit_by_action ON audit (organization_id, action, at, id);
CREATE INDEX audit_by_subject ON audit (organization_id, subject, at, id);
CREATE INDEX audit_by_user ON audit (organization_id, user_id, at, id) WHERE user_id IS NOT NULL;
CREATE INDEX audit_by_token ON audit (organization_id, token_id, at, id) WHERE token_id IS NOT NULL;
