-- Why: a period is told by what most of it was about, and how many children it has says little of that: one day holds a
-- question, another the work of a week. weight is the tokens of conversation beneath a node.
ALTER TABLE node_version ADD COLUMN weight INTEGER NOT NULL DEFAULT 0;

UPDATE node_version SET weight = (SELECT g.tokens FROM segment g WHERE g.node = node_version.node)
WHERE id IN (SELECT n.current FROM segment g JOIN node n ON n.id = g.node);
UPDATE node_version SET weight = (
    SELECT coalesce(sum(v.weight), 0) FROM node p
    JOIN node n ON n.project = p.project AND n.level = 4 AND n.parent = p.key AND n.removed = 0
    JOIN node_version v ON v.id = n.current WHERE p.id = node_version.node
) WHERE id IN (SELECT current FROM node WHERE level = 3);
UPDATE node_version SET weight = (
    SELECT coalesce(sum(v.weight), 0) FROM node p
    JOIN node n ON n.project = p.project AND n.level = 3 AND n.parent = p.key AND n.removed = 0
    JOIN node_version v ON v.id = n.current WHERE p.id = node_version.node
) WHERE id IN (SELECT current FROM node WHERE level = 2);
UPDATE node_version SET weight = (
    SELECT coalesce(sum(v.weight), 0) FROM node p
    JOIN node n ON n.project = p.project AND n.level = 2 AND n.parent = p.key AND n.removed = 0
    JOIN node_version v ON v.id = n.current WHERE p.id = node_version.node
) WHERE id IN (SELECT current FROM node WHERE level = 1);
UPDATE node_version SET weight = (
    SELECT coalesce(sum(v.weight), 0) FROM node p
    JOIN node n ON n.project = p.project AND n.level = 1 AND n.parent = p.key AND n.removed = 0
    JOIN node_version v ON v.id = n.current WHERE p.id = node_version.node
) WHERE id IN (SELECT current FROM node WHERE level = 0);
