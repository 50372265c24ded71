-- Why: a project is known by its repository's remote, which is the same in every clone and on every machine.
ALTER TABLE inbox ADD COLUMN remote TEXT NOT NULL DEFAULT '';
ALTER TABLE handed ADD COLUMN remote TEXT NOT NULL DEFAULT '';
