-- Why: words with letters beyond ASCII, and pairs of characters of scripts without blanks, were indexed otherwise than by
-- SQLite. The pipeline indexes each document again while the index is in use. reindex: the last document that was done,
-- and the last to do.
INSERT INTO meta (key, value)
SELECT 'reindex', '-1 ' || max(doc) FROM search HAVING max(doc) IS NOT NULL
ON CONFLICT (key) DO UPDATE SET value = excluded.value;
