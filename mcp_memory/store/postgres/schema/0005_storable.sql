-- Why: one event whose metadata held a NUL, which JSON spells \u0000 and jsonb cannot hold, failed every statement that
-- looked into the metadata of many events, so that nobody's sessions were summarized any more. What is stored is clean
-- from now on; stored rows are cleaned here, and a document that cannot be read fails no statement.

-- Escaped backslashes before it are left alone: \\u0000 is a backslash and a word.
CREATE FUNCTION without_nul(document text) RETURNS text LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE AS $$
    SELECT regexp_replace(document, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
$$;

CREATE OR REPLACE FUNCTION json_extract(document text, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE STRICT AS $$
DECLARE
    found jsonb;
BEGIN
    BEGIN
        found := document::jsonb -> substr(path, 3);
    EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
        BEGIN
            found := without_nul(document)::jsonb -> substr(path, 3);
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            RETURN NULL;
        END;
    END;
    RETURN CASE found WHEN 'true' THEN '1' WHEN 'false' THEN '0' ELSE found #>> '{}' END;
END $$;

UPDATE event SET metadata = without_nul(metadata) WHERE strpos(metadata, '\u0000') > 0;
UPDATE event SET source_ids = without_nul(source_ids) WHERE strpos(source_ids, '\u0000') > 0;
