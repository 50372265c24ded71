-- Why: clones of a repository are joined by its remote, and people want to see why, and to undo it.

-- Directories of projects, with the remote that each was last seen with. joined: its remote made it part of a project
-- that was there before. slug: what its own project was called until then, if it had one.
CREATE TABLE place (
    root   TEXT PRIMARY KEY,
    remote TEXT    NOT NULL DEFAULT '',
    joined INTEGER NOT NULL DEFAULT 0,
    slug   TEXT    NOT NULL DEFAULT ''
) WITHOUT ROWID;

-- Where a session took place, if that is not the root of its project.
ALTER TABLE session ADD COLUMN place TEXT NOT NULL DEFAULT '';
