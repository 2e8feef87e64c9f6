-- Why: organisations publish toolsets for everybody. Tenants' tables have no public policy and never will; what is published is a
-- copy without anything that is the organisation's own, and it stands here.

CREATE TABLE gallery_toolsets (
    -- Unique among all organisations, which is what a public name is for.
    slug ID NOT NULL PRIMARY KEY,
    -- Whose name it is, for good: it stays reserved after the toolset was taken back.
    organization_id ID NOT NULL REFERENCES organizations (id) ON DELETE CASCADE,
    -- NULL: it was taken back, and nobody else sees that it ever was there.
    published_at TIMESTAMP,
    toolset_id ID NOT NULL,
    name TEXT NOT NULL,
    description TEXT,
    version TEXT NOT NULL,
    -- What a card and the details show: tools, servers with the names of their variables and headers, skills, files.
    summary JSON NOT NULL,
    -- The bundle that an adoption installs, kept by its hash.
    bundle_sha256 TEXT NOT NULL,
    bundle_size INTEGER NOT NULL CHECK (bundle_size >= 0)
);
CREATE INDEX gallery_toolsets_by_time ON gallery_toolsets (published_at, slug);
CREATE INDEX gallery_toolsets_by_organization ON gallery_toolsets (organization_id, toolset_id);

--@postgres SELECT kitbag_protect('gallery_toolsets');
-- Everybody may read what is published; to change it takes the organisation that did.
--@postgres CREATE POLICY kitbag_public_select ON gallery_toolsets FOR SELECT USING (published_at IS NOT NULL);
