-- Why: people want to see what memory handed to their agents, and what came of it. It is local, ages, and is no memory.

-- kind: 'brief' for what the hook printed, 'resource' for a document, else the tool's name. server: which run of the
-- server answered, '' for the hook. ids: what the answer named, as a JSON list. opened_ms: when one of them was asked for.
CREATE TABLE handed (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms     INTEGER NOT NULL,
    kind      TEXT    NOT NULL,
    client    TEXT    NOT NULL DEFAULT '',
    session   TEXT    NOT NULL DEFAULT '',
    root      TEXT    NOT NULL DEFAULT '',
    label     TEXT    NOT NULL DEFAULT '',
    server    TEXT    NOT NULL DEFAULT '',
    asked     TEXT    NOT NULL DEFAULT '',
    ids       TEXT    NOT NULL DEFAULT '[]',
    tokens    INTEGER NOT NULL DEFAULT 0,
    opened_ms INTEGER
);
-- Newest first, by what a list can be limited to.
CREATE INDEX handed_kind ON handed (kind, id);
CREATE INDEX handed_place ON handed (root, label, id);
CREATE INDEX handed_session ON handed (session, id);
-- Totals of a time, and what is old, without reading the rows.
CREATE INDEX handed_time ON handed (at_ms, kind, tokens, opened_ms);
