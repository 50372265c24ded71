-- Why: `forget` names the copies that this program wrote outside its directory, and the transcripts imported from there.
CREATE TABLE copy_made (
    path TEXT NOT NULL,
    kind TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (path, kind)
) WITHOUT ROWID;
