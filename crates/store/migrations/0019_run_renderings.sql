-- Why: from this version on a run keeps how its tools' results are shown, so that it is shown like that whatever becomes of its toolset.
-- NULL: it was made before, and its tools are known by their names alone.

ALTER TABLE agent_runs ADD COLUMN renderings JSON;
