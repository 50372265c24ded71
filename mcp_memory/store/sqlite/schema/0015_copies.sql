-- Why: a client may copy what was said into the file of another session. Such an event is recognized by the name of its
-- line, the first of its source_ids, and stays in the session where it was stored first. A repair puts rows in before it
-- looks at what they hold, so that the index must take any text.
CREATE INDEX IF NOT EXISTS event_source ON event (
    CASE WHEN json_valid(source_ids) THEN json_extract(source_ids, '$[0]') END, timestamp_ms
);

-- Sessions that begin with copies of another one's events, by their names, and that other one. The copying session has no
-- row of its own as long as nothing else was said in it.
CREATE TABLE IF NOT EXISTS continued (
    client     TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    origin     INTEGER NOT NULL,
    PRIMARY KEY (session_id, client, origin)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS continued_origin ON continued (origin);
