-- Why: a team shares one memory. Who may ask, by which token, which projects are for some of them alone, who asked what;
-- and a second guard beneath the queries: whoever reads by the role of a viewer sees what that viewer may see, and
-- without a viewer nothing. The owner of the tables, as which the pipeline runs, is not held back.

CREATE TABLE team_user (
    name       text COLLATE "C" PRIMARY KEY,
    role       text COLLATE "C" NOT NULL,
    created_ms bigint NOT NULL,
    revoked_ms bigint
);
-- The token itself is nowhere: only its SHA-256.
CREATE TABLE team_token (
    sha256     bytea PRIMARY KEY,
    name       text COLLATE "C" NOT NULL REFERENCES team_user (name),
    created_ms bigint NOT NULL,
    expires_ms bigint NOT NULL
);
CREATE INDEX team_token_name ON team_token (name);
-- A browser that was logged in with a token. It dies with it.
CREATE TABLE team_session (
    sha256     bytea PRIMARY KEY,
    token      bytea NOT NULL REFERENCES team_token (sha256) ON DELETE CASCADE,
    expires_ms bigint NOT NULL
);
CREATE INDEX team_session_token ON team_session (token);
-- A project with rows here is read by these alone.
CREATE TABLE team_member (
    project bigint NOT NULL REFERENCES project (id) ON DELETE CASCADE,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, name)
);
CREATE TABLE audit (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms   bigint NOT NULL,
    name    text COLLATE "C" NOT NULL,
    action  text COLLATE "C" NOT NULL,
    project text COLLATE "C" NOT NULL,
    many    bigint NOT NULL,
    outcome text COLLATE "C" NOT NULL
);
CREATE INDEX audit_name ON audit (name, id);
CREATE INDEX audit_time ON audit (at_ms);

-- Whether a session holds anything that the team may see, so that its name is not shown of one that does not.
ALTER TABLE session ADD COLUMN shared bigint NOT NULL DEFAULT 0;
UPDATE session SET shared = 1 WHERE id IN (SELECT session FROM event WHERE visibility = 'team');
CREATE INDEX session_readable ON session (project, shared);
CREATE INDEX session_author ON session (author, project);

CREATE FUNCTION note_shared() RETURNS trigger LANGUAGE plpgsql SET search_path = mcp_memory AS $$ BEGIN
    UPDATE session SET shared = 1 WHERE shared = 0 AND id IN (SELECT session FROM touched WHERE visibility = 'team');
    RETURN NULL;
END $$;
CREATE FUNCTION note_unshared() RETURNS trigger LANGUAGE plpgsql SET search_path = mcp_memory AS $$ BEGIN
    UPDATE session s SET shared = 0 WHERE shared = 1
        AND id IN (SELECT session FROM touched WHERE visibility = 'team')
        AND NOT EXISTS (SELECT 1 FROM event e WHERE e.session = s.id AND e.visibility = 'team');
    RETURN NULL;
END $$;
CREATE TRIGGER event_shared AFTER INSERT ON event REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION note_shared();
CREATE TRIGGER event_shared_later AFTER UPDATE ON event REFERENCING NEW TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION note_shared();
CREATE TRIGGER event_unshared AFTER UPDATE ON event REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION note_unshared();
CREATE TRIGGER event_gone AFTER DELETE ON event REFERENCING OLD TABLE AS touched
    FOR EACH STATEMENT EXECUTE FUNCTION note_unshared();

