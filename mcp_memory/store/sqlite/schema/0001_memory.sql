-- Why: the first schema. Events are canonical and append-only; everything below them is derived and can be rebuilt.

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

-- What the hook prints at the start of a session, ready made.
CREATE TABLE brief (
    root       TEXT PRIMARY KEY,
    text       TEXT    NOT NULL,
    updated_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE project (
    id   INTEGER PRIMARY KEY,
    slug TEXT NOT NULL UNIQUE,
    root TEXT NOT NULL UNIQUE
);

-- Roots of projects that were merged into another one: what is captured there belongs to that now.
CREATE TABLE project_alias (
    root    TEXT PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project (id)
) WITHOUT ROWID;

CREATE TABLE session (
    id         INTEGER PRIMARY KEY,
    client     TEXT    NOT NULL,
    session_id TEXT    NOT NULL,
    project    INTEGER NOT NULL REFERENCES project (id),
    UNIQUE (client, session_id)
);
CREATE INDEX session_name ON session (session_id);
CREATE INDEX session_project ON session (project);

-- key is the random part of the event's ULID; with timestamp_ms it gives the id, alone it tells duplicates.
-- Ids of events, node versions and compactions are places in the log: never given twice, whatever is forgotten.
CREATE TABLE event (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    key          BLOB    NOT NULL UNIQUE,
    session      INTEGER NOT NULL REFERENCES session (id),
    timestamp_ms INTEGER NOT NULL,
    type         TEXT    NOT NULL,
    role         TEXT    NOT NULL,
    text         TEXT    NOT NULL,
    tokens       INTEGER NOT NULL,
    truncated    INTEGER NOT NULL,
    source_ids   TEXT    NOT NULL,
    metadata     TEXT    NOT NULL
);
CREATE INDEX event_session ON event (session, timestamp_ms, id);
CREATE INDEX event_time ON event (timestamp_ms);
CREATE INDEX event_note ON event (session, timestamp_ms) WHERE type = 'note';
CREATE INDEX event_pinned ON event (timestamp_ms) WHERE type = 'note' AND json_extract(metadata, '$.pin');
CREATE INDEX event_compaction ON event (session, timestamp_ms) WHERE type = 'compaction';

-- Keys of events that were forgotten, so that a later import does not bring them back. A key tells nothing of them.
CREATE TABLE forgotten (
    key BLOB PRIMARY KEY
) WITHOUT ROWID;

-- Which transcript was read how far.
CREATE TABLE checkpoint (
    name     TEXT PRIMARY KEY,
    position TEXT NOT NULL
) WITHOUT ROWID;

-- Work queues of the derived stages: a row is removed in the transaction that does its work.
-- seq tells whether more came while a session was being cut.
CREATE TABLE dirty_session (
    session INTEGER PRIMARY KEY,
    from_ms INTEGER NOT NULL,
    seq     INTEGER NOT NULL DEFAULT 1
);
CREATE TABLE dirty_node (
    project INTEGER NOT NULL,
    level   INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    PRIMARY KEY (project, level, key)
) WITHOUT ROWID;

CREATE TABLE dirty_brief (
    project INTEGER PRIMARY KEY
);

-- A run of one session's events, from the first to the last in (timestamp_ms, id) order.
-- done_hash is the hash of the events its node was written from; input_hash of those it has now.
CREATE TABLE segment (
    id             INTEGER PRIMARY KEY,
    key            BLOB    NOT NULL UNIQUE,
    session        INTEGER NOT NULL REFERENCES session (id),
    start_ms       INTEGER NOT NULL,
    end_ms         INTEGER NOT NULL,
    first_event    INTEGER NOT NULL,
    last_event     INTEGER NOT NULL,
    context_ms     INTEGER NOT NULL,
    context_event  INTEGER NOT NULL,
    events         INTEGER NOT NULL,
    tokens         INTEGER NOT NULL,
    closed         INTEGER NOT NULL,
    input_hash     TEXT    NOT NULL,
    done_hash      TEXT    NOT NULL DEFAULT '',
    node           INTEGER
);
CREATE INDEX segment_session ON segment (session, start_ms);
CREATE INDEX segment_todo ON segment (start_ms) WHERE input_hash <> done_hash;
CREATE INDEX segment_node ON segment (node);
CREATE INDEX segment_open ON segment (end_ms) WHERE closed = 0;

CREATE TABLE node (
    id      INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES project (id),
    level   INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    parent  TEXT    NOT NULL,
    session INTEGER REFERENCES session (id),
    current INTEGER NOT NULL DEFAULT 0,
    start_ms INTEGER NOT NULL,
    end_ms  INTEGER NOT NULL,
    open    INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    UNIQUE (project, level, key)
);
CREATE INDEX node_parent ON node (project, level, parent, start_ms);
CREATE INDEX node_open ON node (end_ms) WHERE open = 1;
CREATE INDEX node_time ON node (project, level, start_ms);
CREATE INDEX node_level ON node (level, start_ms);

-- depth, input_tokens, output_tokens and compression tell how far the version compresses what it was made from.
CREATE TABLE node_version (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    node       INTEGER NOT NULL REFERENCES node (id),
    version    INTEGER NOT NULL,
    title      TEXT    NOT NULL,
    start_ms   INTEGER NOT NULL,
    end_ms     INTEGER NOT NULL,
    keywords   TEXT    NOT NULL,
    children   TEXT    NOT NULL,
    open       INTEGER NOT NULL,
    removed    INTEGER NOT NULL,
    written_by TEXT    NOT NULL,
    input_hash TEXT    NOT NULL,
    tokens     INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    depth         TEXT    NOT NULL DEFAULT '',
    input_tokens  INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    compression   REAL    NOT NULL DEFAULT 1.0,
    UNIQUE (node, version)
);

CREATE TABLE bullet (
    node_version INTEGER NOT NULL REFERENCES node_version (id),
    position     INTEGER NOT NULL,
    text         TEXT    NOT NULL,
    grips        TEXT    NOT NULL,
    children     TEXT    NOT NULL,
    PRIMARY KEY (node_version, position)
) WITHOUT ROWID;

CREATE TABLE grip (
    id           INTEGER PRIMARY KEY,
    key          BLOB    NOT NULL UNIQUE,
    node         INTEGER NOT NULL REFERENCES node (id),
    timestamp_ms INTEGER NOT NULL,
    event        INTEGER NOT NULL REFERENCES event (id),
    start        INTEGER NOT NULL,
    end          INTEGER NOT NULL,
    excerpt      TEXT    NOT NULL,
    first_event  INTEGER NOT NULL,
    last_event   INTEGER NOT NULL,
    live         INTEGER NOT NULL DEFAULT 1
);
CREATE INDEX grip_node ON grip (node);
CREATE INDEX grip_event ON grip (event);

-- Only one process at a time works on the pipeline; token grows with every change of hands.
CREATE TABLE lease (
    name       TEXT PRIMARY KEY,
    holder     TEXT    NOT NULL,
    token      INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- Contentless: the texts live in event, grip and node_version. rowid = 4 * id + kind (0 event, 2 node).
-- A grip is found by the event it cites, whose words it repeats.
-- parts holds what the tokenizer cannot see: the words inside camelCase, and pairs of unspaced characters.
CREATE VIRTUAL TABLE search USING fts5 (
    head, user, assistant, tool, parts,
    content = '', tokenize = 'porter unicode61 remove_diacritics 2'
);

INSERT INTO search (search, rank) VALUES ('rank', 'bm25(3.0, 2.0, 1.2, 0.6, 0.8)');

-- Which segments speak of which file or name, newest first; since is the node version that first did.
CREATE TABLE mention (
    project  INTEGER NOT NULL,
    term     TEXT    NOT NULL,
    start_ms INTEGER NOT NULL,
    node     INTEGER NOT NULL REFERENCES node (id),
    since    INTEGER NOT NULL,
    PRIMARY KEY (project, term, start_ms, node)
) WITHOUT ROWID;
CREATE INDEX mention_node ON mention (node);

-- A session's records, only ever added. through: the last event covered, seen: the newest there was, both as
-- time and event id. refreshes: the record of the same depth whose place this one took.
CREATE TABLE compaction (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    key           BLOB    NOT NULL UNIQUE,
    session       INTEGER NOT NULL REFERENCES session (id),
    created_ms    INTEGER NOT NULL,
    depth         INTEGER NOT NULL,
    parent        INTEGER REFERENCES compaction (id),
    refreshes     INTEGER REFERENCES compaction (id),
    reason        TEXT    NOT NULL,
    summary       TEXT    NOT NULL,
    key_points    TEXT    NOT NULL,
    context       TEXT    NOT NULL,
    through_ms    INTEGER NOT NULL,
    through_event INTEGER NOT NULL,
    seen_ms       INTEGER NOT NULL,
    seen_event    INTEGER NOT NULL,
    messages      INTEGER NOT NULL,
    tokens        INTEGER NOT NULL,
    tokens_before INTEGER NOT NULL,
    tokens_after  INTEGER NOT NULL,
    window        INTEGER NOT NULL,
    written_by    TEXT    NOT NULL
);
CREATE INDEX compaction_session ON compaction (session, id);

-- The events a record was made from, with the hash of what they said then.
CREATE TABLE compaction_source (
    compaction INTEGER NOT NULL REFERENCES compaction (id),
    event      INTEGER NOT NULL,
    sha256     BLOB    NOT NULL,
    PRIMARY KEY (compaction, event)
) WITHOUT ROWID;
CREATE INDEX compaction_source_event ON compaction_source (event);

-- Sessions that have grown since compaction last looked at them. asked: the client is about to forget.
CREATE TABLE dirty_compaction (
    session  INTEGER PRIMARY KEY,
    seq      INTEGER NOT NULL DEFAULT 1,
    asked    TEXT    NOT NULL DEFAULT '',
    failed   TEXT    NOT NULL DEFAULT '',
    retry_ms INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX dirty_compaction_order ON dirty_compaction (asked DESC, session);

-- Every call to a model, written before it is made: a call that was never settled still counts against the day's cap.
CREATE TABLE llm_call (
    id            INTEGER PRIMARY KEY,
    started_ms    INTEGER NOT NULL,
    day           TEXT    NOT NULL,
    purpose       TEXT    NOT NULL,
    node          TEXT    NOT NULL,
    model         TEXT    NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    latency_ms    INTEGER,
    outcome       TEXT    NOT NULL
);
CREATE INDEX llm_call_day ON llm_call (day);

-- Answers that were paid for, by the hash of model and question: the same is never asked twice.
CREATE TABLE llm_answer (
    key     TEXT PRIMARY KEY,
    answer  TEXT    NOT NULL,
    kept_ms INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX llm_answer_kept ON llm_answer (kept_ms);

-- Whether the model is paused or refused, so that every process leaves it alone.
CREATE TABLE llm_state (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) WITHOUT ROWID;

-- Nodes whose version a model could not improve, and when it may try again.
CREATE TABLE llm_attempt (
    node     INTEGER PRIMARY KEY,
    version  INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    retry_ms INTEGER NOT NULL
);

-- Nodes that were taken away with all their versions, so that a view of what changed can name them. It tells nothing
-- of them. since: their first version; until: the latest version of all when they went.
CREATE TABLE removed_node (
    id      INTEGER PRIMARY KEY,
    project INTEGER NOT NULL,
    level   INTEGER NOT NULL,
    key     TEXT    NOT NULL,
    parent  TEXT    NOT NULL,
    since   INTEGER NOT NULL,
    until   INTEGER NOT NULL
);
CREATE INDEX removed_node_place ON removed_node (project, level, key);
CREATE INDEX removed_node_parent ON removed_node (project, level, parent);
