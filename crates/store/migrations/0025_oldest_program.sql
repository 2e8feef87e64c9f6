-- Why: a program whose schema was brought up to date by the next version may be started again if it survives what was changed. Each migration says which
-- programs do, by the newest version that they know themselves; nothing means its own.
ALTER TABLE schema_migrations ADD COLUMN oldest_program INTEGER;
