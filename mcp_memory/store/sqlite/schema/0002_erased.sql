-- Why: a view of the past is made from what is there now, so what was forgotten since would seem never to have changed.
-- at_event is the place in the log of events at which something of the session was forgotten; notes: whether a note was.
CREATE TABLE erased (
    at_event INTEGER NOT NULL,
    session  INTEGER NOT NULL,
    project  INTEGER NOT NULL,
    notes    INTEGER NOT NULL
);
CREATE INDEX erased_at ON erased (at_event);
