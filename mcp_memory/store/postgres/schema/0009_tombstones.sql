-- Why: a tombstone was a plain hash, the same in every memory, so a short text could be guessed from it. Each is a keyed hash
-- now (the program converts existing rows). sealed: the key of the event, encrypted. request: the row
-- of `forgetting` that it belongs to, empty for rows of earlier versions.
ALTER TABLE forgotten ADD COLUMN sealed bytea NOT NULL DEFAULT '';
ALTER TABLE forgotten ADD COLUMN request text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE forgotten_words ADD COLUMN request text COLLATE "C" NOT NULL DEFAULT '';

-- Each run of `forget`. Lines that fall under it and are dated before before_ms are refused, whether stored before or not.
CREATE TABLE forgetting (
    id        text   COLLATE "C" PRIMARY KEY,
    kind      text   COLLATE "C" NOT NULL,
    at_ms     bigint NOT NULL,
    events    bigint NOT NULL,
    before_ms bigint
);
CREATE TABLE forgotten_name (
    key     bytea  NOT NULL,
    request text   COLLATE "C" NOT NULL,
    unit    text   COLLATE "C" NOT NULL,
    size    bigint NOT NULL,
    PRIMARY KEY (key, request)
);

-- The key of the tombstones, which all who serve this memory need. No member's role may read it.
CREATE TABLE secret (
    name  text COLLATE "C" PRIMARY KEY,
    value bytea NOT NULL
);
