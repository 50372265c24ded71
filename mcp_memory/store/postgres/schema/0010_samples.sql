-- Why: PostgreSQL samples the values of columns for its planner, and keeps the samples of a table that has been emptied.
-- So words that were forgotten could still be read in pg_stats. From now on no samples are taken of columns that hold
-- words, and those that were taken go. A deleted row also stays in the table's file until something else is written over
-- it, so tables are rewritten after something was forgotten, and a table lists them until that is done.

-- Tables whose files may still hold erased rows. xid: the transaction that erased them; filenode: the file at that time.
-- A table that has another file has been rewritten since.
CREATE TABLE to_rewrite (
    relation text COLLATE "C" PRIMARY KEY,
    filenode oid NOT NULL,
    xid      xid8 NOT NULL,
    since_ms bigint NOT NULL
);

-- A mark of each project that changes when something is erased there that the team could read. Laptops are told a hash of
-- those of the projects that they may read, and drop what they keep of the team's words when it is another one.
CREATE TABLE team_erasure (
    project bigint PRIMARY KEY,
    mark    text COLLATE "C" NOT NULL
);

-- The columns of a table that may hold words. All others of type text hold hashes, ids, names of members, and what this
-- program calls things.
CREATE FUNCTION word_columns(whose regclass) RETURNS SETOF name LANGUAGE sql STABLE AS $$
    SELECT a.attname FROM pg_attribute a
    WHERE a.attrelid = whose AND a.attnum > 0 AND NOT a.attisdropped
      AND a.atttypid IN ('text'::regtype, 'tsvector'::regtype)
      AND a.attname NOT IN (
          'action', 'author', 'blanks', 'children', 'client', 'day', 'depth', 'done_hash', 'grips', 'holder',
          'input_hash', 'key', 'kind', 'mark', 'model', 'name', 'outcome', 'parent', 'purpose', 'relation', 'role', 'stage',
          'type', 'version', 'visibility', 'written_by')
$$;

-- Takes no more samples of a table's columns that hold words, nor of the expressions that its indexes are made of.
CREATE FUNCTION take_no_samples(whose regclass) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT w AS word_column FROM word_columns(whose) w
        JOIN pg_attribute a ON a.attrelid = whose AND a.attname = w AND coalesce(a.attstattarget, -1) <> 0
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', whose, found.word_column);
    END LOOP;
    FOR found IN
        SELECT i.indexrelid::regclass AS index, a.attnum FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = i.indexrelid AND coalesce(a.attstattarget, -1) <> 0
        WHERE i.indrelid = whose AND i.indkey[a.attnum - 1] = 0
    LOOP
        EXECUTE format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS 0', found.index, found.attnum);
    END LOOP;
END $$;

-- ANALYZE leaves the samples of such a column as they are. PostgreSQL drops them when a column is given a type, also the
-- one that it has, which rewrites no table. Only indexes on expressions are made anew, and their samples go with them.
DROP POLICY seen ON place;
DO $$
DECLARE
    found record;
BEGIN
    FOR found IN
        SELECT c.oid::regclass AS whose,
               string_agg(format('ALTER COLUMN %I TYPE text COLLATE %s', a.attname, a.attcollation::regcollation), ', ')
                   AS changes
        FROM pg_class c CROSS JOIN LATERAL word_columns(c.oid) w
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = w
        WHERE c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.atttypid = 'text'::regtype AND coalesce(a.attstattarget, -1) <> 0
        GROUP BY c.oid
    LOOP
        EXECUTE format('ALTER TABLE %s %s', found.whose, found.changes);
    END LOOP;
    PERFORM take_no_samples(c.oid) FROM pg_class c
        WHERE c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind IN ('r', 'p');
END $$;
CREATE POLICY seen ON place FOR SELECT USING (
    EXISTS (SELECT 1 FROM project p WHERE p.root = place.root)
    OR EXISTS (SELECT 1 FROM project_alias a WHERE a.root = place.root));

-- The samples still lie in the file of the catalog, and what was forgotten so far in any of the files.
INSERT INTO to_rewrite (relation, filenode, xid, since_ms)
SELECT c.oid::regclass::text, pg_relation_filenode(c.oid), pg_current_xact_id(),
       (extract(epoch FROM now()) * 1000)::bigint
FROM pg_class c
WHERE (c.oid = 'pg_catalog.pg_statistic'::regclass AND EXISTS (SELECT 1 FROM session))
   OR (c.relnamespace = 'mcp_memory'::regnamespace AND c.relkind = 'r' AND EXISTS (SELECT 1 FROM word_columns(c.oid))
       AND EXISTS (SELECT 1 FROM meta WHERE key = 'erasures'));
