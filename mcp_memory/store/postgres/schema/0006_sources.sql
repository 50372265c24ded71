-- Why: a client may copy what was said into the file of another session. Such an event is recognized by the name of its
-- line, the first of its source_ids.
CREATE INDEX event_source ON event (substring(source_ids, '^\["([^"\\]+)"'), timestamp_ms);
