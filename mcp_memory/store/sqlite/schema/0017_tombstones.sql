-- Why: a tombstone was a plain hash, the same in every memory, so a short text could be guessed from it. Each is a keyed hash
-- now (the program converts existing rows); the key is in inbox.db. sealed: the key of the event,
-- encrypted, for the team's server. request: the row of `forgetting` that it belongs to, empty for rows of earlier versions.
ALTER TABLE forgotten ADD COLUMN sealed BLOB NOT NULL DEFAULT x'';
ALTER TABLE forgotten ADD COLUMN request TEXT NOT NULL DEFAULT '';
ALTER TABLE forgotten_words ADD COLUMN request TEXT NOT NULL DEFAULT '';

-- Each run of `forget`. Lines that fall under it and are dated before before_ms are refused, whether stored before or not.
CREATE TABLE forgetting (
    id        TEXT    PRIMARY KEY,
    kind      TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    events    INTEGER NOT NULL,
    before_ms INTEGER
) WITHOUT ROWID;

-- Keyed hashes of the session, of the project's places or of the text that a run was about. unit and size: how long the
-- text is, in words or characters; empty and 0 for names.
CREATE TABLE forgotten_name (
    key     BLOB    NOT NULL,
    request TEXT    NOT NULL,
    unit    TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (key, request)
) WITHOUT ROWID;
