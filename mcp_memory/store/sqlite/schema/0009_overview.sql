-- Why: people look through sessions, the latest first, each under the title that its client gave it.

CREATE INDEX IF NOT EXISTS segment_time ON segment (start_ms);
CREATE INDEX IF NOT EXISTS event_title ON event (session, timestamp_ms) WHERE type = 'session_title';
-- How many grips there are stands on the first page, and is counted without reading them.
CREATE INDEX IF NOT EXISTS grip_live ON grip (live);
