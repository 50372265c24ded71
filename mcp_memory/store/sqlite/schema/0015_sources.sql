-- Why: a client may copy what was said into the file of another session. Such an event is recognized by the name of its
-- line, the first of its source_ids.
CREATE INDEX IF NOT EXISTS event_source ON event (json_extract(source_ids, '$[0]'), timestamp_ms);
