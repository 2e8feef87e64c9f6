-- Why: tools may be programs in containers. What a bundle says of a container is kept whole; beside it what was found out since: which
-- image a person trusted, what that image says of itself, and whether the name means another image by now. Trust itself is in
-- `trust_records`, as that in servers is, under a name that no server can have.

CREATE TABLE toolset_docker_containers (
    organization_id ID NOT NULL,
    toolset_id ID NOT NULL,
    id ID NOT NULL,
    position INTEGER NOT NULL,
    definition JSON NOT NULL,
    -- The hash of the folder that its image is built from. NULL: it is not built.
    built_from_sha256 TEXT,
    image_id TEXT,
    image_says JSON,
    moved_to_image_id TEXT,
    created_at TIMESTAMP NOT NULL,
    PRIMARY KEY (organization_id, toolset_id, id),
    FOREIGN KEY (organization_id, toolset_id) REFERENCES toolsets (organization_id, id) ON DELETE CASCADE
);
--@postgres SELECT kitbag_protect('toolset_docker_containers');

-- An executor says whether there is an engine for them on its machine: a run with such a toolset goes to no other.
ALTER TABLE executors ADD COLUMN containers BOOLEAN NOT NULL DEFAULT FALSE;
