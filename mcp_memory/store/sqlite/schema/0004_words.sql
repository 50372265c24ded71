-- Why: what readers of transcripts kept between two reads held words as they were said, secrets among them, and the
-- names of checkpoints held paths. A reader keeps places in its file instead. One that had kept words reads its file
-- once more to find these places, and tells nothing of what lies before `told_to`.
UPDATE checkpoint SET position = json_set(
    position,
    '$.memory', json_object(
        'told_to', json_extract(position, '$.offset'), 'unended', json_extract(position, '$.memory.unended')
    ),
    '$.offset', 0,
    '$.line', 0
)
WHERE EXISTS (
    SELECT 1 FROM json_each(position, '$.memory')
    WHERE key IN ('tools', 'queue', 'agents', 'calls', 'running', 'held', 'answer') AND value NOT IN ('{}', '[]', '')
);
UPDATE checkpoint SET name = 'transcript:' || opaque(substr(name, 12)) WHERE name LIKE 'transcript:%';

-- Keys of what forgotten events said and when, so that another source that tells the same is not believed.
CREATE TABLE forgotten_words (
    key BLOB PRIMARY KEY
) WITHOUT ROWID;

-- The words are still in pages that were left: like those of an erasure, they are to be scrubbed from the file.
INSERT INTO meta (key, value)
SELECT 'erasures', lower(hex(randomblob(6))) WHERE EXISTS (SELECT 1 FROM checkpoint)
ON CONFLICT (key) DO UPDATE SET value = value || ' ' || excluded.value;
