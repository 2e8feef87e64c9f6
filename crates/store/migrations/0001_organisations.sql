-- Why: every row has an owner. Organisations, the people in them, and the tokens that open them come first, because
-- every later table refers to them.

-- Only ids: this is the one table that the system door may read across tenants, so nothing else may stand in it.
CREATE TABLE organizations (
    id ID NOT NULL PRIMARY KEY,
    created_at TIMESTAMP NOT NULL
);

-- What an organisation is called and how it is set up; a tenant's row like any other.
CREATE TABLE organization_settings (
    organization_id ID NOT NULL PRIMARY KEY REFERENCES organizations (id) ON DELETE CASCADE,
    name TEXT NOT NULL,
    settings JSON NOT NULL,
    updated_at TIMESTAMP NOT NULL
);

-- People belong to no tenant: one person may be a member of several.
CREATE TABLE users (
    id ID NOT NULL PRIMARY KEY,
    email TEXT NOT NULL UNIQUE,
    display_name TEXT,
    password_hash TEXT,
    created_at TIMESTAMP NOT NULL
);

CREATE TABLE memberships (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    user_id ID NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);
CREATE INDEX memberships_by_user ON memberships (user_id);

-- A token of a person ends with the membership: the reference is to the membership, not to the person.
CREATE TABLE api_tokens (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    user_id ID,
    name TEXT NOT NULL,
    secret_sha256 TEXT NOT NULL,
    scopes TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP,
    last_used_at TIMESTAMP,
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, user_id) REFERENCES memberships (organization_id, user_id) ON DELETE CASCADE
);

-- What a browser holds instead of a token: it ends by itself, and with the token it was swapped for.
CREATE TABLE sessions (
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    id ID NOT NULL,
    token_id ID NOT NULL,
    secret_sha256 TEXT NOT NULL,
    created_at TIMESTAMP NOT NULL,
    expires_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, id),
    FOREIGN KEY (organization_id, token_id) REFERENCES api_tokens (organization_id, id) ON DELETE CASCADE
);
CREATE INDEX sessions_by_expiry ON sessions (organization_id, expires_at);