-- Who reads: told by the server in each transaction, else no one.
CREATE FUNCTION viewer() RETURNS text LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT nullif(current_setting('mcp_memory.viewer', true), '')
$$;
-- The projects that a viewer may read: open ones and those of which it is a member, in which there is anything for it.
CREATE FUNCTION projects_of(who text) RETURNS bigint[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = mcp_memory, pg_temp AS $$
    SELECT coalesce(array_agg(p.id ORDER BY p.id), '{}') FROM project p
    WHERE who IS NOT NULL
      AND (NOT EXISTS (SELECT 1 FROM team_member m WHERE m.project = p.id)
           OR EXISTS (SELECT 1 FROM team_member m WHERE m.project = p.id AND m.name = who))
      AND (EXISTS (SELECT 1 FROM session s WHERE s.project = p.id AND s.shared = 1)
           OR EXISTS (SELECT 1 FROM session s WHERE s.author = who AND s.project = p.id))
$$;
-- The same, looked up once in a transaction by the server, or now.
CREATE FUNCTION readable() RETURNS bigint[] LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN viewer() IS NULL THEN '{}'
        ELSE coalesce(nullif(current_setting('mcp_memory.projects', true), '')::bigint[], projects_of(viewer())) END
$$;

ALTER TABLE project ENABLE ROW LEVEL SECURITY;
ALTER TABLE project_alias ENABLE ROW LEVEL SECURITY;
ALTER TABLE place ENABLE ROW LEVEL SECURITY;
ALTER TABLE session ENABLE ROW LEVEL SECURITY;
ALTER TABLE event ENABLE ROW LEVEL SECURITY;
ALTER TABLE segment ENABLE ROW LEVEL SECURITY;
ALTER TABLE node ENABLE ROW LEVEL SECURITY;
ALTER TABLE node_version ENABLE ROW LEVEL SECURITY;
ALTER TABLE bullet ENABLE ROW LEVEL SECURITY;
ALTER TABLE grip ENABLE ROW LEVEL SECURITY;
ALTER TABLE mention ENABLE ROW LEVEL SECURITY;
ALTER TABLE compaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE compaction_source ENABLE ROW LEVEL SECURITY;
ALTER TABLE dirty_session ENABLE ROW LEVEL SECURITY;
ALTER TABLE dirty_node ENABLE ROW LEVEL SECURITY;
ALTER TABLE dirty_brief ENABLE ROW LEVEL SECURITY;
ALTER TABLE dirty_compaction ENABLE ROW LEVEL SECURITY;
ALTER TABLE removed_node ENABLE ROW LEVEL SECURITY;
ALTER TABLE erased ENABLE ROW LEVEL SECURITY;

-- The statements of a viewer say themselves which projects it may read, so what is said here of them is true of all rows
-- that are left. PostgreSQL would take both for conditions of which each leaves out most rows, expect next to nothing of a
-- team's sessions, and look through all of these for the few events that are asked for by number. Said as a number that
-- is not 0, it is expected to leave out almost none.
CREATE POLICY seen ON project FOR SELECT USING (
    (CASE WHEN id = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON project_alias FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON place FOR SELECT USING (
    EXISTS (SELECT 1 FROM project p WHERE p.root = place.root)
    OR EXISTS (SELECT 1 FROM project_alias a WHERE a.root = place.root));
CREATE POLICY seen ON session FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) AND (shared = 1 OR author = viewer()) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON event FOR SELECT USING (EXISTS (
    SELECT 1 FROM session s WHERE s.id = event.session AND (event.visibility = 'team' OR s.author = viewer())));
CREATE POLICY seen ON segment FOR SELECT USING (EXISTS (SELECT 1 FROM session s WHERE s.id = segment.session));
CREATE POLICY seen ON node FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON node_version FOR SELECT USING (EXISTS (SELECT 1 FROM node n WHERE n.id = node_version.node));
CREATE POLICY seen ON bullet FOR SELECT
    USING (EXISTS (SELECT 1 FROM node_version v WHERE v.id = bullet.node_version));
CREATE POLICY seen ON grip FOR SELECT USING (EXISTS (SELECT 1 FROM node n WHERE n.id = grip.node));
CREATE POLICY seen ON mention FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON compaction FOR SELECT USING (EXISTS (SELECT 1 FROM session s WHERE s.id = compaction.session));
CREATE POLICY seen ON compaction_source FOR SELECT
    USING (EXISTS (SELECT 1 FROM compaction c WHERE c.id = compaction_source.compaction));
CREATE POLICY seen ON dirty_session FOR SELECT
    USING (EXISTS (SELECT 1 FROM session s WHERE s.id = dirty_session.session));
CREATE POLICY seen ON dirty_node FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON dirty_brief FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON dirty_compaction FOR SELECT
    USING (EXISTS (SELECT 1 FROM session s WHERE s.id = dirty_compaction.session));
CREATE POLICY seen ON removed_node FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
CREATE POLICY seen ON erased FOR SELECT USING (
    (CASE WHEN project = ANY ((SELECT readable())::bigint[]) THEN 1 ELSE 0 END) <> 0);
