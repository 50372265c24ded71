-- Why: of what kind a bullet is stood as a word before its text, which readers had to parse. It has a column of its own.
-- No node is written anew for it: what is shown and indexed is the label of the kind with the text, as before.
ALTER TABLE bullet ADD COLUMN kind TEXT NOT NULL DEFAULT 'stated';

UPDATE bullet SET kind = 'request', text = substr(text, 8) WHERE text GLOB 'Asked: ?*';
UPDATE bullet SET kind = 'report', text = substr(text, 11) WHERE text GLOB 'Reported: ?*';
UPDATE bullet SET kind = 'remark', text = substr(text, 7) WHERE text GLOB 'User: ?*';
UPDATE bullet SET kind = 'commit', text = substr(text, 12) WHERE text GLOB 'Committed: ?*';
UPDATE bullet SET kind = 'error', text = substr(text, 8) WHERE text GLOB 'Error: ?*';
UPDATE bullet SET kind = 'note', text = substr(text, 7) WHERE text GLOB 'Note: ?*';
UPDATE bullet SET kind = 'result' WHERE kind = 'stated' AND text GLOB 'Ran `*`: *';
UPDATE bullet SET kind = 'did' WHERE kind = 'stated' AND (
    text GLOB 'Edited *' OR text GLOB 'Read *' OR text GLOB 'Ran *' OR text GLOB 'Searched for *' OR text GLOB 'Fetched *'
);
