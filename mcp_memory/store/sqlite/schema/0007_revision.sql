-- Why: what an earlier extractive summarizer wrote is written anew by a later one. revision is that of the summarizer which
-- wrote the current version: 0 before there was a number. NULL: a model wrote it, which costs, or it was removed.
ALTER TABLE node ADD COLUMN revision INTEGER;

UPDATE node SET revision = 0
WHERE removed = 0 AND current IN (SELECT id FROM node_version WHERE written_by = 'extractive')
  AND (level < 4 OR id IN (SELECT node FROM segment));
CREATE INDEX node_revision ON node (revision, start_ms, level);
