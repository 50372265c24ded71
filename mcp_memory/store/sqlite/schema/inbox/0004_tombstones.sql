-- Why: restoring an older memory must not bring back what was forgotten since. Tombstones are kept here as well, in tables like
-- those of the memory, and `meta` has their key.
CREATE TABLE forgetting (
    id        TEXT    PRIMARY KEY,
    kind      TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    events    INTEGER NOT NULL,
    before_ms INTEGER
) WITHOUT ROWID;
CREATE TABLE forgotten (
    key     BLOB PRIMARY KEY,
    sealed  BLOB NOT NULL,
    request TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE forgotten_words (
    key     BLOB PRIMARY KEY,
    request TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE forgotten_name (
    key     BLOB    NOT NULL,
    request TEXT    NOT NULL,
    unit    TEXT    NOT NULL,
    size    INTEGER NOT NULL,
    PRIMARY KEY (key, request)
) WITHOUT ROWID;
