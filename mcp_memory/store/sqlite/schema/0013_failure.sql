-- Why: what cannot be summarized or compacted is set aside with its reason, so that all other work goes on and the user
-- hears of it. It leaves its queue, and comes back when its inputs change or a later version of the program runs.

-- name: the number of a session (segmenting, compaction), the key of a segment in hexadecimal (summary), project, level
-- and key of a period (rollup), or the number of a project (brief). version: of the program that failed. asked: who wanted the record that
-- could not be made.
CREATE TABLE failure (
    stage    TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    session  INTEGER,
    project  INTEGER,
    reason   TEXT    NOT NULL,
    asked    TEXT    NOT NULL DEFAULT '',
    version  TEXT    NOT NULL,
    since_ms INTEGER NOT NULL,
    PRIMARY KEY (stage, name)
) WITHOUT ROWID;
