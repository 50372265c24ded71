-- Why: what is shared with a team lies in other memories, too. visibility tells who may read an event, author whose session
-- it is; in a memory of one's own that is no one else's.
ALTER TABLE event ADD COLUMN visibility TEXT NOT NULL DEFAULT 'private';
ALTER TABLE session ADD COLUMN author TEXT NOT NULL DEFAULT '';
