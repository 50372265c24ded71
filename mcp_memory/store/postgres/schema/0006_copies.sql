-- Why: a client may copy what was said into the file of another session. Such an event is recognized by the name of its
-- line, the first of its source_ids, and stays in the session where it was stored first.
CREATE INDEX event_source ON event (substring(source_ids, '^\["([^"\\]{1,220})"'), timestamp_ms);

-- Sessions that begin with copies of another one's events, by their names, and that other one. The copying session has no
-- row of its own as long as nothing else was said in it.
CREATE TABLE continued (
    client     text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    origin     bigint NOT NULL,
    PRIMARY KEY (session_id, client, origin)
);
CREATE INDEX continued_origin ON continued (origin);
ALTER TABLE continued ENABLE ROW LEVEL SECURITY;
CREATE POLICY seen ON continued FOR SELECT USING (EXISTS (SELECT 1 FROM session s WHERE s.id = continued.origin));
