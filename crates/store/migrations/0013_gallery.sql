-- Why: organisations publish toolsets for everybody. Tenants' tables have no public policy and never will; what is published is a
-- copy without anything that is the organisation's own, and it stands here.

CREATE TABLE gallery_toolsets (
    -- Unique among all organisations, which is what a public name is for.
    slug ID NOT NULL PRIMARY KEY,
    -- Whose name it is, for good: it stays reserved after the toolset was taken back.
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- NULL: it was taken back. Nothing but the name is left then, and nobody else sees that it ever was there.
    published_at TIMESTAMP,
    toolset_id ID,
    name TEXT,
    description TEXT,
    version TEXT,
    -- What a card shows, so that a list need not read what the details are made of.
    tool_count INTEGER,
    server_count INTEGER,
    skill_count INTEGER,
    -- The names of its tools and skills, a line each, for searches.
    words TEXT,
    -- What the details show: tools, servers with the names of their variables and headers, skills, files.
    summary JSON,
    -- The bundle that an adoption installs, kept by its hash.
    bundle_sha256 TEXT,
    bundle_size INTEGER CHECK (bundle_size >= 0),
    -- A toolset cannot go, or get another id, without a word to the gallery.
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id),
    CHECK (published_at IS NULL OR (toolset_id IS NOT NULL AND name IS NOT NULL AND version IS NOT NULL
        AND tool_count IS NOT NULL AND server_count IS NOT NULL AND skill_count IS NOT NULL AND words IS NOT NULL
        AND summary IS NOT NULL AND bundle_sha256 IS NOT NULL AND bundle_size IS NOT NULL)),
    CHECK (published_at IS NOT NULL OR (toolset_id IS NULL AND name IS NULL AND description IS NULL AND version IS NULL
        AND words IS NULL AND summary IS NULL AND bundle_sha256 IS NULL))
);
CREATE INDEX gallery_toolsets_by_time ON gallery_toolsets (published_at, slug);
CREATE INDEX gallery_toolsets_by_bundle ON gallery_toolsets (bundle_sha256);
-- A toolset is published under one name.
CREATE UNIQUE INDEX gallery_toolsets_by_toolset ON gallery_toolsets (organization_id, toolset_id);

--@postgres SELECT kitbag_protect('gallery_toolsets');
-- Everybody may read what is published; to change it takes the organisation that did.
--@postgres CREATE POLICY kitbag_public_select ON gallery_toolsets FOR SELECT USING (published_at IS NOT NULL);
