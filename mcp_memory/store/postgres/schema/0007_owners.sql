-- Why: what a member has taken back or forgotten could be pushed under the same ids by whoever had read them, and was then
-- refused to its owner as someone else's. And one push could begin thousands of projects, which each question then looks at.

-- Whose an id stays when nothing of it is stored any more: of an event its key, of a session a hash of client and name.
CREATE TABLE owner (
    key    bytea PRIMARY KEY,
    author text COLLATE "C" NOT NULL
);
-- A copy that is being filled takes the rows of its source, and makes none of its own.
CREATE FUNCTION keep_event_owner() RETURNS trigger LANGUAGE plpgsql SET search_path = mcp_memory AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM meta WHERE key = 'moving') THEN
        INSERT INTO owner (key, author)
            SELECT t.key, s.author FROM touched t JOIN session s ON s.id = t.session WHERE s.author <> ''
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE FUNCTION keep_session_owner() RETURNS trigger LANGUAGE plpgsql SET search_path = mcp_memory AS $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM meta WHERE key = 'moving') THEN
        INSERT INTO owner (key, author)
            SELECT substr(sha256(convert_to(client || E'\x1f' || session_id, 'UTF8')), 1, 20), author
            FROM touched WHERE author <> ''
            ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER event_owner AFTER DELETE ON event REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION keep_event_owner();
CREATE TRIGGER session_owner AFTER DELETE ON session REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION keep_session_owner();

-- Projects that were not there before a member pushed into them.
CREATE TABLE begun_project (
    project bigint PRIMARY KEY REFERENCES project (id) ON DELETE CASCADE,
    author  text COLLATE "C" NOT NULL
);
CREATE INDEX begun_project_author ON begun_project (author);
