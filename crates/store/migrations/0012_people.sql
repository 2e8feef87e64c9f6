-- Why: from this version on people sign in. Until now nothing wrote users, memberships or tokens of a person. What was missing is
-- how somebody is found by the name they sign in with, what a browser holds afterwards, and how one gets into an organisation.

-- A name that somebody signs in with: an e-mail address with a password, or what an issuer calls them. Only its hash is here, and
-- who looks for it must know it: nothing lists these rows.
CREATE TABLE identities (
    id ID NOT NULL PRIMARY KEY,
    user_id ID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    created_at TIMESTAMP NOT NULL
);
CREATE INDEX identities_by_user ON identities (user_id);

-- What a browser holds after somebody signed in. It is of a person, not of an organisation: the address of each request says which.
CREATE TABLE user_sessions (
    user_id ID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    id ID NOT NULL,
    secret_sha256 TEXT NOT NULL,
    -- What the browser called itself, to tell one from another in a list.
    user_agent TEXT,
    created_at TIMESTAMP NOT NULL,
    last_seen_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (user_id, id)
);

-- What an organisation knows of its members. A person's own row is for that person alone.
ALTER TABLE memberships ADD COLUMN email TEXT NOT NULL DEFAULT '';
ALTER TABLE memberships ADD COLUMN display_name TEXT;

-- A way in for whoever holds its secret and has the address it was made for.
CREATE TABLE invitations (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    email TEXT NOT NULL,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    secret_sha256 TEXT NOT NULL,
    invited_by TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, id)
);

--@postgres SELECT kitbag_protect('invitations');

-- A person's rows are for that person alone, as the rows of `users` are. Whoever signs in is nobody yet, and may look up the one
-- name they gave.
--@postgres ALTER TABLE user_sessions ENABLE ROW LEVEL SECURITY;
--@postgres ALTER TABLE user_sessions FORCE ROW LEVEL SECURITY;
--@postgres CREATE POLICY kitbag_own_row ON user_sessions
--@postgres     USING (user_id = (SELECT nullif(current_setting('kitbag.user', true), '')))
--@postgres     WITH CHECK (user_id = (SELECT nullif(current_setting('kitbag.user', true), '')));
--@postgres ALTER TABLE identities ENABLE ROW LEVEL SECURITY;
--@postgres ALTER TABLE identities FORCE ROW LEVEL SECURITY;
--@postgres CREATE POLICY kitbag_own_row ON identities
--@postgres     USING (user_id = (SELECT nullif(current_setting('kitbag.user', true), '')))
--@postgres     WITH CHECK (user_id = (SELECT nullif(current_setting('kitbag.user', true), '')));
--@postgres CREATE POLICY kitbag_known_name ON identities FOR SELECT
--@postgres     USING (id = (SELECT nullif(current_setting('kitbag.identity', true), '')));
-- A person may see of which organisations they are a member; everything else about them takes the organisation.
--@postgres CREATE POLICY kitbag_own_membership ON memberships FOR SELECT
--@postgres     USING (user_id = (SELECT nullif(current_setting('kitbag.user', true), '')));
