-- Why: what cannot be summarized or compacted is set aside with its reason, so that all other work goes on and the user
-- hears of it. It leaves its queue, and comes back when its inputs change or a later version of the program runs.

-- name: the number of a session (segmenting, compaction), the key of a segment in hexadecimal (summary), project, level
-- and key of a period (rollup), or the number of a project (brief). version: of the program that failed. asked: who wanted the record that
-- could not be made. Viewers have no right to read any of it.
CREATE TABLE failure (
    stage    text COLLATE "C" NOT NULL,
    name     text COLLATE "C" NOT NULL,
    session  bigint,
    project  bigint,
    reason   text NOT NULL,
    asked    text NOT NULL DEFAULT '',
    version  text NOT NULL,
    since_ms bigint NOT NULL,
    PRIMARY KEY (stage, name)
);
