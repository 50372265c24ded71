-- Why: what is local to a machine is apart from the memory, which may lie elsewhere. The hook knows this schema alone.

CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- The hook appends here and nowhere else. state: 0 = to be read, 1 = of no known form, kept as it is.
CREATE TABLE inbox (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    received_ms INTEGER NOT NULL,
    client      TEXT    NOT NULL,
    root        TEXT    NOT NULL,
    label       TEXT    NOT NULL DEFAULT '',
    payload     TEXT    NOT NULL,
    state       INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX inbox_state ON inbox (state, id);

-- What the hook prints at the start of a session, ready made: by a project's places, or by a session that goes on.
CREATE TABLE brief (
    root       TEXT PRIMARY KEY,
    text       TEXT    NOT NULL,
    updated_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- Which transcript was read how far.
CREATE TABLE checkpoint (
    name     TEXT PRIMARY KEY,
    position TEXT NOT NULL
) WITHOUT ROWID;
